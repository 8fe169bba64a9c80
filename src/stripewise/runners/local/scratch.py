"""A run's scratch folder: its plan, its output, its report, and who its processes are."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stripewise.errors import StripewiseError, UserError
from stripewise.launch import Launch
from stripewise.observe.left import parts_in, python_parts_in, reports_of
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import Report, read_report_file, sum_reports
from stripewise.ownership import make_folder, written_whole
from stripewise.requests.experiment import Experiment
from stripewise.runners.local.processes import Identity, boot_id, end, host_name
from stripewise.runners.local.supervision import last_line, tail
from stripewise.runners.program.mpi import SESSIONS, Mpi, needs_sessions
from stripewise.shell import job_name


@dataclass(frozen=True)
class Scratch:
    """The folder of one launch, ``<folder>/<number>`` or ``<folder>/<number>.<attempt>``.

    Attributes
    ----------
    path : Path
    run_id : str
        The marker of the processes of this attempt.
    """

    path: Path
    run_id: str

    @classmethod
    def of(cls, base: Path, launch: Launch) -> Scratch:
        """Name the folder of a launch; nothing is created."""
        name = str(launch.number) if launch.attempt == 0 else f"{launch.number}.{launch.attempt}"
        return cls(base / name, run_id(base, launch))

    @property
    def job_name(self) -> str:
        """The name of its job or step, as all schedulers take it."""
        return job_name(f"stripewise-{self.run_id}")

    @property
    def report(self) -> Path:
        """The report that the runtime writes."""
        return self.path / "report.json"

    def reports(self) -> list[Path]:
        """The reports of all MPI programs of the command, in the order in which they ended."""
        return reports_of(self.report)

    @property
    def process(self) -> Path:
        """Who the run's processes are."""
        return self.path / "process.json"

    @property
    def stdout(self) -> Path:
        """What the program printed."""
        return self.path / "stdout"

    @property
    def stderr(self) -> Path:
        """What the program complained of."""
        return self.path / "stderr"

    def create(self, files: Mapping[str, str], process: Mapping[str, Any] | None = None) -> None:
        """Make the folder with its files, and without the reports of an earlier attempt.

        Parameters
        ----------
        files : mapping
            Name to content.
        process : mapping, optional
            For :meth:`note`.

        Raises
        ------
        StripewiseError
            If it cannot be written; the run is then not started.
        """
        try:
            make_folder(self.path)
            for report in (*self.reports(), *parts_in(self.path), *python_parts_in(self.path)):
                report.unlink()
            for name, text in files.items():
                with written_whole(self.path / name) as part:
                    part.write_text(text, "utf-8")
            if process is not None:
                self.note(process)
        except OSError as error:
            raise StripewiseError(
                f"cannot write the run's folder {self.path}: {error.strerror}",
                "make room or choose another folder with 'scratch', then continue with: stripewise resume ID",
            ) from error

    def note(self, process: Mapping[str, Any], pid: int | None = None) -> None:
        """Write ``process.json``; with the identity of a process as soon as there is one."""
        who = Identity.of(pid).as_json() if pid is not None else {"boot": boot_id(), "host": host_name()}
        with written_whole(self.process) as part:
            part.write_text(json.dumps({"run_id": self.run_id, **who, **process}, indent=1) + "\n", "utf-8")

    def read_report(self, program: str = "") -> tuple[Report | None, str]:
        """Read the report: of several programs that the command started, their sum.

        Parameters
        ----------
        program : str
            The one of them that counts; empty if all do.

        Returns
        -------
        tuple of (Report or None, str)
            The report, or None and why there is none.
        """
        try:
            merge_parts(self.path, self.report, program)
            return sum_reports([read_report_file(path) for path in self.reports() or [self.report]], program), ""
        except UserError as error:
            return None, error.what
        except OSError as error:
            return None, f"{self.report} cannot be written: {error.strerror or error}"


@contextlib.contextmanager
def own_sessions(mpi: Mpi | None, words: Sequence[str], environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Make a session folder for one launch of Open MPI, and remove it afterwards; see :data:`SESSIONS`.

    Parameters
    ----------
    mpi : Mpi or None
    words : sequence of str
        The whole command.
    environment : mapping
        The program's, after the setup lines.

    Yields
    ------
    dict
        Variables for the launch; none where Open MPI is not used, or the user has chosen the folder.
    """
    if not needs_sessions(mpi, (*environment, *words)):
        yield {}
        return
    # Open MPI looks at TMPDIR first, too.
    parent = environment.get("TMPDIR", "")
    folder = tempfile.mkdtemp(prefix="ompi-", dir=parent if os.access(parent, os.W_OK | os.X_OK) else None)
    try:
        yield dict.fromkeys(SESSIONS, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_id(base: Path, launch: Launch) -> str:
    """Give the marker of a launch's processes; other attempts, and experiments of other folders, have others."""
    digest = hashlib.sha256(os.fsencode(base.absolute())).hexdigest()[:8]
    return f"{launch.experiment}.{launch.number}.{launch.attempt}.{digest}"


def read_earlier(base: Path, launch: Launch) -> list[dict[str, Any]]:
    """Read who the processes of all earlier attempts of a planned run were."""
    found = []
    for path in (base / str(launch.number), *sorted(base.glob(f"{launch.number}.*"))):
        try:
            data = json.loads((path / "process.json").read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(data, dict):
            found.append(data)
    return found


def reap(base: Path, launch: Launch) -> None:
    """Make sure that no process of a planned run is left on this host.

    Raises
    ------
    StripewiseError
        If it was started on another host, or its processes cannot be ended.
    """
    sessions: list[int | None] = [None]
    for data in read_earlier(base, launch):
        host = data.get("host")
        if host != host_name():
            raise StripewiseError(
                f"run {launch.number} was started on host {host}, out of reach of {host_name()}",
                f"resume on {host}, or make sure that the run is over there and delete its folder under {base}",
            )
        if "pid" in data:
            try:
                identity = Identity.read(data)
            except ValueError:
                continue
            # Only a live leader proves that its number still names this session.
            sessions += [identity.pid] if identity.alive else []
    attempts = [run_id(base, replace(launch, attempt=attempt)) for attempt in range(launch.attempt + 1)]
    left = [line for marker in attempts for session in sessions for line in end(marker, session)]
    if left:
        numbers = ", ".join(str(line.pid) for line in left)
        raise StripewiseError(
            f"run {launch.number}: its process(es) {numbers} of an earlier attempt cannot be ended",
            "end them by hand, then resume",
        )


def quote_output(*outputs: Path) -> str:
    """Give, after a colon, the last line with text of the first output that has one."""
    for path in outputs:
        line = last_line(tail(path))
        if line:
            return f": {line}"
    return ""


def kept_input(experiment: Experiment, folder: Path) -> Path | None:
    """Write the standard input of an experiment's launches into its folder; None where they get none.

    Raises
    ------
    StripewiseError
        If it cannot be written; no run is then started.
    """
    if experiment.stdin is None:
        return None
    path, data = folder / "stdin", experiment.stdin.data
    try:
        make_folder(folder)
        if not path.is_file() or path.read_bytes() != data:
            with written_whole(path) as part:
                part.write_bytes(data)
    except OSError as error:
        raise StripewiseError(
            f"cannot write the program's input {path}: {error.strerror}",
            "make room, then continue with: stripewise resume ID",
        ) from error
    return path
