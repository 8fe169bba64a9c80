"""Shell text as commands, each with its line, its branch and its function; here-documents beside them.

No full shell: quotes end with their line, and what a line computes is not known. It reads each character a fixed number
of times, so that the time grows with the length of the text.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_DEEPEST = 32
"""Blocks within blocks that are told apart."""
_HERE = re.compile(r"(?<!<)<<(?P<tabs>-?)\s*\\?[\"']?(?P<end>[A-Za-z_][\w.-]*)[\"']?")
_WORD = re.compile(r"[^\s;&|()<>]+")
_OPEN = frozenset({"if", "while", "until", "for", "select", "foreach", "switch", "{"})
_BRANCH = frozenset({"then", "do", "else", "elif"})
_CLOSE = frozenset({"fi", "done", "esac", "}", "endif", "end", "endsw"})
_MOST_DOCUMENTS = 4
"""Here-documents of one line."""
_MOST_WORDS = 16
"""Such words before a command that are read."""
_CSH_ELSE = re.compile(r"if\s*\(.*\)\s*then$")
_HEADS = frozenset({"for", "select", "foreach", "switch"})
"""What follows these words is no command."""


@dataclass(frozen=True)
class Command:
    """A simple command.

    Attributes
    ----------
    line : int
        From 1.
    text : str
        Without its comment.
    block : tuple of int
        The branches in which it lies, outermost first; empty where it always runs.
    function : int
        Line of the function in whose body it lies; 0 outside.
    """

    line: int
    text: str
    block: tuple[int, ...] = ()
    function: int = 0


@dataclass(frozen=True)
class HereDocument:
    """A here-document.

    Attributes
    ----------
    command : Command
        Of its line, from the line's begin to its end.
    lines : sequence of (int, str)
        With their numbers in the text.
    """

    command: Command
    lines: Sequence[tuple[int, str]]


@dataclass
class ShellText:
    """What :func:`read_shell` found, each list in the order of the lines."""

    commands: list[Command] = field(default_factory=list)
    comments: list[tuple[int, str]] = field(default_factory=list)
    documents: list[HereDocument] = field(default_factory=list)


def number_lines(text: str) -> list[tuple[int, str]]:
    """Give the lines of a text with their numbers."""
    return list(enumerate(text.splitlines(), start=1))


def read_shell(lines: Sequence[tuple[int, str]]) -> ShellText:
    """Split shell text into commands and here-documents.

    A here-document without its last line is none: ``<<`` is an operator of other languages.
    """
    found, reader = ShellText(), _Reader()
    ends: defaultdict[str, list[int]] = defaultdict(list)
    for place, (_, raw) in enumerate(lines):
        ends[raw.strip()].append(place)
    place = 0
    while place < len(lines):
        number = lines[place][0]
        parts: list[str] = []
        if lines[place][1].lstrip().startswith("#"):
            found.comments.append((number, lines[place][1].strip()))
            place += 1
            continue
        while place < len(lines):
            raw = lines[place][1]
            place += 1
            # A backslash at the end joins a line with the next.
            parts.append(raw.removesuffix("\\") if not parts else raw.removesuffix("\\").strip())
            if not raw.endswith("\\"):
                break
        bare = without_comment(" ".join(parts))
        first = len(found.commands)
        found.commands += reader.read(number, bare)
        for here in itertools.islice(_HERE.finditer(bare), _MOST_DOCUMENTS):
            known = ends.get(here["end"], [])
            at = bisect.bisect_left(known, place)
            if at == len(known):
                continue
            block, function = (
                (found.commands[first].block, found.commands[first].function)
                if len(found.commands) > first
                else ((), 0)
            )
            found.documents.append(HereDocument(Command(number, bare, block, function), lines[place : known[at]]))
            place = known[at] + 1
    return found


def without_comment(line: str) -> str:
    """Cut off the comment of a line."""
    quote = ""
    for place, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (place == 0 or line[place - 1].isspace()):
            return line[:place]
    return line


def words_of_command(text: str) -> list[str]:
    """Split a command into words without their quotes; ``$(...)`` and ``$((...))`` stay whole."""
    words: list[str] = []
    word: list[str] = []
    quote, depth, begun = "", 0, False
    for place, char in enumerate(text):
        if quote:
            if char == quote:
                quote = ""
            else:
                word.append(char)
        elif char in "\"'":
            quote, begun = char, True
        elif char == "(" and (depth or text[place - 1 : place] == "$"):
            depth += 1
            word.append(char)
        elif char == ")" and depth:
            depth -= 1
            word.append(char)
        elif depth or not (char.isspace() or char in "<>"):
            word.append(char)
            begun = True
        else:
            if begun:
                words.append("".join(word))
            word, begun = [], False
            if char in "<>":
                words.append(char)
    if begun or word:
        words.append("".join(word))
    return words


class _Reader:
    """Splits lines into commands, and knows the block in which each lies."""

    def __init__(self) -> None:
        self._kinds: list[str] = []
        self._ids: list[int] = []
        self._functions: list[int] = []
        self._last = 0
        self._beyond = 0
        self._conditional = False
        self._defines = False

    def read(self, number: int, line: str) -> Iterator[Command]:
        piece: list[str] = []
        quote, depth, blank = "", 0, True
        chars = deque(enumerate(line))
        while chars:
            place, char = chars.popleft()
            following = line[place + 1 : place + 2]
            blank = not piece or (blank and piece[-1].isspace())
            if quote or char in "\"'`":
                piece.append(char)
                quote = ("" if char == quote else quote) if quote else char
            elif char == "\\":
                piece.append(char)
                if chars:
                    piece.append(chars.popleft()[1])
            elif char == "(" and not depth and blank:
                self._open("(", number)
                piece = []
            elif char == "(":
                if following == ")" and not depth:
                    # name() begins a function.
                    chars.popleft()
                    self._defines, piece = True, []
                    continue
                depth += 1
                piece.append(char)
            elif char == ")" and depth:
                depth -= 1
                piece.append(char)
            elif char == ")":
                if "".join(piece).lstrip().startswith("case ") or self._kinds[-1:] == ["case"]:
                    # What came before is a pattern.
                    if "".join(piece).lstrip().startswith("case "):
                        self._open("case", number)
                    self._branch()
                else:
                    yield from self._made(number, piece)
                    if self._kinds[-1:] == ["("]:
                        self._close()
                piece = []
            elif depth or not self._separates(line, place):
                piece.append(char)
            else:
                yield from self._made(number, piece)
                piece = []
                if following == char and char in "&|":
                    chars.popleft()
                    self._conditional = True
        yield from self._made(number, piece)

    @staticmethod
    def _separates(line: str, place: int) -> bool:
        char, before, after = line[place], line[place - 1 : place] if place else "", line[place + 1 : place + 2]
        if char == "&":
            # 2>&1 and &>file redirect.
            return before not in ("<", ">") and after != ">"
        return char in ";|"

    def _made(self, number: int, piece: list[str]) -> Iterator[Command]:
        """Give the command that is left of a piece behind the words that open and close blocks."""
        text = "".join(piece).strip()
        for _ in range(_MOST_WORDS):
            found = _WORD.match(text)
            word = found[0] if found else ""
            rest = text[len(word) :].strip()
            if word == "function":
                self._defines, text = True, re.sub(r"^\S+\s*", "", rest)
            elif word == "case":
                self._open("case", number)
                self._branch()
                return
            elif word == "if" and rest.startswith("(") and (then := _after_parenthesis(rest)) not in ("", "then"):
                # csh: if (...) command
                text, self._conditional = then, True
            elif word in _OPEN:
                self._open(word, number)
                text = "" if word in _HEADS else rest
            elif word in _BRANCH:
                self._branch()
                text = "" if word == "else" and _CSH_ELSE.match(rest) else rest
            elif word in _CLOSE:
                self._close()
                text = rest
            else:
                break
        if not text:
            return
        block = tuple(self._ids)
        if self._conditional:
            self._last += 1
            block = (*block, self._last)
            self._conditional = False
        yield Command(number, text, block, self._functions[-1] if self._functions else 0)

    def _open(self, kind: str, number: int) -> None:
        if len(self._kinds) == _DEEPEST:
            self._beyond += 1
            return
        function = number if self._defines and kind == "{" else self._functions[-1] if self._functions else 0
        self._defines = False
        self._last += 1
        self._kinds.append(kind)
        self._ids.append(self._last)
        self._functions.append(function)

    def _branch(self) -> None:
        if self._ids and not self._beyond:
            self._last += 1
            self._ids[-1] = self._last

    def _close(self) -> None:
        if self._beyond:
            self._beyond -= 1
        elif self._kinds:
            for one in (self._kinds, self._ids, self._functions):
                one.pop()


def _after_parenthesis(text: str) -> str:
    """Give what follows the first pair of parentheses of a text that begins with one."""
    depth = 0
    for place, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if not depth:
            return text[place + 1 :].strip()
    return ""
