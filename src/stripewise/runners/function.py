"""Runner for a Python function: each run is a call in this process."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.space import Space
from stripewise.facts import RunFacts
from stripewise.launch import Launch, Outcome
from stripewise.requests.objective import Objective
from stripewise.runners.base import AnsweringRunner, Preflight
from stripewise.trial import State


class FunctionRunner(AnsweringRunner):
    """Calls a function with each configuration.

    Parameters
    ----------
    function : callable
        Takes a configuration, gives the objective's value. An exception is a failed run.
    space : Space
    objective : Objective
    """

    name = "function"

    def __init__(self, function: Callable[[Configuration], float], space: Space, objective: Objective) -> None:
        super().__init__()
        self._function = function
        self._space = space
        self._objective = objective

    def prepare(self) -> Preflight:
        """Give the space and objective that came with the function."""
        return Preflight(space=self._space, objective=self._objective, fingerprint={"the space": self._digest()})

    def _digest(self) -> str:
        """What must not change between the calls of one experiment; the function's code cannot be compared."""
        space, parts = self._space, [repr((p.name, p.values, p.default)) for p in self._space.parameters]
        parts += [constraint.text for constraint in space.constraints] + [self._objective.direction]
        return f"{', '.join(space.names)} ({hashlib.sha256(' '.join(parts).encode()).hexdigest()[:12]})"

    def answer(self, launch: Launch) -> Outcome:
        """Call the function."""
        started = time.time()
        begin = time.perf_counter()
        state, reason, metrics = State.FINISHED, "", {}
        try:
            metrics[self._objective.name] = float(self._function(launch.configuration))
        except Exception as error:  # whatever the user's function raises is this run's failure, not the search's
            state, reason = State.FAILED, f"{type(error).__name__}: {error}".splitlines()[0]
        elapsed = time.perf_counter() - begin
        return Outcome(launch.number, state, elapsed, started, reason=reason, metrics=metrics, facts=RunFacts(nodes=1))
