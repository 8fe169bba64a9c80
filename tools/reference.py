"""Writes the parts of docs/reference that follow from the program: options of commands, parameters of stacks.

    python tools/reference.py            # write them anew
    python tools/reference.py --check    # write nothing; exit code 1 if a page is out of date

A page holds such a part between ``<!-- options: COMMAND -->`` or ``<!-- stack: NAME -->`` and ``<!-- end -->``; all
else on the page is written by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import spell
from stripewise.catalogue.stack import load_stack
from stripewise.desk.cli.main import app
from stripewise.sizes import format_size

PAGES = Path(__file__).resolve().parents[1] / "docs" / "reference"
PART = re.compile(r"<!-- (?P<kind>options|stack): (?P<name>[\w -]+) -->.*?<!-- end -->", re.DOTALL)
SHARED = ("--store", "--server", "--json", "--help")
"""Options that the page describes once for all commands, if their help is the usual one."""
USUAL = {
    "--store": "sqlite:///FILE, postgresql://... or journal:FOLDER.",
    "--server": "A service to use instead of a store: unix:PATH or https://HOST.",
    "--json": "Print JSON for machines.",
}
SHOWN = 6
"""Values of a parameter that are listed; more are named by their ends and their number."""
CARRIERS = {"env": "environment", "mca": "MCA", "adios2": "ADIOS2's file", "hdf5": "HDF5 property", "pnetcdf": "hint"}


def list_commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Give each command with its words."""
    command = command or typer.main.get_command(app)
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
    else:
        for name, child in below.items():
            yield from list_commands(child, (*path, name))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table of Markdown."""
    head, *body = ("| " + " | ".join(cells) + " |" for cells in (heads, *rows))
    return "\n".join([head, "|" + "---|" * len(heads), *body])


def escape(text: str) -> str:
    """Give a text as a cell of a table."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").strip()


def _option(option: Any) -> tuple[str, str]:
    words = ", ".join(f"`{word}`" for word in (*option.opts, *option.secondary_opts))
    numbers = option.type_descriptor.annotation in (int, float)
    value = "" if option.is_flag else f" {escape(option.metavar or ('NUMBER' if numbers else 'TEXT'))}"
    said = escape(option.help or "")
    default = option.default
    if option.required:
        said += " Required."
    elif not option.is_flag and isinstance(default, str | int | float) and default not in ("", None):
        said += "" if "default" in said.lower() else f" Default: {escape(str(default))}."
    return f"{words}{value}", said


def options_of(path: str) -> str:
    """Describe the arguments and options of a command, in the groups of its help."""
    command = dict(list_commands())[path]
    parts, shared = [], []
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            word = escape(str(parameter.metavar or str(parameter.name).upper()).strip("[]"))
            many = "..." if parameter.nargs == -1 and not word.endswith("...") else ""
            parts.append(f"- `{word}{many}`: {parameter.help or ''}".rstrip(": "))
        elif parameter.opts[0] in SHARED and parameter.help == USUAL.get(parameter.opts[0], parameter.help):
            shared += [f"`{word}`" for word in parameter.opts if word != "--help" and word.startswith("--")]
        else:
            groups.setdefault(getattr(parameter, "rich_help_panel", None) or "", []).append(_option(parameter))
    blocks = ["\n".join(parts)] if parts else []
    for title, rows in groups.items():
        blocks += [f"{title}:"] if title and len(groups) > 1 else []
        blocks.append(table(("option", "what it does"), rows))
    if shared:
        blocks.append(f"Shared: {', '.join(shared)}.")
    return "\n\n".join(blocks)


def _value(parameter: Parameter, value: Any) -> str:
    return format_size(value) if parameter.unit == "B" and isinstance(value, int) and value else spell(value)


def _values(parameter: Parameter) -> str:
    values = [_value(parameter, value) for value in parameter.values]
    if len(values) > SHOWN:
        ordered = f"{values[0]} to {values[-1]}, {len(values)} values"
        shown = ordered if parameter.kind.value != "categorical" else ", ".join(values)
    else:
        shown = ", ".join(values)
    most = f"; at most `{parameter.maximum_from.text}`" if parameter.maximum_from else ""
    default = f"`{parameter.default_from.text}`" if parameter.default_from else _value(parameter, parameter.default)
    default += "".join(f"; {_value(parameter, value)} {said}" for value, said in parameter.other_defaults)
    return escape(f"{shown}{most} ({default})")


def _carried(parameter: Parameter) -> str:
    name = CARRIERS.get(parameter.carrier.name, parameter.carrier.name)
    if parameter.carrier.name in ("layout", "hdf5") and parameter.setting != parameter.name:
        name += f" `{parameter.setting}`"
    where = f", driver {' or '.join(parameter.driver)}" if parameter.driver else ""
    since = f", since {parameter.library} {parameter.since}" if parameter.since else ""
    proof = "nothing" if parameter.evidence == "none" else parameter.evidence
    return f"{name}{where}{since}; {proof}"


def stack_of(name: str) -> str:
    """Describe the parameters of a stack."""
    stack = load_stack(name)
    rows = [
        (
            f"`{one.name}`",
            _values(one),
            _carried(one),
            escape(one.description) + (f" *{escape(one.trap)}*" if one.trap else ""),
        )
        for one in stack.parameters
    ]
    parts = [table(("parameter", "values (default)", "set by; proven by", "what it does; *what goes wrong*"), rows)]
    for one in stack.parameters:
        for fault in one.breaks:
            calls = ", ".join(f"`MPI_File_{call}`" for call in fault.calls)
            parts.append(f"With `{one.name}={spell(fault.value)}`, {fault.how}: {calls}.")
    parts += [f"`{one.name}` is derived from `{one.value.text}`: `{one.template}`." for one in stack.derived]
    rules = ["`" + " ".join(rule.text.split()) + "`" for rule in stack.constraints]
    parts += [f"Constraints: {'; '.join(rules)}."] if rules else []
    return "\n\n".join(parts)


def fill(text: str) -> str:
    """Write the parts of a page anew."""

    def fresh(found: re.Match[str]) -> str:
        made = options_of(found["name"]) if found["kind"] == "options" else stack_of(found["name"])
        return f"<!-- {found['kind']}: {found['name']} -->\n\n{made}\n\n<!-- end -->"

    return PART.sub(fresh, text)


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = 0
    for page in (PAGES / "commands.md", PAGES / "stacks.md"):
        text = page.read_text("utf-8")
        made = fill(text)
        if made != text:
            stale = 1
            print(f"{page}: {'out of date' if check else 'written'}")
            if not check:
                page.write_text(made, "utf-8")
    return stale if check else 0


if __name__ == "__main__":
    sys.exit(main())
