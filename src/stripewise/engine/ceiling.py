"""The launch of the bundled benchmark that shows what the storage gives to the program's ranks, and what follows."""

from __future__ import annotations

import math
import shlex
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.expectation import propose
from stripewise.catalogue.plan import spell
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.ceiling import ceiling_for
from stripewise.engine.space import BoundSpace
from stripewise.errors import StripewiseError, UserError
from stripewise.launch import Launch
from stripewise.observe.activity import Activity
from stripewise.observe.ceiling import Ceiling, main_ways, moved_of, near, syncs
from stripewise.requests.experiment import Experiment
from stripewise.trial import Phase, Role, State, Trial

_PIECE = 16 << 20
_LEAST_BYTES = 8 << 20
"""Bytes below which opens and the start of a program decide, and no rate is told."""
_MOST_FILES = 100
_NAME = "stripewise-ceiling."
"""How names of the benchmark's files begin."""
_ROOM = 1.1


def why_none(experiment: Experiment, default: Trial, words: Callable[[], tuple[str, ...]] | None) -> str | None:
    """Say why no ceiling is measured of what could have one; empty where one is, None where it need not be told.

    Parameters
    ----------
    default : Trial
    words : callable or None
        Gives the benchmark's program behind the launcher, and builds it.
    """
    activity = _seen(default)
    if words is None or not experiment.measures_ceiling or activity is None:
        return None
    main = activity.main
    if (
        sum(moved_of(activity).values()) < _LEAST_BYTES
        or not activity.io_time
        or main is None
        or not main.path.startswith("/")
    ):
        return None
    ways, folder = main_ways(activity), Path(main.path).parent
    if "read" in ways and experiment.hooks.drop_caches != "none":
        return "the program reads with empty caches, which one launch of the benchmark does not"
    try:
        if shutil.disk_usage(folder).free < _ROOM * sum(moved_of(activity).values()):
            return f"{folder} has no room for as many bytes as the program moves"
        words()
    except (OSError, StripewiseError) as error:
        return str(error)
    return ""


def check_stored(experiment: Experiment) -> None:
    """Refuse a file of the ceiling that does not exist before a run is spent.

    Raises
    ------
    UserError
        If there is no such file.
    """
    path = experiment.stored_ceiling
    if path is not None and not path.is_file():
        raise UserError(
            f"there is no file {path} with the ceiling of this storage",
            "name what stripewise site calibrate or site profile wrote",
        )


def read_stored(experiment: Experiment, default: Trial) -> Ceiling | None:
    """Read what the storage gives to the program from the file that the experiment names; None without one.

    Raises
    ------
    StripewiseError
        If the file cannot be read, or holds nothing that the program can be compared with.
    """
    activity = _seen(default)
    if experiment.stored_ceiling is None or activity is None:
        return None
    return ceiling_for(experiment.stored_ceiling, activity)


def lay_out(bound: BoundSpace, workload: Workload) -> Configuration:
    """Give the layout of which the catalogue expects most for large contiguous pieces; others are at their defaults."""
    space = bound.space
    laid = [one for one in space.parameters if one.carrier.of_file_system]
    kind = workload.model_copy(update={"layout": "segmented", "piece_size": None, "collective": False})
    made = [
        (one, value, Setting(one.carrier, one.setting, spell(value), one.layer)) for one in laid for value in one.values
    ]
    # One setting at a time: whatever is set together is expected to bring hardly more, and is seldom known.
    best = propose([(setting,) for *_, setting in made], kind, {}).settings
    own = {one.name: value for one, value, setting in made if setting in best}
    return space.default.with_values(**own)


def as_benchmark(launch: Launch, words: Sequence[str], default: Trial) -> Launch:
    """Give the launch of the benchmark with the bytes, files and syncs of the program, in large contiguous pieces."""
    activity = _seen(default)
    assert activity is not None and activity.main is not None, "why_none has looked"
    main, ranks, moved = activity.main, activity.job.ranks, moved_of(activity)
    files = [file for file in activity.through if file.bytes]
    alone = sum(file.ranks == 1 for file in files) >= max(2, ranks)
    times = _times(activity) if not alone else max(1, len(files) // ranks)
    block = math.ceil(max(moved.values()) / (ranks * times))
    piece = min(block, _PIECE)
    # In a folder of its own: where everyone may write, others could lead a file of a known name elsewhere by a link.
    folder = Path(main.path).parent / f"{_NAME}{launch.experiment}.{launch.number}"
    path, place = folder / f"{_NAME}dat", shlex.quote(str(folder))
    ways = main_ways(activity)
    options = ["--api", "mpiio", "--file", str(path), "--block", str(math.ceil(block / piece) * piece)]
    options += ["--transfer", str(piece), "--no-verify"]
    options += ["--file-per-process"] if alone else []
    again = ["--repetitions", str(times)] if times > 1 else []
    whole = shlex.join([*words, *options, *again])
    before = [f"{{ test -O {place} && test ! -L {place}; }} || mkdir -m 700 {place}"]
    if ways == ["read"]:
        before.append(shlex.join([*words, *options, "--write", "--keep"]))
        whole = shlex.join([*words, *options, "--read", "--keep"])
    elif ways == ["write"]:
        whole += " --write"
    if "read" in ways and ranks > 1:
        whole += " --reorder"
    if "write" in ways and syncs(activity):
        whole += " --fsync"
    plan = replace(launch.plan, files="*")  # the experiment's own glob need not match the benchmark's file
    after = (f"rm -rf {place}",)
    return replace(launch, plan=plan, command=whole, before=tuple(before), after=after, program="", replays=True)


def _times(activity: Activity) -> int:
    """How often a shared file is begun anew: the files of the program, or how often it writes over one."""
    files = [file for file in activity.through if file.bytes]
    over = [
        max(1, round(max(file.upper.write.bytes, file.upper.read.bytes) / file.size)) for file in files if file.size
    ]
    return max(1, min(sum(over) if len(over) == len(files) else len(files), _MOST_FILES))


def ceiling_of(trials: Sequence[Trial], best: Trial | None = None, stored: Ceiling | None = None) -> Ceiling | None:
    """Give the ceiling that was measured or stored, and how near the default and the best are; None without one."""
    measured = next((trial for trial in trials if trial.role is Role.CEILING), None)
    default = next((trial for trial in trials if trial.role is Role.DEFAULT), None)
    activity, own = (None if one is None else _seen(one) for one in (measured, default))
    # A session that could not launch the benchmark, where an earlier one had planned it, has launched the program.
    its = activity is not None and any(Path(file.path).name.startswith(_NAME) for file in activity.files)
    found = Ceiling.of_benchmark(activity) if activity is not None and its else stored
    if found is None or default is None or own is None or own.job.ranks != found.ranks:
        return None
    shown = None if best is None or best.role is Role.DEFAULT else _share(found, best)
    return found.model_copy(update={"default": _share(found, default), "best": shown})


def reached(trials: Sequence[Trial], best: int | None, stored: Ceiling | None = None) -> str:
    """Say that the best is so near the ceiling that nothing is left to be had; empty if it is not, or is above it."""
    trial = next((one for one in trials if one.number == best or (best is None and one.role is Role.DEFAULT)), None)
    found = None if trial is None else ceiling_of(trials, trial, stored)
    if found is None or trial is None or len(trial.values) < _RUNS_NEAR:
        return ""
    share = found.default if trial.role is Role.DEFAULT else found.best
    return "the best is as fast as a benchmark of large contiguous pieces on this storage" if near(share) else ""


_RUNS_NEAR = 2
"""Runs that must have shown that a configuration is near the ceiling."""


def _seen(trial: Trial) -> Activity | None:
    """What the first finished run with a report did."""
    finished = (run for run in trial.runs if run.state is State.FINISHED)
    return next((run.activity for run in finished if run.activity is not None), None)


def _share(ceiling: Ceiling, trial: Trial) -> float | None:
    """The median part of the ceiling over a trial's finished runs, without its warm-up."""
    runs = [run for run in trial.runs if run.state is State.FINISHED and run.phase is not Phase.WARMUP]
    shares = [share for run in runs if (share := ceiling.share(run.activity)) is not None]
    return statistics.median(shares) if shares else None
