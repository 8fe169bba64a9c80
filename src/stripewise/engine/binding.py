"""What the first runs show of a program, and the space that is fixed with it.

What the first runs must show before more are spent: that they measure the program which is meant.

What the first run shows beside the workload: whether there is MPI-IO, the program's own hints, and its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stripewise.catalogue.carriers import objects_of
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.engine.ledger import ExperimentLedger
from stripewise.engine.space import BoundSpace, Circumstances, bind_space
from stripewise.errors import UserError
from stripewise.file_glob import names_file
from stripewise.observe.activity import Activity
from stripewise.observe.chunk_shapes import propose_shapes
from stripewise.observe.workload import layout_of, workload_of
from stripewise.requests.experiment import Experiment, parameters_of
from stripewise.runners.base import Preflight, Runner
from stripewise.trial import Run, State


@dataclass(frozen=True)
class FirstRun:
    """What follows from the first finished run for the space.

    Attributes
    ----------
    idle : str
        Why settings of MPI-IO cannot act on the program; empty where they can, or where nothing is known.
    hints : mapping
        Hints that the program gives itself to every file that is tuned, at the open or later, with their values.
    calls : frozenset of str
        MPI-IO calls that it makes on these files, as the report names them.
    versions : mapping
        Versions of the libraries that it uses, as they told themselves.
    shapes : mapping
        What words for shapes of HDF5's chunks stand for in it.
    used : frozenset of str or None
        Objects of Python that it used, of those that the runner watches; None where nobody watched.
    """

    idle: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)
    calls: frozenset[str] = frozenset()
    versions: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)
    used: frozenset[str] | None = None

    @classmethod
    def of(cls, runs: Sequence[Run], files: str, *, override: bool = False, watched: bool = False) -> FirstRun:
        """Read the first finished run that wrote a report; failing that, why there is none.

        Parameters
        ----------
        files : str
            Glob of the files that are tuned, as in an experiment.
        override : bool
            Whether the plan wins over the program.
        watched : bool
            Whether uses of objects of Python were counted in all its processes.
        """
        finished = [run for run in runs if run.state is State.FINISHED]
        activities = [run.activity for run in finished if run.activity is not None]
        used = (
            frozenset(one.path for activity in activities for one in activity.objects) if watched and finished else None
        )
        seen = next((run.activity for run in finished if run.activity is not None), None)
        if seen is not None:
            if not seen.through:
                return cls("the program opened no file through MPI-IO in its first run", used=used)
            tuned = [file for file in seen.files if names_file(files, file.path)]
            return cls(
                hints=_own_hints(seen, files),
                calls=_calls(seen, files),
                versions=seen.versions,
                shapes=propose_shapes(tuned, contiguous=override),
                used=used,
            )
        missing = next((run.facts.no_report for run in finished if run.facts.no_report), "")
        doubt = "does it call MPI_Init and MPI_Finalize?"
        return cls(f"the program left no report of its first run ({missing}; {doubt})" if missing else "", used=used)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FirstRun:
        """Read what :meth:`as_json` gave."""
        sets = {name: frozenset(data[name]) for name in ("calls", "used") if name in data}
        return cls(**{**data, **sets})

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON."""
        told = {"idle": self.idle, "hints": dict(self.hints), "calls": sorted(self.calls)}
        more = {"versions": dict(self.versions), "shapes": dict(self.shapes)}
        used = {} if self.used is None else {"used": sorted(self.used)}
        return told | {name: found for name, found in more.items() if found} | used

    def lost(self, parameter: Parameter) -> str:
        """Say why a parameter cannot act on the program; empty if it can."""
        if self.used is not None and parameter.carrier.of_objects:
            unused = [name for name in objects_of([(parameter.carrier, parameter.setting)]) if name not in self.used]
            return f"no Python of the first run reported a use of {unused[0]}" if unused else ""
        return self.idle if parameter.needs_mpi_io else ""

    def check(self, experiment: Experiment) -> None:
        """Refuse to search where nothing that the experiment may change can act on the program.

        Raises
        ------
        UserError
            With what the first run showed.
        """
        acting = not all(parameter.needs_mpi_io for parameter in parameters_of(experiment).values())
        if self.idle and not experiment.stacks and not acting:
            raise UserError(
                f"{self.idle}: the settings of MPI-IO that would be searched cannot act on it",
                "tune a case of the program that uses files through MPI-IO, also through HDF5 or PnetCDF with "
                "MPI (PnetCDF "
                "from 1.15 on needs PNETCDF_HINTS=nc_driver=mpiio). Or search what acts on its calls of the C library: "
                "--stack posix. Or tune arguments or variables of the program itself: --parameter NAME=VALUE,... with "
                "{NAME} in the command, or --parameter env:NAME=VALUE,... . "
                "If the report is wrong, --stack NAME still searches the settings of that stack",
            )

    def insisted(self, experiment: Experiment) -> bool:
        """Whether the user named stacks of MPI-IO although the first run showed no MPI-IO."""
        stacks = [parameter for stack in map(load_stack, experiment.stacks) for parameter in stack.parameters]
        return bool(self.idle) and any(parameter.needs_mpi_io for parameter in stacks)


def _own_hints(activity: Activity, files: str) -> dict[str, str]:
    """The hints that the program gave to all files that are tuned and moved bytes; values are those of the main one."""
    tuned = [file for file in activity.through if file.bytes and names_file(files, file.path)]
    main = max(tuned, key=lambda file: file.bytes, default=None)
    if main is None:
        return {}
    return {k: v for k, v in main.own_hints.items() if all(k in file.own_hints for file in tuned)}


def _calls(activity: Activity, files: str) -> frozenset[str]:
    """The calls on the files that are tuned."""
    tuned = [file for file in activity.through if names_file(files, file.path)]
    return frozenset(name for file in tuned for name in file.calls)


@dataclass(frozen=True)
class Seen:
    """What is known of a program and its workload so far.

    Attributes
    ----------
    ledger : ExperimentLedger
        With the runs that have ended.
    """

    ledger: ExperimentLedger
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
        return any(run.state is State.FINISHED for run in self.ledger.runs.values())

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
        activity = self._first_activity()
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
            # Of several programs, a report of one alone does not tell what the others used.
            watched = self.preflight.watched and not experiment.objective.program
            first = FirstRun.of(
                list(ledger.runs.values()), experiment.files, override=experiment.override, watched=watched
            )
            first.check(experiment)
            if first.insisted(experiment):
                note(f"{first.idle}: the search continues because the experiment names its stacks")
                first = FirstRun()
        if not fixed and (seen := self.runner.shared.seen) is not None:
            workload = experiment.workload.merged(seen[0]).merged(workload)
            layout = dict(seen[1])
        elif not fixed and activity is not None:
            workload = experiment.workload.merged(workload_of(activity)).merged(workload)
            io = None if activity.job.interface else activity.job.mpi_io
            run_bytes = sum(one.bytes for one in activity.directions.values())
            layout = layout_of(activity)
            if activity.programs:
                note(_of_several(activity.programs, program))
        mpi = self.preflight.environment.get("mpi") or ""

        def lost(parameter: Parameter) -> str:
            return self.preflight.lost(parameter) or first.lost(parameter)

        known = Circumstances(
            workload,
            io,
            mpi,
            versions={**self.preflight.versions, **first.versions},
            told=self.preflight.told,
            own=first.hints,
            lost=lost,
            largest=self.preflight.largest,
            present=layout,
            calls=first.calls,
            shapes=first.shapes,
        )
        bound = bind_space(experiment, known)
        if not fixed:
            for sentence in bound.dropped:
                note(sentence)
            words = workload.model_dump(exclude_none=True)
            ledger.remember(workload=words, io=io, layout=layout, first_run=first.as_json())
            if run_bytes is not None:
                ledger.remember(run_bytes=run_bytes)
        return bound

    def _first_activity(self) -> Activity | None:
        finished = (run for run in self.ledger.runs.values() if run.state is State.FINISHED)
        return next((run.activity for run in finished if run.activity is not None), None)


def _of_several(programs: Sequence[str], program: str) -> str:
    measured = f"that of {program} alone" if program else "summed over all; --program NAME measures one alone"
    return (
        f"the command starts {len(programs)} programs ({', '.join(programs)}): settings act on all of them, and what "
        f"the runtime measures is {measured}"
    )


def check_program(ledger: ExperimentLedger, run: Run) -> None:
    """Stop after the first run if the program that is to be measured is not among those that it started.

    Raises
    ------
    UserError
        If it is not.
    """
    named, missing = ledger.experiment.objective.program, run.facts.no_report
    worked = any(other.state is State.FINISHED for other in ledger.runs.values())
    if named and missing and not worked and run.facts.get("exit_code") == 0:
        raise UserError(
            f"the first run cannot be measured: {missing}",
            "name one of the programs of the command, or leave the program out to measure all of them",
        )
