"""What happens one after the other in a simulated run: each part is a row of a batch for each configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stripewise.catalogue.workload import Workload
from stripewise.lab.access import Access
from stripewise.lab.batch import RunBatch
from stripewise.lab.engine import SimulatedOutcome, simulate
from stripewise.lab.site import Site


@dataclass(frozen=True)
class SimulatedPart:
    """One access to files in one direction.

    Attributes
    ----------
    workload, access
        What runs, and what a simulation needs to know beyond.
    direction : {"write", "read"}
    columns : mapping
        Fields of the batch that are known more exactly than the workload says them.
    hints : mapping
        Settings that the program has; those of the run take their place.
    times : int
        How often it happens.
    opens, moves : bool
        Whether it opens and closes its files, and whether it moves bytes.
    """

    workload: Workload
    direction: str
    access: Access = field(default_factory=Access)
    columns: Mapping[str, Any] = field(default_factory=dict)
    hints: Mapping[str, int | str] = field(default_factory=dict)
    times: int = 1
    opens: bool = True
    moves: bool = True

    def run(self, site: Site, settings: Mapping[str, Any]) -> SimulatedOutcome:
        """Simulate it once, with every configuration."""
        asked = {**self.hints, **settings}
        return simulate(site, RunBatch.make(self.workload, self.direction, asked, self.access, self.columns))


def run_parts(site: Site, parts: Sequence[SimulatedPart], settings: Mapping[str, Any]) -> SimulatedOutcome:
    """Simulate parts one after the other: seconds and bytes add up, the rest is that of the part with most bytes."""
    done = [(part, part.run(site, settings)) for part in parts]
    if len(done) == 1 and parts[0].times == 1 and parts[0].opens and parts[0].moves:
        return done[0][1]

    def total(name: str, counts: str) -> Any:
        return sum(part.times * getattr(part, counts) * getattr(outcome, name) for part, outcome in done)

    _, main = max(done, key=lambda one: one[0].times * one[0].moves * float(np.max(one[1].bytes)))
    bounds: dict[str, Any] = {
        name: sum(part.times * part.moves * outcome.bounds[name] for part, outcome in done)
        for name in main.bounds
        if name != "metadata"
    }
    opening, closing = total("open_seconds", "opens"), total("close_seconds", "opens")
    return SimulatedOutcome(
        opening,
        total("data_seconds", "moves"),
        closing,
        total("bytes", "moves"),
        {**bounds, "metadata": opening + closing},
        main.aggregated,
        main.aggregators,
        total("rounds", "moves"),
        main.stripe_count,
        main.stripe_size,
        main.sieved,
    )
