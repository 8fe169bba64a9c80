"""Which points of the measurement protocol a confirmation kept, and which it could not.

The points are those for shared production file systems; see ``docs/explanation/when-a-gain-is-real.md``.

Carry-over: whether what ran before a phase changes what the phase costs, as the write-back of its data may.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stripewise.catalogue.filesystems import of_file
from stripewise.catalogue.workload import Workload
from stripewise.observe.objectives import kind_of
from stripewise.observe.report import parse_report
from stripewise.requests.experiment import Experiment
from stripewise.result import Same
from stripewise.search.statistics import Speedup
from stripewise.sizes import format_size
from stripewise.trial import Run, State

_FEWEST = 4
_LEVEL, _SURE_LEVEL = 0.05, 0.01


@dataclass(frozen=True)
class CarryOver:
    """How phases after one with the candidate's settings compare with phases after one with the default's.

    Attributes
    ----------
    ratio : float
        How many times longer they took for a byte.
    p : float
        Two-sided, of the rank-sum test.
    phases : int
        In all.
    """

    ratio: float
    p: float
    phases: int

    @property
    def seen(self) -> bool:
        """Whether there is a carry-over, by a test at 5%."""
        return self.p < _LEVEL


def carry_over(default: Sequence[tuple[float, bool]], candidate: Sequence[tuple[float, bool]]) -> CarryOver | None:
    """Test for it (Mann and Whitney 1947), with the difference of the two arms taken out.

    Parameters
    ----------
    default, candidate : sequence of (float, bool)
        Of the phases of each arm: ln of the time for a byte, and whether the phase before had settings.

    Returns
    -------
    CarryOver or None
        None with fewer than four phases on one side.
    """
    rest: dict[bool, list[float]] = {False: [], True: []}
    for arm in (default, candidate):
        means = [statistics.fmean(x for x, after in arm if after is which) for which in {after for _, after in arm}]
        if len(means) == 2:  # else the arm says nothing of what came before
            middle = statistics.fmean(means)
            for x, after in arm:
                rest[after].append(x - middle)
    if min(map(len, rest.values())) < _FEWEST:
        return None
    from scipy.stats import mannwhitneyu  # noqa: PLC0415  slow to load

    p = float(mannwhitneyu(rest[True], rest[False]).pvalue)
    difference = statistics.median(rest[True]) - statistics.median(rest[False])
    return CarryOver(math.exp(difference), p, sum(map(len, rest.values())))


@dataclass(frozen=True)
class Shift:
    """How launches that follow one with the candidate's settings compare with those that follow the default.

    Attributes
    ----------
    ratio : float
        How many times longer they took.
    steady : float or None
        Times as fast as the default, each after a run of its own kind; None where the order of the runs shows neither.
    p : float
        Two-sided, as of :class:`CarryOver`.
    """

    ratio: float
    steady: float | None
    p: float

    @property
    def takes_the_gain(self) -> bool:
        """Whether the gain is only what the next run pays for, by a test at 1%: at 5%, real gains were lost as well."""
        return self.steady is not None and self.steady <= 1 and self.p < _SURE_LEVEL

    @property
    def says(self) -> str:
        """A sentence, without its end."""
        return f"runs after one with the settings found took {self.ratio:.2f} times as long as those after the default"


def find_shift(pairs: Sequence[tuple[Run | None, Run | None]], maximize: bool) -> Shift | None:
    """Tell whether a candidate leaves work to the run after it, as data that is still to be written; None if not.

    Parameters
    ----------
    pairs : sequence of (Run, Run)
        The default's and the candidate's, of launches one after the other.
    """
    runs = {run.number: (run, arm) for pair in pairs for arm, run in enumerate(pair) if run is not None}
    cells: dict[tuple[int, bool], list[float]] = {(arm, after): [] for arm in (0, 1) for after in (False, True)}
    for number, (run, arm) in runs.items():
        if run.value and run.state is State.FINISHED and number > min(runs) and not run.facts.file_family:
            # Between two pairs come only runs that leave one of the candidate's settings out.
            after = number - 1 not in runs or runs[number - 1][1] == 1
            cells[arm, after].append(math.log(run.value) * (-1 if maximize else 1))
    arms = [[(x, after) for after in (False, True) for x in cells[arm, after]] for arm in (0, 1)]
    found = carry_over(*arms)
    if found is None or not found.seen or found.ratio <= 1:
        return None
    own = cells[0, False], cells[1, True]
    steady = math.exp(statistics.median(own[0]) - statistics.median(own[1])) if all(own) else None
    return Shift(found.ratio, steady, found.p)


_LEAST_SECONDS = 10.0
_FEW_PAIRS = 12
_MANY_PAIRS = 24
_SMALL_GAIN = 1.2
_LAUNCHING = ("local", "batch", "steps")
_TOUCHING = (*_LAUNCHING, "within")
"""Runners whose programs use files of a real file system."""
_MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})


class TypicalRun(NamedTuple):
    """Medians over runs: wall time in seconds, and the part of the default's runs in I/O, 0 to 1; None if unknown."""

    seconds: float | None = None
    io_share: float | None = None


def protocol_points(
    experiment: Experiment,
    pairs: int,
    speedup: Speedup | None,
    same: Same | None,
    typical: TypicalRun,
    workload: Workload,
    simulated: bool,
) -> tuple[list[str], list[str]]:
    """Say what was kept and what was not, each as a sentence.

    Parameters
    ----------
    speedup, same
        The outcome of the pairs.
    typical : TypicalRun
        Of the confirmation.

    Returns
    -------
    (list of str, list of str)
        Kept, and limits: what was not kept.
    """
    if not pairs:
        return [], ["no confirmation was run"]
    kept = [
        "objective, budget and minimum effect were fixed before the first run; the search's runs prove nothing",
        "default and candidate in random order, side by side in time",
        "the interval is corrected for repeated looks and for the number of candidates",
        "failed runs count against their side",
    ]
    missed: list[str] = []

    def point(holds: bool, text: str, otherwise: str) -> None:
        (kept if holds else missed).append(text if holds else otherwise)

    if same is not None and not same.testable:
        missed.append(same.untested)
    elif same is not None:
        point(
            same.passed,
            "the default against itself shows no gain",
            "the default against itself shows a gain: the machine changed during the confirmation",
        )
    else:
        missed.append("too few pairs to test the default against itself")
    wanted = _MANY_PAIRS if speedup is not None and speedup.estimate < _SMALL_GAIN else _FEW_PAIRS
    made = "1 pair" if pairs == 1 else f"{pairs} pairs"
    point(pairs >= wanted, made, f"{made}: {wanted} are advised")
    point(
        experiment.warmup > 0,
        "a warm-up run was discarded, and nothing else",
        "no warm-up run was discarded: the first pair may be slower than the rest",
    )
    if simulated:
        missed.append("nothing was measured: the runs are simulated, and hold for the model of that site alone")
    if not simulated and _may_be_cached(experiment, workload):
        missed.append("the data may have stayed in memory, so these figures may not hold on disk")
    if experiment.runner in _LAUNCHING:
        _points_of_launches(experiment, typical, workload, point)
        if experiment.runner == "steps":
            kept.append("both of a pair ran on the same nodes, and pairs took the sets of nodes in turn")
        if experiment.runner == "batch":
            missed.append("each run had nodes of the scheduler's choice: the two of a pair may have had others")
        if experiment.runner != "batch":
            missed.append("one session on one allocation: other days and nodes may differ")
    return kept, missed


def name_limits(experiment: Experiment, seconds: float | None, workload: Workload, simulated: bool) -> str:
    """Say for which runs and data a proven gain holds, to end its sentence; empty where nothing limits it.

    Parameters
    ----------
    seconds : float or None
        Typical wall time of a run of the confirmation.
    """
    if simulated:
        return ""
    in_memory = experiment.runner in _TOUCHING and workload.file_system in _MEMORY_FILE_SYSTEMS
    cached = _may_be_cached(experiment, workload)
    if experiment.runner in _LAUNCHING and seconds is not None and seconds < _LEAST_SECONDS:
        more = " with files in memory" if in_memory else " whose data may have stayed in memory" if cached else ""
        return f", for short runs{more}"
    return ", for files in memory" if in_memory else ", for data that may have stayed in memory" if cached else ""


_LESS = {"bytes_written": ("wrote", 0.9), "bytes_read": ("read", 0.1)}
"""Parts of the default's bytes below which a run did less: a cache may spare many reads, and few writes."""


def find_less_work(pairs: Sequence[tuple[Run | None, Run | None]]) -> str:
    """Say that runs with a candidate's settings did less than those of the default, as a sentence; empty if not.

    Parameters
    ----------
    pairs : sequence of (Run, Run)
        The default's and the candidate's.
    """
    default_left, left = (sum(run.facts.behind > 0 for pair in pairs if (run := pair[arm])) for arm in (0, 1))
    # A service that every run starts and leaves, as an agent of keys, is no work that one setting puts off.
    if 2 * left > len(pairs) > 2 * default_left:
        return (
            "With the settings found, processes of the program were still running at its end, and were ended: "
            "their work is not in these times."
        )
    totals = [
        [parse_report(run.facts.report).totals for pair in pairs if (run := pair[arm]) and run.facts.report]
        for arm in (0, 1)
    ]
    for key, (moved, least) in _LESS.items() if all(totals) else ():
        default, candidate = (statistics.median(getattr(each, key) for each in arm) for arm in totals)
        if candidate < least * default:
            return (
                f"With the settings found the program {moved} {format_size(candidate)}, by default "
                f"{format_size(default)}: check that it did all its work."
            )
    return ""


def _may_be_cached(experiment: Experiment, workload: Workload) -> bool:
    """Whether memory may have answered for the storage: nothing emptied the caches, and written data may stay there."""
    if experiment.runner not in _TOUCHING or workload.file_system in _MEMORY_FILE_SYSTEMS:
        return False
    return workload.operation != "read" or experiment.runner == "within" or experiment.hooks.drop_caches == "none"


def phase_points(runs: Sequence[Run], experiment: Experiment) -> tuple[list[str], list[str]]:
    """The points of a confirmation within one launch; see :func:`protocol_points`.

    Parameters
    ----------
    runs : sequence of Run
        Of the pairs: each is a phase, and its value a bandwidth.
    """
    block = runs[-1].facts.block
    each = "each phase" if block == 1 else f"each {block} phases in a row"
    kept = [
        f"the phases of a pair were of one file family, {runs[-1].facts.file_family}",
        f"{each} of a pair followed one with the same settings, so none paid for what the others left behind",
    ]
    missed = ["one launch: no spread over launches, days or nodes (tune --confirm measures again, in another launch)"]
    if again := experiment.confirmation.again:
        kept.append(f"another launch than that of experiment {again}, from which the candidate comes")
        missed = ["a second launch: no spread over more launches, days or nodes"]
    arms: dict[str, list[tuple[float, bool]]] = {"default": [], "candidate": []}
    for run in runs:
        if run.value and run.state is State.FINISHED:
            arms[run.arm].append((-math.log(run.value), run.arm == "candidate"))
            if run.facts.switched:
                arms[run.arm].append((-math.log(run.facts.switched), run.arm == "default"))
    found = carry_over(arms["default"], arms["candidate"])
    if found is None:
        missed.append("too few phases to test for carry-over")
    else:
        about = (
            f"phases after one with settings took {found.ratio:.2f} times as long as those after the default "
            f"(p = {found.p:.2g}, {found.phases} phases)"
        )
        if found.seen:
            more = "" if experiment.within.settle else "; --settle makes each phase pay for its own write-back"
            missed.append(f"carry-over: {about}{more}")
        else:
            kept.append(f"no carry-over was found: {about}")
    if experiment.within.settle:
        missed.append("files were synchronised before they were closed, which the program does not do by itself")
    lost = max(runs, key=lambda run: run.number).facts.lost
    if lost is not None:
        most = experiment.within.max_loss
        said = f"trying cost {lost:.1%} of the default's I/O time"
        if lost <= 0:
            said = f"trying saved {-lost:.1%} of the default's I/O time"
        (kept if lost <= most else missed).append(f"{said} up to the last pair (at most {most:.1%} were allowed)")
    return kept, missed


def _points_of_launches(
    experiment: Experiment,
    typical: TypicalRun,
    workload: Workload,
    point: Callable[[bool, str, str], None],
) -> None:
    """The points that mean something where programs write files; a function or a replay has none."""
    seconds, io_share = typical
    if seconds is not None:
        point(
            seconds >= _LEAST_SECONDS,
            f"runs of {seconds:.3g} s",
            f"a run took {seconds:.2g} s: on a cluster, {_LEAST_SECONDS:g} s of I/O are advised",
        )
    timed = kind_of(experiment.objective.name).timed
    part = "" if io_share is None else f", which took {io_share:.0%} of the default's runs"
    point(
        bool(timed),
        f"I/O was timed apart, {timed}",
        f"objective {experiment.objective.name} is not the time of I/O alone{part}",
    )
    if of_file(workload.file_system).keys:
        point(False, "", "the two files of a pair lay on storage targets of the file system's choice: none was pinned")
    if workload.operation != "read":
        point(
            bool(experiment.hooks.delete),
            "the files were new in each run",
            "whether the program writes new files in each run is unknown (name them with --delete)",
        )
    if workload.operation in ("read", "both") and experiment.hooks.drop_caches != "none":
        point(True, f"caches: {experiment.hooks.drop_caches} before each run", "")
    if workload.file_system in _MEMORY_FILE_SYSTEMS:
        point(False, "", "the files lay in memory: this shows what the settings do in the software, not on a disk")
