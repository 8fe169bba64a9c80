"""One launch of the program: its process, the orders that it was given, and its answers."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stripewise.runner.local.processes import Identity
from stripewise.spec.journal import JournalPhase, parse_journal
from stripewise.spec.orders import Order, append_orders, runs_of


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
        Run to the number of its order.
    last : int
        The last order's number.
    read : int
        Bytes of answers that have been read.
    """

    folder: Path
    identity: Identity | None = None
    process: subprocess.Popen[bytes] | None = None
    phases: list[JournalPhase] = field(default_factory=list)
    given: dict[int, int] = field(default_factory=dict)
    last: int = 0
    read: int = 0

    @classmethod
    def reopened(cls, folder: Path) -> Launched:
        """Take up a launch of an earlier session, with its orders and answers so far."""
        launched = cls(folder)
        with contextlib.suppress(OSError, ValueError, RecursionError):
            launched.identity = Identity.read(json.loads((folder / "job.json").read_text("utf-8")))
        with contextlib.suppress(OSError):
            launched.given, launched.last = runs_of((folder / "orders").read_text("utf-8", "surrogateescape"))
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
        self.last = orders[-1].number

    def ordered(self, number: int) -> JournalPhase | None:
        """Give the phase that carried out an order; None before it has."""
        return next((phase for phase in self.phases if phase.order == number), None)
