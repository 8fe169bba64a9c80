"""What runners of programs have in common: the preflight of a command, and how a launch becomes words and files.

Their runs are processes here, jobs or steps of a scheduler, or phases of one launch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stripewise.catalogue.carriers import (
    ARGUMENT,
    INTERPRETER,
    LOST,
    OBSERVER,
    Carried,
    Program,
    Setting,
    need_observer,
    objects_of,
    with_files,
)
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import Plan, spell
from stripewise.catalogue.stack import load_stack, stack_names
from stripewise.catalogue.told import Told
from stripewise.errors import StripewiseError, UserError
from stripewise.interpreter import PROBING, Probing, inherit_environment
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import Conditions, kinds_of
from stripewise.observe.record_reading import read_record
from stripewise.ownership import make_own_folder
from stripewise.requests.experiment import OWN_LAYER, Experiment, Replay, parameters_of
from stripewise.requests.policy import load_policy
from stripewise.requests.site import site_allowances
from stripewise.runners import hooks
from stripewise.runners.allow_list import check_application
from stripewise.runners.base import Preflight, Runner
from stripewise.runners.injection import (
    TOO_MANY,
    Guidance,
    Injection,
    arguments_of,
    defaults_of,
    few_enough,
    inject,
    values_of,
    words_of,
)
from stripewise.runners.local.scratch import Scratch, kept_input
from stripewise.runners.native.build import accelerator_for, file_digest, observer_for, runtime_for
from stripewise.runners.program import checkup
from stripewise.runners.program.command import substitute
from stripewise.runners.program.mpi import lacks_driver
from stripewise.runners.program.started import describe_command, understand
from stripewise.runners.program.target import MPI_VERSION, Target, check_placeholders, look, workload_of
from stripewise.runners.setup_lines import environment_after
from stripewise.sizes import count_of

_DERIVED = "<derived>"
"""Stands for the value of a derived setting, which depends on the configuration."""


@dataclass(frozen=True)
class Found:
    """What the preflight found, as the runs need it.

    Attributes
    ----------
    environment : mapping
        The program's, after the setup lines.
    target : Target
        The experiment's command.
    runtime : str
        As the runner was asked.
    preflight : Preflight
    observer : Path or None
        What counts the program's own calls, beside the runtime if that is there; only where the objective needs a
        report, or settings need it.
    probing : Probing
        Whether programs may be started to find out more.
    in_python : bool
        Whether a module is put into the program's Python in each run.
    watched : tuple of str
        The objects of Python that parameters are for.
    """

    environment: Mapping[str, str]
    target: Target
    runtime: str
    preflight: Preflight = field(default_factory=Preflight)
    observer: Path | None = None
    probing: Probing = PROBING
    in_python: bool = False
    watched: tuple[str, ...] = ()
    _libraries: dict[str, Path] = field(default_factory=dict)

    def library_for(self, target: Target) -> Path | None:
        """Give the runtime for a program, built if need be and allowed; None if it cannot or must not be preloaded.

        Raises
        ------
        StripewiseError
            If it cannot be built.
        """
        if self.runtime == "none" or target.program.obstacle or target.program.without_mpi or target.mpi is None:
            return None
        if self.runtime != "auto":
            return Path(self.runtime).absolute()
        if target.mpi.abi not in self._libraries:
            self._libraries[target.mpi.abi] = runtime_for(target.mpi, target.launcher, self.environment, self.probing)
        return self._libraries[target.mpi.abi]


_SETUP = "what the setup lines change"


class BehindSetup(UserError):  # noqa: N818  as the errors that it stands for
    """The program is not found, and setup lines that may not be run could bring it."""


def inspect(
    experiment: Experiment, environment: Mapping[str, str], cwd: Path, runtime: str
) -> tuple[Preflight, Found | None]:
    """Find out from files alone what :func:`find` would, and start nothing; see :meth:`Runner.inspect`.

    Returns
    -------
    tuple of (Preflight, Found or None)
        None where the program is not found without the setup lines: then the command alone tells what there is.

    Raises
    ------
    UserError
        If no run could succeed, as far as files tell.
    """
    probing = Probing(allowed=False)
    found = None
    try:
        found = find(experiment, environment, cwd, runtime, probing)
        preflight = found.preflight
    except BehindSetup as error:
        warning = f"{error.what}; the setup lines may change that"
        started = understand(experiment.command).programs
        command = tuple(describe_command(started))
        preflight = Preflight(warnings=(warning,), command=command, workload=workload_of(started))
    return replace(preflight, unknown=probing.unknown), found


def find(
    experiment: Experiment, environment: Mapping[str, str], cwd: Path, runtime: str, probing: Probing = PROBING
) -> Found:
    """Look at everything that the runs need.

    Parameters
    ----------
    experiment : Experiment
    environment : mapping
        Before the setup lines.
    cwd : Path
    runtime : str
        ``auto``, ``none`` or the runtime's path.
    probing : Probing
        Whether setup lines, programs that are asked, and compilers may be started.

    Raises
    ------
    BehindSetup
        If the program is not found without the setup lines, which may not be run.
    UserError
        If no run could succeed.
    """
    if runtime not in ("auto", "none") and not Path(runtime).is_file():
        raise UserError(f"runtime library {runtime} does not exist", "build it with stripewise site native build")
    limits = experiment.hooks
    hidden = bool(experiment.setup) and not probing.allows(_SETUP)
    lines = [] if hidden else experiment.setup
    after = environment_after(lines, experiment.env, environment, cwd, limits.timeout)
    defaults = defaults_of(experiment)
    warnings = check_placeholders(experiment.command, arguments_of(experiment), values_of(None, defaults, None))
    words = words_of(experiment, None, defaults)
    try:
        target = look(words, after, cwd, probing)
    except UserError as error:
        raise (BehindSetup(error.what, error.fix) if hidden else error) from error
    started = target.script or target.binary.path
    applications, reads = load_policy(environment).applications, experiment.stdin is not None
    check_application(applications, experiment.command, started, cwd, after, reads=reads)
    hooks.check_deletions(limits.delete, cwd)
    hooks.check_caches(limits.drop_caches)
    found = Found(after, target, runtime, probing=probing)
    library = found.library_for(target)
    searched, kinds = parameters_of(experiment).values(), kinds_of(experiment.objective)
    acts = need_observer(parameter.carrier for parameter in searched)
    # Whether a setting changed the files that the program writes by itself, only its own calls show.
    shown = any(parameter.evidence == "parts" for parameter in searched)
    reported, countable = shown or any(kind.reported for kind in kinds), few_enough(target.ranks)
    watched = objects_of((parameter.carrier, parameter.setting) for parameter in searched)
    found = replace(found, in_python=bool(watched) or any(kind.of_loaders for kind in kinds), watched=watched)
    if (reported and (library is None or countable)) or acts:
        found = replace(found, observer=_observer(found, library, warnings, acts=acts))
    elif reported and library is not None:
        warnings.append(TOO_MANY)
    seen = library is not None or found.observer is not None
    unseen = "" if seen else target.why_not_preloaded or "no MPI library was found for it"
    if found.in_python and target.program.isolated_child:
        warnings.append(target.program.isolated_child)
    conditions = Conditions(experiment.runner, target.name, target.workload().nodes, unseen, target.program.isolated)
    for kind in kinds:
        kind.check(conditions)
    carried = _list_carried(experiment, target, library, found.observer)
    warnings += [*target.warnings, *_warnings(target, carried, runtime, found.observer, in_python=found.in_python)]
    preflight = replace(
        _preflight(experiment, found, library, carried, warnings, cwd),
        lost=_make_lost(experiment, target, library, found.observer),
    )
    if experiment.replay is not None:
        preflight = _with_replayer(preflight, experiment.replay, experiment.command, found)
    elif experiment.measures_ceiling and library is not None and not applications:
        preflight = _with_benchmark(preflight, found)
    return replace(found, preflight=preflight)


def _observer(found: Found, library: Path | None, warnings: list[str], *, acts: bool) -> Path | None:
    """Give what observes a program without MPI, or beside the runtime, and may act on files, if it can be preloaded."""
    alone = found.runtime == "auto" and found.target.mpi is None
    if (library is None and not alone) or found.target.program.obstacle:
        return None
    try:
        return (accelerator_for if acts else observer_for)(found.environment, found.probing)
    except StripewiseError as error:
        warnings.append(f"the calls of the program cannot be observed: {error.what}")
        return None


def _with_benchmark(preflight: Preflight, found: Found) -> Preflight:
    """Let the bundled benchmark take the program's place in a launch, where it can."""
    target, mpi = found.target, found.target.mpi
    if mpi is None or target.launcher is None or target.script or target.line.listing:
        return preflight
    if len(target.line.segments) != 1:
        return preflight
    before = target.line.segments[0].before

    def words() -> tuple[str, ...]:
        from stripewise.runners.native.build import KERNEL, build  # noqa: PLC0415  few programs are launched so often
        from stripewise.runners.native.compiler import find_compiler  # noqa: PLC0415

        return (*before, str(build(KERNEL, find_compiler(mpi, None, found.environment), found.environment).path))

    told = "ceiling   one launch of the bundled benchmark, in the folder of the program's files (--no-ceiling: none)"
    return replace(preflight, benchmark=words, summary=(*preflight.summary, told))


def _with_replayer(preflight: Preflight, replay: Replay, command: Sequence[str], found: Found) -> Preflight:
    """Make the replays of a record ready, which are launched as the program is."""
    from stripewise.runners.native.replaying import check_replayable, make_replayer  # noqa: PLC0415  few replay

    if found.library_for(found.target) is None:
        raise UserError(
            "replays cannot be compared with the program: the runtime is not preloaded", "tune the program itself"
        )
    path = Path(replay.record)
    record, line = read_record(path), f"search    on replays of {path}"
    replayer = None
    if found.probing.allows("whether a compiler builds the program that replays the record"):
        replayer = make_replayer(replay, record, command, found.environment, found.target.mpi)
        line += f", by {replayer.program}"
    else:
        check_replayable(replay, record, command)
    return replace(
        preflight,
        replayer=replayer,
        fingerprint={**preflight.fingerprint, "the record": f"{path} ({file_digest(path)[:16]})"},
        summary=(*preflight.summary, line),
    )


def _list_carried(
    experiment: Experiment, target: Target, library: Path | None, observer: Path | None
) -> tuple[Carried, ...]:
    """Say how each parameter that may be searched would reach the program."""
    implied = target.mpi.io if target.mpi is not None and target.mpi.io in stack_names() else None
    own = [parameter for parameter in parameters_of(experiment).values() if parameter.layer == OWN_LAYER]
    # What a program without MPI is to be tuned by is only what the experiment names.
    names = experiment.stacks or ([] if target.mpi is None and (own or _has_no_mpi(target)) else [implied or "romio"])
    program = _undecided(target.program)
    if program.io is None and implied and not experiment.stacks:
        names = ["openmpi", "ompio", "romio"]
    settings = [Setting(p.carrier, p.setting, spell(p.default) or "?") for p in own]
    for name in names:
        stack = load_stack(name)
        for parameter in stack.parameters:
            override = experiment.parameters.get(parameter.name)
            if override is None or not override.exclude:
                value = program.romio if parameter.name == "io" else spell(parameter.default)
                settings.append(Setting(parameter.carrier, parameter.setting, value or "?", parameter.layer))
        settings += [Setting(d.carrier, d.name, _DERIVED, d.layer) for d in stack.derived]
    plan = Plan(tuple(settings), override=experiment.override, files=experiment.files)
    return inject(plan, program, library, Path("/"), observer=observer).carried


def _undecided(program: Program) -> Program:
    """Give a program with either MPI-IO implementation, where its library has both and a plan may choose."""
    return replace(program, io=None) if program.io == "ompio" and program.romio else program


def _has_no_mpi(target: Target) -> bool:
    """Whether nothing speaks for MPI: no library, no launcher, and nothing that keeps it from being seen."""
    return target.mpi is None and not target.program.obstacle and target.launcher is None


_NAMES = {"hdf5": "HDF5", "mpiio": "MPI-IO"}


def _make_lost(
    experiment: Experiment, target: Target, library: Path | None, observer: Path | None
) -> Callable[[Parameter], str]:
    """Give a function that says why a parameter cannot reach the program."""
    program = _undecided(target.program)
    replayed = {"mpiio"}
    if experiment.replay is not None and read_record(Path(experiment.replay.record)).uses_hdf5:
        replayed.add("hdf5")
    if not experiment.stacks and _has_no_mpi(target):
        # A script may start programs that cannot be seen from here. Then the user names the stack.
        named = target.script or target.name
        program = replace(program, without_mpi=program.without_mpi or f"no MPI program was found in {named}")

    def why(parameter: Parameter) -> str:
        carrier = parameter.carrier
        met = not carrier.apis or bool(replayed & set(carrier.apis))
        if experiment.replay is not None and (carrier is ARGUMENT or carrier.names_files or not met):
            made = " and ".join(_NAMES[one] for one in sorted(replayed))
            return f"replays make the program's calls of {made}, and take nothing else of it"
        setting = Setting(parameter.carrier, parameter.setting, spell(parameter.default) or "?", parameter.layer)
        plan = Plan((setting,), override=experiment.override)
        lost = inject(plan, program, library, Path("/"), observer=observer).lost
        if lost:
            return lost[0].wins
        if lacks_driver(target.mpi, parameter.driver):
            return f"needs the {' or '.join(parameter.driver)} driver, which this ROMIO was built without"
        return ""

    return why


def _warnings(
    target: Target, carried: tuple[Carried, ...], runtime: str, observer: Path | None, *, in_python: bool
) -> list[str]:
    program = target.name
    found = []
    if target.why_not_preloaded:
        found.append(
            f"the runtime cannot be preloaded into {program}: {target.why_not_preloaded}. Settings go through "
            f"{_describe_ways(carried)} instead, and no report will prove their effect"
        )
    elif observer is not None and target.mpi is None:
        found.append(
            f"no MPI library was found for {program}: what its processes do to files is counted at the C library"
        )
    elif target.mpi is None and in_python:
        found.append(f"no MPI library was found for {program}: what it does with loaders is counted in its Python")
    elif target.mpi is None:
        found.append(
            f"no MPI library was found for {program}, so nothing is preloaded: only its elapsed time and what it "
            "prints can be measured"
        )
    elif runtime == "none":
        found.append("the runtime is not preloaded, as asked: no report will prove the effect of settings")
    derived = [] if target.program.without_mpi else [c for c in carried if c.setting.value == _DERIVED]
    found += [
        f"{entry.setting.key} is not set along with what it follows from: {entry.wins}"
        for entry in derived
        if entry.by == LOST
    ]
    return found


def _describe_ways(carried: tuple[Carried, ...]) -> str:
    ways = dict.fromkeys(entry.by for entry in carried if entry.by != LOST)
    said = {"command": "the command", OBSERVER: "a library that is preloaded into each process"}
    said[INTERPRETER] = "a module that is put into its Python"
    return " and ".join(said.get(way, way) for way in ways) or "nothing"


def _keep_certain(fingerprint: Mapping[str, str], experiment: Experiment, target: Target) -> dict[str, str]:
    """Leave out of a fingerprint what only a started program tells, or what setup lines may change."""
    doubtful = {MPI_VERSION}
    if experiment.setup:
        kept = {"the working folder", "the script"}
        kept |= {"the program"} if "/" in target.line.program[0] else set()
        doubtful |= fingerprint.keys() - kept
    return {name: value for name, value in fingerprint.items() if name not in doubtful}


def _preflight(
    experiment: Experiment,
    found: Found,
    library: Path | None,
    carried: tuple[Carried, ...],
    warnings: list[str],
    cwd: Path,
) -> Preflight:
    target, mpi = found.target, found.target.mpi
    workload = target.workload()
    about = checkup.record(found.environment, cwd)
    about |= {"mpi": mpi.version if mpi else None, "mpi_path": str(mpi.path) if mpi else None}
    about["io"] = mpi.io if mpi else None
    ranks = f", {count_of(target.line.ranks, 'rank')} by {target.line.launcher}" if target.line.ranks else ""
    # Its interpreter alone would not tell what is tuned.
    kind = f"script for {target.binary.path}" if target.script else target.binary.kind.value
    summary = [f"program   {target.script or target.binary.path} ({kind}{ranks})"]
    if mpi is not None:
        summary.append(
            f"MPI       {mpi.version or mpi.abi}, {mpi.path}, {mpi.found_by}; MPI-IO by {mpi.io or 'unknown'}"
        )
    if library is not None:
        wins = "the plan wins" if experiment.override else "the program's own hints win"
        shown = f" {library}" if library.is_file() else ", which the first run builds"
        summary.append(f"settings  by the preloaded runtime{shown}; {wins}")
    elif carried:
        summary.append(f"settings  by {_describe_ways(carried)}")
    if experiment.stdin is not None:
        summary.append(f"input     {experiment.stdin.describe()}, for every launch")
    fingerprint = {**target.fingerprint(), "the working folder": os.fspath(cwd)}
    loaded = about["modules"]
    if loaded:
        fingerprint["the list of loaded modules"] = ", ".join(loaded)
    if not found.probing.allowed:
        fingerprint = _keep_certain(fingerprint, experiment, target)
    return Preflight(
        warnings=tuple(warnings),
        summary=tuple(summary),
        command=tuple(describe_command(target.started)),
        fingerprint=fingerprint,
        environment=about,
        watched=bool(found.watched),
        io=mpi.io if mpi else None,
        told=mpi.told if mpi else Told(),
        workload=workload,
    )


@dataclass(frozen=True)
class Assembled:
    """A launch, ready to be written to its folder and started.

    Attributes
    ----------
    launch : Launch
    place : Scratch
        Its folder.
    target : Target
        Its command.
    values : mapping
        What placeholders stand for.
    exports : mapping
        The experiment's variables for the run; they win over what its setup lines set.
    words : tuple of str
        The whole command, with the plan's carriers.
    injection : Injection
    stdin : Path or None
        The file that the program reads; None for no input.
    """

    launch: Launch
    place: Scratch
    target: Target
    values: Mapping[str, str]
    exports: Mapping[str, str]
    words: tuple[str, ...]
    injection: Injection
    stdin: Path | None


@dataclass(frozen=True)
class Surroundings:
    """Where and how programs are launched.

    Attributes
    ----------
    runtime : str
        ``auto`` builds or finds the runtime library for the program's MPI; ``none`` goes without; else its path.
    cwd : Path, optional
        Where the program runs; by default, where Stripewise does.
    environment : mapping, optional
        What the program's environment starts from; by default, that of Stripewise.
    deletes_in : sequence of Path, optional
        The only folders in which ``hooks.delete`` deletes files; by default all.
    """

    runtime: str = "auto"
    cwd: Path | None = None
    environment: Mapping[str, str] | None = None
    deletes_in: Sequence[Path] | None = None


class ProgramRunner(Runner):
    """Launches the experiment's command.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Where the runs' folders are made; compute nodes must see it.
    surroundings : Surroundings, optional
    """

    def __init__(self, experiment: Experiment, folder: Path, surroundings: Surroundings | None = None) -> None:
        around = surroundings or Surroundings()
        self.experiment = experiment
        self.folder = folder.absolute()
        self.runtime = around.runtime
        self.cwd = around.cwd or Path.cwd()
        self.environment = inherit_environment(around.environment)
        self.deletes_in = around.deletes_in
        self._found: Found | None = None
        self._files: dict[Path, None] = {}

    def prepare(self) -> Preflight:
        """Check the command, find its MPI, build or find the runtime; see :class:`Runner`."""
        self._check()
        self._found = find(self.experiment, self.environment, self.cwd, self.runtime)
        self._own_folder()
        return self._describe(self._found.preflight, self._found)

    def inspect(self) -> Preflight:
        """Find the program and its MPI by reading files; see :class:`Runner`."""
        self._check()
        return self._describe(*inspect(self.experiment, self.environment, self.cwd, self.runtime))

    @property
    def found(self) -> Found:
        """What the preflight found."""
        if self._found is None:
            self.prepare()
        assert self._found is not None
        return self._found

    def target_of(self, launch: Launch) -> Target:
        """Look at the command of a launch.

        Raises
        ------
        UserError
            If it can no longer be started, or a value would divide it.
        """
        place = Scratch.of(self.folder, launch)
        words = words_of(self.experiment, launch, defaults_of(self.experiment), place)
        return look(words, self.found.environment, self.cwd)

    def assemble(self, launch: Launch, target: Target) -> Assembled:
        """Bring a launch's plan into its command; its standard input alone is written."""
        experiment, place = self.experiment, Scratch.of(self.folder, launch)
        values = values_of(launch, defaults_of(experiment), place)
        allow, found = site_allowances(target.program.environment), self.found
        guidance = Guidance(allow=allow, in_python=found.in_python, watched=found.watched)
        observer = None if launch.replays else self.found.observer
        library = self.found.library_for(target)
        injection = inject(launch.plan, target.program, library, place.path, guidance, observer)
        if "STRIPEWISE_REPORT" in injection.environment:
            # A script may launch several MPI programs: the run is all of them.
            injection = replace(injection, environment={**injection.environment, "STRIPEWISE_REPORTS": "each"})
        words = with_files(target.line.words(injection.environment, launch.unset), self.cwd, injection.stand_in)
        exports = {name: substitute(value, values) for name, value in experiment.env.items()}
        for kind in kinds_of(experiment.objective):
            exports = {**kind.environment(place.path), **exports}
        exports = {name: value for name, value in exports.items() if name not in launch.unset}
        stdin = None if launch.replays else kept_input(experiment, self.folder)
        return Assembled(launch, place, target, values, exports, words, injection, stdin)

    def _check(self) -> None:
        """Refuse what the runs of this runner cannot have."""

    def _own_folder(self) -> None:
        """Make the folder of the runs, before another user can where everyone may write: its scripts are run."""
        try:
            make_own_folder(self.folder, "the folder of the runs", "choose another folder with 'scratch'")
        except OSError as error:
            raise StripewiseError(
                f"cannot make {self.folder} for the runs' output: {error.strerror}",
                "make room or choose another folder with 'scratch', then continue with: stripewise resume ID",
            ) from error

    def _describe(self, preflight: Preflight, found: Found | None) -> Preflight:
        """Add to a preflight what the runs of this runner are; ``found`` is None where the program was not found."""
        return preflight

    @property
    def known_files(self) -> tuple[Path, ...]:
        """Files that earlier runs used."""
        return tuple(self._files)

    def _remember_files(self, outcome: Outcome) -> None:
        """Note the files that a run used, whose data later runs are not to find in memory."""
        if outcome.activity is not None:
            self._files |= dict.fromkeys(outcome.activity.paths)
