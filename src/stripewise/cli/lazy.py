"""Commands whose modules are loaded when they are called: help and mistyped commands answer at once."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


class LazyGroup(TyperGroup):
    """A group of commands that knows no more of them than their names and summaries.

    A subclass lists them in :attr:`modules`. A command's module has ``register(app)``, which adds it to an
    application under the same name.
    """

    modules: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Name of the command to its module and its summary, which is the first sentence of its help."""

    @property
    def commands(self) -> Any:
        """All commands, loaded."""
        return {name: self.load(name) for name in self.modules}

    @commands.setter
    def commands(self, given: Any) -> None:
        self._loaded = dict(given)

    def load(self, name: str) -> Any:
        """Give a command, with its module loaded."""
        if name not in self._loaded:
            app = typer.Typer()
            importlib.import_module(self.modules[name][0]).register(app)
            self._loaded |= typer.main.get_group(app).commands
        return self._loaded[name]

    def list_commands(self, ctx: Any) -> list[str]:
        """Give the names, for the help."""
        return list(self.modules)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Give a command as far as it is known: loaded, or its name and summary for the help."""
        if cmd_name in self._loaded:
            return self._loaded[cmd_name]
        if cmd_name not in self.modules:
            return None
        return TyperCommand(cmd_name, callback=None, help=self.modules[cmd_name][1])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is called, and load it."""
        if args and args[0] in self.modules:
            self.load(args[0])
        return super().resolve_command(ctx, args)
