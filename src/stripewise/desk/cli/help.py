"""The help of commands and groups: plain lines of at most the terminal's width, types in words."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

Function = TypeVar("Function", bound=Callable[..., Any])
_WIDEST = 19
"""Characters of an option beside which its description begins; that of a longer one begins below it."""


class HelpfulCommand(TyperCommand):
    """A command whose help is plain text, the same with all versions of Typer."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write usage, description, arguments and options."""
        _write_head(self, ctx, formatter)
        _write_parameters(self, ctx, formatter, self.shown(ctx))
        for paragraph in self.more(ctx):
            formatter.write("\n" + _fold_text(paragraph, formatter.width, "", 0))

    def shown(self, ctx: Any) -> list[Any]:
        """Give the arguments and options that the help shows."""
        return list(self.get_params(ctx))

    def more(self, ctx: Any) -> list[str]:
        """Give paragraphs for the end of the help."""
        return []


class ProgramCommand(HelpfulCommand):
    """A command that the user's program follows, which its usage line says."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Give the parts of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def shown_as(kind: type[HelpfulCommand]) -> Callable[[Function], Function]:
    """Mark the function of a command whose help is of a kind of its own."""

    def mark(function: Function) -> Function:
        vars(function)["shown_as"] = kind
        return function

    return mark


class HelpfulGroup(TyperGroup):
    """A group of commands whose help is plain text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write usage, description, commands and options."""
        _write_head(self, ctx, formatter)
        rows: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            assert command is not None
            panel = getattr(command, "rich_help_panel", None)
            heading = panel if isinstance(panel, str) else "Commands"
            rows.setdefault(heading, []).append((name, _paragraphs(command.help)[0]))
        _write_rows(rows, formatter)
        _write_parameters(self, ctx, formatter)


class Commands(typer.Typer):
    """Takes a command as Typer does; its help is that of this module."""

    def command(self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **more: Any) -> Any:
        """Add a command."""
        return super().command(name, cls=cls or HelpfulCommand, **more)


def _paragraphs(text: str | None) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n")]


def _write_head(command: Any, ctx: Any, formatter: Any) -> None:
    formatter.write_usage(ctx.command_path, " ".join(command.collect_usage_pieces(ctx)))
    for paragraph in _paragraphs(command.help):
        formatter.write("\n" + _fold_text(paragraph, formatter.width, "  ", 2))


def _write_parameters(command: Any, ctx: Any, formatter: Any, shown: Iterable[Any] | None = None) -> None:
    hints = get_type_hints(command.callback) if command.callback else {}
    rows: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx) if shown is None else shown:
        if getattr(parameter, "hidden", False):
            continue
        usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
        panel = getattr(parameter, "rich_help_panel", None)
        rows.setdefault(panel if isinstance(panel, str) else usual, []).append(
            (_name(parameter, hints.get(parameter.name)), _description(parameter))
        )
    _write_rows(rows, formatter)


def _write_rows(rows: dict[str, list[tuple[str, str]]], formatter: Any) -> None:
    for heading, lines in rows.items():
        formatter.write(f"\n{heading}:\n")
        indent = min(max(len(name) for name, _ in lines), _WIDEST) + 4
        for name, said in lines:
            first = f"  {name}  ".ljust(indent)
            if len(first) > indent:
                formatter.write(f"{first.rstrip()}\n")
                first = " " * indent
            formatter.write(_fold_text(said, formatter.width, first, indent))


def _fold_text(text: str, width: int, first: str, indent: int) -> str:
    """Break a text between words, never within the name of an option."""
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(lines or [first.rstrip()]) + "\n"


def _name(parameter: Any, hint: object) -> str:
    """Give the words by which a parameter is given, with what follows them."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    words = ", ".join((*sorted(parameter.opts, key=len), *parameter.secondary_opts))
    return words if parameter.is_flag else f"{words} {parameter.metavar or _kind(hint)}"


def _kind(hint: object) -> str:
    """Say in a word what a value of a type is."""
    kinds = {hint, *get_args(hint)}
    if kinds & {int, float}:
        return "NUMBER"
    return "FILE" if Path in kinds else "TEXT"


def _description(parameter: Any) -> str:
    said = [getattr(parameter, "help", None) or ""]
    default = parameter.default
    shown = getattr(parameter, "show_default", True) and not callable(default)
    if shown and default is not None and default is not False and default != "":
        said.append(f"Default: {write_default(default)}.")
    if parameter.envvar:
        said.append(f"Or set {parameter.envvar}.")
    return " ".join(said)


def write_default(default: Any) -> str:
    """Write a default as people do: 60 for 60.0, words for the current folder."""
    if default in (".", Path()):
        return "the current folder"
    return f"{default:g}" if isinstance(default, float) else str(default)
