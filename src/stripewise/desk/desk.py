"""What commands may ask, wherever it is answered: on this machine, or by a service.

A command takes a :class:`Desk` and never asks which one it has. What a desk has to say meanwhile goes to the face that
it was opened with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stripewise.errors import StripewiseError

if TYPE_CHECKING:
    from stripewise.engine.campaign.plan import PlannedPoint
    from stripewise.engine.consent import Consent
    from stripewise.engine.events import Listener
    from stripewise.models.prescribe.prescription import Prescription
    from stripewise.models.prescribe.request import PrescriptionRequest
    from stripewise.models.training import Learned
    from stripewise.models.validation import HoldOut
    from stripewise.observe.activity import Activity
    from stripewise.observe.darshan_logs import LogResult
    from stripewise.requests.campaign_points import Points
    from stripewise.requests.experiment import Experiment
    from stripewise.result import Result
    from stripewise.store.base import Record, Store

Count = Callable[[int, int], None]
"""Is told how much is done, and of how much."""


class CampaignListener(Protocol):
    """Shows how far a campaign is."""

    def __call__(self, kind: str, data: Mapping[str, Any]) -> None:
        """Hear of an event of a session."""

    def plan(self, points: Points) -> int:
        """Show what a service will measure; gives the runs that are planned, as far as is known."""

    def show(self, done: int, left: int) -> None:
        """Show how many runs were made and are left."""


class Face(Protocol):
    """Where people see what a desk does, and answer its questions."""

    def tell(self, text: str) -> None:
        """Show a remark."""

    def watching(self) -> AbstractContextManager[tuple[Listener, Consent]]:
        """Show an experiment as it runs: gives what hears its events, and who agrees to its cost meanwhile."""

    def measuring(self) -> AbstractContextManager[CampaignListener]:
        """Show a campaign as it runs."""

    def consent(self) -> Consent:
        """Give who agrees before anything is begun."""

    @property
    def agreed(self) -> bool:
        """Whether everything was agreed to beforehand."""


class Unattended:
    """A face where nobody looks or answers: costs were agreed to when the work was asked for."""

    agreed = True

    def tell(self, text: str) -> None:
        """Drop a remark."""

    def consent(self) -> Consent:
        """Agree."""
        from stripewise.engine.consent import agree_always  # noqa: PLC0415  commands start without the engine

        return agree_always

    @contextmanager
    def watching(self) -> Iterator[tuple[Listener, Consent]]:
        """Let an experiment run unseen."""
        yield (lambda event: None), self.consent()

    @contextmanager
    def measuring(self) -> Iterator[CampaignListener]:
        """Hear what happens in a campaign."""
        yield self

    def __call__(self, kind: str, data: Mapping[str, Any]) -> None:
        """Drop an event of a campaign."""

    def plan(self, points: Points) -> int:
        """Show nothing of the runs that are planned."""
        return 0

    def show(self, done: int, left: int) -> None:
        """Show nothing of how far a campaign is."""


class Interrupted(StripewiseError):  # noqa: N818
    """The user no longer waits: what was begun can be resumed, or a service goes on with it."""

    def __init__(self, what: str, fix: str = "", code: int = 130) -> None:
        super().__init__(what, fix)
        self.exit_code = code


SMALL_BUDGET = 20
"""Launches of a smaller case where nobody says how many."""


@dataclass(frozen=True)
class SmallCase:
    """A smaller case of a program that is searched first, as one text, and the launches for it."""

    command: str
    runs: int


@dataclass(frozen=True)
class Training:
    """What a model is to learn from and how, and the file for it."""

    table: str
    model: str
    options: Mapping[str, str]
    seed: int
    out: Path
    stacks: Sequence[str] = ()
    """Stack files that say how the table's columns are set."""
    explain: bool = False
    update: bool = False
    """Whether the file's model learns anew what it was made of, if its table has new rows."""


@dataclass(frozen=True)
class Validating:
    """A kind of model to be judged on a table."""

    table: str
    model: str
    options: Mapping[str, Any]
    hold_out: HoldOut
    stacks: Sequence[str] = ()
    """As of :class:`Training`."""


@dataclass(frozen=True)
class Validated:
    """How well a kind of model does on a table."""

    found: dict[str, Any]
    """As ``stripewise site validate --json`` prints it."""
    pairs: Sequence[Any]
    """Predicted and measured values, for figures."""
    table: str
    description: str
    quantity: str
    """Of the objective, as the unit."""
    unit: str


@dataclass(frozen=True)
class Question:
    """Who is asked for a prescription: a model, or without one a policy."""

    model: str | None = None
    table: str | None = None
    """The measurements that the model learned from."""
    policy: str | None = None
    osts: int | None = None
    """Of the file system, for policies."""
    learn: bool = False
    """``model`` may be a table: a model is trained on it."""
    stacks: Sequence[str] = ()
    """Stack files that say how the model's columns are set."""


@dataclass(frozen=True)
class Measuring:
    """A campaign to measure: its file, or the name of one that comes with Stripewise."""

    campaign: str
    changed: Sequence[tuple[str, Any]]
    """Keys of the file that options replace."""
    points: Points
    """What the changed file asks for."""
    out: Path | None = None
    """Stem of the table; an evaluation writes none."""
    shard: tuple[int, int] | None = None
    """Which one of how many; by default all."""
    journal: Path | None = None
    """Folder for the results; by default the usual one."""
    retry: bool = False
    """Repeat runs that failed."""


class Desk(ABC):
    """Answers requests with documents."""

    @abstractmethod
    def experiments(self) -> Store:
        """Open the experiments, to read, annotate and delete them."""

    @abstractmethod
    def stop(self, identifier: str) -> Record:
        """Ask an experiment to stop.

        Raises
        ------
        UserError
            If there is nothing to stop.
        """

    @abstractmethod
    def check_trust(self, record: Record, *what: str) -> None:
        """Refuse to act on an experiment that another user of a store wrote, unless the face agrees.

        ``what``: what that user has written, and that it would run as.
        """

    @abstractmethod
    def dry_run(self, experiment: Experiment, folder: str | None, small: SmallCase | None = None) -> dict[str, Any]:
        """Say what an experiment would do, in a folder or in the current one; nothing is started."""

    @abstractmethod
    def begin(self, experiment: Experiment, folder: str | None, small: SmallCase | None = None) -> tuple[str, Result]:
        """Create an experiment and see it to its end; gives its identifier and its result.

        With a small case, that is searched first, and the experiment begins at full size from what it showed.
        """

    @abstractmethod
    def carry_on(self, identifier: str) -> tuple[str, Result]:
        """Go on with an experiment, or with what follows it; gives the last one and its result."""

    @abstractmethod
    def train(self, training: Training) -> tuple[str, Learned]:
        """Train a model and write its file; gives the table's name and what was learned."""

    @abstractmethod
    def validate(self, asked: Validating, count: Count) -> Validated:
        """Judge a kind of model on a table."""

    @abstractmethod
    def prescribe(
        self, questions: Mapping[str, Question], request: PrescriptionRequest, observed: Path | None
    ) -> dict[str, Prescription]:
        """Ask several models or policies about one workload: what is declared of it, a log, or both."""

    @abstractmethod
    def activities(self, logs: Sequence[Path], workers: int | None) -> Iterator[LogResult]:
        """Read logs, one after the other."""

    @abstractmethod
    def expected(self, activity: Activity, model: Path) -> dict[str, Any]:
        """Ask a model about the log that was read last."""

    @abstractmethod
    def foresee(self, asked: Measuring) -> tuple[dict[str, Any], Sequence[PlannedPoint]]:
        """Say what a campaign would do; gives also its runs, or those of the shard."""

    @abstractmethod
    def measure(self, asked: Measuring) -> dict[str, Any]:
        """Measure a campaign and write its table; gives what ``stripewise site profile --json`` prints."""

    @abstractmethod
    def evaluate(self, asked: Measuring, model: str, eager: bool) -> dict[str, Any]:
        """Measure what a model prescribes for the points of a campaign, which are default test cases.

        ``eager`` takes the best prediction even if its gain is within its uncertainty. Gives what
        ``stripewise site evaluate --json`` prints.
        """

    @abstractmethod
    def bundle(self, identifier: str) -> tuple[str, bytes]:
        """Make the helpdesk's bundle of an experiment; gives the whole identifier and a ZIP file."""
