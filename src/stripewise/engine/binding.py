"""What the first runs show of a program, and the space that is fixed with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.workload import Workload
from stripewise.engine.first_run import FirstRun
from stripewise.engine.ledger import Ledger
from stripewise.engine.space import BoundSpace, bind_space
from stripewise.observe.report import Report
from stripewise.observe.workload import layout_of, observed_workload
from stripewise.runners.base import Preflight, Runner
from stripewise.trial import State


@dataclass(frozen=True)
class Seen:
    """What is known of a program and its workload so far.

    Attributes
    ----------
    ledger : Ledger
        With the runs that have ended.
    preflight : Preflight
    runner : Runner
    """

    ledger: Ledger
    preflight: Preflight
    runner: Runner

    @property
    def workload(self) -> Workload:
        """The workload: what the space was fixed with, or what is known before the first run."""
        if (known := self.ledger.facts.workload) is not None:
            return known
        return self.ledger.experiment.workload.merged(self.preflight.workload)

    @property
    def enough(self) -> bool:
        """Whether the program has run once, or need not be observed."""
        if self.preflight.space is not None or self.ledger.facts.workload is not None:
            return True
        experiment = self.ledger.experiment
        if experiment.warmup == 0 and experiment.workload.operation is not None and self.workload.processes:
            return True
        return any(run.state is State.FINISHED for _, run in self.ledger.runs())

    def bind(self, program: str, note: Callable[[str], None]) -> BoundSpace:
        """Fix the space with what the first run showed, and remember it in the ledger.

        Parameters
        ----------
        program : str
            Of several, the one that the objective measures; empty for all.
        note : callable
            Is told what the user should know of it.
        """
        if self.preflight.space is not None:
            return BoundSpace(self.preflight.space, (), {})
        ledger, experiment = self.ledger, self.ledger.experiment
        report = self._first_report()
        workload, io = self.workload, self.preflight.io
        fixed = ledger.facts.workload is not None
        layout: dict[str, Any] = {}
        run_bytes = None
        if fixed:
            # What the space was fixed with, when less may have been known: trials of it are in the store.
            io = ledger.facts.io or io
            layout = ledger.facts.layout
            first = FirstRun.from_json(ledger.facts.first_run)
        else:
            first = FirstRun.of([run for _, run in ledger.runs()], experiment.files)
            first.check(experiment)
            if first.insisted(experiment):
                note(f"{first.idle}: the search continues because the experiment names its stacks")
                first = FirstRun()
        if not fixed and (seen := self.runner.seen) is not None:
            workload = experiment.workload.merged(seen[0]).merged(workload)
            layout = dict(seen[1])
        elif not fixed and report is not None:
            workload = experiment.workload.merged(observed_workload(report)).merged(workload)
            io = None if report.job.interface else report.mpi.io
            run_bytes = report.totals.bytes_read + report.totals.bytes_written
            layout = layout_of(report)
            if report.programs:
                note(_of_several(report, program))
        mpi = self.preflight.environment.get("mpi")

        def lost(parameter: Parameter) -> str:
            return self.preflight.lost(parameter) or first.lost(parameter)

        bound = bind_space(
            experiment, workload, io, mpi, lost, self.preflight.largest, layout, first.hints, first.calls
        )
        if not fixed:
            for sentence in bound.dropped:
                note(sentence)
            words = workload.model_dump(exclude_none=True)
            ledger.remember(workload=words, io=io, layout=layout, first_run=first.as_json())
            if run_bytes is not None:
                ledger.remember(run_bytes=run_bytes)
        return bound

    def _first_report(self) -> Report | None:
        finished = (run for _, run in self.ledger.runs() if run.state is State.FINISHED)
        return next((run.report for run in finished if run.report is not None), None)


def _of_several(report: Report, program: str) -> str:
    names = ", ".join(found.name for found in report.programs)
    measured = f"that of {program} alone" if program else "summed over all; --program NAME measures one alone"
    return (
        f"the command starts {len(report.programs)} programs ({names}): settings act on all of them, and what the "
        f"runtime measures is {measured}"
    )
