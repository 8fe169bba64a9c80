"""A user's program in the foreground with the settings of a plan: started, attended, and what acted.

Each launch of a production program pays for what is loaded here, so schemas, NumPy, Typer and Rich are not, until the
program runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Self

from stripewise import __version__
from stripewise.catalogue import carriers
from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.plain import make_printable, tell
from stripewise.documents import read_document
from stripewise.engine.folders import command_digest, folder_alone, make_applied_folder
from stripewise.errors import CannotExecute, StripewiseError, UserError
from stripewise.formats import MAX_PLAN_BYTES, PLAN_HEADER
from stripewise.observe.left import parts_in, places_in, python_parts_in, reports_of, requests_in
from stripewise.ownership import checked_model, current_folder, make_folder, names_file, written_whole
from stripewise.requests.site import site_allowances
from stripewise.requests.site_file import find_site_file
from stripewise.runners.injection import Foreground, Guidance, prepare
from stripewise.runners.local.foreground import attend, end_by_signal, take_place

if TYPE_CHECKING:
    from stripewise.catalogue.carriers import Setting
    from stripewise.observe.activity import Activity

NO_SETTINGS = "no settings: the program runs as it is"
_NO_REPORT = "the program used no regular file, nor loaders in Python: there is no report"
_SHORT = 0.1
"""Seconds within which a program often ends that leaves nothing to read: it does not wait for what would read it."""
_LONGEST_NAME = 64
_CHECKED = "checked.json"
"""In a plan's folder: what was found when the plan was checked, for the launches that follow."""


@dataclass(frozen=True)
class PlanRun:
    """``stripewise run PLAN -- COMMAND``, without the options that need a model, a store or a service.

    ``source`` is None for ``stripewise run --mode observe -- COMMAND``.
    """

    source: str | None
    command: Sequence[str]
    quiet: bool

    @classmethod
    def read(cls, own: Sequence[str], command: Sequence[str]) -> Self | None:
        """Take the words of a command line, if they say no more than this."""
        words = [word for word in own[1:] if word not in ("-q", "--quiet")]
        quiet = len(words) < len(own) - 1
        if not command or own[0:1] != ["run"]:
            return None
        if words in (["--mode", "observe"], ["--mode=observe"]):
            return cls(None, command, quiet)
        if len(words) != 1 or not names_file(words[0]) or words[0].startswith("-"):
            return None
        return cls(words[0], command, quiet)

    def start(self) -> int:
        """Start the command with the plan, attend it where something is to be said at its end, and give its code."""
        plan = Plan() if self.source is None else plan_in(Path(self.source))
        applied, elsewhere = folder_or_start(self.command)
        guidance, doubts = Guidance(allow=site_allowances()), list[str]()
        if self.source is None:
            guidance = replace(guidance, mode="observe", own_calls=True)
            name = name_of_run("observe", command_digest(self.command, current_folder()))
            own: contextlib.AbstractContextManager[Path] = contextlib.nullcontext(applied / name)
        else:
            name = folder_name(plan, self.source)
            doubts = check_once(plan, self.source, applied / name)
            own = folder_alone(applied / name)
        with own as folder:
            ready = prepare_or_start(plan, self.command, folder, guidance, elsewhere)
            if not self.quiet:
                settings = "; ".join(list_settings(plan)) or NO_SETTINGS
                about = settings if self.source is not None else report_in("mode observe", folder)
                tell(about, beside(folder, name), elsewhere, *doubts, *ready.warnings)
            with started_as_by_shell():
                return launch(ready, folder / "report.json", acted(ready, folder, plan), quiet=self.quiet)


def name_of_run(mode: str, digest: str) -> str:
    """Name the folder of a run without an experiment: several may go on at once, and models look for a command's."""
    return f"{mode}-{digest}-{time.time_ns():x}"


def report_in(about: str, folder: Path) -> str:
    """Say where the report of a run will be."""
    return f"{about}; the report will be {folder / 'report.json'}"


def plan_in(path: Path) -> Plan:
    """Read a plan file, unless others could have changed it: it can set variables of the program.

    Raises
    ------
    UserError
        If it cannot be read, or is not safe.
    """
    cure = "export one: stripewise export ID --to plan -o FILE"
    try:
        with checked_model(path, "plan") as place:
            text = read_document(place, "plan", cure, MAX_PLAN_BYTES)
    except OSError as error:
        raise UserError(f"cannot read the plan file {path}: {error.strerror}", cure) from error
    return Plan.parse(text, str(path))


def folder_name(plan: Plan, source: str) -> str:
    """Name the folder of a plan's runs, in the folder of all of them: an identifier may be any text, also ``..``."""
    name = plan.identifier or Path(source).name
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name).lstrip(".") or "plan"
    return plain if len(plain) <= _LONGEST_NAME else f"{plain[:_LONGEST_NAME]}-{zlib.crc32(os.fsencode(name)):08x}"


def check_once(plan: Plan, origin: str, folder: Path) -> list[str]:
    """Check a plan against what is known and what the site forbids, once for each text, version and site file.

    Parameters
    ----------
    folder : Path
        Of the plan's runs, where the finding is kept. Whoever could write there could also change the runs' reports.

    Raises
    ------
    UserError
        See :func:`stripewise.catalogue.meaning.check_plan` and :func:`stripewise.catalogue.meaning.check_combination`.
    """
    parts = (__version__, *_state_of_rules(), origin, plan.text())
    key, kept = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest(), folder / _CHECKED
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
        found = json.loads(kept.read_text("utf-8"))
        if found["of"] == key:
            return [str(doubt) for doubt in found["doubts"]]
    from stripewise.catalogue.meaning import check_combination, check_plan  # noqa: PLC0415  loads all stacks
    from stripewise.requests.policy import load_policy  # noqa: PLC0415  schemas are slow to load

    doubts = check_plan(plan, origin)
    check_combination(plan, load_policy().rules, origin)
    with contextlib.suppress(OSError):
        make_folder(folder)
        with written_whole(kept) as part:
            part.write_text(json.dumps({"of": key, "doubts": doubts}), "utf-8")
    return doubts


def _state_of_rules() -> Iterator[str]:
    """Give what changes with the bundled stacks, as in a clone that is worked on, and with the site file."""
    with contextlib.suppress(OSError):
        yield str(
            max(entry.stat().st_mtime_ns for entry in os.scandir(Path(carriers.__file__).parent.parent / "stacks"))
        )
    if (site := find_site_file()) is not None:
        with contextlib.suppress(OSError):
            yield f"{site} {hashlib.sha256(site.read_bytes()).hexdigest()}"


def list_settings(plan: Plan, besides: Sequence[Setting] = ()) -> Iterator[str]:
    """Say a plan's settings without some of them; those of further files stand apart."""
    if settings := [setting for setting in plan.settings if setting not in besides]:
        yield " ".join(f"{one.key}={one.value}" for one in settings)
    for files, own in plan.sections:
        yield " ".join([f"files {files}:", *(f"{one.key}={one.value}" for one in own)])


def beside(folder: Path, name: str) -> str:
    """Say where a run's files are while another run has the plan's folder."""
    return "" if folder.name == name else f"another run has these settings now; this one's files are in {folder}"


def folder_or_start(command: Sequence[str]) -> tuple[Path, str]:
    """Make the folder of :func:`make_applied_folder`. Where there is no place at all, start the command as it is."""
    try:
        return make_applied_folder()
    except StripewiseError as error:
        tell(f"nothing is set or observed: {error.what}")
    with started_as_by_shell():
        take_place(command)


def prepare_or_start(
    plan: Plan, command: Sequence[str], folder: Path, guidance: Guidance, elsewhere: str
) -> Foreground:
    """Bring a plan into a command. Where nothing can be kept, not even what must be built, start it as it is."""
    with started_as_by_shell():
        try:
            return prepare(plan, command, folder, guidance=guidance)
        except StripewiseError as error:
            if not elsewhere or isinstance(error, UserError):
                raise
            tell(f"{elsewhere}; nothing is set or observed: {error.what}")
            take_place(command)


def acted(ready: Foreground, folder: Path, plan: Plan, *, chosen: bool = False) -> Callable[[], list[str]] | None:
    """Give what says at the end which settings acted; None where no report will be there, or nothing was set."""
    told = {"STRIPEWISE_REPORT", "STRIPEWISE_PYTHON"} & ready.injection.environment.keys()
    if told and (plan.settings or chosen):
        return partial(_list_acted, folder / "report.json", plan.settings)
    return None


def launch(
    ready: Foreground,
    report: Path,
    lines: Callable[[], list[str]] | None,
    *,
    quiet: bool,
    trace: Path | None = None,
) -> int:
    """Put a command in the place of this process, or attend it where something is to be done when it has ended.

    The report must be there when this command returns, so nothing that goes on beside the program can write it.

    Parameters
    ----------
    lines : callable or None
        Gives what is to be said at the end, unless ``quiet``.
    trace : Path, optional
        Where the single reads and writes go.

    Returns
    -------
    int
        The command's exit code.
    """
    lines = None if quiet else lines
    if lines is None and not ready.observed:
        take_place(ready.words)
    for earlier in _list_left(report):
        earlier.unlink(missing_ok=True)
    keys = [entry.setting.key for entry in ready.injection.carried]
    ahead = LoadingAhead([*(_READS_PARTS if ready.observed else ()), *(_reads_reports(keys) if lines else ())])
    try:
        ended = attend(ready.words, ahead.begin)
    finally:
        ahead.end()
    traced = _write_trace(report.parent, trace) if trace is not None and ready.observed else ""
    said = _merge_report(report, where="STRIPEWISE_WHERE" in ready.injection.environment) if ready.observed else ""
    # Where nothing was left, that is all that can be said.
    empty = "STRIPEWISE_PYTHON" in ready.injection.environment and not report.exists()
    told = () if quiet else (said, traced)
    tell(*told, *(() if lines is None or empty else map(make_printable, lines())))
    return ended_as(ended)


def _list_left(report: Path) -> list[Path]:
    """What a run has left of which a report is, or is made."""
    folder = report.parent
    return [*reports_of(report), *parts_in(folder), *places_in(folder), *requests_in(folder), *python_parts_in(folder)]


_READS_PARTS = (partial(import_module, "stripewise.observe.processes"),)


def _reads_reports(keys: Sequence[str]) -> Iterator[Callable[[], object]]:
    """Give what must be loaded to say which settings acted, in pieces."""
    for name in ("pydantic.main", "pydantic.json_schema", "numpy", "stripewise.observe.activity"):
        yield partial(import_module, name)
    yield partial(import_module, "stripewise.engine.effects")
    for module, name in (("report", "Report"), ("activity", "Activity")):
        yield partial(_call_in, f"stripewise.observe.{module}", f"{name}.model_rebuild")
    for key in keys:
        yield partial(_call_in, "stripewise.catalogue.stack", "stacks_naming", key)


def _call_in(module: str, name: str, *arguments: str) -> object:
    return attrgetter(name)(import_module(module))(*arguments)


class LoadingAhead:
    """Loads what reads reports while a program runs, and only where that leaves a processor idle.

    Parameters
    ----------
    pieces : sequence of callable
        Loaded one after another. At the program's end the rest is left to whoever needs it: a piece that waits for an
        idle processor keeps what it locks.
    """

    def __init__(self, pieces: Sequence[Callable[[], object]]) -> None:
        self._pieces = pieces
        self._ended = threading.Event()
        # No daemon: a Python that ends waits for it. One that ends amid an import can abort, with an exit code of ours.
        self._thread = threading.Thread(target=self._load)

    def begin(self) -> None:
        """Begin, in a thread that takes what others leave of the processors."""
        self._thread.start()

    def end(self) -> None:
        """Stop after the present piece, which from now on takes its full part of the processors, where it may."""
        self._ended.set()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._thread.native_id or 0, os.getpriority(os.PRIO_PROCESS, 0))

    def _load(self) -> None:
        self._ended.wait(_SHORT)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        for piece in self._pieces:
            if self._ended.is_set():
                return
            # Whoever needs it asks again, and has the error.
            with contextlib.suppress(Exception):
                piece()


def _list_acted(report: Path, settings: Sequence[Setting]) -> list[str]:
    """Say what became of the settings, those of a plan or those that a model chose, by the report of the run."""
    from stripewise.engine.effects import effects_in_run  # noqa: PLC0415  loaded while the program ran
    from stripewise.observe.from_report import activity_of  # noqa: PLC0415
    from stripewise.observe.report import read_report_file  # noqa: PLC0415

    try:
        activity = activity_of(read_report_file(report), report.name)
    except StripewiseError as error:
        return [f"what acted is not known: {error.what}"]
    chosen = settings or _list_chosen(activity)
    if not chosen:
        return ["mode predict left every setting as it was"]
    return [
        f"{effect.name}={effect.requested}: {effect.status.replace('_', ' ')}, {effect.evidence}"
        for effect in effects_in_run(chosen, activity)
    ]


def _list_chosen(activity: Activity) -> tuple[Setting, ...]:
    """What a model chose in a run, as the lines of a plan that its report repeats."""
    asked = [one for file in activity.files for one in file.asked if one.requested is not None]
    lines = dict.fromkeys(f"{one.layer} {one.key} {one.requested}" for one in asked)
    return Plan.parse("\n".join([PLAN_HEADER, *lines]), "the settings of the report").settings


def _write_trace(folder: Path, trace: Path) -> str:
    from stripewise.observe.own_trace import write_trace  # noqa: PLC0415  loads NumPy

    try:
        return write_trace(folder, trace)
    except OSError as error:
        return f"the trace {trace} cannot be written: {error.strerror or error}"


def _merge_report(report: Path, *, where: bool) -> str:
    """Merge what the observer left of a run into its report, and say why there is none."""
    if not _list_left(report):
        return _NO_REPORT
    from stripewise.observe.processes import merge_parts  # noqa: PLC0415  loaded while the program ran

    try:
        found = merge_parts(report.parent, report) or report.exists()
        if found and where:
            from stripewise.observe.places import add_places  # noqa: PLC0415  loads NumPy

            return add_places(report)
    except OSError as error:
        return f"the report {report} cannot be written: {error.strerror or error}"
    return "" if found else _NO_REPORT


def ended_as(ended: int) -> int:
    """Give the exit code of the command that was attended, or end this process by its signal."""
    if ended < 0:
        end_by_signal(-ended)
        return 128 - ended  # the first process of a container outlives its own signals
    return ended


@contextlib.contextmanager
def started_as_by_shell() -> Iterator[None]:
    """Give a program that cannot be executed the exit code that a shell gives it: 127 if there is none, else 126."""
    try:
        yield
    except CannotExecute as error:
        error.exit_code = error.of_shell
        raise
