"""Launchers, wrappers, containers and schedulers that start others, with their options: the tables beside this module.

The tables name the manual and the version that the options are from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from stripewise.documents import toml_document

Kind = Literal["launcher", "wrapper", "tool", "container", "scheduler"]

_NUMBER = re.compile(r"\d+|on|off|\$.+")
"""A number or a switch, or what a shell replaces by one."""


@dataclass(frozen=True)
class Grammar:
    """How to tell a command's own options from the command that it starts; the keys are explained in the tables."""

    kind: Kind = "launcher"
    names: frozenset[str] = frozenset()
    manual: str = ""
    style: str = "short"
    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    assigning: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    numeric: frozenset[str] = frozenset()
    ranks: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    per_node: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    per_set: frozenset[str] = frozenset()
    single: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()
    environment: frozenset[str] = frozenset()
    mca: frozenset[str] = frozenset()
    container: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    subcommands: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()
    directives: frozenset[str] = frozenset()
    assignments: bool = False
    anywhere: bool = False
    divides: bool = True
    image: bool = False
    operands: int = 0
    mark: str = "-"
    opens: str = ""

    @cached_property
    def known(self) -> frozenset[str]:
        """The names of all options."""
        taking = self.values | self.pairs | self.assigning | self.optional | self.numeric
        return self.flags | taking | self.listed | self.single | self.alone

    @cached_property
    def counting(self) -> frozenset[str]:
        """Options whose value is a number of ranks or nodes."""
        return self.ranks | self.nodes | self.per_node | self.sets | self.per_set

    @cached_property
    def attached(self) -> str:
        """Letters of options whose value may follow without a space, as in ``-n4``."""
        short = self.style == "short" or self.mark != "-"
        return "".join(sorted(name for name in self.values | self.optional if len(name) == 1)) if short else ""

    def count_values(self, name: str, following: Sequence[str]) -> int | None:
        """Say how many of the words behind an option are its values; None for an unknown option."""
        if name in self.values:
            return 1
        if name in self.pairs:
            return 2
        if name in self.assigning:
            return 1 if following and "=" in following[0] else 2
        if name in self.numeric:
            return int(bool(following) and _NUMBER.fullmatch(following[0]) is not None)
        return 0 if name in self.known else None

    def library_of(self, name: str) -> str:
        """Give the MPI library that one of the names shows; empty where it shows none."""
        shown = dict(one.split(":") for one in self.libraries)
        return shown.get(name, "")

    def complete(self, name: str) -> str:
        """Give the one long option that begins so, as getopt does; the name itself where there is none."""
        if name in self.known or self.style != "short" or len(name) < 2:
            return name
        found = [known for known in self.known if known.startswith(name) and len(known) > 1]
        return found[0] if len(found) == 1 else name


def _read_table(name: str) -> Iterator[Grammar]:
    path = Path(__file__).with_name(name)
    for kind, entries in toml_document(path.read_text("utf-8"), name).items():
        for entry in entries:
            yield _make_grammar(kind, entry)


def _make_grammar(kind: Any, entry: Mapping[str, Any]) -> Grammar:
    sets = {field.name for field in fields(Grammar) if str(field.type).startswith("frozenset")}
    found: dict[str, Any] = {key: frozenset(value.split()) if key in sets else value for key, value in entry.items()}
    return Grammar(kind=kind, **found)


@cache
def read_grammars() -> Mapping[str, Grammar]:
    """Give all grammars by the base names of their programs."""
    tables = [
        grammar for name in ("launchers.toml", "wrappers.toml", "schedulers.toml") for grammar in _read_table(name)
    ]
    return {name: grammar for grammar in tables for name in grammar.names}


def grammars_of(*kinds: Kind) -> dict[str, Grammar]:
    """Give the grammars of some kinds by the base names of their programs."""
    return {name: grammar for name, grammar in read_grammars().items() if grammar.kind in kinds}
