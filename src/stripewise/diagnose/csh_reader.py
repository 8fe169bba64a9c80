"""Scripts of csh and tcsh as a tree: line by line, as these shells read them.

Blocks are ``if (...) then``, ``foreach``, ``while`` and ``switch``; there are no functions. Each character is read a
fixed number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stripewise.diagnose.shell_tree import (
    NOTHING,
    Assignment,
    Branch,
    Chain,
    Computed,
    Declaration,
    Group,
    Loop,
    Node,
    Part,
    Pipe,
    Redirect,
    Simple,
    Statements,
    Text,
    Variable,
    Word,
)

_DEEPEST = 40
_SHEBANG = re.compile(r"#!\s*\S*?(?:bin/|env\s+)(t?csh)\b")
_NAMED = re.compile(r"(?m)^#(?:\$|PBS|PJM)[ \t]+-S[ \t]+\S*/t?csh\b")
_SETENV = re.compile(r"(?m)^[ \t]*setenv[ \t]+\w")  # not \s, which is tried from each of many blank lines
_EXPORT = re.compile(r"(?m)^[ \t]*(?:export[ \t]+\w|\w+=|fi\b|done\b|then\b)")
_NAME = re.compile(
    r"\$(?:\{(?P<braced>[A-Za-z_]\w*)(?P<rest>[^}\s]{0,200})\}|(?P<bare>[A-Za-z_]\w*)(?P<index>\[[^\]\s]{0,200}\])?)"
)
_IF = re.compile(r"if\s*\(")
_ELSE_IF = re.compile(r"else\s+if\b")


def is_csh(text: str) -> bool:
    """Whether a script is for csh or tcsh: by its first line, by a directive, or by what only they know."""
    begin = text[:4000]
    if begin.startswith("#!"):
        return _SHEBANG.match(begin) is not None
    return bool(_NAMED.search(begin)) or bool(_SETENV.search(text) and not _EXPORT.search(text))


def read_csh(text: str, line: int = 1) -> Node:
    """Read a script, of which the first line has a number."""
    return _Reader(text, line).read()


class _Reader:
    def __init__(self, text: str, line: int) -> None:
        self._lines = list(_join(text, line))
        self._place = 0
        self._without_end: set[str] = set()

    def read(self) -> Node:
        found: list[Node] = []
        while self._place < len(self._lines):
            found.append(self._block(0, ()))
            self._place += 1
        return Statements(tuple(found))

    def _block(self, depth: int, ends: Sequence[str]) -> Node:
        """Read statements up to a line that begins with one of some words, and stop at that line."""
        found: list[Node] = []
        while self._place < len(self._lines):
            number, text = self._lines[self._place]
            word = text.split(None, 1)[0] if text else ""
            if word.rstrip(":") in ends or (word == "default" and "case" in ends):
                break
            found.append(self._statement(number, text, word, depth))
            self._place += 1
        return Statements(tuple(found))

    def _statement(self, number: int, text: str, word: str, depth: int) -> Node:
        if depth < _DEEPEST:
            if _IF.match(text):
                condition, behind = _split_parenthesis(text[text.index("(") :])
                if behind == "then":
                    return self._if(number, depth)
                body = self._commands(number, behind)
                return Branch(number, ((_substituted(condition, number), body),), complete=False)
            if word in ("foreach", "while"):
                return self._loop(number, text, word, depth)
            if word == "switch":
                return self._switch(number, depth)
        return self._commands(number, text)

    def _if(self, number: int, depth: int) -> Node:
        arms: list[tuple[Node | None, Node]] = []
        complete = False
        while True:
            self._place += 1
            arms.append((None, self._block(depth + 1, ("else", "endif"))))
            text = self._lines[self._place][1] if self._place < len(self._lines) else "endif"
            if not text.startswith("else"):
                break
            if not _ELSE_IF.match(text):
                complete = True
        return Branch(number, tuple(arms), complete)

    def _loop(self, number: int, text: str, word: str, depth: int) -> Node:
        self._place += 1
        body = self._block(depth + 1, ("end",))
        head = text[len(word) :].strip()
        variable = head.split("(", 1)[0].strip() if word == "foreach" else ""
        return Loop(number, variable, (), body)

    def _switch(self, number: int, depth: int) -> Node:
        arms: list[tuple[Node | None, Node]] = []
        complete = False
        self._place += 1
        self._block(depth + 1, ("case", "endsw"))
        while self._place < len(self._lines) and not self._lines[self._place][1].startswith("endsw"):
            complete = complete or self._lines[self._place][1].startswith("default")
            self._place += 1
            arms.append((None, self._block(depth + 1, ("case", "endsw"))))
        return Branch(number, tuple(arms), complete)

    # -- commands ------------------------------------------------------------------------------------------

    def _commands(self, number: int, text: str, groups: int = 0) -> Node:
        found: list[Node] = []
        pipe: list[Node] = []
        chain: list[tuple[str, Node]] = []
        operator = ";"

        def close() -> None:
            nonlocal pipe
            if pipe:
                chain.append((operator, pipe[0] if len(pipe) == 1 else Pipe(tuple(pipe))))
            pipe = []

        def end() -> None:
            nonlocal chain
            if chain:
                found.append(chain[0][1] if len(chain) == 1 else Chain(chain[0][1], tuple(chain[1:])))
            chain = []

        for piece, separator in _split_commands(text):
            if piece:
                pipe.append(self._command(number, piece, groups))
            if separator in ("|", "|&"):
                continue
            close()
            operator = separator
            if separator in (";", "&", ""):
                end()
        close()
        end()
        return found[0] if len(found) == 1 else Statements(tuple(found)) if found else NOTHING

    def _command(self, number: int, text: str, groups: int) -> Node:
        if text.startswith("(") and text.endswith(")") and groups < _DEEPEST:
            return Group(self._commands(number, text[1:-1], groups + 1), own_shell=True)
        words, redirects = self._words(number, text)
        first = words[0][0].text if words and words[0] and isinstance(words[0][0], Text) else ""
        if first == "setenv" and len(words) > 1:
            return Declaration(number, "export", (), (Assignment(_plain(words[1]), number, _value(words[2:])),), ())
        if first in ("unsetenv", "unset"):
            return Simple(number, words=((Text("unset", number),), *words[1:]))
        if first in ("set", "@"):
            name, equal, value = text[len(first) :].strip().partition("=")
            if equal and name.strip().isidentifier():
                inner = value.strip()
                if inner.startswith("(") and inner.endswith(")"):
                    items, _ = self._words(number, inner[1:-1])
                    return Simple(number, (Assignment(name.strip(), number, (), tuple(items)),))
                made, _ = self._words(number, inner)
                return Simple(number, (Assignment(name.strip(), number, _value(made[:1])),))
            return NOTHING
        return Simple(number, words=tuple(words), redirects=tuple(redirects))

    def _words(self, number: int, text: str) -> tuple[list[Word], list[Redirect]]:
        words: list[Word] = []
        redirects: list[Redirect] = []
        mode = ""
        for kind, word in _tokenize(number, text):
            if kind:
                mode = kind
                continue
            if mode == "<<":
                redirects.append(self._document(number, _plain(word)))
            elif mode in (">", ">>"):
                redirects.append(Redirect(mode, word, number))
            elif not mode:
                words.append(word)
            mode = ""
        return words, redirects

    def _document(self, number: int, name: str) -> Redirect:
        body: list[str] = []
        first = number + 1
        if self._place + 1 < len(self._lines):
            first = self._lines[self._place + 1][0]
        place = len(self._lines) if name in self._without_end else self._place + 1
        while place < len(self._lines) and self._lines[place][1] != name:
            body.append(self._lines[place][1])
            place += 1
        if place < len(self._lines):
            self._place = place
            return Redirect("<", tuple(_parts("\n".join(body), first, quoted=True)), number)
        self._without_end.add(name)
        return Redirect("<", (), number)


def _join(text: str, line: int) -> Iterator[tuple[int, str]]:
    """Give the lines with their numbers, without comments; a backslash joins a line with the next."""
    parts: list[str] = []
    begin = line
    for number, raw in enumerate(text.split("\n"), start=line):
        if not parts:
            begin = number
        if raw.endswith("\\"):
            parts.append(raw[:-1])
            continue
        parts.append(raw)
        yield begin, _without_comment(" ".join(parts)).strip()
        parts = []
    if parts:
        yield begin, _without_comment(" ".join(parts)).strip()


def _without_comment(line: str) -> str:
    quote = ""
    for place, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        elif char == "#" and (place == 0 or line[place - 1].isspace()):
            return line[:place]
    return line


def _split_parenthesis(text: str) -> tuple[str, str]:
    """Split a text that begins with a parenthesis behind the one that closes it."""
    depth = 0
    for place, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if not depth:
            return text[: place + 1], text[place + 1 :].strip()
    return text, ""


def _substituted(text: str, line: int) -> Node:
    return Simple(line, words=((Text("test", line),),)) if text else NOTHING


def _split_commands(text: str) -> Iterator[tuple[str, str]]:
    """Give the commands of a line, each with what divides it from the next."""
    quote, depth, begin, place = "", 0, 0, 0
    while place < len(text):
        char = text[place]
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        elif char == "\\":
            place += 1
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif not depth and char in ";|&" and text[place - 1 : place] != ">" and begin <= place:
            double = text[place : place + 2] in ("&&", "||", "|&")
            yield text[begin:place].strip(), text[place : place + 1 + double]
            place += double
            begin = place + 1
        place += 1
    yield text[begin:].strip(), ""


def _tokenize(line: int, text: str) -> Iterator[tuple[str, Word]]:
    """Give words, and the marks of redirections."""
    parts: list[Part] = []
    plain: list[str] = []
    begun, place = False, 0

    def flush() -> None:
        if plain:
            parts.extend(_parts("".join(plain), line, quoted=False))
            plain.clear()

    while place < len(text):
        char = text[place]
        if char in "\"'`":
            end = text.find(char, place + 1)
            end = len(text) if end < 0 else end
            inner = text[place + 1 : end]
            flush()
            if char == "'":
                parts.append(Text(inner, line))
            elif char == '"':
                parts.append(Text("", line))
                parts.extend(_parts(inner, line, quoted=True))
            else:
                parts.append(Computed(f"`{inner}`", line))
            begun, place = True, end
        elif char == "\\" and place + 1 < len(text):
            flush()
            parts.append(Text(text[place + 1], line))
            begun, place = True, place + 1
        elif char.isspace() or char in "<>":
            flush()
            if begun:
                yield "", tuple(parts)
            parts, begun = [], False
            if char in "<>":
                double = text[place + 1 : place + 2] == char
                yield char * (1 + double), ()
                place += double
                # ``>&`` and ``>!`` write to files, too.
                while text[place + 1 : place + 2] in ("&", "!") and text[place + 1 : place + 2]:
                    place += 1
        else:
            plain.append(char)
            begun = True
        place += 1
    flush()
    if begun:
        yield "", tuple(parts)


def _parts(text: str, line: int, *, quoted: bool) -> Iterator[Part]:
    end = 0
    for found in _NAME.finditer(text):
        if found.start() > end:
            yield Text(text[end : found.start()], line, quoted)
            line += text.count("\n", end, found.start())
        end = found.end()
        if found["rest"] or found["index"]:
            yield Computed(found[0], line)
        else:
            yield Variable(found["braced"] or found["bare"], line, found[0], quoted)
    if end < len(text):
        yield Text(text[end:], line, quoted)


def _plain(word: Word) -> str:
    return "".join(part.text for part in word if isinstance(part, Text))


def _value(words: Sequence[Word]) -> Word:
    return words[0] if words else ()
