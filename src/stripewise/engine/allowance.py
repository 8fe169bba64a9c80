"""What runs may take: how long one may last, by its time limit and the node-hours left, and all of them at worst."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stripewise.engine.budget import worst_case
from stripewise.engine.launching import run_timeout
from stripewise.engine.ledger import Ledger
from stripewise.launch import Launch
from stripewise.runners.base import Preflight, Runner
from stripewise.trial import Phase, Role, State

_ROOM = 3.0
"""Times the slowest default run that a run must be allowed to last before others may start beside it."""


class Allowance:
    """What runs may take, those that are under way counted as if they took all that they may.

    Parameters
    ----------
    ledger : Ledger
    runner : Runner
    preflight : Preflight
        Of the runner.
    """

    def __init__(self, ledger: Ledger, runner: Runner, preflight: Preflight) -> None:
        self._ledger = ledger
        self._runner = runner
        self._preflight = preflight

    def nodes(self, of_workload: int | None) -> int:
        """Nodes that a run occupies."""
        return self._preflight.nodes or of_workload or 1

    def timeout(self, running: Mapping[int, Launch], nodes: int, phase: Phase = Phase.SEARCH) -> float:
        """Seconds after which a run that begins now is ended."""
        experiment, trials = self._ledger.experiment, self._ledger.trials
        if self._runner.simulated:
            return run_timeout(experiment, trials, None)
        # As with the time budget: a run that hangs ends where the node-hours do.
        limit = run_timeout(experiment, trials, self._ledger.spent().seconds, phase)
        return min(limit, max(1.0, self.left(running, nodes)))

    def left(self, running: Mapping[int, Launch], nodes: int) -> float:
        """How long the next run may last by the node-hours that are left; 0 if it must wait for one that runs.

        Runs side by side share what is left, so that they cannot exceed it together. Where the shares are too small for
        a run, one alone gets everything.
        """
        most = self._ledger.experiment.budget.node_hours
        if most is None or self._runner.simulated:
            return math.inf
        promised = sum(launch.timeout or 0.0 for launch in running.values()) * nodes / 3600
        seconds = max(0.0, 3600 * (most - self._ledger.spent().node_hours - promised) / nodes)
        share = seconds / max(1, self._runner.capacity - len(running))
        default = next((trial for trial in self._ledger.trials if trial.role is Role.DEFAULT), None)
        usual = [run.elapsed for run in default.runs if run.state is State.FINISHED and run.elapsed] if default else []
        if usual and share >= _ROOM * max(usual):
            return share
        return 0.0 if running else seconds

    def worst(self, running: Mapping[int, Launch], of_workload: int | None) -> dict[str, float | None]:
        """Give the most that the experiment can cost, as far as it is known; see :func:`worst_case`."""
        experiment, facts = self._ledger.experiment, self._ledger.facts
        nodes, occupied = self.nodes(of_workload), self._preflight.occupied
        seconds = self.timeout(running, nodes)
        # Where nothing is launched no hours pass, and no byte moves.
        launched = self._runner.kind == "measured"
        # The time limit of runs is the user's, or a run has shown how long they take.
        known = launched and (occupied is not None or experiment.timeout is not None or bool(self._ledger.trials))
        return worst_case(
            experiment,
            nodes,
            (occupied(seconds) if occupied else seconds) if known else None,
            facts.run_bytes if launched else None,
            at_once=self._runner.capacity,
        )
