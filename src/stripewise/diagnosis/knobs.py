"""Dead knobs: settings in a user's script that do nothing where they are."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from stripewise.diagnosis.script import Knob, Script, parse_script
from stripewise.errors import UserError
from stripewise.spec.expression import Expression
from stripewise.spec.parameter import Apply, Kind, Parameter
from stripewise.spec.plan import spell
from stripewise.spec.sizes import parse_size
from stripewise.spec.stack import Stack, load_stack, stack_names
from stripewise.spec.workload import Workload

MPI = ("mpich", "openmpi", "openmpi-romio", "cray", "intel")
"""The MPI libraries that verdicts are given for; ``openmpi-romio`` is Open MPI with ``--mca io romio341``."""

Verdict = Literal["dead", "doubtful", "live", "unknown"]
_CLOSE = 0.8
_MOST_BYTES = 1 << 20
_READS_ROMIO = {"mpich", "cray", "intel", "openmpi-romio"}
_CARRIES: dict[str, tuple[set[str], str]] = {
    "cray": ({"cray"}, "only Cray MPICH reads MPICH_MPIIO_HINTS"),
    "romio_file": (_READS_ROMIO, "ROMIO alone reads a hints file"),
    "openmpi": ({"openmpi", "openmpi-romio"}, "only Open MPI reads MCA parameters"),
    "intel": ({"intel"}, "only Intel MPI reads I_MPI_ variables"),
}
_SYSTEM = {"env": Apply.ENV, "openmpi": Apply.MCA, "lfs": Apply.STRIPING, "intel": Apply.ENV}


@dataclass(frozen=True)
class Judged:
    """What a setting of a script does.

    Attributes
    ----------
    knob : Knob
    verdict : str
        ``dead`` (does nothing here), ``doubtful`` (depends on what is not known), ``live``, or ``unknown`` (no stack
        has it).
    reason : str
        In a sentence.
    mend : str
        What to do; empty where nothing is to be done.
    """

    knob: Knob
    verdict: Verdict
    reason: str
    mend: str = ""

    def as_json(self) -> dict[str, Any]:
        """Give the plain values."""
        return {
            "line": self.knob.line,
            "name": self.knob.name,
            "value": self.knob.value,
            "carrier": self.knob.carrier,
            "verdict": self.verdict,
            "reason": self.reason,
            "mend": self.mend,
        }


@dataclass(frozen=True)
class Surroundings:
    """Where a script runs.

    Attributes
    ----------
    mpi : str
        One of :data:`MPI`.
    file_system : str
        ``lustre``, ``ceph``, ``gpfs``, ``nfs``, ``ext4`` ...; empty if unknown.
    version : str
        Of the MPI library, as ``4.2.1``; empty if unknown.
    workload : Workload
        What the program does, as far as it is known.
    effects : mapping
        Parameter to what an experiment with this program has shown: ``(status, evidence)``.
    """

    mpi: str = "mpich"
    file_system: str = ""
    version: str = ""
    workload: Workload = field(default_factory=Workload)
    effects: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def judge_script(text: str, where: Surroundings) -> list[Judged]:
    """Judge every I/O setting of a script.

    Parameters
    ----------
    text : str
        A job script, a ROMIO hints file, or program text with ``MPI_Info_set``.
    where : Surroundings

    Returns
    -------
    list of Judged
        In order of the lines.

    Raises
    ------
    UserError
        If the text is too long or the library unknown.
    """
    if len(text) > _MOST_BYTES:
        raise UserError(f"the script is larger than {_MOST_BYTES >> 20} MiB", "paste the job script alone")
    if where.mpi not in MPI:
        raise UserError(f"MPI library '{where.mpi}' is unknown", f"choose from {', '.join(MPI)}")
    script = parse_script(text)
    values = _values(script, where)
    found = [_judge(knob, script, where, values) for knob in script.knobs]
    if not script.launches and all(one.knob.carrier == "romio_file" and one.verdict == "unknown" for one in found):
        # Words in pairs, but none of them a hint: it was no hints file after all.
        return []
    return found


def _judge(knob: Knob, script: Script, where: Surroundings, values: Mapping[str, str]) -> Judged:
    for look in (_placed, _carried):
        found = look(knob, script, where)
        if found is not None:
            return found
    known = _find(knob)
    if known is None:
        return _unknown(knob)
    stack, parameter = known
    if parameter.name in where.effects:
        status, evidence = where.effects[parameter.name]
        if status in ("no_effect", "refused"):
            told = f": {evidence}" if evidence else ""
            return Judged(knob, "dead", f"measured in an experiment: {status.replace('_', ' ')}{told}", "leave it out")
        if status == "effective":
            return Judged(knob, "live", f"measured in an experiment: {evidence or 'effective'}")
    reason = _meaningless(knob, stack, parameter, where, values)
    if reason:
        return Judged(knob, "dead", reason, "leave it out")
    if parameter.driver and not where.file_system:
        systems = " or ".join(word.lower() for word in parameter.driver)
        return Judged(knob, "doubtful", f"acts on {systems} alone, and the file system is not said", "name it above")
    return Judged(knob, "live", _about(parameter), "")


def _placed(knob: Knob, script: Script, where: Surroundings) -> Judged | None:
    """Whether the place in the script alone makes it dead."""
    if not knob.exported:
        return Judged(
            knob, "dead", "it is a variable of the shell: without export no program sees it", "write export before it"
        )
    if script.launches and knob.line > max(script.launches) and knob.carrier not in ("hint", "romio_file"):
        return Judged(knob, "dead", "it comes after the last program was started", "move it before the launch")
    later = [
        other
        for other in script.knobs
        if other.line > knob.line and (other.name, other.carrier) == (knob.name, knob.carrier)
    ]
    launched = [line for line in script.launches if later and knob.line <= line < later[0].line]
    if later and not launched and knob.carrier != "hint":
        return Judged(
            knob, "dead", f"line {later[0].line} sets it again before anything is started", "keep one of them"
        )
    if knob.carrier == "romio_file" and script.hints_file is None and script.launches:
        return Judged(
            knob, "dead", "no line sets ROMIO_HINTS to the file's path, so nothing reads it", "export ROMIO_HINTS=PATH"
        )
    return None


def _carried(knob: Knob, script: Script, where: Surroundings) -> Judged | None:
    """Whether the MPI library reads the carrier at all."""
    readers, why = _CARRIES.get(knob.carrier, (set(MPI), ""))
    if where.mpi not in readers:
        return Judged(knob, "dead", f"{why}, and the program uses {_library(where.mpi)}", "use that library's own form")
    if knob.carrier == "lfs" and where.file_system and where.file_system != "lustre":
        return Judged(knob, "dead", f"lfs lays out Lustre alone, the files lie on {where.file_system}", "leave it out")
    return None


def _find(knob: Knob) -> tuple[Stack, Parameter] | None:
    """The parameter behind a setting."""
    apply = _SYSTEM.get(knob.carrier, Apply.HINT)
    for stack in _stacks():
        for parameter in stack.parameters:
            if parameter.apply is apply and parameter.setting == knob.name:
                return stack, parameter
    return None


@cache
def _stacks() -> tuple[Stack, ...]:
    return tuple(load_stack(name) for name in stack_names())


@cache
def _derived() -> frozenset[str]:
    return frozenset(derived.name for stack in _stacks() for derived in stack.derived)


def _unknown(knob: Knob) -> Judged:
    if knob.name in _derived():
        return Judged(knob, "live", "it goes with another setting of the same stack")
    apply = _SYSTEM.get(knob.carrier, Apply.HINT)
    names = sorted({p.setting for stack in _stacks() for p in stack.parameters if p.apply is apply} | _derived())
    close = difflib.get_close_matches(knob.name, names, 1, _CLOSE)
    if close and apply is Apply.HINT:
        reason = (
            f"no hint has this name, and MPI libraries pass over unknown hints without a word; {close[0]} is meant?"
        )
        return Judged(knob, "dead", reason, f"write {close[0]}")
    told = f"; {close[0]} is meant?" if close else ""
    return Judged(knob, "unknown", f"no stack describes it, so nothing can be said{told}")


def _meaningless(knob: Knob, stack: Stack, parameter: Parameter, where: Surroundings, values: Mapping[str, str]) -> str:
    """Why it cannot act on this program here; empty if it can."""
    if parameter.kind in (Kind.CATEGORICAL, Kind.BOOLEAN):
        words = [spell(value) for value in parameter.values]
        if knob.value not in words:
            return f"'{knob.value}' is none of {', '.join(words)}: the library passes over it without a word"
    elif _number(knob.value) is None and "$" not in knob.value:
        return f"'{knob.value}' is no number: the library passes over it without a word"
    io = "ompio" if where.mpi == "openmpi" else "romio"
    if stack.io_component and io not in stack.io_component:
        return f"{'/'.join(stack.io_component)} reads it, and the program's MPI-IO is {io}"
    if stack.name == "cray" and where.mpi != "cray":
        return f"Cray MPICH alone knows it, and the program uses {_library(where.mpi)}"
    if parameter.driver and where.file_system and not where.file_system.upper().startswith(parameter.driver):
        systems = " or ".join(word.lower() for word in parameter.driver)
        return f"it acts on {systems} alone, the files lie on {where.file_system}"
    version = _other_version(parameter, where)
    if version:
        return version
    operation = where.workload.operation
    if operation in ("read", "write") and operation not in parameter.operations:
        return f"it acts on {parameter.operations[0]}s alone, the program {operation}s"
    return _inactive(knob, stack, parameter, where, values)


def _inactive(knob: Knob, stack: Stack, parameter: Parameter, where: Surroundings, values: Mapping[str, str]) -> str:
    """Whether other settings of the script, or the workload, leave it without meaning."""
    workload = where.workload
    if where.file_system and workload.file_system is None:
        workload = workload.model_copy(update={"file_system": where.file_system})
    words: dict[str, Any] = {**workload.words()}
    for other in _stacks():
        words |= {p.name: _default(p, words) for p in other.parameters if p.name not in words}
    for other in _stacks():
        for p in other.parameters:
            if p.setting in values:
                words[p.name] = _typed(p, values[p.setting])
    if parameter.active_if is not None and not _true(parameter.active_if, words):
        because = [
            f"{name} is {spell(words[name])}"
            for name in sorted(parameter.active_if.names)
            if name in values or name in ("collective", "independent", "reads", "writes", "file_system")
        ]
        return f"it has a meaning only where {_flat(parameter.active_if)}" + (
            f"; here {', '.join(because)}" if because else ""
        )
    if _same(_typed(parameter, knob.value), words.get(parameter.name), parameter):
        return "the library does the same without it: this is its default"
    if parameter.same_as_default is not None and _true(parameter.same_as_default, words):
        return "here it does what the default does anyway"
    return ""


def _same(value: Any, _: Any, parameter: Parameter) -> bool:
    return bool(value == parameter.default and parameter.default_from is None and parameter.apply is not Apply.STRIPING)


def _true(expression: Expression, words: Mapping[str, Any]) -> bool:
    if not expression.names <= words.keys():
        return expression.text == "" or False
    try:
        return bool(expression(words))
    except UserError:
        return True


def _default(parameter: Parameter, words: Mapping[str, Any]) -> Any:
    if parameter.default_from is not None and parameter.default_from.names <= words.keys():
        return parameter.default_from(words)
    return parameter.default


def _values(script: Script, where: Surroundings) -> dict[str, str]:
    """The last value of each setting that the program's MPI library sees."""
    return {
        knob.name: knob.value
        for knob in script.knobs
        if knob.exported and where.mpi in _CARRIES.get(knob.carrier, (set(MPI), ""))[0]
    }


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


def _library(mpi: str) -> str:
    return {
        "mpich": "MPICH",
        "openmpi": "Open MPI with OMPIO",
        "openmpi-romio": "Open MPI with ROMIO",
        "cray": "Cray MPICH",
        "intel": "Intel MPI",
    }[mpi]


def _flat(expression: Expression) -> str:
    return re.sub(r"\s+", " ", expression.text).strip()


def _about(parameter: Parameter) -> str:
    text = parameter.description.rstrip(".")
    return f"{text[:1].lower()}{text[1:]}" if text else "a setting that the library reads"


def dead(found: Sequence[Judged]) -> list[Judged]:
    """Those that do nothing."""
    return [one for one in found if one.verdict == "dead"]
