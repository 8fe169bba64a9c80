"""Whether a setting of a script can act: its value, the library's version, the program's work, other settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stripewise.diagnosis.script import ScriptSetting
from stripewise.diagnosis.surroundings import MPI, Surroundings
from stripewise.errors import UserError
from stripewise.filesystems import CRAYS
from stripewise.spec.expression import Expression
from stripewise.spec.parameter import Kind, Parameter
from stripewise.spec.plan import spell
from stripewise.spec.sizes import parse_size
from stripewise.spec.stack import Stack, every_stack
from stripewise.spec.vocabulary import words_of


def meaningless(
    knob: ScriptSetting, stack: Stack, parameter: Parameter, where: Surroundings, values: Mapping[str, str]
) -> str:
    """Say why a setting cannot act on this program here; empty if it can."""
    if parameter.kind in (Kind.CATEGORICAL, Kind.BOOLEAN):
        words = words_of(parameter)
        if words is not None and knob.value not in words:
            return f"'{knob.value}' is not one of {', '.join(words)}: the library ignores it without a message"
    elif _number(knob.value) is None and "$" not in knob.value:
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


def _inactive(knob: ScriptSetting, parameter: Parameter, where: Surroundings, values: Mapping[str, str]) -> str:
    """Whether other settings of the script, or the workload, leave it without meaning."""
    workload = where.workload
    if where.file_system and workload.file_system is None:
        workload = workload.model_copy(update={"file_system": where.file_system})
    words: dict[str, Any] = {**workload.words()}
    for other in every_stack():
        words |= {p.name: _default(p, words) for p in other.parameters if p.name not in words}
    for other in every_stack():
        for p in other.parameters:
            if p.setting in values:
                words[p.name] = _typed(p, values[p.setting])
    worlds = [words]
    if workload.collective is None:
        # Both kinds of calls may be made, or one alone.
        worlds += [{**words, "independent": False}, {**words, "collective": False}]
    if parameter.active_if is not None and not any(_true(parameter.active_if, world) for world in worlds):
        because = [
            f"{name} is {spell(words[name])}"
            for name in sorted(parameter.active_if.names)
            if name in values or name in ("collective", "independent", "reads", "writes", "file_system")
        ]
        return f"it has a meaning only where {_flat(parameter.active_if)}" + (
            f"; here {', '.join(because)}" if because else ""
        )
    if _is_default(parameter, _typed(parameter, knob.value)):
        return "the library does the same without it: this is its default"
    if parameter.same_as_default is not None and _true(parameter.same_as_default, words):
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
        return text
    number = _number(text)
    return parameter.default if number is None else number


def _number(text: str) -> float | None:
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
