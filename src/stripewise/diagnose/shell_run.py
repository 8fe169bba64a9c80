"""What a shell script does on each of its ways, without running it.

Both branches of a condition are alternatives, a loop runs zero or more times, a function runs where it is called. What
stands behind ``||`` runs where something has failed: that way is weak, as is the one on which a command before ``&&``
fails. Nothing here knows what a setting is: :mod:`stripewise.diagnose.script` does.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from stripewise.diagnose.shell_state import (
    ABSENT,
    Alternative,
    Piece,
    Reached,
    State,
    Value,
    base_name,
    is_known,
    lines_of,
    merge,
    merge_reached,
    shorten,
    text_of,
    words_in,
)
from stripewise.diagnose.shell_tree import (
    Assignment,
    Branch,
    Chain,
    Computed,
    Declaration,
    Function,
    Group,
    Loop,
    Maybe,
    Node,
    Pipe,
    Redirect,
    Simple,
    Statements,
    Text,
    Variable,
    Word,
)

_MOST_WAYS = 8
"""Values of a word, or readings of a command, that are told apart."""
_MOST_CALLS = 12
"""Functions within functions that are followed."""
_STEPS = 4000
"""Statements that run, beside those of the script itself: after them no function is followed and no loop repeated."""
_A_STATEMENT = 20
"""Characters of a short statement."""
_MOST_LINES = 20_000
"""Lines of one command's output that are kept."""
_TESTS = frozenset({"test", "[", "[[", "let", "grep", "egrep", "which", "type", "command", "hash", "diff", "cmp"})
_PRINTF = re.compile(r"%[-+ 0#]*[0-9]*(?:\.[0-9]+)?([a-zA-Z%])")
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", '\\"': '"'}
_ESCAPE = re.compile(r"\\[nt\\\"]")
_NAME = re.compile(r"[A-Za-z_]\w*")
_PATTERN = re.compile(r"[*?\[{~]")
"""Marks of words that stand for others."""
_OWN_FOLDER = re.compile(r"\$\(pwd\)|`pwd`|\$\{?PWD\}?")
_EXPORTERS = frozenset({"export", "declare", "typeset", "local", "readonly"})
_HELD = ("v:", "f:", "l:")
"""How the keys of what has alternatives begin: variables, files, layouts."""
_CHANGES_SHELL = ("v:", "cwd", "dead", "all")
"""What a shell of its own does not leave behind."""


@dataclass
class Output:
    """Where a command's output goes: into a file, or to a command."""

    path: str = ""
    lines: list[Value] = field(default_factory=list)


class Interpreter(ABC):
    """Goes through a script."""

    def __init__(self, folders: Sequence[str], size: int) -> None:
        self.state = State()
        self.state.put("cwd", "")
        for kind in ("any", "sure"):
            self.state.put(f"reached:{kind}", Reached())
        self._folders = (
            re.compile(r"\$\{?(?:" + "|".join(re.escape(name) for name in folders) + r")\}?") if folders else None
        )
        self._functions: dict[str, Function] = {}
        self._called: set[str] = set()
        self._calls: list[str] = []
        self._steps = _STEPS + size // _A_STATEMENT
        self.involved = False
        self.conditional = 0
        self._loops = 0
        self.marked: set[str] = set()
        self._outputs: list[Output] = []
        self._input: list[list[Value]] = []

    # -- what a subclass knows -----------------------------------------------------------------------------

    @abstractmethod
    def mark(self, name: str, value: Value, line: int) -> tuple[int, ...]:
        """Give the settings that a variable with a value makes."""

    @abstractmethod
    def lose(self, marks: Sequence[int], line: int, how: str) -> None:
        """Note that settings are gone from a way: ``how`` is ``again``, ``unset``, ``end`` or ``jump``."""

    @abstractmethod
    def start(
        self, words: Sequence[Value], line: int, bound: Sequence[tuple[str, Value]], text: Sequence[Value]
    ) -> None:
        """Note a command that is neither of the shell nor a function.

        Parameters
        ----------
        bound : sequence of (str, Value)
            Variables for this command alone.
        text : sequence of Value
            The lines that it reads, as far as they are known.
        """

    @abstractmethod
    def write(self, path: str, lines: Sequence[Value], line: int, *, more: bool, known: bool) -> None:
        """Note lines that go into a file, behind what it holds if ``more``."""

    @abstractmethod
    def include(self, path: str, line: int) -> Node | None:
        """Give a script that is read into this one; None where it is not at hand."""

    @abstractmethod
    def run_included(self, node: Node, path: str) -> None:
        """Go through a script that is read into this one."""

    @abstractmethod
    def parse(self, text: str, line: int) -> Node:
        """Read a script that a word holds."""

    # -- control flow --------------------------------------------------------------------------------------

    @property
    def ended(self) -> int:
        """The line at which the script has ended before this place; 0 where it goes on."""
        return int(self.state.get("dead") or 0)

    def run(self, node: Node) -> None:
        """Go through a statement."""
        self._steps -= 1
        if self._steps < 0:
            self.involved = True
        if isinstance(node, Statements):
            for one in node.nodes:
                self.run(one)
        elif isinstance(node, Simple):
            self._run_simple(node)
        elif isinstance(node, Declaration):
            self._declare(node)
        elif isinstance(node, Branch):
            self._run_branch(node)
        elif isinstance(node, Chain):
            self._run_chain(node)
        elif isinstance(node, Pipe):
            self._run_pipe(node)
        elif isinstance(node, Loop):
            self._run_loop(node)
        elif isinstance(node, Group):
            self._run_group(node)
        elif isinstance(node, Function):
            self._functions[node.name] = node
        elif isinstance(node, Maybe):
            self.state.begin()
            self.run(node.body)
            self.join([({}, True), (self.state.end(), False)])

    def finish(self) -> Iterator[Function]:
        """Go through the functions that nothing called; give each before its body."""
        for name, function in list(self._functions.items()):
            if name not in self._called:
                yield function
                self.state.begin()
                self.state.put("dead", 0)
                self.run(function.body)
                self.state.end()

    def join(self, ways: Sequence[tuple[dict[str, object], bool]]) -> None:
        """Go on behind ways that meet, each with whether it is weak; those that ended the script do not count."""
        before = self.ended
        alive = [(changes, weak) for changes, weak in ways if before or not changes.get("dead")]
        for changes, _ in ways:
            if not before and (line := changes.get("dead")):
                for key, value in changes.items():
                    if key.startswith(_HELD) and isinstance(value, tuple):
                        self.lose([mark for one in value for mark in one.marks], int(str(line)), "end")
        if not alive:
            self.state.put_all(ways[0][0])
            return
        if all(weak for _, weak in alive):
            alive = [(changes, False) for changes, _ in alive]
        for key in dict.fromkeys(key for changes, _ in alive for key in changes):
            self._join_key(key, [(changes.get(key, self.state.get(key)), weak) for changes, weak in alive])

    def _join_key(self, key: str, values: list[tuple[object, bool]]) -> None:
        if key.startswith("reached:"):
            self.state.put(key, merge_reached([one for one, weak in values if not weak and isinstance(one, Reached)]))
        elif key.startswith(_HELD):
            merged, lost = merge([(one if isinstance(one, tuple) else ABSENT, weak) for one, weak in values])
            self.lose(lost, 0, "jump")
            self.state.put(key, merged)
            self.state.put("version", object())
        else:
            strong = [one for one, weak in values if not weak]
            same = all(one == strong[0] for one in strong)
            self.state.put(key, strong[0] if same or key != "cwd" else "$(pwd)")

    def _run_branch(self, node: Branch) -> None:
        ways: list[tuple[dict[str, object], bool]] = []
        for condition, body in node.arms:
            if condition is not None:
                self.run(condition)
            self.state.begin()
            self.conditional += 1
            self.run(body)
            self.conditional -= 1
            ways.append((self.state.end(), False))
        if not node.complete:
            ways.append(({}, False))
        self.join(ways)

    def _run_chain(self, node: Chain) -> None:
        self.run(node.first)
        tested = _is_test(node.first)
        for operator, other in node.rest:
            self.state.begin()
            self.conditional += tested
            self.run(other)
            self.conditional -= tested
            changes = self.state.end()
            # Only a test decides; other commands are there to succeed.
            ended = changes.get("dead") and not self.ended
            self.join([({}, not tested and operator == "&&"), (changes, not tested and operator == "||" and not ended)])
            tested = tested or _is_test(other)

    def _run_pipe(self, node: Pipe) -> None:
        lines: list[Value] | None = None
        for place, one in enumerate(node.nodes):
            last = place == len(node.nodes) - 1
            self.state.begin()
            output = Output()
            if not last:
                self._outputs.append(output)
            if lines is not None:
                self._input.append(lines)
            self.run(one)
            if lines is not None:
                self._input.pop()
            if not last:
                self._outputs.pop()
            lines = output.lines
            self.leave_shell()

    def leave_shell(self) -> None:
        """End a way that is a shell of its own: it leaves files, and what it has started."""
        changes = self.state.end()
        for key, value in changes.items():
            if not key.startswith(_CHANGES_SHELL):
                self.state.put(key, value)
            elif key.startswith("v:") and isinstance(value, tuple):
                kept = {mark for one in self.state.get(key, ()) or () for mark in one.marks}
                self.lose([mark for one in value for mark in one.marks if mark not in kept], 0, "shell")

    def _run_loop(self, node: Loop) -> None:
        self.state.begin()
        # What a round leaves behind meets the next one; the second round of the outermost loop shows it for all in it.
        for _ in range(1 if self._loops or self.involved else 2):
            self._loops += 1
            if node.variable:
                self.set_variable(node.variable, self._values_of_loop(node), node.line)
            self.run(node.body)
            self._loops -= 1
        changes = self.state.end()
        if changes.get("dead") and not self.ended:
            # The loop ends the script at some round, or not at all.
            changes["dead"] = 0
        self.join([({}, True), (changes, False)])

    def _values_of_loop(self, node: Loop) -> list[Alternative]:
        """Give the values of a loop's list, where they are few and known; an unknown one otherwise."""
        given = [value for word in node.words for value in self.expand_words(word)]
        texts = [text_of(value) for value in given]
        plain = all(map(is_known, given)) and not any(_PATTERN.search(text) for text in texts)
        if plain and 0 < len(set(texts)) <= _MOST_WAYS:
            # Those of one text are one.
            return [Alternative(value) for value in dict(zip(texts, given, strict=True)).values()]
        return [Alternative((Piece(f"${node.variable}", node.line, known=False),))]

    def _run_group(self, node: Group) -> None:
        outputs = self._open(node.redirects)
        texts = [redirect for redirect in node.redirects if redirect.mode == "<"]
        if texts:
            self._input.append(lines_of(self.expand(texts[-1].word)[0]))
        self._outputs += outputs
        if node.own_shell:
            self.state.begin()
        self.run(node.body)
        if node.own_shell:
            self.leave_shell()
        if outputs:
            self._outputs = self._outputs[: -len(outputs)]
        if texts:
            self._input.pop()

    # -- variables -----------------------------------------------------------------------------------------

    def _bind(self, name: str, value: Value | None, line: int, *, exported: bool = False) -> None:
        self.set_variable(name, [Alternative(value)], line, exported=exported)

    def set_variable(self, name: str, values: Sequence[Alternative], line: int, *, exported: bool = False) -> None:
        """Give a variable its alternatives."""
        key = f"v:{name}"
        before: Sequence[Alternative] = self.state.get(key) or ()
        exported = exported or bool(self.state.get("all")) or any(one.exported for one in before)
        made = []
        for one in values:
            marks = self.mark(name, one.value, line) if one.value is not None else ()
            made.append(Alternative(one.value, one.items, exported, marks, one.weak))
        merged, lost = merge([(made, False)]) if len(made) > 1 else (tuple(made), ())
        self.lose(lost, line, "jump")
        kept = {mark for one in merged for mark in one.marks}
        self.lose([mark for one in before for mark in one.marks if mark not in kept], line, "again")
        self.state.put(key, merged)
        if any(one.marks for one in (*before, *merged)):
            self.marked.add(key)
            self.state.put("version", object())

    def export(self, name: str) -> None:
        """Export what a variable holds, and what it will."""
        key = f"v:{name}"
        self.state.put(key, tuple(replace(one, exported=True) for one in self.state.get(key) or ABSENT))
        self.state.put("version", object())

    def unset(self, name: str, line: int) -> None:
        """Remove a variable."""
        before: Sequence[Alternative] = self.state.get(f"v:{name}") or ()
        self.lose([mark for one in before for mark in one.marks], line, "unset")
        if before:
            self.state.put(f"v:{name}", ABSENT)
            if any(one.marks for one in before):
                self.state.put("version", object())

    def values_of(self, name: str) -> Sequence[Alternative]:
        """Give what a variable may hold; nothing where the script does not set it."""
        found = self.state.get(f"v:{name}") or ()
        return [one for one in found if one.value is not None or one.items is not None]

    def _assign(self, one: Assignment, *, exported: bool = False) -> None:
        if not _NAME.fullmatch(one.name):
            return
        if one.items is not None:
            items = tuple(word for item in one.items for word in self.expand_words(item))
            before = self.values_of(one.name)
            if one.more and before and before[0].items is not None:
                items = (*before[0].items, *items)
            self.state.put(f"v:{one.name}", (Alternative(items=items[:2000], exported=exported),))
            return
        values = self.expand(one.value)
        if one.more:
            before_texts = [found.value or () for found in self.values_of(one.name)] or [()]
            values = [shorten((*old, *new)) for old in before_texts for new in values][:_MOST_WAYS]
        if len(one.value) == 1 and isinstance(one.value[0], Variable) and one.value[0].name == one.name:
            # ``export NAME=$NAME``
            if exported:
                self.export(one.name)
            return
        self.set_variable(one.name, [Alternative(value) for value in values], one.line, exported=exported)

    def _declare(self, node: Declaration) -> None:
        flags = "".join(option for option in node.options if option.startswith("-"))
        exported = node.word == "export" or "x" in flags
        if node.word == "export" and "n" in flags:
            return
        for one in node.assigned:
            for part in one.value:
                if isinstance(part, Computed) and part.body is not None:
                    self._run_inner(part.body)
            self._assign(one, exported=exported)
        if exported and "f" not in flags:
            for name in node.names:
                if _NAME.fullmatch(name):
                    self.export(name)

    def _run_inner(self, body: Node) -> None:
        self.state.begin()
        self._outputs.append(Output())
        self.run(body)
        self._outputs.pop()
        self.leave_shell()

    # -- words ---------------------------------------------------------------------------------------------

    def expand(self, word: Word) -> list[Value]:
        """Give the values that a word may have."""
        pieces: list[list[Value]] = [list(self._expand_part(part)) for part in word]
        if len(pieces) == 1:
            return [shorten(one) for one in pieces[0][:_MOST_WAYS]]
        total = 1
        for one in pieces:
            total *= len(one)
        if total > _MOST_WAYS:
            pieces = [
                one if len(one) == 1 else [(Piece(_source(part), part.line, known=False),)]
                for one, part in zip(pieces, word, strict=True)
            ]
        return [shorten(tuple(itertools.chain.from_iterable(one))) for one in itertools.product(*pieces)]

    def _expand_part(self, part: Text | Variable | Computed) -> Iterator[Value]:
        if isinstance(part, Text):
            yield (Piece(part.text, part.line),) if part.text else ()
        elif isinstance(part, Computed):
            yield (
                Piece(
                    self.folder if _OWN_FOLDER.fullmatch(part.source) and self.folder else part.source,
                    part.line,
                    known=False,
                ),
            )
        else:
            unknown = (Piece(part.source, part.line, known=False),)
            name = part.name.partition("[")[0]
            found = self.values_of(name)
            if name == "PWD" and self.folder:
                yield (Piece(self.folder, part.line, known=False),)
                return
            if not found:
                yield unknown
            for one in found[:_MOST_WAYS]:
                if one.items is not None:
                    yield tuple(
                        piece
                        for place, item in enumerate(one.items)
                        for piece in ((Piece(" ", part.line),) if place else ()) + item
                    )
                elif one.value is not None:
                    # A variable of a loop, say, is its own value.
                    yield one.value if one.value else ()

    def expand_words(self, word: Word) -> list[Value]:
        """Give the words that a word becomes, in its first reading."""
        if len(word) <= 2 and word and isinstance(word[-1], Variable) and (len(word) == 1 or not _text(word[0])):
            last = word[-1]
            name = last.name.partition("[")[0]
            found = self.values_of(name)
            if found and found[0].items is not None:
                return list(found[0].items) if last.name != name or name == "@" else list(found[0].items[:1])
        split = [isinstance(part, Variable) and not part.quoted for part in word]
        if not any(split):
            return self.expand(word)[:1]
        words: list[list[Piece]] = [[]]
        for part, apart in zip(word, split, strict=True):
            value = next(iter(self._expand_part(part)), ())
            if not apart:
                words[-1].extend(value)
                continue
            first, *more = words_in(value) or [()]
            words[-1].extend(first)
            words.extend(list(one) for one in more)
        return [tuple(one) for one in (words if words[-1] else words[:-1])]

    def _readings(self, words: Sequence[Word]) -> list[list[Value]]:
        """Give the words of a command, once for each value of the variables that have several."""
        found: list[list[Value]] = [[value for word in words for value in self.expand_words(word)]]
        several: dict[str, Sequence[Alternative]] = {}
        number = 1
        for part in itertools.chain.from_iterable(words):
            if isinstance(part, Variable) and part.name not in several and part.name.isidentifier():
                values = self.values_of(part.name)
                if len(values) > 1:
                    number *= min(len(values), _MOST_WAYS)
                    # What cannot be told apart is not known.
                    unknown = (Alternative((Piece(part.source, part.line, known=False),)),)
                    several[part.name] = values[:_MOST_WAYS] if number <= _MOST_WAYS else unknown
        if several:
            found = []
            for chosen in itertools.product(*several.values()):
                self.state.begin()
                for name, one in zip(several, chosen, strict=True):
                    self.state.put(f"v:{name}", (one,))
                found.append([value for word in words for value in self.expand_words(word)])
                self.state.end()
        return found

    # -- paths ---------------------------------------------------------------------------------------------

    @property
    def folder(self) -> str:
        """Where the script is, as far as it says; empty for where it was started."""
        return str(self.state.get("cwd") or "")

    def path(self, text: str) -> str:
        """Give a path from where the script was started, as far as it is known."""
        text = _OWN_FOLDER.sub(lambda _: self.folder or ".", text)
        if self._folders is not None:
            text = self._folders.sub(".", text, count=1)
        if text.startswith(("/", "$", "~")) or not self.folder:
            return str(PurePosixPath(text)) if text else ""
        return str(PurePosixPath(self.folder) / text)

    # -- commands ------------------------------------------------------------------------------------------

    def _open(self, redirects: Sequence[Redirect]) -> list[Output]:
        found: list[Output] = []
        for redirect in redirects:
            if redirect.mode in (">", ">>"):
                target = self.path(text_of(self.expand(redirect.word)[0]))
                if not target or target.startswith("/dev/"):
                    continue
                if redirect.mode == ">":
                    self.write(target, (), redirect.line, more=False, known=True)
                found.append(Output(target))
        return found

    def _emit(self, value: Value, line: int) -> None:
        """Send lines where the output goes."""
        if not self._outputs:
            return
        output = self._outputs[-1]
        lines = lines_of(value)
        if output.path:
            self.write(output.path, lines, line, more=True, known=True)
        elif len(output.lines) < _MOST_LINES:
            output.lines += lines

    def _run_simple(self, node: Simple) -> None:
        outputs = self._open(node.redirects)
        for word in (*node.words, *(one.value for one in node.assigned)):
            for part in word:
                if isinstance(part, Computed) and part.body is not None:
                    self._run_inner(part.body)
        texts = [redirect for redirect in node.redirects if redirect.mode == "<"]
        text = lines_of(self.expand(texts[-1].word)[0]) if texts else self._input[-1] if self._input else []
        if not node.words:
            for one in node.assigned:
                self._assign(one)
            return
        self._outputs += outputs
        readings = self._readings(node.words)
        self._steps -= len(readings)
        bound = [(one.name, value) for one in node.assigned for value in self.expand(one.value)[:1]]
        if len(readings) == 1:
            self._command(node.line, readings[0], bound, text)
        else:
            ways: list[tuple[dict[str, object], bool]] = []
            for words in readings:
                self.state.begin()
                self._command(node.line, words, bound, text)
                ways.append((self.state.end(), False))
            self.join(ways)
        if outputs:
            self._outputs = self._outputs[: -len(outputs)]

    def _command(
        self, line: int, words: list[Value], bound: Sequence[tuple[str, Value]], text: Sequence[Value]
    ) -> None:
        if not words:
            return
        first = text_of(words[0])
        name = base_name(first) if is_known(words[0]) else ""
        built_in = getattr(self, f"_do_{name}", None) if name.isalpha() else None
        if name in self._functions:
            self._call(name, words, bound, line)
        elif name == ".":
            self._do_source(line, words, text)
        elif built_in is not None:
            built_in(line, words, text)
        elif name in _EXPORTERS:
            self._export_words(words, line)
        else:
            self.start(words, line, bound, text)

    def _export_words(self, words: Sequence[Value], line: int) -> None:
        """``export`` behind another word, as ``time`` or a variable that holds it."""
        for word in words[1:]:
            name, equal, _ = text_of(word).partition("=")
            if _NAME.fullmatch(name) and equal:
                self._bind(name, behind(word, len(name) + 1), line, exported=text_of(words[0]) == "export")

    def _call(self, name: str, words: list[Value], bound: Sequence[tuple[str, Value]], line: int) -> None:
        self._called.add(name)
        if name in self._calls or len(self._calls) >= _MOST_CALLS or self.involved:
            return
        self._calls.append(name)
        before = {}
        given = [*((str(place), Alternative(word)) for place, word in enumerate(words[1:10], start=1))]
        given += [(mark, Alternative(items=tuple(words[1:]))) for mark in ("@", "*")]
        for key, value in given:
            before[key] = self.state.get(f"v:{key}")
            self.state.put(f"v:{key}", (value,))
        for key, word in bound:
            self._bind(key, word, line, exported=True)
        self.run(self._functions[name].body)
        for key, _ in bound:
            self.unset(key, line)
        for key, old in before.items():
            self.state.put(f"v:{key}", old)
        self._calls.pop()

    def _do_cd(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        target = text_of(words[-1]) if len(words) > 1 else "~"
        self.state.put("cwd", "" if self._folders and self._folders.fullmatch(target) else self.path(target))

    _do_pushd = _do_cd
    _do_chdir = _do_cd

    def _do_popd(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        self.state.put("cwd", f"$(line {line})")

    def _do_set(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        given = [text_of(word) for word in words[1:]]
        if any(
            word in ("-a", "allexport") or (word.startswith("-") and "a" in word[1:] and word.isalpha())
            for word in given
        ):
            self.state.put("all", "+a" not in given and "+o" not in given)
        elif "+a" in given:
            self.state.put("all", value=False)

    def _do_unset(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        for word in words[1:]:
            self.unset(text_of(word), line)

    def _do_exit(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        if not self.ended:
            self.state.put("dead", line)

    def _do_return(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        """Leave a function or a loop: what holds here may hold behind it, whatever the statements between do."""
        for key in self.marked:
            for one in self.state.get(key) or ():
                self.lose(one.marks, line, "jump")

    _do_break = _do_return
    _do_continue = _do_return

    def _do_exec(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        if len(words) > 1 and not text_of(words[1]).startswith("-"):
            self._command(line, words[1:], (), text)
            self._do_exit(line, words, text)

    def _do_eval(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        joined = " ".join(text_of(word) for word in words[1:])
        if all(is_known(word) for word in words[1:]) or "=" in joined:
            self.run_text(joined, line)
        else:
            self.start(words[1:], line, (), text)

    def run_text(self, text: str, line: int) -> None:
        """Run a script that a word holds."""
        if len(self._calls) >= _MOST_CALLS or self.involved:
            return
        self._calls.append("")
        self.run(self.parse(text, line))
        self._calls.pop()

    def _do_source(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        if len(words) < 2 or len(self._calls) >= _MOST_CALLS or self.involved:
            return
        path = self.path(text_of(words[1]))
        found = self.include(path, line)
        if found is None:
            self.start(words, line, (), text)
            return
        self._calls.append("")
        self.run_included(found, path)
        self._calls.pop()

    def _do_read(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        for word in words[1:]:
            if _NAME.fullmatch(name := text_of(word)):
                self._bind(name, (Piece(f"${name}", line, known=False),), line)

    _do_mapfile = _do_read
    _do_readarray = _do_read

    def _do_echo(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        options = ""
        given = words[1:]
        while given and text_of(given[0]) in ("-n", "-e", "-E", "-ne", "-en"):
            options += text_of(given[0])
            given = given[1:]
        joined = tuple(
            piece
            for place, word in enumerate(given)
            for piece in (*((Piece(" ", word[0].line if word else line),) if place else ()), *word)
        )
        if "e" in options:
            joined = tuple(replace(one, text=_ESCAPE.sub(lambda f: _ESCAPES[f[0]], one.text)) for one in joined)
        self._emit((*joined, Piece("\n", joined[-1].line if joined else line)), line)

    def _do_printf(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        if len(words) < 2:
            return
        form, given = words[1], list(words[2:])
        made: list[Piece] = []
        rest = iter(given)
        for piece in form:
            shown = _ESCAPE.sub(lambda found: _ESCAPES[found[0]], piece.text)
            end = 0
            for found in _PRINTF.finditer(shown):
                made.append(replace(piece, text=shown[end : found.start()]))
                made += [replace(piece, text="%")] if found[1] == "%" else next(rest, ())
                end = found.end()
            made.append(replace(piece, text=shown[end:]))
        self._emit(tuple(made), line)

    def _do_cat(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        for one in text:
            self._emit((*one, Piece("\n", one[-1].line if one else line)), line)

    def _do_tee(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        more = any(text_of(word) in ("-a", "--append") for word in words[1:])
        for word in words[1:]:
            if not text_of(word).startswith("-"):
                self.write(self.path(text_of(word)), text, line, more=more, known=bool(text))
        self._do_cat(line, words, text)

    def _do_time(self, line: int, words: list[Value], text: Sequence[Value]) -> None:
        rest = words[1:]
        while rest and text_of(rest[0]).startswith("-"):
            rest = rest[1:]
        self._command(line, list(rest), (), text)

    _do_nohup = _do_time
    _do_builtin = _do_time
    _do_command = _do_time


def _is_test(node: Node) -> bool:
    if isinstance(node, Chain):
        return _is_test(node.first)
    if isinstance(node, Pipe) and node.nodes:
        return _is_test(node.nodes[-1])
    if not isinstance(node, Simple) or not node.words or not node.words[0]:
        return False
    part = node.words[0][0]
    return isinstance(part, Text) and part.text in _TESTS


def _source(part: Text | Variable | Computed) -> str:
    return part.text if isinstance(part, Text) else part.source


def _text(part: Text | Variable | Computed) -> str:
    return part.text if isinstance(part, Text) else "?"


def behind(value: Value, count: int) -> Value:
    """Give a value without its first characters."""
    found: list[Piece] = []
    for piece in value:
        cut = min(count, len(piece.text))
        count -= cut
        if cut < len(piece.text):
            found.append(replace(piece, text=piece.text[cut:]))
    return tuple(found)
