"""What trying costs a launch, against what it would have taken with the default."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stripewise.catalogue.plan import Plan
from stripewise.launch import Launch
from stripewise.observe.journal import JournalPhase
from stripewise.trial import Phase


@dataclass(frozen=True)
class Loss:
    """What trying has cost in a launch, in seconds of I/O.

    Attributes
    ----------
    lost : float
        Against the default, over all phases that had other settings; negative for a gain.
    default : float
        What all phases would have taken with the default.
    typical : float
        What one phase of the family would have, on average.
    pace : float
        What all that pass until the next phase of the family would have.
    """

    lost: float
    default: float
    typical: float
    pace: float

    @classmethod
    def of(cls, phases: Sequence[JournalPhase], others: Iterable[Sequence[JournalPhase]] = ()) -> Loss | None:
        """Estimate it from the phases of one family in a launch; None before one has run after the first.

        Parameters
        ----------
        phases : sequence of JournalPhase
        others : iterable of sequence of JournalPhase
            Of the other families that are tuned in this launch, up to the same moment: what is lost is lost by all.
        """
        own = cls._of_one(phases)
        if own is None:
            return None
        beside = [loss for family in others if (loss := cls._of_one(family)) is not None]
        whole = own.default + sum(loss.default for loss in beside)
        lost = own.lost + sum(loss.lost for loss in beside)
        return cls(lost, whole, own.typical, own.pace * whole / own.default)

    @classmethod
    def _of_one(cls, phases: Sequence[JournalPhase]) -> Loss | None:
        pairs = list(zip(phases, phases[1:], strict=False))
        usual = [phase for _, phase in pairs if not phase.settings]
        if not usual:
            return None
        # What a phase leaves to be written slows the next one, which therefore counts as tried too.
        apart = [phase for before, phase in pairs if not phase.settings and not before.settings]
        # The mean, because a launch takes the sum: what disturbs phases now and then disturbs the default too.
        # By their median, each disturbance would count as the loss of the settings that it happened to meet.
        cost = sum(phase.seconds for phase in apart or usual) / sum(phase.moved for phase in apart or usual)
        tried = [phase for before, phase in pairs if phase.settings or before.settings]
        lost = sum(phase.seconds - cost * phase.moved for phase in tried)
        moved = [phase.moved for phase in phases]
        typical = cost * statistics.median(moved)
        return cls(lost, cost * sum(moved), typical, typical)

    def wait(self, excess: float, most: float) -> int:
        """Phases of the default that must pass before such a phase keeps the loss below the part that is allowed.

        What is allowed grows with the launch, because it is a share of its I/O time.
        """
        if excess <= 0:
            return 0
        missing = (self.lost + excess * self.typical) / most - self.default
        return max(0, math.ceil(missing / self.pace - 1e-9))


def excess_of(asked: Launch, phases: Sequence[JournalPhase], loss: Loss, factor: float) -> float:
    """How much longer than the default a phase of a run is expected to take, as a part of the default's time.

    Parameters
    ----------
    asked : Launch
    phases : sequence of JournalPhase
        The family's in the launch.
    loss : Loss
    factor : float
        How many times as long as the default something untried may take.
    """
    if not asked.plan.settings:
        return 0.0
    wanted = parse_settings(asked.plan)
    own = [phase.seconds / phase.moved for phase in phases if phase.settings == wanted]
    excess = factor - 1
    if own:
        excess = statistics.fmean(own) * statistics.median(p.moved for p in phases) / loss.typical - 1
    if asked.phase is Phase.CONFIRMATION and (not own or excess <= factor - 1):
        return 0.0  # what the search saw to be the best is not expected to lose
    return excess


def parse_settings(plan: Plan) -> dict[str, str]:
    """Give a plan's settings as answers name them."""
    return {f"{s.layer} {s.key}" if s.carrier.of_file_system else s.key: s.value for s in plan.settings}
