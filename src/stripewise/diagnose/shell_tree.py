"""A shell script as a tree of statements, whatever shell it is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of a word that stands for itself."""

    text: str
    line: int
    quoted: bool = True


@dataclass(frozen=True, slots=True)
class Variable:
    """A piece that stands for the value of a variable.

    Attributes
    ----------
    source : str
        As the script writes it.
    otherwise : Word or None
        What stands for it if it is not set.
    """

    name: str
    line: int
    source: str
    quoted: bool = True
    otherwise: Word | None = None


@dataclass(frozen=True, slots=True)
class Computed:
    """A piece that is known when the script runs: the output of commands, arithmetic, a part of a variable.

    Attributes
    ----------
    body : Node or None
        The commands.
    """

    source: str
    line: int
    body: Node | None = None


Part = Text | Variable | Computed
Word = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A variable that gets a value.

    Attributes
    ----------
    items : tuple of Word or None
        Of an array.
    more : bool
        Whether the value goes behind the present one.
    """

    name: str
    line: int
    value: Word = ()
    items: tuple[Word, ...] | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where input comes from, or output goes.

    Attributes
    ----------
    mode : str
        ``<`` for the text of a here-document or here-string, ``>`` and ``>>`` for a file.
    """

    mode: str
    word: Word
    line: int


@dataclass(frozen=True, slots=True)
class Simple:
    """A command with its words; assignments alone where it has none."""

    line: int
    assigned: tuple[Assignment, ...] = ()
    words: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Declaration:
    """``export``, ``declare`` and the like.

    Attributes
    ----------
    names : tuple of str
        Variables that are named without a value.
    """

    line: int
    word: str
    options: tuple[str, ...]
    assigned: tuple[Assignment, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements one after the other."""

    nodes: Sequence[Node]


@dataclass(frozen=True, slots=True)
class Chain:
    """Statements joined by ``&&`` and ``||``: each but the first with the operator before it."""

    first: Node
    rest: Sequence[tuple[str, Node]]


@dataclass(frozen=True, slots=True)
class Pipe:
    """Commands of which each reads what the one before it writes."""

    nodes: Sequence[Node]


@dataclass(frozen=True, slots=True)
class Branch:
    """Alternatives: a condition, if there is one, with the body that follows it.

    Attributes
    ----------
    complete : bool
        Whether one of them is always taken.
    """

    line: int
    arms: Sequence[tuple[Node | None, Node]]
    complete: bool


@dataclass(frozen=True, slots=True)
class Loop:
    """Statements that are repeated; ``variable`` is empty where no list is gone through."""

    line: int
    variable: str
    words: tuple[Word, ...]
    body: Node


@dataclass(frozen=True, slots=True)
class Group:
    """Statements in braces or parentheses."""

    body: Node
    own_shell: bool = False
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function."""

    line: int
    name: str
    body: Node


@dataclass(frozen=True, slots=True)
class Maybe:
    """A statement in text that cannot be read as a whole: whether it runs is not known."""

    body: Node


Node = Simple | Declaration | Statements | Chain | Pipe | Branch | Loop | Group | Function | Maybe
NOTHING = Statements(())
