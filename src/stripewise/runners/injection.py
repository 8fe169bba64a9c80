"""How a plan travels to the program: by the preloaded runtime, or by what MPI libraries read of their own accord.

The carriers say what to set, and what the files must hold. Nothing is started here, and only :func:`prepare`, for a
command that is the user's own run and not one of an experiment, writes files.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stripewise.catalogue.carriers import (
    ARGUMENT,
    FILE,
    LOST,
    MCA,
    Carried,
    Carrier,
    LaunchSettings,
    Program,
    Setting,
    named_in,
    need_observer,
    objects_of,
    with_files,
)
from stripewise.catalogue.plan import Plan, spell
from stripewise.errors import StripewiseError, UserError
from stripewise.interpreter import inherit_environment
from stripewise.observe.left import PREFIX
from stripewise.ownership import current_folder, make_folder, written_whole
from stripewise.requests.site import site_allowances
from stripewise.runners.native.build import accelerator_for, observer_for, runtime_for
from stripewise.runners.program.command import fill, is_obeyed, placeholders, substitute
from stripewise.runners.program.target import look

if TYPE_CHECKING:
    from stripewise.catalogue.parameter import Parameter
    from stripewise.launch import Launch
    from stripewise.requests.experiment import Experiment
    from stripewise.runners.local.scratch import Scratch


@dataclass(frozen=True)
class Guidance:
    """What the runtime is to do besides carrying out the plan.

    Attributes
    ----------
    mode : str
        ``observe``, ``apply``, ``predict``, ``online`` or ``orders``; empty: apply where there are settings, else
        observe.
    model : Path or None
        An artifact, for the modes predict and online.
    journal : Path or None
        Where the mode online keeps what it learned, and orders are answered.
    orders : Path or None
        The file of orders, for the mode orders; with ``in_python`` and no mode, for the program's loaders.
    settle : bool
        Whether files are synchronised before they are closed, in the mode orders.
    allow : tuple of str
        See :class:`~stripewise.catalogue.plan.Plan`.
    record : Path or None
        Where the runtime writes what the program does.
    own_calls : bool
        Whether the program's own calls are counted, too. Each process then leaves a part, and the caller merges them.
    where : bool
        Whether the places of the program's code from which data moves are kept, too.
    trace : bool
        Whether its single reads and writes are kept, too.
    in_python : bool
        Whether a module is put into the program's Python, even where no setting is for it, to count what loaders do.
    watched : tuple of str
        As in :class:`~stripewise.catalogue.carriers.base.LaunchSettings`.
    """

    mode: str = ""
    model: Path | None = None
    journal: Path | None = None
    allow: tuple[str, ...] = ()
    orders: Path | None = None
    settle: bool = False
    record: Path | None = None
    level: str = ""
    own_calls: bool = False
    where: bool = False
    trace: bool = False
    in_python: bool = False
    watched: tuple[str, ...] = ()


@dataclass(frozen=True)
class Injection:
    """All that brings a plan to a program.

    Attributes
    ----------
    environment : mapping
        Variables to be set by ``env`` directly before the program.
    files : mapping
        Name within the run's folder to content.
    carried : tuple of Carried
        One a setting, in the plan's order.
    stand_in : mapping
        As in :class:`~stripewise.catalogue.carriers.base.LaunchSettings`.
    """

    environment: Mapping[str, str]
    files: Mapping[str, str]
    carried: tuple[Carried, ...]
    stand_in: Mapping[tuple[str, Path], Path] = field(default_factory=dict)

    @property
    def lost(self) -> tuple[Carried, ...]:
        """Settings that cannot reach the program."""
        return tuple(entry for entry in self.carried if entry.by == LOST)


def inject(
    plan: Plan,
    program: Program,
    library: Path | None,
    folder: Path,
    guidance: Guidance | None = None,
    observer: Path | None = None,
) -> Injection:
    """Work out how a plan travels.

    Parameters
    ----------
    plan : Plan
    program : Program
    library : Path or None
        The runtime; None where it cannot or shall not be preloaded.
    folder : Path
        The run's; the caller writes the files of the result there.
    guidance : Guidance, optional
    observer : Path or None
        What is to be preloaded into a program without MPI, or beside the runtime.
    """
    preloaded = library is not None and not program.obstacle
    observed = observer is not None and not program.obstacle
    guidance = guidance or Guidance()
    settings = [*plan.settings, *(setting for _, some in plan.sections for setting in some)]
    lays_out = guidance.mode in _DECIDE or any(setting.carrier.of_file_system for setting in settings)
    allow = tuple(dict.fromkeys((*plan.allow, *(guidance.allow if lays_out else ()))))
    program = _with_component(program, plan)
    launch = LaunchSettings(program, folder, preloaded, plan.override, plan.files, observed=observed, allow=allow)
    if guidance.in_python or objects_of((setting.carrier, setting.key) for setting in plan.settings):
        launch.in_python, launch.watched = _IN_PYTHON, guidance.watched
        if guidance.in_python and guidance.orders is not None:
            launch.orders = (str(guidance.orders), str(guidance.journal))
    carried = [setting.carrier.carry(setting, launch) for setting in plan.settings]
    for carrier in Carrier.known.values():
        carried = [*carrier.finish(launch, carried)]
    if not preloaded:
        why = "only the runtime gives several groups of files settings of their own"
        carried += [Carried(setting, LOST, why) for _, settings in plan.sections for setting in settings]
    if library is not None and preloaded:
        _preload(replace(plan, settings=_in_program(carried)), library, launch, guidance)
    if observed:
        # Behind the runtime, which tells it what MPI-IO and HDF5 do.
        others = launch.users("LD_PRELOAD").replace(" ", ":").split(":")
        libraries = [str(library)] * preloaded + [str(observer)]
        launch.environment["LD_PRELOAD"] = ":".join(dict.fromkeys(entry for entry in (*libraries, *others) if entry))
        launch.environment["STRIPEWISE_PROCESSES"] = str(folder.absolute() / PREFIX)
        if guidance.where:
            launch.environment["STRIPEWISE_WHERE"] = "1"
        if guidance.trace:
            launch.environment["STRIPEWISE_TRACE"] = "1"
        if guidance.record is not None and not preloaded:
            launch.environment["STRIPEWISE_CALLS"] = ",".join(map(_name_stream, range(3)))
    if "LD_PRELOAD" in launch.environment:
        # A program that is built with gcc's address sanitizer starts only as its first library otherwise.
        options = (launch.users("ASAN_OPTIONS"), "verify_asan_link_order=0")
        launch.environment["ASAN_OPTIONS"] = ":".join(filter(None, options))
    return Injection(launch.environment, launch.files, tuple(carried), launch.stand_in)


_DECIDE = ("predict", "online", "orders")
"""Modes in which settings are chosen while the program runs."""

_IN_PYTHON = Path(__file__).absolute().with_name("in_python")


def _with_component(program: Program, plan: Plan) -> Program:
    """Give a program with the MPI-IO implementation that a plan chooses, where it chooses one."""
    chosen = next((s.value for s in plan.settings if s.carrier is MCA and s.key == "io"), "")
    return replace(program, io=chosen if chosen == "ompio" else "romio") if chosen else program


def _in_program(carried: list[Carried]) -> tuple[Setting, ...]:
    """Give the settings for the runtime: all but layouts of file systems that it does not know."""
    return tuple(c.setting for c in carried if c.by != LOST or not c.setting.carrier.of_file_system)


def _name_stream(number: int) -> str:
    """Name the file behind a standard stream that the command is given, by device and inode."""
    try:
        about = os.fstat(number)
    except OSError:
        return "0:0"
    return f"{about.st_dev}:{about.st_ino}"


def _preload(plan: Plan, library: Path, launch: LaunchSettings, guidance: Guidance) -> None:
    environment, folder = launch.environment, launch.folder
    environment["LD_PRELOAD"] = prepend(str(library), launch.users("LD_PRELOAD"))
    environment["STRIPEWISE_REPORT"] = str(folder / "report.json")
    environment["STRIPEWISE_MODE"] = guidance.mode or ("apply" if plan.settings or plan.sections else "observe")
    if guidance.model is not None:
        environment["STRIPEWISE_MODEL"] = str(guidance.model)
    if guidance.journal is not None and guidance.mode:
        environment["STRIPEWISE_JOURNAL"] = str(guidance.journal)
    if guidance.orders is not None and guidance.mode:
        environment["STRIPEWISE_ORDERS"] = str(guidance.orders)
    if guidance.record is not None:
        environment["STRIPEWISE_RECORD"] = str(guidance.record)
        environment["STRIPEWISE_RECORD_LEVEL"] = guidance.level
    if guidance.settle:
        environment["STRIPEWISE_SETTLE"] = "1"
    told = plan.settings or plan.sections or plan.workload
    if told or (guidance.mode in _DECIDE and (launch.allow or plan.override)):
        launch.files["plan"] = replace(plan, allow=launch.allow).text()
        environment["STRIPEWISE_PLAN"] = str(folder / "plan")


def prepend(library: str, preloaded: str) -> str:
    """Put a library first in a list for LD_PRELOAD: what comes later then sees the calls that the runtime makes."""
    others = [entry for entry in preloaded.replace(" ", ":").split(":") if entry and entry != library]
    return ":".join([library, *others])


_MOST_RANKS = 1024
"""Each process leaves a file in the run's folder, and one process merges them."""

TOO_MANY = (
    f"with more than {_MOST_RANKS} ranks only MPI-IO is counted, and not the program's own calls of the C library. To "
    "have these counted, run fewer ranks, or name a stack that acts on them (posix)"
)


OWN_CALLS = "run --mode observe counts the calls of the C library"
"""What a record does not hold."""


def few_enough(ranks: int | None) -> bool:
    """Whether a job of so many ranks is counted without being asked; None where the launcher does not say."""
    return ranks is None or ranks <= _MOST_RANKS


def arguments_of(experiment: Experiment) -> dict[str, str]:
    """Give the parameters that are passed as arguments, and the placeholder that stands for each.

    Raises
    ------
    UserError
        If a stack cannot be loaded or a parameter is wrong.
    """
    found = _parameters(experiment).items()
    return {name: parameter.setting for name, parameter in found if parameter.carrier is ARGUMENT}


def _parameters(experiment: Experiment) -> Mapping[str, Parameter]:
    from stripewise.requests.experiment import parameters_of  # noqa: PLC0415  a plan alone has no experiment

    return parameters_of(experiment)


def defaults_of(experiment: Experiment) -> dict[str, str]:
    """Give what placeholders stand for in a run that no configuration belongs to yet (the warm-up)."""
    found: dict[str, str] = {}
    for name, parameter in _parameters(experiment).items():
        if parameter.carrier is ARGUMENT:
            found[name] = found[parameter.setting] = spell(parameter.default)
    return found


def words_of(
    experiment: Experiment, launch: Launch | None, values: Mapping[str, str], place: Scratch | None = None
) -> list[str]:
    """Give the command of a launch with its placeholders replaced.

    Parameters
    ----------
    experiment : Experiment
    launch : Launch or None
        None for the command as such, before any run is planned.
    values : mapping
        See :func:`defaults_of`.
    place : Scratch or None
        The run's folder.

    Raises
    ------
    UserError
        If a value would divide the command, or become an option of the launcher.
    """
    own = experiment.command
    if launch is not None and launch.command:
        own = shlex.split(substitute(launch.command, {"command": shlex.join(own)}))
    known = values_of(launch, values, place)
    words = fill(own, known)
    for word, written in words:
        # To a launcher a colon is where the next program begins.
        if word != written and is_obeyed(word):
            what = "a colon" if word == ":" else f"'{word}', an option of the launcher"
            raise UserError(f"'{written}' in the command becomes {what}", "give the parameter another value")
    return [word for word, _ in words]


def values_of(launch: Launch | None, values: Mapping[str, str], place: Scratch | None) -> dict[str, str]:
    """Give what each placeholder stands for in a launch."""
    known = dict(values)
    if launch is not None:
        known |= {name: spell(value) for name, value in launch.configuration.items()}
        # A key of the carrier may differ from the parameter's name, and derived settings have no parameter at all.
        known |= {setting.key: setting.value for setting in launch.plan.of(ARGUMENT)}
    known["run"] = str(launch.number) if launch else "0"
    known["run_folder"] = str(place.path) if place else "."
    return known


@dataclass(frozen=True)
class Foreground:
    """A command ready to replace the present process.

    Attributes
    ----------
    words : tuple of str
        The command with the plan's carriers directly before the program.
    injection : Injection
        How each setting travels.
    warnings : tuple of str
        What the user should know before it starts.
    observed : bool
        Whether its processes leave parts of a report in the folder, which are to be merged when it has ended.
    """

    words: tuple[str, ...]
    injection: Injection
    warnings: tuple[str, ...]
    observed: bool = False


def prepare(
    plan: Plan,
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    guidance: Guidance | None = None,
    library: Path | None = None,
) -> Foreground:
    """Bring a plan into a command; the files it needs are written to ``folder`` and must stay while the program runs.

    Parameters
    ----------
    plan : Plan
    command : sequence of str
    folder : Path
    environment, cwd : optional
        By default those of this process.
    guidance : Guidance, optional
        What the runtime is to do; by default what the site allows.
    library : Path, optional
        The runtime to preload; by default it is found or built.

    Raises
    ------
    UserError
        If the command cannot be run, or needs the runtime and cannot have it.
    StripewiseError
        If the runtime cannot be built, or the folder not be written.
    """
    environment = inherit_environment(environment)
    cwd = cwd or current_folder()
    values = {setting.key: setting.value for setting in plan.of(ARGUMENT)}
    command = named_in(command, [setting.key for setting in plan.of(FILE)])
    target = look([word for word, _ in fill(command, values)], environment, cwd)
    if target.program.obstacle or target.mpi is None:
        library = None
    elif library is None:
        library = runtime_for(target.mpi, target.launcher, environment)
    guidance = guidance or Guidance(allow=site_allowances(environment))
    observer = None
    reachable = target.mpi is None and not target.program.obstacle
    needed = need_observer(setting.carrier for setting in plan.settings)
    warnings = list(target.warnings)
    asked = guidance.own_calls and few_enough(target.ranks)
    if library is not None and (needed or asked):
        try:
            observer = accelerator_for(environment) if needed else observer_for(environment)
        except StripewiseError as error:  # the runtime does what it can
            warnings.append(f"the program's own calls cannot be seen: {error.what}")
    elif library is not None and guidance.own_calls:
        warnings.append(TOO_MANY)
    elif reachable and (guidance.own_calls or guidance.record is not None or (needed and not guidance.mode)):
        observer = accelerator_for(environment) if needed else observer_for(environment)
    elif library is None and guidance.mode:
        why = target.why_not_preloaded or "it is not an MPI program"
        what = "a record" if guidance.record is not None else f"mode {guidance.mode}"
        cure = "record one that can be preloaded" if guidance.record is not None else "run without --mode"
        raise UserError(f"{what} needs the runtime, which cannot be preloaded: {why}", cure)
    guidance = replace(guidance, in_python=guidance.in_python or asked)
    injection = inject(plan, target.program, library, folder, guidance, observer)
    if target.why_not_preloaded:
        warnings.append(
            f"the runtime cannot be preloaded: {target.why_not_preloaded}; the MPI's own hints carry the plan"
        )
    if "STRIPEWISE_PYTHON" in injection.environment and target.program.isolated_child:
        warnings.append(target.program.isolated_child)
    warnings += [f"{entry.setting.key}={entry.setting.value} is not applied: {entry.wins}" for entry in injection.lost]
    named = placeholders(command)
    warnings += [f"{k}={v} is not applied: the command has no {{{k}}}" for k, v in values.items() if k not in named]
    try:
        make_folder(folder)
        for name, text in injection.files.items():
            with written_whole(folder / name) as part:
                part.write_text(text, "utf-8")
    except OSError as error:
        raise StripewiseError(
            f"cannot write {folder}: {error.strerror or error}", "make room, or set STRIPEWISE_HOME to another folder"
        ) from error
    words = with_files(target.line.words(injection.environment, ()), cwd, injection.stand_in)
    return Foreground(
        words, injection, tuple(warnings), observer is not None or "STRIPEWISE_PYTHON" in injection.environment
    )
