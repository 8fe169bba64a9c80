"""Whether a setting of a script can act: its value, the library's version, the program's work, other settings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from stripewise.catalogue.carriers import HINT
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.filesystems import CRAYS
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.plan import spell
from stripewise.catalogue.stack import Stack, every_stack
from stripewise.catalogue.vocabulary import words_of
from stripewise.diagnose.script import ScriptSetting
from stripewise.diagnose.surroundings import MPI, Surroundings
from stripewise.errors import UserError
from stripewise.sizes import parse_size

_WORDS = (Kind.CATEGORICAL, Kind.BOOLEAN)
_LONGEST = 100
"""Characters that a number may have."""


class Values:
    """What a script sets in all, as expressions of the stacks see it.

    Parameters
    ----------
    where : Surroundings
    knobs : sequence of ScriptSetting
        Those that reach the program.
    """

    def __init__(self, where: Surroundings, knobs: Sequence[ScriptSetting]) -> None:
        given: dict[str, str] = {}
        several: set[str] = set()
        targets = {knob.target for knob in knobs if knob.target and knob.form != "romio_file"}
        in_branches: defaultdict[tuple[int, ...], set[str]] = defaultdict(set)
        for knob in knobs:
            # What one folder or one pattern of files gets, others do not.
            elsewhere = knob.target in targets and len(targets) > 1
            if given.setdefault(knob.name, knob.value) != knob.value or elsewhere:
                several.add(knob.name)
            in_branches[knob.block].add(knob.name)
        workload = where.workload
        if where.file_system and workload.file_system is None:
            workload = workload.model_copy(update={"file_system": where.file_system})
        words: dict[str, Any] = {**workload.words()}
        for stack in every_stack():
            words |= {p.name: _default(p, words) for p in stack.parameters if p.name not in words}
        self._parameters = parameters = [p for stack in every_stack() for p in stack.parameters]
        words |= {p.name: _typed(p, given[p.setting]) for p in parameters if p.setting in given}
        self.words = words
        self.given = frozenset(p.name for p in parameters if p.setting in given)
        self._several = several
        self._branches = in_branches
        self._conditional = frozenset(name for block, names in in_branches.items() if block for name in names)

    def unsure(self, knob: ScriptSetting, parameter: Parameter) -> frozenset[str]:
        """Name the parameters that may have other values where a setting acts: other branches, folders, launches."""
        around = [self._branches.get(knob.block[:depth], set()) for depth in range(len(knob.block) + 1)]
        unsure = self._several | self._conditional.difference(*around)
        return frozenset(p.name for p in self._parameters if p.setting in unsure) - {parameter.name}

    def with_own(self, knob: ScriptSetting, parameter: Parameter) -> dict[str, Any]:
        """Give the words where a setting has the value of one place."""
        return {**self.words, parameter.name: _typed(parameter, knob.value)}


def meaningless(knob: ScriptSetting, stack: Stack, parameter: Parameter, where: Surroundings, values: Values) -> str:
    """Say why a setting cannot act on this program here; empty if it can."""
    if parameter.kind in _WORDS:
        words = words_of(parameter)
        if words is not None and not _is_word(knob.value, words, parameter) and "$" not in knob.value:
            return f"'{knob.value}' is not one of {', '.join(words)}: the library ignores it without a message"
    elif _number(knob.value, parameter) is None and "$" not in knob.value:
        return f"'{knob.value}' is not a number: the library ignores it silently"
    io = "ompio" if where.mpi == "openmpi" else "romio"
    if parameter.io_component and io not in parameter.io_component:
        return f"{'/'.join(parameter.io_component)} reads it, and the program's MPI-IO is {io}"
    if stack.name == "cray" and where.mpi != "cray":
        return f"Cray MPICH alone knows it, and the program uses {MPI[where.mpi]}"
    if parameter.driver and where.file_system and not where.file_system.upper().startswith(parameter.driver):
        return f"it acts on {systems_of(parameter)} alone, the files lie on {where.file_system}"
    version = _other_version(parameter, where)
    if version:
        return version
    operation = where.workload.operation
    if operation in ("read", "write") and operation not in parameter.operations:
        return f"it acts on {parameter.operations[0]}s alone, the program {operation}s"
    return _inactive(knob, parameter, where, values)


def systems_of(parameter: Parameter) -> str:
    """The file systems under whose drivers a parameter acts."""
    return " or ".join(word.lower() for word in parameter.driver if word != CRAYS)


def misread(knob: ScriptSetting, parameter: Parameter) -> tuple[str, str]:
    """Say what a library reads where it is not what the writer means, and what to write; empty if it is."""
    meant = _size(knob.value)
    if parameter.carrier is not HINT or parameter.kind in _WORDS or meant is None:
        return "", ""
    read = _number(knob.value, parameter)
    if read is None or read == meant:
        return "", ""
    return f"ROMIO reads digits alone: '{knob.value}' is {int(read):,} for it", f"write {int(meant)}"


def _is_word(value: str, words: Sequence[str], parameter: Parameter) -> bool:
    # ROMIO compares with the word in small letters, and with the word in capitals.
    return value in words or (parameter.carrier is HINT and value.isupper() and value.lower() in words)


def _inactive(knob: ScriptSetting, parameter: Parameter, where: Surroundings, values: Values) -> str:
    """Whether other settings of the script, or the workload, leave it without meaning."""
    workload, words = where.workload, values.with_own(knob, parameter)
    unsure = values.unsure(knob, parameter)
    worlds = [words]
    if workload.collective is None:
        # Both kinds of calls may be made, or one alone.
        worlds += [{**words, "independent": False}, {**words, "collective": False}]
    if (
        parameter.active_if is not None
        and not parameter.active_if.names & unsure
        and not any(_true(parameter.active_if, world) for world in worlds)
    ):
        because = [
            f"{name} is {spell(words[name])}"
            for name in sorted(parameter.active_if.names)
            if name in values.given or name in ("collective", "independent", "reads", "writes", "file_system")
        ]
        return f"it has a meaning only where {_flat(parameter.active_if)}" + (
            f"; here {', '.join(because)}" if because else ""
        )
    if "$" not in knob.value and _is_default(parameter, _typed(parameter, knob.value)):
        return "the library does the same without it: this is its default"
    same = parameter.same_as_default
    if same is not None and not same.names & unsure and "$" not in knob.value and _true(same, words):
        return "here it does what the default does anyway"
    return ""


def _is_default(parameter: Parameter, value: Any) -> bool:
    """Whether the library's own default is known, and is this."""
    known = parameter.default_from is None and not parameter.carrier.of_file_system
    return known and bool(value == parameter.default)


def _true(expression: Expression, words: Mapping[str, Any]) -> bool:
    if not expression.names <= words.keys():
        return False
    try:
        return bool(expression(words))
    except UserError:
        return True


def _default(parameter: Parameter, words: Mapping[str, Any]) -> Any:
    if parameter.default_from is not None and parameter.default_from.names <= words.keys():
        return parameter.default_from(words)
    return parameter.default


def _typed(parameter: Parameter, text: str) -> Any:
    if parameter.kind is Kind.BOOLEAN:
        return text.lower() in ("true", "1", "enable", "yes")
    if parameter.kind is Kind.CATEGORICAL:
        return text.lower() if parameter.carrier is HINT else text
    number = _number(text, parameter)
    return parameter.default if number is None else number


def _number(text: str, parameter: Parameter) -> float | None:
    """Give the number that a library reads."""
    if parameter.carrier is HINT:
        # ROMIO uses atoi: the digits at the beginning.
        found = re.match(r"\s*([+-]?\d{1,18})", text)
        return float(found[1]) if found else None
    return _size(text)


def _size(text: str) -> float | None:
    """Give the number that a person means, with a unit or without."""
    if len(text) > _LONGEST:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        # lfs takes 4m and 1g.
        short = re.fullmatch(r"(\d+)([kmgt])", text.strip(), re.I)
        return float(parse_size(f"{short[1]} {short[2].upper()}iB" if short else text))
    except (UserError, ValueError):
        return None


def _other_version(parameter: Parameter, where: Surroundings) -> str:
    if not where.version or where.mpi not in ("mpich", "openmpi", "openmpi-romio"):
        return ""
    have = _parts(where.version)
    if parameter.since and have < _parts(parameter.since):
        return f"the library knows it since {parameter.since}, the program uses {where.version}"
    if parameter.until and have[: len(_parts(parameter.until))] > _parts(parameter.until):
        return f"the library knew it until {parameter.until}, the program uses {where.version}"
    return ""


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _flat(expression: Expression) -> str:
    return re.sub(r"\s+", " ", expression.text).strip()
