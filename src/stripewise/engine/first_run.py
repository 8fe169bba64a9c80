"""What the first run shows beside the workload: whether there is MPI-IO, the program's own hints, and its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.stack import load_stack
from stripewise.errors import UserError
from stripewise.file_glob import names_file
from stripewise.observe.report import Report
from stripewise.requests.experiment import Experiment
from stripewise.requests.overrides import parameters_of
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
    """

    idle: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)
    calls: frozenset[str] = frozenset()

    @classmethod
    def of(cls, runs: Sequence[Run], files: str) -> FirstRun:
        """Read the first finished run that wrote a report; failing that, why there is none.

        Parameters
        ----------
        runs : sequence of Run
        files : str
            Glob of the files that are tuned, as in an experiment.
        """
        finished = [run for run in runs if run.state is State.FINISHED]
        report = next((run.report for run in finished if run.report is not None), None)
        if report is not None:
            if not report.files:
                return cls("the program opened no file through MPI-IO in its first run")
            return cls(hints=_own_hints(report, files), calls=_calls(report, files))
        missing = next((run.facts.no_report for run in finished if run.facts.no_report), "")
        doubt = "does it call MPI_Init and MPI_Finalize?"
        return cls(f"the program left no report of its first run ({missing}; {doubt})" if missing else "")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FirstRun:
        """Read what :meth:`as_json` gave."""
        return cls(**{**data, "calls": frozenset(data.get("calls", ()))})

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON."""
        return {"idle": self.idle, "hints": dict(self.hints), "calls": sorted(self.calls)}

    def lost(self, parameter: Parameter) -> str:
        """Say why a parameter cannot act on the program; empty if it can."""
        return "" if _acts_without_mpi_io(parameter) else self.idle

    def check(self, experiment: Experiment) -> None:
        """Refuse to search where nothing that the experiment may change can act on the program.

        Raises
        ------
        UserError
            With what the first run showed.
        """
        acting = any(_acts_without_mpi_io(parameter) for parameter in parameters_of(experiment).values())
        if self.idle and not experiment.stacks and not acting:
            raise UserError(
                f"{self.idle}: the settings of MPI-IO that would be searched cannot act on it",
                "tune a case of the program that reads or writes files through MPI-IO (also through HDF5 or PnetCDF "
                "with MPI; PnetCDF from 1.15 on only with PNETCDF_HINTS=nc_driver=mpiio), search what acts on its own "
                "calls of the C library (--stack posix), or tune arguments or variables of the program itself: "
                "--parameter NAME=VALUE,... with {NAME} in the command, or --parameter env:NAME=VALUE,...; "
                "if the report is wrong, --stack NAME still searches the settings of that stack",
            )

    def insisted(self, experiment: Experiment) -> bool:
        """Whether the user named stacks of MPI-IO although the first run showed no MPI-IO."""
        stacks = [parameter for stack in map(load_stack, experiment.stacks) for parameter in stack.parameters]
        return bool(self.idle) and any(not _acts_without_mpi_io(parameter) for parameter in stacks)


def _own_hints(report: Report, files: str) -> dict[str, str]:
    """The hints that the program gave to all files that are tuned and moved bytes; values are those of the main one."""
    tuned = [file for file in report.files if file.bytes and names_file(files, file.path)]
    main = max(tuned, key=lambda file: file.bytes, default=None)
    if main is None:
        return {}
    return {k: v for k, v in main.application_info.items() if all(k in file.application_info for file in tuned)}


def _calls(report: Report, files: str) -> frozenset[str]:
    """The calls on the files that are tuned."""
    tuned = [file for file in report.files if names_file(files, file.path)]
    return frozenset(name for file in tuned for name, found in file.operations.items() if found.count)


def _acts_without_mpi_io(parameter: Parameter) -> bool:
    carrier = parameter.carrier
    return (carrier.acts == ("launch",) or not carrier.needs_mpi) and not parameter.io_component
