"""What trying costs a launch, against what it would have taken with the default."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from stripewise.spec.journal import JournalPhase


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
        What one of them would have.
    """

    lost: float
    default: float
    typical: float

    @classmethod
    def of(cls, phases: Sequence[JournalPhase]) -> Loss | None:
        """Estimate it from the phases of one kind in a launch; None before one has run after the first."""
        pairs = list(zip(phases, phases[1:], strict=False))
        usual = [phase for _, phase in pairs if not phase.settings]
        if not usual:
            return None
        # What a phase leaves to be written slows the next one, which therefore counts as tried too.
        apart = [phase for before, phase in pairs if not phase.settings and not before.settings]
        cost = statistics.median(phase.seconds / phase.moved for phase in apart or usual)
        tried = [phase for before, phase in pairs if phase.settings or before.settings]
        lost = sum(phase.seconds - cost * phase.moved for phase in tried)
        moved = [phase.moved for phase in phases]
        return cls(lost, cost * sum(moved), cost * statistics.median(moved))

    def wait(self, excess: float, most: float) -> int:
        """Phases of the default that must pass before such a phase keeps the loss below the part that is allowed.

        What is allowed grows with the launch, because it is a share of its I/O time.
        """
        if excess <= 0:
            return 0
        missing = (self.lost + excess * self.typical) / most - self.default
        return max(0, math.ceil(missing / self.typical - 1e-9))
