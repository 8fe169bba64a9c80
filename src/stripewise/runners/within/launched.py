"""One launch of the program: its process, the orders that it was given, and its answers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stripewise.catalogue.plan import Plan
from stripewise.errors import StripewiseError, UserError
from stripewise.observe.journal import JournalPhase, parse_journal
from stripewise.observe.orders import Given, Order, append_orders, read_orders
from stripewise.ownership import make_folder, written_whole
from stripewise.requests.experiment import Experiment
from stripewise.requests.site import site_allowances
from stripewise.runners.injection import Guidance, defaults_of, prepare, words_of
from stripewise.runners.local.processes import Identity
from stripewise.runners.local.scratch import kept_input
from stripewise.runners.program_runner import Found

Search = tuple[str, str]
"""Which search a run belongs to, where a launch serves several: the site and operation of its last order."""


@dataclass
class Launched:
    """A launch of the program, with its orders and answers.

    Attributes
    ----------
    folder : Path
        Of its orders, answers and output.
    identity : Identity or None
        Of its process, by which a later session knows it.
    process : Popen or None
        None where an earlier session started it.
    phases : list of JournalPhase
        That have been answered.
    given : dict
        A search and its run to the number of the run's last order.
    issued : list of Given
        All orders.
    ahead : dict
        A search to the settings of its last order; empty of those that an earlier session gave.
    read : int
        Bytes of answers that have been read.
    """

    folder: Path
    identity: Identity | None = None
    process: subprocess.Popen[bytes] | None = None
    phases: list[JournalPhase] = field(default_factory=list)
    given: dict[tuple[Search, int], int] = field(default_factory=dict)
    issued: list[Given] = field(default_factory=list)
    ahead: dict[Search, dict[str, str]] = field(default_factory=dict)
    read: int = 0

    @classmethod
    def started(
        cls, folder: Path, experiment: Experiment, found: Found, cwd: Path, *, loaders: bool = False
    ) -> Launched:
        """Start the program of an experiment, in the mode in which it carries out orders, or its loaders do.

        Raises
        ------
        StripewiseError
            If the folder cannot be written, or the command not be started.
        """
        launched = cls(folder)
        guidance = Guidance(
            "" if loaders else "orders",
            journal=folder / "answers",
            allow=site_allowances(),
            orders=launched.orders,
            settle=experiment.within.settle,
            in_python=loaders,
            watched=found.watched,
        )
        try:
            make_folder(folder)
            append_orders(launched.orders, ())
        except OSError as error:
            raise StripewiseError(f"cannot write {folder}: {error.strerror}", "make room, then resume") from error
        plan = Plan(override=experiment.override, files=experiment.files)
        words = words_of(experiment, None, defaults_of(experiment))
        library = found.library_for(found.target)
        ready = prepare(plan, words, folder, environment=found.environment, cwd=cwd, guidance=guidance, library=library)
        stdin = kept_input(experiment, folder) or Path(os.devnull)
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err, stdin.open("rb") as given:
            try:
                # A session of its own: the program outlives a tuner that is interrupted or killed.
                launched.process = subprocess.Popen(
                    ready.words,
                    stdin=given,
                    stdout=out,
                    stderr=err,
                    cwd=cwd,
                    env={**found.environment, "STRIPEWISE_RUN_FOLDER": str(folder)},
                    start_new_session=True,
                )
            except OSError as error:
                raise UserError(f"cannot start {ready.words[0]}: {error.strerror}", "check the command") from error
        launched.identity = Identity.of(launched.process.pid)
        with written_whole(folder / "job.json") as part:
            part.write_text(json.dumps(launched.identity.as_json()), "utf-8")
        return launched

    @classmethod
    def reopened(cls, folder: Path) -> Launched:
        """Take up a launch of an earlier session, with its orders and answers so far."""
        launched = cls(folder)
        with contextlib.suppress(OSError, ValueError, RecursionError):
            launched.identity = Identity.read(json.loads((folder / "job.json").read_text("utf-8")))
        with contextlib.suppress(OSError):
            launched._note(read_orders((folder / "orders").read_text("utf-8", "surrogateescape")))
        launched.look()
        return launched

    @property
    def orders(self) -> Path:
        """The file of orders."""
        return self.folder / "orders"

    @property
    def running(self) -> bool:
        """Whether the program still runs."""
        if self.process is not None:
            return self.process.poll() is None
        return self.identity is not None and self.identity.here and self.identity.alive

    def look(self) -> None:
        """Read the answers that have come; one that is still being written waits."""
        try:
            with (self.folder / "answers").open("rb") as stream:
                stream.seek(self.read)
                new = stream.read()
        except OSError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self.read += len(whole)
        self.phases += parse_journal(whole.decode("utf-8", "surrogateescape")).phases

    def order(self, orders: Sequence[Order]) -> None:
        """Append orders."""
        append_orders(self.orders, orders)
        self._note([Given(one.number, one.site, one.operation, one.run) for one in orders])

    def _note(self, orders: Sequence[Given]) -> None:
        self.issued += orders
        for one in orders:
            if one.run is not None:
                self.given[(one.site, one.operation), one.run] = one.number

    @property
    def last(self) -> int:
        """The last order's number; 0 before the first."""
        return max((one.number for one in self.issued), default=0)

    @property
    def waiting(self) -> Counter[Search]:
        """Orders of each site and operation that no phase has carried out to its end."""
        done = {phase.order for phase in self.phases}
        return Counter((one.site, one.operation) for one in self.issued if one.number not in done)

    def ordered(self, number: int) -> JournalPhase | None:
        """Give the phase that carried out an order; None before it has."""
        return next((phase for phase in self.phases if phase.order == number), None)
