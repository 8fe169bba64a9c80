"""Dead knobs: settings in a user's script, or in the hints file that it names, that do nothing where they are."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Literal

from stripewise.catalogue.carriers import ADIOS2, ENVIRONMENT, HINT, HINTS_LIMIT, LAYOUT, MCA, PNETCDF, Carrier, Setting
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.filesystems import find_file_system
from stripewise.catalogue.meaning import (
    Meaning,
    Situation,
    acts,
    bare_names,
    compare_versions,
    find_described,
    find_parameter,
    find_source,
    knows_exactly,
    names_of,
    parse,
    value_of,
)
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.stack import Stack, every_stack
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.script import Files, parse_script
from stripewise.diagnose.script_setting import Script, ScriptSetting
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
_OMPIO_ON_LUSTRE = "4.1"
"""The version of Open MPI from which OMPIO is the default on Lustre, too."""
_SPECTRUM = re.compile(r"^[ \t]*(?:jsrun|lrun)\s|spectrum-mpi", re.I | re.MULTILINE)
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
    "ior": ScriptForm(HINT),
    "adios2": ScriptForm(ADIOS2),
    "commands": ScriptForm(LAYOUT),
    "env": ScriptForm(ENVIRONMENT),
}
"""Forms by name: ``hint`` is ``MPI_Info_set`` in program text, ``ior`` what IOR reads, ``commands`` those of file
systems."""


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


Verdict = Literal["dead", "live in one branch", "live", "cannot tell"]
_CLOSE = 0.8
_LONGEST = 100
"""Characters of a name that are compared with those of the stacks."""
_MOST_BYTES = 256 << 10
"""Of 17,916 files of people, three are larger: outputs of programs and lists of data."""
_OF_VENDORS = ("cray_", "romio_", "romio_lustre_", "IBM_")
"""How hints of vendors begin, where people leave it out."""


@dataclass(frozen=True)
class JudgedSetting:
    """What a setting of a script does.

    Attributes
    ----------
    verdict : str
        ``dead`` where it does nothing on every way through the script, ``live in one branch`` where programs find it on
        some ways, ``live``, or ``cannot tell`` where it depends on what is not known, or no stack has it.
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


@dataclass(frozen=True)
class Review:
    """What was found in a script.

    Attributes
    ----------
    settings : list of JudgedSetting
        In order of the lines, those of other files last.
    mpi : str
        The library of :data:`MPI` for which they are judged; the first, where it is not clear.
    remarks : list of str
        What the script says about where it runs, where that differs from what the user says, or is not clear.
    """

    settings: list[JudgedSetting]
    mpi: str
    remarks: list[str]

    def as_json(self) -> dict[str, Any]:
        """Give the plain values."""
        settings = [one.as_json() for one in self.settings]
        return {"settings": settings, "dead": len(list_dead(self.settings)), "mpi": self.mpi, "remarks": self.remarks}


def judge_script(text: str, where: Surroundings, hints: Sequence[ScriptSetting] = ()) -> list[JudgedSetting]:
    """Judge every I/O setting of a script, as :func:`review_script` does."""
    return review_script(text, where, hints).settings


def review_script(
    text: str, where: Surroundings, hints: Sequence[ScriptSetting] = (), files: Files | None = None
) -> Review:
    """Judge every I/O setting of a script, and say for what library.

    Parameters
    ----------
    text : str
        A job script, a ROMIO hints file, or program text with ``MPI_Info_set``.
    hints : sequence of ScriptSetting
        Of the hints file that the script names, see :func:`~stripewise.diagnose.knobs.named_hints`.
    files : callable, optional
        Gives the scripts that it reads; none are at hand without it.

    Raises
    ------
    UserError
        If the text is too long, cannot be read, or the library is unknown.
    """
    if len(text) > _MOST_BYTES:
        raise UserError(f"the script is larger than {_MOST_BYTES >> 10} KiB", "paste the job script alone")
    if where.mpi and where.mpi not in MPI:
        raise UserError(f"MPI library '{where.mpi}' is unknown", choose(where.mpi, MPI))
    outer = parse_script(text, files, submission_folders())
    named = next((one for one in outer.all() if one.hints_path), outer)
    found: list[JudgedSetting] = []
    remarks: list[str] = []
    used = ""
    for script in outer.all():
        every = tuple(range(len(script.scenes)))
        late = script.hints_gone
        of_file = [replace(one, scenes=every, gone=late, cure="set it before the launch") for one in hints]
        judge = _Judge(where, script, outer, of_file if script is named else [], text)
        used = used or judge.libraries[0]
        found += judge.judge_all()
        remarks += judge.remarks
    found.sort(key=lambda one: (bool(one.knob.file), one.knob.line))
    return Review(found, used, list(dict.fromkeys(remarks)))


class _Judge:
    """Judges the settings of one script.

    Attributes
    ----------
    libraries : tuple of str
        Those for which it judges; several where the script does not make clear which of them it uses.
    remarks : list of str
        See :class:`Review`.
    """

    def __init__(
        self, where: Surroundings, script: Script, outer: Script, of_file: Sequence[ScriptSetting], text: str
    ) -> None:
        self._script = script
        self._knobs = [*script.settings, *of_file]
        self.remarks: list[str] = []
        self._versions = {**outer.versions, **script.versions}
        self._where = self._choose_file_system(where, script, outer)
        of_files, self.remarks = self.remarks, []
        self._romio_by_default = self._is_romio_default(text)
        self.libraries = self._choose_libraries(where, script, outer)
        self.remarks += of_files
        self._parameters = {id(knob): _find_parameter(knob) for knob in self._knobs}
        marked = {knob.mark: knob for knob in script.settings}
        acting = {
            mark
            for mark, knob in marked.items()
            if self._parameters[id(knob)] is not None and not (knob.gone or knob.fault)
        }
        self._scenes = [
            [
                alternatives
                for group in scene
                if any(alternatives := tuple(tuple(marked[m] for m in one if m in acting) for one in group))
            ]
            for scene in script.scenes
        ]
        self._beside = [knob for knob in of_file if self._parameters[id(knob)] is not None and not knob.gone]

    def judge_all(self) -> list[JudgedSetting]:
        """Judge the settings, and those of the hints file."""
        return [self._judge(knob) for knob in self._knobs]

    # -- where it runs -------------------------------------------------------------------------------------

    def _choose_libraries(self, where: Surroundings, script: Script, outer: Script) -> tuple[str, ...]:
        shown = script if script.mpi or "mpi" in script.unclear else outer
        if where.mpi:
            if shown.mpi and shown.mpi != where.mpi.partition("-")[0]:
                self._contradict(shown, "mpi", f"{MPI[shown.mpi]}, but --mpi says {MPI[where.mpi]}", MPI[where.mpi])
            return (where.mpi,)
        if shown.mpi == "openmpi" and self._romio_by_default:
            return ("openmpi", "openmpi-romio")
        if shown.mpi:
            return (shown.mpi,)
        if why := shown.unclear.get("mpi"):
            self.remarks.append(f"{why}; a setting is dead only where it is so under each; --mpi chooses one")
            return tuple(shown.several.get("mpi", ()))
        return ("mpich",)

    def _is_romio_default(self, text: str) -> bool | None:
        """Whether Open MPI may take ROMIO unasked: on Lustre before 4.1, and as Spectrum MPI; None if not known."""
        version = self._where.version or self._versions.get("Open MPI", "")
        if version and compare_versions(version, _OMPIO_ON_LUSTRE) >= 0:
            return False
        if _SPECTRUM.search(text):
            return True
        return self._where.file_system == "lustre" if self._where.file_system else None

    def _choose_file_system(self, where: Surroundings, script: Script, outer: Script) -> Surroundings:
        shown = script if script.file_system else outer
        given = where.file_system or where.workload.file_system or ""
        if not given:
            return replace(where, file_system=shown.file_system)
        if shown.file_system and shown.file_system != given:
            self._contradict(shown, "file_system", f"{shown.file_system}, but --file-system says {given}", given)
        return where

    def _contradict(self, shown: Script, kind: str, what: str, judged: str) -> None:
        word, line = shown.shown_by[kind]
        self.remarks.append(f"line {line}: {word} shows {what}; judged for {judged}")

    def _components(self, knob: ScriptSetting, library: str) -> list[str]:
        """Give the libraries as which one acts on a setting, by the MPI-IO component that the script chooses."""
        if not library.startswith("openmpi"):
            return [library]
        chosen: dict[str, None] = {}
        for scene in knob.scenes:
            groups = self._scenes[scene] if scene >= 0 else []
            found = {library: None}
            for group in groups:
                ios = [
                    [one for one in alternative if one.name == "io" and one.form == "openmpi"] for alternative in group
                ]
                if any(ios):
                    mine = [io for io, every in zip(ios, group, strict=True) if knob in every] or ios
                    found = dict.fromkeys(self._component(io[0], library) if io else library for io in mine)
            chosen |= found
        return list(chosen) or [library]

    def _component(self, io: ScriptSetting, library: str) -> str:
        excluded = io.value.startswith("^")
        name = io.value.lstrip("^").split("_")[0].rstrip("0123456789")
        if name not in ("romio", "ompio") or not io.known:
            return library
        made = "openmpi-romio" if (name == "romio") != excluded else "openmpi"
        if made != library:
            said = f"line {io.line}: io={io.value} chooses {'ROMIO' if made != 'openmpi' else 'OMPIO'}"
            if library == "openmpi-romio" and self._where.mpi:
                self.remarks.append(f"{said}, but --mpi says {MPI[library]}; judged for {MPI[library]}")
                return library
            self.remarks.append(f"{said}: judged for {MPI[made]}")
        return made

    # -- one setting ---------------------------------------------------------------------------------------

    def _judge(self, knob: ScriptSetting) -> JudgedSetting:
        if knob.gone:
            return JudgedSetting(knob, "dead", knob.gone, knob.cure)
        if knob.fault:
            return JudgedSetting(knob, "dead", knob.fault, knob.cure)
        libraries = [one for library in self.libraries for one in self._components(knob, library)]
        found = [self._judge_for(knob, library) for library in dict.fromkeys(libraries)]
        live = [one for one in found if one.verdict != "dead"]
        if not live:
            return found[0]
        if len(live) < len(found):
            dead = next(one for one in found if one.verdict == "dead")
            return JudgedSetting(
                knob, "cannot tell", f"it depends on the MPI library: {dead.reason}", "say which by --mpi"
            )
        one = live[0]
        if one.verdict == "live" and knob.unsure:
            return JudgedSetting(knob, "cannot tell", knob.unsure, "")
        if one.verdict == "live" and knob.partly:
            return replace(
                one, verdict="live in one branch", reason=f"only some ways through the script set it: {one.reason}"
            )
        return one

    def _judge_for(self, knob: ScriptSetting, library: str) -> JudgedSetting:
        found = _judge_carrier(knob, library)
        if found is not None:
            return found
        parameter = self._parameters[id(knob)]
        if parameter is None:
            return _judge_unknown(knob)
        caution = parameter.caution(knob.value)
        if parameter.name in self._where.effects:
            status, evidence = self._where.effects[parameter.name]
            if status in ("no_effect", "refused"):
                told = f": {evidence}" if evidence else ""
                return JudgedSetting(
                    knob, "dead", f"measured in an experiment: {status.replace('_', ' ')}{told}", "leave it out"
                )
            if status == "effective":
                return JudgedSetting(knob, "live", f"measured in an experiment: {evidence or 'effective'}", caution)
        # What the script computes may be any value.
        meaning = parse(parameter, knob.value) if knob.known and "$" not in knob.value else Meaning(None)
        if meaning.wrong:
            return JudgedSetting(knob, "dead", meaning.wrong, meaning.fix or "leave it out")
        if parameter.name == "io" and meaning.value == parameter.default and self._romio_by_default is not False:
            reason = "Open MPI before 4.1 takes ROMIO on Lustre without it, and Spectrum MPI may do so everywhere"
            return JudgedSetting(knob, "live" if self._romio_by_default else "cannot tell", reason)
        answer = acts(parameter, meaning.value, self._situation(knob, library))
        if answer.acts is False:
            return JudgedSetting(knob, "dead", answer.why, "leave it out")
        if meaning.misread:
            return JudgedSetting(knob, "live", meaning.misread, meaning.fix)
        if "file_system" in answer.unknown:
            return JudgedSetting(knob, "cannot tell", answer.why, "name it by --file-system")
        return JudgedSetting(knob, "live", describe(parameter), caution)

    def _situation(self, knob: ScriptSetting, library: str) -> Situation:
        """Give the situation in which programs find a setting: what they find beside it, and what may differ."""
        beside = [(one,) for one in self._beside] if knob.mark >= 0 else []
        texts: defaultdict[str, set[str | None]] = defaultdict(set)
        values: dict[str, Value] = {}
        unsure: set[str] = set()
        for scene in knob.scenes or (0,):
            if scene < 0:
                unsure |= {one.name for one in self._parameters.values() if one is not None}
                continue
            groups = self._scenes[scene] if scene < len(self._scenes) else []
            given: defaultdict[str, set[str | None]] = defaultdict(set)
            around = [one for group in groups for alternative in group for one in alternative]
            targets = {one.target for one in (knob, *around) if one.target and one.form not in _FILES}
            for group in [
                *groups,
                *((one,) for one in beside),
                *([] if knob.mark >= 0 else [(tuple(self._beside),)]),
            ]:
                mine = [alternative for alternative in group if knob in alternative] or list(group)
                for alternative in mine:
                    read = [one for one in alternative if library in FORMS[one.form].readers]
                    self._add_values(knob, read, targets, given, values, unsure)
                every = [{_name(self._parameters[id(one)]) for one in alternative} for alternative in mine]
                for name in set().union(*every):
                    if not all(name in names for names in every):
                        given[name].add(None)
            for name, found in given.items():
                texts[name] |= found
        several = {name for name, found in texts.items() if len(found) > 1}
        workload = self._where.workload
        if self._where.file_system and workload.file_system is None:
            workload = workload.model_copy(update={"file_system": self._where.file_system})
        own = {"mpich": "MPICH", "openmpi": "Open MPI", "openmpi-romio": "Open MPI"}.get(library, "")
        version = self._where.version or self._versions.get(own, "")
        mpi = f"{MPI[library]} {version}".strip()
        io = "ompio" if library == "openmpi" else "romio"
        return Situation(
            workload, io=io, mpi=mpi, versions=self._versions, values=values, unsure=frozenset(unsure | several)
        )

    def _add_values(
        self,
        knob: ScriptSetting,
        beside: Sequence[ScriptSetting],
        targets: Set[str],
        given: defaultdict[str, set[str | None]],
        values: dict[str, Value],
        unsure: set[str],
    ) -> None:
        for one in beside:
            parameter = self._parameters[id(one)]
            if parameter is None or not _holds_beside(one, knob, beside):
                continue
            # What one folder or one pattern of files gets, others do not.
            elsewhere = len(targets) > 1 and one.target in targets and one.target != knob.target
            if not one.known or elsewhere:
                unsure.add(parameter.name)
            given[parameter.name].add(one.value)
            values.setdefault(parameter.name, value_of(parameter, one.value))


def _holds_beside(one: ScriptSetting, knob: ScriptSetting, every: Sequence[ScriptSetting]) -> bool:
    """Whether a setting holds where another does: not if they are of two components of a file, unless inherited."""
    if one.form != "commands" or one.target != knob.target or one.component == knob.component:
        return True
    nearer = range(one.component + 1, knob.component + 1)
    again = any(other.name == one.name and other.target == one.target and other.component in nearer for other in every)
    return one.component < knob.component and one.name in find_file_system(one.layer).inherited and not again


_FILES = frozenset({"romio_file", "ior"})
"""Forms whose target is the file that holds them."""


def _name(parameter: Parameter | None) -> str:
    return "" if parameter is None else parameter.name


def _judge_carrier(knob: ScriptSetting, library: str) -> JudgedSetting | None:
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
    if library not in form.readers:
        reason = f"{form.why}, and the program uses {MPI[library]}"
        return JudgedSetting(knob, "dead", reason, "use that library's own form")
    return None


def _find_parameter(knob: ScriptSetting) -> Parameter | None:
    setting = _as_setting(knob)
    return find_parameter(setting) or find_described(setting)


def _as_setting(knob: ScriptSetting) -> Setting:
    return Setting(FORMS[knob.form].carrier, knob.name, "", knob.layer)


@cache
def _list_derived() -> frozenset[str]:
    return frozenset(derived.name for stack in every_stack() for derived in stack.derived)


def _judge_unknown(knob: ScriptSetting) -> JudgedSetting:
    if knob.name in _list_derived():
        return JudgedSetting(knob, "live", "it acts together with another setting of its stack")
    carrier = _as_setting(knob).carrier
    if carrier is HINT:
        meant = _find_meant(knob.name)
        if meant:
            reason = (
                f"no hint has this name, and MPI libraries pass over unknown hints without a word; {meant} is meant?"
            )
            return JudgedSetting(knob, "dead", reason, f"write {meant}")
    if carrier is PNETCDF and knob.name in names_of(HINT):
        reason = "PnetCDF hands hints of MPI-IO on where it opens files so: before 1.15, or with nc_driver=mpiio"
        return JudgedSetting(knob, "cannot tell", reason)
    # To compare takes time with the product of the lengths.
    close = difflib.get_close_matches(knob.name[:_LONGEST], sorted(names_of(carrier)), 1, _CLOSE)
    told = f"; {close[0]} is meant?" if close else ""
    source = find_source(carrier, knob.name)
    documented = f"; names like it are documented in {source}" if source else ""
    return JudgedSetting(knob, "cannot tell", f"no stack describes what it does{documented}{told}")


def _find_meant(name: str) -> str:
    """Give the hint that a misspelt name means; empty if it may be a hint that no stack has."""
    names = names_of(HINT)
    with_vendor = next((begin + name for begin in _OF_VENDORS if begin + name in names), "")
    if with_vendor or knows_exactly(HINT, name):
        return with_vendor
    return next(iter(difflib.get_close_matches(name[:_LONGEST], sorted(names), 1, _CLOSE)), "")


def describe(parameter: Parameter) -> str:
    """Say what a parameter is, as a part of a sentence, with its trap if it is never searched."""
    text = parameter.description.rstrip(".")
    about = begin_small(text) if text else "a setting that the library reads"
    # What is never searched is described for its trap.
    return f"{about}. {parameter.trap.rstrip('.')}" if parameter.trap and len(parameter.values) == 1 else about


def begin_small(text: str) -> str:
    """Write a sentence as a part of another: OSTs and MPI keep their capitals."""
    word = text.split(None, 1)[0] if text else ""
    return text if any(letter.isupper() or letter.isdigit() for letter in word[1:]) else f"{text[:1].lower()}{text[1:]}"


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


def files_in(folder: Path) -> Files:
    """Give what reads the scripts that a script of a folder reads, by the paths that it names."""

    def read(path: str) -> str | None:
        try:
            place = folder / Path(path).expanduser()
            if not place.is_file() or place.stat().st_size > _MOST_BYTES:
                return None
            data = place.read_bytes()
        except (OSError, RuntimeError, ValueError):
            return None
        return None if b"\0" in data else data.decode("utf-8", errors="replace")

    return read


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
    found = parse_script(text, None, submission_folders())
    script = next((one for one in found.all() if one.hints_path), None)
    if script is None or script.hints_file is None:
        return None
    line, named = script.hints_file, script.hints_path
    if Path(named).name in {Path(target).name for target in script.written}:
        return HintsFile(line, named, "the script itself writes it")
    known = {**environment, **dict.fromkeys(["PWD", *submission_folders()], str(folder))}
    path = Template(_HERE.sub("$PWD", named)).safe_substitute(known)
    if "$" in path or "`" in path:
        return HintsFile(line, named, "not looked at: only the job knows the name")
    try:
        place = folder / Path(path).expanduser()
    except RuntimeError:
        return HintsFile(line, path, "that user is not known here")
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
