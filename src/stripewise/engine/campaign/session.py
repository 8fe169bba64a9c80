"""One session of a campaign: makes the runs that are left of its shard, one after the other, until none is.

How long the rest of a campaign takes: said only when runs have shown it, and with how far it can be off.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.engine.campaign.book import INSTEAD
from stripewise.engine.campaign.checks import bytes_of, check_limits, check_room, cost_of
from stripewise.engine.campaign.plan import AGAIN, CampaignPlan, PlannedPoint, Progressed, Shard, of_shard, value_of
from stripewise.engine.ledger import Ledger
from stripewise.engine.loop import Finish, Loop, Planned, Wait
from stripewise.errors import NothingWorks, StripewiseError, UserError
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import ended_run
from stripewise.requests.campaign_points import Points
from stripewise.runners.native.benchmark import Bench
from stripewise.trial import Phase, Run, State, Trial

Key = tuple[object, ...]
_LEAST = 3
_TRUSTED = math.log(3.0)
"""A line that kinds seen miss by more than a factor of three, typically, says nothing of kinds not seen."""


@dataclass(frozen=True)
class Remaining:
    """Seconds that are left.

    Attributes
    ----------
    seconds : float or None
        None before three runs have ended, and while what is left is not like what has ended.
    low, high : float
        Nine of ten campaigns whose runs vary as these did end within.
    """

    seconds: float | None = None
    low: float = 0.0
    high: float = math.inf


class Clock:
    """Learns what runs take, by kind of run and by the bytes that they move."""

    def __init__(self) -> None:
        self._seen: dict[Key, list[float]] = {}
        self._bytes: dict[Key, float] = {}

    def add(self, key: Key, moved: float, seconds: float) -> None:
        """Take a run in: ``seconds`` from its start to the moment at which the next could start."""
        self._seen.setdefault(key, []).append(seconds)
        self._bytes[key] = moved

    def remaining(self, left: Iterable[tuple[Key, float]], capacity: int = 1) -> Remaining:
        """Estimate what the runs that are left take.

        Parameters
        ----------
        left : iterable of (key, bytes)
        capacity : int
            Runs at a time.

        Notes
        -----
        Kinds seen before take their mean; others a straight line over bytes, through all means, if those of three kinds
        or more lie near one. The interval adds the scatter of single runs, which shrinks with their number, and the
        error of the means, which does not.
        """
        total = sum(map(len, self._seen.values()))
        if total < _LEAST:
            return Remaining()
        means = {key: float(np.mean(values)) for key, values in self._seen.items()}
        spread = self._spread(means)
        offset, slope, off = self._line(means)
        counts: dict[Key, int] = {}
        size: dict[Key, float] = {}
        for key, moved in left:
            counts[key] = counts.get(key, 0) + 1
            size[key] = moved
        if off > _TRUSTED and not counts.keys() <= means.keys():
            return Remaining()
        expected, scatter, error = 0.0, 0.0, 0.0
        for key, count in counts.items():
            seen = len(self._seen.get(key, ()))
            each = means[key] if seen else offset + slope * size[key]
            expected += count * each
            scatter += count * (spread * each) ** 2
            # The error of one mean is shared by all runs of its kind; a kind never seen may be off by as much as kinds
            # differ from the line.
            error += (count * each) ** 2 * (spread**2 / seen if seen else off**2 + spread**2)
        half = 1.645 * math.sqrt(scatter + error)
        return Remaining(expected / capacity, max(0.0, expected - half) / capacity, (expected + half) / capacity)

    def _spread(self, means: Mapping[Key, float]) -> float:
        """Relative standard deviation of runs of one kind, pooled; a half where no kind was seen twice."""
        parts = [
            ((value / means[key] - 1) ** 2, len(values))
            for key, values in self._seen.items()
            if len(values) > 1 and means[key] > 0
            for value in values
        ]
        degrees = sum(len(values) - 1 for values in self._seen.values() if len(values) > 1)
        return math.sqrt(sum(part for part, _ in parts) / degrees) if degrees else 0.5

    def _line(self, means: Mapping[Key, float]) -> tuple[float, float, float]:
        """Seconds at no bytes, seconds a byte, both 0 or more, and the typical ratio to the line, as a logarithm.

        Relative errors are made small: a line that suits the longest runs only may say nothing, or less, of the others.
        """
        keys: Sequence[Key] = list(means)
        if len(keys) < _LEAST:
            return 0.0, 0.0, math.inf
        x = np.array([self._bytes[key] for key in keys])
        y = np.maximum([means[key] for key in keys], 1e-9)
        scale = max(float(np.max(x)), 1.0)
        from scipy.optimize import nnls  # noqa: PLC0415  slow to load

        (offset, slope), _ = nnls(np.column_stack([1 / y, x / scale / y]), np.ones(len(y)))
        # Positive wherever a kind was seen: otherwise a larger multiple of the same line would be nearer.
        ratios = np.log(y / np.maximum(offset + slope * x / scale, 1e-12))
        return float(offset), float(slope) / scale, float(np.sqrt(np.sum(ratios**2) / (len(y) - 2)))


Listener = Callable[[str, Mapping[str, Any]], None]
_WARMUP = 2 * AGAIN
_WARMUP_POINTS = 3
_FAILURES_IN_A_ROW = 10


class Paused(StripewiseError):  # noqa: N818
    """The session ended before the campaign did, on request or at a limit; the same command goes on."""


def ignore_message(kind: str, data: Mapping[str, Any]) -> None:
    """Listen to nothing."""


class CampaignSession:
    """Carries a shard of a campaign on.

    Parameters
    ----------
    scratch : Path
        Where the runs' own folders are; a finished run's is deleted as soon as its result is kept.
    listener : callable
        Is told ``prepared``, ``cost``, ``warmup``, ``started``, ``waiting``, ``ended`` and ``note`` with their data.
    retry : bool
        Make failed runs of earlier sessions once more.
    """

    def __init__(
        self,
        points: Points,
        bench: Bench,
        book: Ledger,
        shard: Shard,
        scratch: Path,
        listener: Listener = ignore_message,
        *,
        retry: bool = False,
    ) -> None:
        self._points = points
        self._campaign = points.campaign
        self._bench = bench
        self._book = book
        self._shard = shard
        self._scratch = scratch
        self._listener = listener
        self._retry = retry
        self._plan = CampaignPlan(points)
        self._loop = Loop(book, self)
        self._queue: list[PlannedPoint] = []
        self._about: dict[int, PlannedPoint] = {}
        self._began: dict[int, float] = {}
        self._clock = Clock()
        self._node_hours = 0.0
        self._units: dict[str, str] = {}
        self._bad = 0

    def run(self) -> Progressed:
        """Make all runs that are left and give the plan.

        Raises
        ------
        UserError
            If the campaign cannot be carried out as asked, or the room for it is missing.
        NothingWorks
            If the program fails in its warm-up, or ten runs fail in a row.
        Paused
            At a limit, or on request.
        """
        begun = time.monotonic()
        try:
            preflight = self._bench.prepare()
            self._book.check_fingerprint(preflight.fingerprint, INSTEAD)
            self._campaign = self._bench.campaign
            self._listener("prepared", {"preflight": preflight, "kind": self._bench.kind})
            if self._campaign.design.kind == "sequential" and self._shard != (1, 1):
                raise UserError("a sequential design cannot be cut into shards", "each choice needs all results before")
            self._queue = self._left(self._progress())
            cost = cost_of(self._campaign, self._queue)
            check_limits(self._campaign, cost)
            if self._bench.launches:
                check_room(self._campaign, cost, self._scratch)
            self._listener("cost", {"cost": cost, "campaign": self._campaign, "left_out": self._points.left_out})
            self._reap()
            self._sweep()
            self._book.set_state("running")
            if self._queue and self._bench.launches:
                self._warm_up()
            while not isinstance(self._loop.fill(self._next), Finish):
                self._collect()
                self._listener("waiting", {})
                self._book.keep()
                self._check_limits(begun)
            self._book.set_state("finished")
            return self._progress()
        except BaseException:
            self._loop.cancel()
            self._put_back()
            raise
        finally:
            self._bench.close()

    # -- what runs next ------------------------------------------------------------------------------------

    def _next(self) -> Planned | Wait | Finish:
        """Plan the next run that is left; once all have ended, look for more: a sequential design adds a batch."""
        if not self._queue and not self._loop.running:
            self._retry = False
            self._queue = self._left(self._progress())
            if not self._queue:
                return Finish("all runs have their results")
        if not self._queue or not self._bench.admits(self._queue[0].point):
            return Wait()
        planned = self._queue.pop(0)
        known, new = self._book.runs.get(planned.number), self._book.trial(planned.trial) is None
        attempt = 0 if known is None else 1 + known.facts.attempt
        self._about[planned.number] = planned
        run = known or Run(planned.number, planned.trial, Phase.SEARCH)
        return Planned(Trial(planned.trial, planned.point.values), run, new, attempt)

    def _progress(self) -> Progressed:
        return self._plan.known(self._book.runs)

    def _left(self, progress: Progressed) -> list[PlannedPoint]:
        own = of_shard(progress.runs, self._shard)
        left = []
        for planned in own:
            result = value_of(self._book.runs, planned.number)
            if result is None:
                left.append(planned)
            elif self._retry and result.state is not State.FINISHED:
                left.append(replace(planned, number=result.number + AGAIN))
        return left

    # -- how runs become results: see Rig ------------------------------------------------------------------

    def has_room(self, running: Mapping[int, Launch]) -> bool:
        """Whether one more run may be under way."""
        return len(running) < self._bench.capacity

    def make(self, trial: Trial, run: Run, running: Mapping[int, Launch]) -> Launch:
        """Make the launch of a point's run."""
        return self._bench.launch(self._about[run.number].point, run.number, attempt=run.facts.attempt, phase=run.phase)

    def start(self, launch: Launch) -> None:
        """Begin a run."""
        self._began[launch.number] = time.monotonic()
        self._bench.start(self._about[launch.number].point, launch)

    def poll(self, timeout: float) -> list[Outcome]:
        """Give runs that have ended."""
        return self._bench.poll(timeout)

    def cancel(self, number: int) -> None:
        """End a run without an outcome."""
        self._bench.cancel(number)

    def result(self, run: Run, outcome: Outcome) -> Run:
        """Give a run with its value, or with the reason why it has none."""
        planned = self._about[run.number]
        facts = run.facts.ended(outcome.facts.brief(), outcome.elapsed, planned.point.workload.nodes or 1)
        facts = facts.with_(repeat=planned.repeat)
        made = ended_run(run, outcome, self._bench.objective(planned.point), facts, units=self._units)
        if outcome.folder is None or made.state is State.FINISHED:
            return made
        return replace(made, facts=facts.with_(folder=str(outcome.folder)))

    def _collect(self) -> None:
        for run, outcome in self._loop.collect():
            planned = self._about[run.number]
            self._clean(outcome, run)
            spent = outcome.elapsed if self._bench.simulated else time.monotonic() - self._began[run.number]
            self._clock.add(_kind(planned), float(bytes_of(planned.point)), spent)
            self._node_hours += run.facts.node_hours
            self._bad = 0 if run.state is State.FINISHED else self._bad + 1
            left = len(self._queue) + len(self._loop.running)
            self._listener("ended", {"run": run, "planned": planned, "left": left, "remaining": self._remaining})
            if self._bad >= _FAILURES_IN_A_ROW:
                raise NothingWorks(
                    f"{self._bad} runs in a row have failed, the last: {run.reason}",
                    "fix it; the same command with --retry makes failed runs again",
                )

    def _remaining(self) -> Remaining:
        """What the runs that are left take; a sequential design's later batches are not known and not counted."""
        left = [*self._queue, *(self._about[number] for number in self._loop.running)]
        return self._clock.remaining(
            ((_kind(planned), float(bytes_of(planned.point))) for planned in left), self._bench.capacity
        )

    def _check_limits(self, begun: float) -> None:
        limits = self._campaign.limits
        if limits.seconds is not None and time.monotonic() - begun > limits.seconds:
            raise Paused(f"the session's limit of {limits.seconds:g} s is reached", "the same command goes on")
        if limits.node_hours is not None and self._node_hours > limits.node_hours:
            raise Paused(
                f"the session's limit of {limits.node_hours:g} node-hours is reached", "the same command goes on"
            )
        if self._book.stop_requested():
            raise Paused("the campaign was stopped", "the same command goes on")

    # -- before and after ----------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Make sure that what an earlier session left under way is dead."""
        for planned in self._queue:
            run = self._book.runs.get(planned.number)
            if run is not None:
                attempt = 1 + run.facts.attempt
                self._bench.reap(planned.point, self._bench.launch(planned.point, run.number, attempt=attempt))
                self._listener("note", {"text": f"run {run.number} was interrupted and is made again"})

    def _sweep(self) -> None:
        """Delete folders of runs whose result was kept just before an earlier session was killed."""
        for folder in self._scratch.glob("[0-9]*") if self._bench.launches else ():
            number = folder.name.partition(".")[0]
            if number.isdigit() and _is_finished(self._book.runs.get(int(number))):
                shutil.rmtree(folder, ignore_errors=True)

    def _warm_up(self) -> None:
        """Run each operation once and forget it: the first run of a series is several times slower.

        A point that has worked before is taken; else others are tried where one fails: it alone may be at fault.
        """
        number = _WARMUP
        for operation in self._campaign.operations:
            left = [planned for planned in self._queue if planned.point.operation == operation]
            if not left or self._campaign.warmup == 0:
                continue
            proven = [
                planned
                for planned in self._progress().runs
                if planned.point.operation == operation and _is_finished(value_of(self._book.runs, planned.number))
            ]
            candidates = list({planned.trial: planned for planned in (*proven, *left)}.values())[:_WARMUP_POINTS]
            reason = ""
            for candidate in candidates:
                for _ in range(self._campaign.warmup):
                    reason = self._try(replace(candidate, number=number))
                    number += 1
                if not reason:
                    break
            else:
                raise NothingWorks(f"the {operation} does not work: {reason}", "nothing was recorded; fix it first")

    def _try(self, planned: PlannedPoint) -> str:
        """Make a run that is not recorded, and say why it failed, if it did."""
        trial, run = Trial(planned.trial, planned.point.values), Run(planned.number, planned.trial, Phase.WARMUP)
        todo: list[Planned] = [Planned(trial, run, new=True)]
        self._about[run.number] = planned
        self._listener("warmup", {"operation": planned.point.operation})
        apart = Loop(Ledger(), self)
        while True:
            apart.fill(lambda: todo.pop() if todo else Wait())
            for made, outcome in apart.collect():
                if made.state is State.FINISHED:
                    self._clean(outcome, made)
                    return ""
                return f"{made.reason} (output in {outcome.folder})" if outcome.folder else made.reason
            self._book.keep()

    def _clean(self, outcome: Outcome, run: Run) -> None:
        """Delete the folder of a run that needs no looking into: thousands of them would use up a user's inodes."""
        if outcome.folder is not None and run.state is State.FINISHED:
            # Attempts that were interrupted have left theirs beside it.
            base = outcome.folder.parent
            for folder in (outcome.folder, base / str(run.number), *base.glob(f"{run.number}.*")):
                shutil.rmtree(folder, ignore_errors=True)

    def _put_back(self) -> None:
        try:
            self._book.set_state("stopped")
        except StripewiseError:
            # The journal may be what failed: the first error is the one to report, and the lease runs out.
            return


def _is_finished(run: Run | None) -> bool:
    return run is not None and run.state is State.FINISHED


def _kind(planned: PlannedPoint) -> tuple[object, ...]:
    workload = planned.point.workload
    return (planned.point.operation, bytes_of(planned.point), planned.point.processes, workload.piece_size)
