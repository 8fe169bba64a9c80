"""I/O settings of a job script: which line sets what, how, and which programs find it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from pathlib import PurePosixPath

from stripewise.catalogue.filesystems import FILE_SYSTEMS
from stripewise.catalogue.meaning import versions_in
from stripewise.diagnose.bash_reader import Clock, read_bash, replace_blocks
from stripewise.diagnose.csh_reader import is_csh, read_csh
from stripewise.diagnose.script_launch import (
    Facts,
    Launch,
    is_directive,
    is_script,
    read_directive,
    read_launch,
    read_options,
)
from stripewise.diagnose.script_setting import (
    NAME,
    Scene,
    Script,
    ScriptSetting,
    find_adios_settings,
    find_hint_line,
    find_hints,
    find_passed_over,
    is_hint,
    is_own,
    may_set_something,
    read_variable,
)
from stripewise.diagnose.shell_run import Interpreter, behind
from stripewise.diagnose.shell_state import ABSENT, Alternative, Piece, Reached, Value, base_name, is_known, text_of
from stripewise.diagnose.shell_tree import Node
from stripewise.errors import UserError
from stripewise.runners.program.command import SCHEDULERS
from stripewise.runners.program.shell_commands import MAKES_FILES, STARTS_NOTHING
from stripewise.shell import SHELLS

Files = Callable[[str], str | None]
"""Gives the text of a file by the path that a script names; None where it is not at hand."""

_SUBMITTERS = frozenset({"ssh", *SCHEDULERS, *SHELLS})
_LOADING = frozenset({"load", "add", "swap", "switch", "try-load"})
_ASSIGN = re.compile(rf"({NAME})=(.*)", re.DOTALL)
_READ = re.compile(rf"\$\{{?({NAME})")
_SOURCING = re.compile(r"(?:^|[;&|])[ \t]*(?:source|\.)\s", re.MULTILINE)
_FILE_NAME = re.compile(r"[\w.+-]+")
_LARGE = 8192
"""Characters of a script that is not followed where no word of it may set anything."""
_MOST = 1000
"""Settings of a script that are judged."""
_NESTED = 4
"""Scripts within scripts that are read."""
_MOST_SCRIPTS = 50
"""Scripts that a script holds."""
_MOST_SCENES = 12
"""Sets of settings that are told apart; those behind them count as one."""
_HINT_LINES = 150
"""Lines of a hints file: ROMIO reads less than 4096 bytes."""


def parse_script(text: str, files: Files | None = None, folders: Sequence[str] = ()) -> Script:
    """Find the I/O settings of a job script, of program text, or of a hints file.

    The time grows with the length of the text, whatever it holds.

    Parameters
    ----------
    files : callable, optional
        Gives the scripts that it reads; none are at hand without it.
    folders : sequence of str
        Variables that name the folder from which the job is submitted.

    Raises
    ------
    UserError
        If it has more than a thousand, or cannot be read as a shell script in time.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").replace("\x0b", " ").replace("\x0c", " ")
    lines = list(enumerate(text.split("\n"), start=1))
    hints = _read_pasted_hints(lines)
    if hints:
        _check_number(len(hints), hints[-1].line)
        made = tuple(replace(one, mark=mark, scenes=(0,)) for mark, one in enumerate(hints))
        return Script(made, (((tuple(one.mark for one in made),),),), hints_file=1)
    reads_others = files is not None and _SOURCING.search(text)
    if len(text) > _LARGE and not reads_others and not may_set_something(text):
        return Script()
    reader = _ScriptReader(text, [number for number, _ in lines], Clock(), files, folders, 0)
    reader.read()
    return reader.script()


def _check_number(count: int, line: int) -> None:
    if count > _MOST:
        raise UserError(f"line {line}: more than {_MOST:,} settings", "paste the job script alone")


def _read_pasted_hints(lines: Sequence[tuple[int, str]]) -> list[ScriptSetting]:
    """Read text as a hints file if half of its lines are hints; give nothing otherwise."""
    if any(raw.startswith("#!") or is_directive(raw) for _, raw in lines):
        return []
    bare = [
        (number, raw.partition(" #")[0]) for number, raw in lines if raw.strip() and not raw.lstrip().startswith("#")
    ]
    found = [one for number, text in bare if (one := find_hint_line((Piece(text, number),), ""))]
    if not found or 2 * sum(is_hint(one) for one in found) < len(bare):
        return []
    return found


_NOTHING_EXPORTED = re.compile(r"#SBATCH\s+([^#]*\s)?--export[=\s]NONE\b")
_EXPORT_AGAIN = re.compile(r"\bS(LURM|RUN)_EXPORT_ENV\b")
"""The variables by which the option of a job reaches its calls of srun; scripts that know them change that."""


def _find_clean_container(texts: Sequence[str]) -> tuple[str, str] | None:
    """Give a command's container and its option by which that starts without the variables of the script."""
    place = next((at for at, word in enumerate(texts) if base_name(word) in ("apptainer", "singularity")), None)
    if place is None:
        return None
    options = list(takewhile(lambda word: word.startswith("-"), texts[place + 2 :]))
    clean = ("--cleanenv", "--containall")
    found = (word for word in texts[place + 2 :] if word in clean or (word in ("-e", "-C") and word in options))
    return next(((texts[place], word) for word in found), None)


class _ScriptReader(Interpreter):
    """Collects the settings of a script, and what programs find of them."""

    def __init__(
        self, text: str, numbers: Sequence[int], clock: Clock, files: Files | None, folders: Sequence[str], depth: int
    ) -> None:
        super().__init__(folders, len(text))
        self._text, self._numbers, self._clock = text, numbers, clock
        self._files, self._depth, self._submitted = files, depth, tuple(folders)
        self._facts = Facts()
        self._found: dict[ScriptSetting, int] = {}
        self._seen: set[int] = set()
        self._launched: set[int] = set()
        self._gone: dict[int, tuple[str, int]] = {}
        self._kept: set[int] = set()
        self._left: dict[int, str] = {}
        self._hidden: set[int] = set()
        self._uncalled: dict[int, str] = {}
        self._function = ""
        self._scenes: list[Scene] = []
        self._scene_of: dict[int, set[int]] = defaultdict(set)
        self._starts = self._launches = False
        self._texts: dict[str, list[list[Value]]] = {}
        self._line_marks: dict[int, int | None] = {}
        self._cut: dict[int, int] = {}
        self._hints: list[tuple[int, str]] = []
        self._hints_seen: tuple[int, str] | None = None
        self._nested: list[_ScriptReader] = []
        self._included = ""
        self._keeping_back = 0
        """The line with the option of the job by which srun passes no variable of the script on."""
        self._kept_back: tuple[str, str, int] | None = None
        """What passes none on where it acted, and by which option of which line."""
        self._passed_on = False
        """Whether a launcher passed them on."""

    # -- reading -------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Go through the script."""
        for number, raw in enumerate(self._text.split("\n"), start=1):
            for name, value in read_directive(raw, number):
                self._facts.read_variable(name, text_of(value), number, always=True)
                self.set_variable(name, [Alternative(value)], number, exported=True)
            if _NOTHING_EXPORTED.match(raw) and not _EXPORT_AGAIN.search(self._text):
                self._keeping_back = number
        self.run(self.parse(self._text, 1))
        if not self._launches:
            # Who reads this script, or what it starts under another name, finds what is set at its end.
            self._see((), sure=False, final=True)
        self._close_files()
        self._read_exported_options()
        for function in self.finish():
            self._function = (
                f"nothing in the script calls the function {function.name} of line {self._number(function.line)}"
            )
        self._function = ""
        lines = list(zip(self._numbers, self._text.split("\n"), strict=False))
        marks = [self._mark(one) for one in find_hints(lines)]
        self._seen.update(marks)
        self._add_scene([(tuple(marks),)])
        self._close_hint_files()
        self._read_written_scripts()

    def _number(self, line: int) -> int:
        return (
            self._numbers[line - 1] if 0 < line <= len(self._numbers) else self._numbers[-1] if self._numbers else line
        )

    def parse(self, text: str, line: int) -> Node:
        """Read shell text, by the grammar of its shell."""
        text = replace_blocks(text)
        return read_csh(text, line) if is_csh(text) else read_bash(text, self._clock, line)

    def include(self, path: str, line: int) -> Node | None:
        """Give a script that is at hand."""
        text = self._files(path) if self._files is not None and "$" not in path and "`" not in path else None
        return None if text is None else self.parse(text.replace("\r\n", "\n"), 1)

    def run_included(self, node: Node, path: str) -> None:
        """Go through a script that is read into this one: its lines are not those of this one."""
        before, self._included = self._included, path
        self.run(node)
        self._included = before

    # -- settings ------------------------------------------------------------------------------------------

    def _mark(self, setting: ScriptSetting) -> int:
        """Give the number of a setting, a new one for a new setting."""
        if setting not in self._found:
            _check_number(len(self._found) + 1, self._number(setting.line))
            if self._included:
                setting = replace(setting, file=self._included)
            self._found[setting] = mark = len(self._found)
            if self._function:
                self._uncalled[mark] = self._function
            elif self.ended:
                self._gone[mark] = ("end", self.ended)
        return self._found[setting]

    def mark(self, name: str, value: Value, line: int) -> tuple[int, ...]:
        """Give the settings that a variable with a value makes."""
        if name == "ROMIO_HINTS":
            self._hints.append((line, text_of(value)))
        self._facts.read_variable(name, text_of(value), line, always=not self.conditional)
        return tuple(self._mark(one) for one in read_variable(name, value, line, exported=True))

    def lose(self, marks: Sequence[int], line: int, how: str) -> None:
        """Note that settings are gone from a way."""
        if how == "jump":
            self._kept.update(marks)
        else:
            for mark in marks:
                self._gone[mark] = (how, line)

    # -- commands ------------------------------------------------------------------------------------------

    def start(
        self, words: Sequence[Value], line: int, bound: Sequence[tuple[str, Value]], text: Sequence[Value]
    ) -> None:
        """Note a command."""
        texts = [text_of(word) for word in words]
        first = base_name(texts[0])
        always = not self.conditional
        if first == "env":
            for place, word in enumerate(words[1:], start=1):
                if found := _ASSIGN.fullmatch(texts[place]):
                    bound = [*bound, (found[1], behind(word, len(found[1]) + 1))]
                elif not texts[place].startswith("-"):
                    self.start(words[place:], line, bound, text)
                    return
            return
        if first in ("module", "ml"):
            if first == "ml" or (len(texts) > 1 and texts[1] in _LOADING):
                for module in texts[1:]:
                    if not module.startswith("-") and module not in _LOADING:
                        self._facts.read_module(module, line, always=always)
            return
        if first in ("setenv", "unsetenv"):
            self._set_as_csh(first, words, line)
            return
        launch = Launch() if first in STARTS_NOTHING else read_launch(words)
        self._facts.read_command(texts, launch, line, always=always)
        if container := _find_clean_container(texts):
            self._kept_back = (base_name(container[0]), container[1], line)
        elif launch.launcher:
            self._read_export(texts, line, by_srun=base_name(launch.launcher) == "srun")
        if first in ("cp", "mv") or (first == "ln" and len(words) > 2):
            self._copy(texts)
        self._read_layouts(words, texts, line)
        if first in MAKES_FILES and not self.ended:
            self._see_layouts()
        if first in STARTS_NOTHING:
            return
        sure = bool(launch.launcher)
        variables = [*bound, *launch.variables]
        for name, value in variables:
            self._facts.read_variable(name, text_of(value), line, always=always)
        self._read_inner(words, texts, text, line)
        if not self.ended:
            self._starts = True
        self._launches = self._launches or sure
        groups: dict[str, tuple[int, ...]] = {}
        for name, value in variables:
            if name == "ROMIO_HINTS":
                self._hints.append((line, text_of(value)))
            marks = [self._mark(replace(one, bound=True)) for one in read_variable(name, value, exported=True)]
            groups[f"v:{name}"] = tuple(marks)
        for name, value in launch.mca:
            made = list(read_variable(f"OMPI_MCA_{name}", value, exported=True))
            marks = [
                self._mark(replace(one, line=value[0].line if value else line, variable="", bound=True)) for one in made
            ]
            groups[f"v:OMPI_MCA_{name}"] = tuple(marks)
        for key in groups:
            self.lose([mark for one in self.state.get(key) or () for mark in one.marks], line, "launch")
        hints = [text_of(value) for name, value in variables if name == "ROMIO_HINTS"]
        self._see(tuple(groups.items()), sure=sure, hints=hints)

    def _read_export(self, texts: Sequence[str], line: int, *, by_srun: bool) -> None:
        """Note whether a launch passes the variables of the script on."""
        own = next((place for place, word in enumerate(texts) if re.match("--export(=|$)", word)), None)
        if own is not None:
            kept = line if "--export=NONE" in texts or texts[own + 1 : own + 2] == ["NONE"] else 0
        else:
            kept = self._keeping_back
        if by_srun and kept:
            self._kept_back = ("srun", "--export=NONE", kept)
        else:
            self._passed_on = True

    def _set_as_csh(self, first: str, words: Sequence[Value], line: int) -> None:
        if first == "unsetenv":
            for word in words[1:]:
                self.unset(text_of(word), line)
        elif len(words) > 2 and re.fullmatch(NAME, text_of(words[1])):
            self.set_variable(text_of(words[1]), [Alternative(words[2])], line, exported=True)

    def _read_inner(self, words: Sequence[Value], texts: Sequence[str], text: Sequence[Value], line: int) -> None:
        """Go through a script that is a word of the command, or that it reads."""
        for place, word in enumerate(texts[:60]):
            if base_name(word) not in _SUBMITTERS:
                continue
            script = next((i for i in range(place + 1, len(texts) - 1) if re.fullmatch(r"-[a-z]*c", texts[i])), None)
            if script is not None and base_name(word) in SHELLS:
                value = words[script + 1]
                self.state.begin()
                self.run_text(text_of(value), value[0].line if value else line)
                self.leave_shell()
                return
            if (text and not place) or (text and base_name(word) in SHELLS):
                self._read_nested(list(text))
                return

    # -- layouts -------------------------------------------------------------------------------------------

    def _read_layouts(self, words: Sequence[Value], texts: Sequence[str], line: int) -> None:
        if {*map(base_name, texts)}.isdisjoint(word for system in FILE_SYSTEMS for word in system.command[:1]):
            return
        unknown = {text_of(word) for word in words if not is_known(word)}
        for system in FILE_SYSTEMS:
            found = list(system.in_script(texts))
            if not found:
                continue
            refused = system.refused_words(texts)
            target = self.path(texts[-1])
            marks = []
            for component, name, value in found:
                known = "$" not in value and not any(value and value in one for one in unknown)
                setting = ScriptSetting(
                    line, name, value, "commands", layer=system.name, target=target, known=known,
                    fault=refused[0] if refused else "", cure=refused[1] if refused else "", component=component,
                )  # fmt: skip
                marks.append(self._mark(setting))
            key = f"l:{system.name} {target}"
            before = self.state.get(key) or ()
            self.lose([mark for one in before for mark in one.marks if mark not in marks], line, "again")
            self.state.put(key, (Alternative((), marks=tuple(marks)),))
            self.marked.add(key)
            self.state.put("version", object())

    def _see_layouts(self) -> None:
        for key in self.marked:
            if key.startswith("l:"):
                self._seen.update(mark for one in self.state.get(key) or () for mark in one.marks)

    # -- files ---------------------------------------------------------------------------------------------

    def write(self, path: str, lines: Sequence[Value], line: int, *, more: bool, known: bool) -> None:
        """Note lines that go into a file."""
        key = f"f:{path}"
        segments = self._texts.setdefault(path, [])
        before = self.state.get(key) or ABSENT
        if not more or not segments:
            segments.append([])
        if not more:
            for one in before:
                for item in one.items or ():
                    self._cut[id(item)] = line
            before = ABSENT
        segments[-1] += lines
        made = [replace(one, items=(*(one.items or ()), *lines)[:_HINT_LINES]) for one in before]
        self.state.put(key, tuple(made))
        if any(len(text_of(one).split()) == 2 or "=" in text_of(one) for one in lines):
            self.marked.add(key)
            self.state.put("version", object())

    def _copy(self, texts: Sequence[str]) -> None:
        *sources, target = [word for word in texts[1:] if not word.startswith("-")] or [""]
        place = self.path(target)
        for source in sources[:20]:
            path = self.path(source)
            # Written under another name, so that nobody reads a part of it.
            if base_name(texts[0]) == "mv" and path.startswith(f"{place}.") and path in self._texts:
                self._texts.setdefault(place, []).extend(self._texts.pop(path))
            held = self.state.get(f"f:{path}")
            if held:
                self.state.put(f"f:{place}", held)
                self.state.put(f"f:{PurePosixPath(place) / PurePosixPath(source).name}", held)
                self.state.put("version", object())

    def _hint_marks(self, lines: Sequence[Value], path: str) -> tuple[int, ...]:
        marks = []
        for line in lines:
            if id(line) not in self._line_marks:
                found = find_hint_line(line, path)
                self._line_marks[id(line)] = None if found is None else self._mark(found)
            if (mark := self._line_marks[id(line)]) is not None:
                marks.append(mark)
        return tuple(marks)

    def _read_exported_options(self) -> None:
        """Read options of launchers in exported variables, which the script leaves to another program."""
        for key in tuple(self.state.keys()):
            for one in self.state.get(key) or () if key.startswith("v:") else ():
                if not one.exported or not one.value or (launch := read_options(one.value)) is None:
                    continue
                found = [(name, value) for name, value in launch.variables]
                found += [(f"OMPI_MCA_{name}", value) for name, value in launch.mca]
                for name, value in found:
                    self._facts.read_variable(name, text_of(value), value[0].line if value else 0, always=True)
                made = [one for name, value in found for one in read_variable(name, value, exported=True)]
                marks = [self._mark(replace(setting, bound=True)) for setting in made]
                self._left.update(dict.fromkeys(marks, key.removeprefix("v:")))
                self._add_scene([((mark,),) for mark in marks])

    def _named(self, path: str) -> list[str]:
        """Give the written files that a name stands for: those of the same name."""
        place = self.path(path)
        if place in self._texts:
            return [place]
        name = PurePosixPath(place).name
        return [one for one in self._texts if PurePosixPath(one).name == name] if name and "$" not in name else []

    # -- what programs find --------------------------------------------------------------------------------

    def _see(
        self,
        bound: Sequence[tuple[str, tuple[int, ...]]],
        *,
        sure: bool,
        hints: Sequence[str] = (),
        final: bool = False,
    ) -> None:
        """Note what a program finds that starts here."""
        if self.ended and not final:
            return
        version = self.state.get("version")
        if not bound and self.state.get("looked") == (version, sure):
            return
        self.state.put("looked", (version, sure) if not bound else None)
        groups: dict[str, tuple[tuple[tuple[int, ...], bool], ...]] = {}
        for key in self.marked:
            held: Sequence[Alternative] = self.state.get(key) or ()
            if key.startswith("v:"):
                self._hidden.update(mark for one in held if not one.exported for mark in one.marks)
                if any(one.marks for one in held if one.exported):
                    groups[key] = tuple((one.marks if one.exported else (), one.weak) for one in held)
            elif key.startswith("l:") and any(one.marks for one in held):
                groups[key] = tuple((one.marks, one.weak) for one in held)
        groups.update({key: ((marks, False),) for key, marks in bound})
        named = list(hints) or self._exported_hints()
        for path in dict.fromkeys(one for text in named for one in self._named(text)):
            held = [one for one in self.state.get(f"f:{path}") or () if one.items is not None]
            if held:
                groups[f"f:{path}"] = tuple((self._hint_marks(one.items or (), path), one.weak) for one in held)
        soles: set[int] = set()
        for alternatives in groups.values():
            strong = [marks for marks, weak in alternatives if not weak]
            found = [mark for marks, _ in alternatives for mark in marks]
            self._seen.update(found)
            if sure:
                self._launched.update(found)
            if len(strong) == 1 or len(alternatives) == 1:
                soles.update(strong[0] if strong else alternatives[0][0])
            elif strong:
                soles.update(frozenset.intersection(*(frozenset(marks) for marks in strong)))
        for kind in ("any", "sure") if sure else ("any",):
            reached: Reached = self.state.get(f"reached:{kind}")
            self.state.put(f"reached:{kind}", reached.add(frozenset(soles)))
        self._add_scene([tuple(marks for marks, _ in alternatives) for alternatives in groups.values()])

    def _exported_hints(self) -> list[str]:
        found = []
        for one in self.state.get("v:ROMIO_HINTS") or ():
            if one.value is not None and one.exported:
                text = text_of(one.value)
                found.append(text)
                if self._hints_seen is None:
                    self._hints_seen = next((pair for pair in self._hints if pair[1] == text), (0, text))
        return found

    def _add_scene(self, groups: Sequence[tuple[tuple[int, ...], ...]]) -> None:
        scene: Scene = tuple(one for one in groups if any(one))
        if not scene:
            return
        if len(self._scenes) < _MOST_SCENES:
            if scene not in self._scenes:
                self._scenes.append(scene)
            place = self._scenes.index(scene)
        else:
            # What is not told apart may be together with anything.
            place = -1
        for mark in chain.from_iterable(chain.from_iterable(scene)):
            self._scene_of[mark].add(place)

    # -- the end -------------------------------------------------------------------------------------------

    def _close_files(self) -> None:
        """Keep layouts that nothing in the script uses: their folders outlast it."""
        for key in self.marked:
            if key.startswith("l:"):
                for one in self.state.get(key) or ():
                    self._kept.update(mark for mark in one.marks if mark not in self._seen)

    def _close_hint_files(self) -> None:
        """Read the files that look like hints files, or like ADIOS2's, whether or not something names them."""
        names = {PurePosixPath(text).name for _, text in self._hints}
        mentioned = Counter(_FILE_NAME.findall(self._text))
        for path, segments in self._texts.items():
            name = PurePosixPath(path).name
            lines = [line for segment in segments for line in segment]
            if any("adios-config" in text_of(line) or "RunTimeConfig" in text_of(line) for line in lines[:20]):
                marks = [self._mark(one) for line in lines for one in find_adios_settings(line, path)]
                self._seen.update(marks)
                self._add_scene([(tuple(marks),)])
                continue
            filled = [line for line in lines if (text := text_of(line).strip()) and not text.startswith("#")]
            found = [one for line in filled[:_MOST] if (one := find_hint_line(line, path))]
            known = sum(is_hint(one) for one in found)
            named = name in names
            if named:
                passed_over = [one for line in filled[:_MOST] if (one := find_passed_over(line, path))]
                self._seen.update([self._mark(one) for one in passed_over])
            if not known or (not named and 2 * known < len(filled)):
                continue
            kept = [line for line in filled if named or ((one := find_hint_line(line, path)) and is_hint(one))]
            marks = list(self._hint_marks(kept, path))
            for line in kept:
                if (mark := self._line_marks.get(id(line))) is not None and id(line) in self._cut:
                    self._gone[mark] = ("cut", self._cut[id(line)])
            if not named:
                writes = sum(len(segment) > 0 for segment in segments)
                other = (
                    self._starts and not self._hints and mentioned[name] <= max(writes, len(lines)) and "$" not in path
                )
                ior = all(one.form == "ior" for one in found)
                if other and not ior:
                    self._gone.update(dict.fromkeys(marks, ("unnamed", 0)))
                else:
                    self._seen.update(marks)
                    self._add_scene([(tuple(marks),)])

    def _read_written_scripts(self) -> None:
        for segments in list(self._texts.values()):
            for segment in segments:
                if is_script([text_of(line) for line in segment[:400]]):
                    self._read_nested(segment)

    def _read_nested(self, lines: Sequence[Value]) -> None:
        """Read a script that this one holds."""
        if self._depth >= _NESTED or len(self._nested) >= _MOST_SCRIPTS or not lines:
            return
        numbers = [self._number(line[0].line) if line else 0 for line in lines]
        for place in range(len(numbers)):
            if not numbers[place]:
                numbers[place] = numbers[place - 1] + 1 if place else self._number(1)
        text = "\n".join(text_of(line) for line in lines)
        inner = _ScriptReader(text, numbers, self._clock, self._files, self._submitted, self._depth + 1)
        inner.read()
        self._nested.append(inner)

    def script(self) -> Script:
        """Give what was found."""
        read = {found[1] for found in _READ.finditer(self._text)}
        # Commands of unknown sorts count only for what no launcher finds.
        by_any, by_launcher = (self.state.get(f"reached:{kind}").marks or frozenset() for kind in ("any", "sure"))
        reached = by_launcher | (by_any - self._launched)
        settings = []
        for setting, mark in self._found.items():
            if is_own(setting, read, hidden=mark in self._hidden and mark not in self._seen):
                continue
            made = replace(
                setting,
                line=setting.line if setting.file else self._number(setting.line),
                mark=mark,
                scenes=tuple(sorted(self._scene_of.get(mark, ()))),
            )
            settings.append(self._with_place(made, mark, reached))
        shown = {name: self._facts.shown(name) for name in ("mpi", "file_system")}
        hints = self._hints_seen or (self._hints[-1] if self._hints_held() else None)
        gone = ""
        if hints and self._hints_seen is None and self._launches:
            exported = any(one.exported for one in self.state.get("v:ROMIO_HINTS") or ())
            gone = (
                "ROMIO_HINTS is set after the last program was started"
                if exported
                else "ROMIO_HINTS is a variable of the shell: without export no program sees it"
            )
        return Script(
            tuple(sorted(settings, key=lambda one: (one.line, one.mark))),
            tuple(self._scenes),
            self._number(hints[0]) if hints else None,
            hints[1] if hints else "",
            gone,
            tuple(self._texts),
            shown["mpi"][0],
            shown["file_system"][0],
            {name: (fact.what, self._number(fact.line)) for name, (_, fact, _) in shown.items() if fact is not None},
            {name: why for name, (_, _, why) in shown.items() if why},
            {name: self._facts.values(name) for name, (_, _, why) in shown.items() if why},
            tuple(one.script() for one in self._nested),
            versions_in(self._facts.modules),
        )

    def _hints_held(self) -> bool:
        return bool(self._hints) and any(one.value is not None for one in self.state.get("v:ROMIO_HINTS") or ())

    def _with_place(self, setting: ScriptSetting, mark: int, reached: frozenset[int]) -> ScriptSetting:
        """Add whether programs find a setting."""
        if setting.form in ("hint", "adios2"):
            return setting
        if mark in self._uncalled:
            return replace(setting, unsure=self._uncalled[mark])
        if self._kept_back and not self._passed_on and mark in self._seen and setting.variable and not setting.bound:
            who, option, line = self._kept_back
            told = f"by {option} in line {self._number(line)}, {who} passes no variable of the script on"
            return replace(setting, unsure=told)
        if mark in self._seen:
            return replace(setting, partly=mark not in reached and setting.form != "commands" and self._starts)
        if mark in self._left:
            return replace(
                setting, unsure=f"{self._left[mark]} holds it among options that nothing here gives to a launcher"
            )
        how, line = self._gone.get(mark, ("late", 0))
        if how == "unnamed":
            return replace(
                setting,
                gone="no line sets ROMIO_HINTS to the file's path, so nothing reads it",
                cure="export ROMIO_HINTS=PATH",
            )
        if self.involved:
            return replace(setting, unsure="the script is too large to be followed on all its ways")
        if mark in self._kept:
            if setting.form == "commands":
                return replace(
                    setting, unsure="nothing in the script makes a file after it, but its folder keeps the layout"
                )
            return replace(setting, unsure="a jump out of a loop or a function may skip it")
        if mark in self._hidden and how != "again":
            return replace(
                setting,
                gone="it is a variable of the shell: without export no program sees it",
                cure="write export before it",
            )
        number = self._number(line) if line else 0
        if how == "again" and number == setting.line:
            return replace(setting, unsure="this line may set another value, too")
        told, cure = {
            "again": (f"line {number} sets it again before anything is started", "keep one of them"),
            "unset": (
                f"line {number} unsets {setting.variable} before anything is started",
                "remove one of the two lines",
            ),
            "cut": (
                f"line {number} writes the file anew before anything is started",
                "write >> there, or keep one of them",
            ),
            "launch": (f"line {number} starts the program with another value", "keep one of them"),
            "end": (f"line {number} ends the script before anything is started", "move it before that line"),
            "shell": (
                "a shell of its own sets it, and ends before anything is started",
                "set it outside of the parentheses",
            ),
            "late": ("it comes after the last program was started", "move it before the launch"),
        }[how]
        return replace(setting, gone=told, cure=cure)
