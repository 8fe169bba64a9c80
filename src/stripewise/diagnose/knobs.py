"""Dead knobs: settings in a user's script, or in the hints file that it names, that do nothing where they are."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Literal

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, HINTS_LIMIT, LAYOUT, MCA, PNETCDF, Carrier, Setting
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.meaning import (
    Meaning,
    Situation,
    acts,
    bare_names,
    find_parameter,
    names_of,
    parse,
    value_of,
)
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.stack import Stack, every_stack
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.script import Script, ScriptSetting, parse_script
from stripewise.errors import UserError, choose
from stripewise.runners.schedulers.registry import submission_folders

MPI = {
    "mpich": "MPICH",
    "openmpi": "Open MPI with OMPIO",
    "openmpi-romio": "Open MPI with ROMIO",
    "cray": "Cray MPICH",
    "intel": "Intel MPI",
}
"""The MPI libraries that verdicts are given for, each with the name that people know."""
_ROMIO = frozenset({"mpich", "cray", "intel", "openmpi-romio"})


@dataclass(frozen=True)
class ScriptForm:
    """How a script writes a setting.

    Attributes
    ----------
    carrier : Carrier
        That the setting is of.
    readers : frozenset of str
        The libraries of :data:`MPI` that read it.
    why : str
        Why the others do not.
    """

    carrier: Carrier
    readers: frozenset[str] = frozenset(MPI)
    why: str = ""


FORMS = {
    "hint": ScriptForm(HINT),
    "cray": ScriptForm(HINT, frozenset({"cray"}), "only Cray MPICH reads MPICH_MPIIO_HINTS"),
    "romio_file": ScriptForm(HINT, _ROMIO, "only ROMIO reads a hints file"),
    "pnetcdf": ScriptForm(PNETCDF),
    "openmpi": ScriptForm(MCA, frozenset({"openmpi", "openmpi-romio"}), "only Open MPI reads MCA parameters"),
    "intel": ScriptForm(ENVIRONMENT, frozenset({"intel"}), "only Intel MPI reads I_MPI_ variables"),
    "commands": ScriptForm(LAYOUT),
    "env": ScriptForm(ENVIRONMENT),
}
"""Forms by name: ``hint`` is ``MPI_Info_set`` in program text, ``commands`` those of file systems."""


@dataclass(frozen=True)
class Surroundings:
    """Where a script runs.

    Attributes
    ----------
    mpi : str
        One of :data:`MPI`; empty for the one that the script itself uses, MPICH where none shows.
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


Verdict = Literal["dead", "doubtful", "live", "unknown"]
_CLOSE = 0.8
_LONGEST = 100
"""Characters of a name that are compared with those of the stacks."""
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class JudgedSetting:
    """What a setting of a script does.

    Attributes
    ----------
    verdict : str
        ``dead`` (does nothing here), ``doubtful`` (depends on what is not known), ``live``, or ``unknown`` (no stack
        has it).
    reason : str
        In a sentence.
    fix : str
        What to do; empty where nothing is to be done.
    """

    knob: ScriptSetting
    verdict: Verdict
    reason: str
    fix: str = ""

    def as_json(self) -> dict[str, Any]:
        """Give the plain values."""
        return {
            "line": self.knob.line,
            "file": self.knob.file,
            "name": self.knob.name,
            "value": self.knob.value,
            "carrier": FORMS[self.knob.form].carrier.name,
            "form": self.knob.form,
            "verdict": self.verdict,
            "reason": self.reason,
            "fix": self.fix,
        }


def judge_script(text: str, where: Surroundings, hints: Sequence[ScriptSetting] = ()) -> list[JudgedSetting]:
    """Judge every I/O setting of a script.

    Parameters
    ----------
    text : str
        A job script, a ROMIO hints file, or program text with ``MPI_Info_set``.
    hints : sequence of ScriptSetting
        Of the hints file that the script names, see :func:`~stripewise.diagnose.knobs.named_hints`.

    Returns
    -------
    list of JudgedSetting
        In order of the lines, those of the hints file last.

    Raises
    ------
    UserError
        If the text is too long or the library unknown.
    """
    if len(text) > _MOST_BYTES:
        raise UserError(f"the script is larger than {_MOST_BYTES >> 20} MiB", "paste the job script alone")
    if where.mpi and where.mpi not in MPI:
        raise UserError(f"MPI library '{where.mpi}' is unknown", choose(where.mpi, MPI))
    outer = parse_script(text)
    named = next((one for one in outer.all() if one.hints_path), outer)
    found: list[JudgedSetting] = []
    for script in outer.all():
        of_file = list(hints) if script is named else []
        found += _judge_all([*script.settings, *of_file], script, _add_surroundings(where, script, outer))
    return sorted(found, key=lambda one: (bool(one.knob.file), one.knob.line))


def library(text: str, mpi: str) -> str:
    """Give the MPI library for which a script is judged: the given one, or the one that the script itself uses."""
    script = parse_script(text)
    return _add_surroundings(Surroundings(mpi), script, script).mpi


def _add_surroundings(where: Surroundings, script: Script, outer: Script) -> Surroundings:
    """Add what the script itself says about where it runs."""
    mpi = where.mpi or script.mpi or outer.mpi or "mpich"
    chosen = {knob.value.split("_")[0].rstrip("0123456789") for knob in script.settings if knob.name == "io"}
    if mpi == "openmpi" and chosen == {"romio"}:
        mpi = "openmpi-romio"
    own = {"mpich": "MPICH", "openmpi": "Open MPI", "openmpi-romio": "Open MPI"}.get(mpi, "")
    version = {**outer.versions, **script.versions}.get(own, "")
    return replace(where, mpi=mpi, version=where.version or version)


def _judge_all(knobs: Sequence[ScriptSetting], script: Script, where: Surroundings) -> list[JudgedSetting]:
    seen = [knob for knob in knobs if knob.exported and not (knob.unset or knob.again or knob.fault or knob.late)]
    situations = _Situations(where, script.versions, [knob for knob in seen if where.mpi in FORMS[knob.form].readers])
    return [_judge(knob, script, where, situations) for knob in knobs]


class _Situations:
    """Where each setting of a script acts: what the script sets in all, and what may differ in its branches.

    Parameters
    ----------
    versions : mapping
        Of other libraries.
    knobs : sequence of ScriptSetting
        Those that reach the program.
    """

    def __init__(self, where: Surroundings, versions: Mapping[str, str], knobs: Sequence[ScriptSetting]) -> None:
        self._given: dict[str, Value] = {}
        self._several: set[str] = set()
        self._branches: defaultdict[tuple[int, ...], set[str]] = defaultdict(set)
        texts: dict[str, str] = {}
        targets = {knob.target for knob in knobs if knob.target and knob.form != "romio_file"}
        for knob in knobs:
            parameter = find_parameter(_as_setting(knob))
            if parameter is None:
                continue
            # What one folder or one pattern of files gets, others do not.
            elsewhere = knob.target in targets and len(targets) > 1
            if texts.setdefault(parameter.name, knob.value) != knob.value or elsewhere or "$" in knob.value:
                self._several.add(parameter.name)
            self._branches[knob.block].add(parameter.name)
            self._given.setdefault(parameter.name, value_of(parameter, knob.value))
        self._conditional = {name for block, names in self._branches.items() if block for name in names}
        workload = where.workload
        if where.file_system and workload.file_system is None:
            workload = workload.model_copy(update={"file_system": where.file_system})
        mpi = f"{MPI[where.mpi]} {where.version}".strip()
        self._plain = Situation(workload, io="ompio" if where.mpi == "openmpi" else "romio", mpi=mpi, versions=versions)

    def of(self, knob: ScriptSetting) -> Situation:
        """Give the situation of one setting."""
        around = [self._branches.get(knob.block[:depth], set()) for depth in range(len(knob.block) + 1)]
        unsure = self._several | self._conditional.difference(*around)
        return replace(self._plain, values=self._given, unsure=frozenset(unsure))


def _judge(knob: ScriptSetting, script: Script, where: Surroundings, situations: _Situations) -> JudgedSetting:
    for look in (_judge_place, _judge_carrier):
        found = look(knob, script, where)
        if found is not None:
            return found
    parameter = find_parameter(_as_setting(knob))
    if parameter is None:
        return _judge_unknown(knob)
    caution = parameter.caution(knob.value)
    if parameter.name in where.effects:
        status, evidence = where.effects[parameter.name]
        if status in ("no_effect", "refused"):
            told = f": {evidence}" if evidence else ""
            return JudgedSetting(
                knob, "dead", f"measured in an experiment: {status.replace('_', ' ')}{told}", "leave it out"
            )
        if status == "effective":
            return JudgedSetting(knob, "live", f"measured in an experiment: {evidence or 'effective'}", caution)
    # A variable of the shell may hold any value.
    meaning = Meaning(None) if "$" in knob.value else parse(parameter, knob.value)
    if meaning.wrong:
        return JudgedSetting(knob, "dead", meaning.wrong, "leave it out")
    answer = acts(parameter, meaning.value, situations.of(knob))
    if answer.acts is False:
        return JudgedSetting(knob, "dead", answer.why, "leave it out")
    if meaning.misread:
        return JudgedSetting(knob, "live", meaning.misread, meaning.fix)
    if "file_system" in answer.unknown:
        return JudgedSetting(knob, "doubtful", answer.why, "name it above")
    return JudgedSetting(knob, "live", _about(parameter), caution)


def _judge_place(knob: ScriptSetting, script: Script, where: Surroundings) -> JudgedSetting | None:
    """Whether the place in the script alone makes it dead."""
    if not knob.exported:
        return JudgedSetting(
            knob, "dead", "it is a variable of the shell: without export no program sees it", "write export before it"
        )
    if knob.unset:
        told = f"line {knob.unset} unsets {knob.variable} before anything is started"
        return JudgedSetting(knob, "dead", told, "remove one of the two lines")
    if knob.fault:
        fix = (
            "export ROMIO_HINTS=PATH" if knob.form == "romio_file" else "begin with a file pattern, as in *:NAME=VALUE"
        )
        return JudgedSetting(knob, "dead", knob.fault, fix)
    if knob.file:
        late = script.launches and script.hints_file is not None and script.hints_file > script.starts[-1]
        told = "ROMIO_HINTS is set after the last program was started"
        return JudgedSetting(knob, "dead", told, "set it before the launch") if late else None
    if knob.late:
        return JudgedSetting(knob, "dead", "it comes after the last program was started", "move it before the launch")
    if knob.again:
        told = f"line {knob.again} sets it again before anything is started"
        return JudgedSetting(knob, "dead", told, "keep one of them")
    return None


def _judge_carrier(knob: ScriptSetting, script: Script, where: Surroundings) -> JudgedSetting | None:
    """Whether the MPI library reads the carrier at all."""
    form = FORMS[knob.form]
    if knob.form == "env" and (carrier := bare_names().get(knob.name)) is not None:
        return JudgedSetting(
            knob,
            "dead",
            f"no library reads an environment variable {knob.name}",
            f"export OMPI_MCA_{knob.name}={knob.value}"
            if carrier is MCA
            else f"write '{knob.name} {knob.value}' into a file and export ROMIO_HINTS=PATH",
        )
    if where.mpi not in form.readers:
        reason = f"{form.why}, and the program uses {MPI[where.mpi]}"
        return JudgedSetting(knob, "dead", reason, "use that library's own form")
    return None


def _as_setting(knob: ScriptSetting) -> Setting:
    return Setting(FORMS[knob.form].carrier, knob.name, "", knob.layer)


@cache
def _list_derived() -> frozenset[str]:
    return frozenset(derived.name for stack in every_stack() for derived in stack.derived)


def _judge_unknown(knob: ScriptSetting) -> JudgedSetting:
    if knob.name in _list_derived():
        return JudgedSetting(knob, "live", "it goes with another setting of the same stack")
    carrier = _as_setting(knob).carrier
    # To compare takes time with the product of the lengths.
    close = difflib.get_close_matches(knob.name[:_LONGEST], sorted(names_of(carrier)), 1, _CLOSE)
    if close and carrier is HINT:
        reason = (
            f"no hint has this name, and MPI libraries pass over unknown hints without a word; {close[0]} is meant?"
        )
        return JudgedSetting(knob, "dead", reason, f"write {close[0]}")
    told = f"; {close[0]} is meant?" if close else ""
    return JudgedSetting(knob, "unknown", f"no stack describes it, so nothing can be said{told}")


def _about(parameter: Parameter) -> str:
    text = parameter.description.rstrip(".")
    about = f"{text[:1].lower()}{text[1:]}" if text else "a setting that the library reads"
    # What is never searched is described for its trap.
    return f"{about}. {parameter.trap.rstrip('.')}" if parameter.trap and len(parameter.values) == 1 else about


def explain(name: str) -> list[tuple[Stack, Parameter]]:
    """Find the parameters that have a name, theirs or their carrier's, with the stack of each.

    Raises
    ------
    UserError
        If there is none.
    """
    every = [(stack, parameter) for stack in every_stack() for parameter in stack.parameters]
    found = [(stack, parameter) for stack, parameter in every if name in (parameter.name, parameter.setting)]
    if not found:
        names = [word for _, parameter in every for word in (parameter.name, parameter.setting)]
        close = difflib.get_close_matches(name, dict.fromkeys(names), 3)
        meant = f"did you mean {' or '.join(close)}? " if close else ""
        raise UserError(
            f"there is neither a file nor a setting {name}", f"{meant}name a job script, or a setting of a stack"
        )
    return found


def list_dead(found: Sequence[JudgedSetting]) -> list[JudgedSetting]:
    """Those that do nothing."""
    return [one for one in found if one.verdict == "dead"]


_HERE = re.compile(r"\$\(pwd\)|`pwd`")


@dataclass(frozen=True)
class HintsFile:
    """What was found.

    Attributes
    ----------
    line : int
        Of the script, which names the file.
    path : str
        As it was looked for; as the script names it where that says no place.
    said : str
        What was found there, or why nothing was.
    knobs : tuple of ScriptSetting
        Its hints, with their lines in it.
    """

    line: int
    path: str
    said: str
    knobs: tuple[ScriptSetting, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Give the plain values, but for the hints."""
        return {"line": self.line, "path": self.path, "said": self.said}


def named_hints(text: str, folder: Path, environment: Mapping[str, str]) -> HintsFile | None:
    """Read the hints file that a job script names.

    Parameters
    ----------
    text : str
        The script.
    folder : Path
        From which the job is submitted: what ``$PWD`` and the scheduler's variables stand for, and where relative
        names begin.
    environment : mapping
        Of other variables in the name.

    Returns
    -------
    HintsFile or None
        None where no line names one.
    """
    script = next((one for one in parse_script(text).all() if one.hints_path), None)
    if script is None or script.hints_file is None:
        return None
    line, named = script.hints_file, script.hints_path
    if Path(named).name in {Path(target).name for target in script.written}:
        return HintsFile(line, named, "the script itself writes it")
    known = {**environment, **dict.fromkeys(["PWD", *submission_folders()], str(folder))}
    path = Template(_HERE.sub("$PWD", named)).safe_substitute(known)
    if "$" in path or "`" in path:
        return HintsFile(line, named, "not looked at: only the job knows the name")
    place = folder / Path(path).expanduser()
    try:
        if not place.is_file():
            return HintsFile(line, str(place), "this file does not exist here")
        with place.open("rb") as stream:
            data = stream.read(HINTS_LIMIT)
    except OSError as error:
        return HintsFile(line, str(place), f"it cannot be read: {error.strerror}")
    if len(data) >= HINTS_LIMIT:
        return HintsFile(line, str(place), f"ROMIO ignores files of {HINTS_LIMIT} bytes and more")
    return _read(line, place, data.decode("utf-8", errors="replace"))


def _read(line: int, place: Path, text: str) -> HintsFile:
    knobs, other = [], 0
    for number, raw in enumerate(text.splitlines(), start=1):
        words = raw.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) == 2:
            knobs.append(ScriptSetting(number, words[0], words[1], "romio_file", file=str(place)))
        else:
            other += 1
    said = f"{len(knobs)} hint{'s' if len(knobs) != 1 else ''}"
    if other:
        said += f"; lines without a name and a value, which ROMIO ignores: {other}"
    return HintsFile(line, str(place), said, tuple(knobs))
