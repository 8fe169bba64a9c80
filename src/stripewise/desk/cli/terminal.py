"""The terminal as the face of a desk, and the desk that a command means: of this machine, or of a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from stripewise.desk.cli.output import ask, complete_commands, console, notes, remark, was_given
from stripewise.desk.desk import Desk
from stripewise.desk.local import LocalDesk
from stripewise.errors import UserError

if TYPE_CHECKING:
    from stripewise.desk.cli.campaign_progress import Display
    from stripewise.engine.consent import Consent
    from stripewise.engine.events import Listener


def desk_of(store: str | None, server: str | None, *, json_output: bool = False, yes: bool = False) -> Desk:
    """Give the desk that is meant: of this machine with its store, or of a service.

    What stands on the command line wins over the environment.
    """
    face = Terminal(json_output, yes)
    if server is None or (was_given("store") and not was_given("server")):
        return LocalDesk(store, face)
    if was_given("store"):
        raise UserError("both --store and --server are given", "leave one of them out: a service has its own store")
    from stripewise.desk.client.client import Client  # noqa: PLC0415  only with a service
    from stripewise.desk.client.desk import RemoteDesk  # noqa: PLC0415

    return RemoteDesk(Client(server), face)


class Terminal:
    """The face of a desk on the terminal.

    With ``json_output`` standard output is for a document alone, and nobody is asked; with ``agreed`` everything was
    agreed to beforehand.
    """

    def __init__(self, json_output: bool = False, agreed: bool = False) -> None:
        self._json_output = json_output
        self.agreed = agreed

    def tell(self, text: str) -> None:
        """Print a remark on standard error, with the store in the commands that it names."""
        remark(complete_commands(text))

    def consent(self) -> Consent:
        """Give who agrees before anything is begun."""
        return self._consent(nullcontext)

    @contextmanager
    def watching(self) -> Iterator[tuple[Listener, Consent]]:
        """Show an experiment on the terminal as it runs; questions leave its display."""
        from stripewise.desk.cli.progress import Progress  # noqa: PLC0415  few commands show one

        with Progress(notes if self._json_output or not console.is_terminal else console) as progress:
            yield progress, self._consent(progress.paused)

    @contextmanager
    def measuring(self) -> Iterator[Display]:
        """Show on standard error how far a campaign is."""
        from stripewise.desk.cli.campaign_progress import Display  # noqa: PLC0415  few commands show one

        display = Display()
        try:
            yield display
        finally:
            display.close()

    def _consent(self, paused: Callable[[], AbstractContextManager[None]]) -> Consent:
        def answered(question: str) -> bool:
            if self.agreed:
                return True
            with paused():
                return ask(question, self._json_output)

        return answered
