"""How near a job is to the ceiling: what the same storage gives to as many ranks in large contiguous pieces.

A ceiling is measured with the bundled benchmark, or taken from a table of a campaign. Program and ceiling are compared
by time in I/O: that in which the ceiling would move the program's bytes, divided by the program's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from stripewise.observe.activity import Activity
from stripewise.sizes import count_of, format_factor, format_size

Way = Literal["read", "write"]
NEAR = 0.03
"""Distance from the ceiling below which nothing is left to be had, and above which the ceiling is none."""
_LEAST = 0.1
"""A direction with less than this part of the bytes is taken to move as fast as the other one."""


class Ceiling(BaseModel):
    """Rates that the storage reached, and which part of them a program reaches.

    Attributes
    ----------
    rates : dict
        Bytes a second by direction.
    ranks : int or None
        That moved them.
    synced : bool or None
        Whether writes count until they are on the disk; None where nothing was written or that is not known.
    origin : str
        The table that they are from; empty where the benchmark was launched beside the program.
    default, best : float or None
        Part of the ceiling that the program reaches with its defaults and with the settings that are proven.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    rates: dict[Way, float] = {}
    ranks: int | None = None
    synced: bool | None = None
    origin: str = ""
    default: float | None = None
    best: float | None = None

    @classmethod
    def of_benchmark(cls, activity: Activity) -> Ceiling | None:
        """Read the rates of a launch of the benchmark; None where its report has no times."""
        seconds, moved = activity.io_time, moved_of(activity)
        own = {way: activity.directions[way].seconds for way in moved}
        if not seconds or not moved or (len(moved) > 1 and not all(own.values())):
            return None
        # Opens and closes belong to both directions, by the time of their data calls.
        total = sum(own.values()) or 1.0
        rates = {
            way: bytes_ / (seconds * (own[way] / total if len(moved) > 1 else 1.0)) for way, bytes_ in moved.items()
        }
        return cls(rates=rates, ranks=activity.job.ranks, synced=syncs(activity) if "write" in moved else None)

    def share(self, activity: Activity | None) -> float | None:
        """Give the part of the ceiling that a job reaches; None where times or a direction of either are not known."""
        if activity is None or not activity.io_time:
            return None
        moved = moved_of(activity)
        if not moved or any(way not in self.rates for way, part in _parts(moved).items() if part >= _LEAST):
            return None
        usual = sum(self.rates.values()) / len(self.rates)
        return sum(bytes_ / self.rates.get(way, usual) for way, bytes_ in moved.items()) / activity.io_time

    @property
    def says(self) -> str:
        """How near the program is, in a sentence for people without its full stop; empty where that is not known."""
        if self.default is None:
            return ""
        if (most := max(self.default, self.best or 0.0)) > 1 + NEAR:
            # Not its rate: that of the objective may count other time, and look lower than the benchmark's.
            return (
                f"the ceiling of this storage is unknown: by time in I/O, the program was {format_factor(most)} "
                f"times as fast as a benchmark ({self._about})"
            )
        to = f" to {count_of(self.ranks, 'rank')}" if self.ranks else ""
        now = f"now at {_percent(self.default)} of what this storage gives{to}"
        then = "" if self.best is None else f", and at {_percent(self.best)} with the settings that are proven"
        return f"{now}{then}, by time in I/O ({self._about})"

    @property
    def _about(self) -> str:
        rates = ", ".join(f"{way} {format_size(rate)}/s" for way, rate in sorted(self.rates.items(), reverse=True))
        where = {True: ", each file on the disk", False: ", which may be in memory", None: ""}[self.synced]
        by = f"by {self.origin}" if self.origin else "by one launch of a benchmark"
        return f"{rates} in large contiguous pieces{where}, {by}"


def near(share: float | None) -> bool:
    """Whether a part of the ceiling is all of it, as far as that can be told."""
    return share is not None and abs(share - 1) <= NEAR


def moved_of(activity: Activity) -> dict[Way, int]:
    """Give the bytes by direction, of those in which any were moved."""
    found: dict[Way, int] = {way: one.bytes for way, one in activity.directions.items() if one.bytes}
    if not found and not activity.directions:
        for way in ("write", "read"):
            bytes_ = sum(getattr(file.upper, way).bytes for file in activity.files)
            found |= {way: bytes_} if bytes_ else {}
    return found


def main_ways(activity: Activity) -> list[Way]:
    """Give the directions of a good part of the bytes, writes first."""
    parts = _parts(moved_of(activity))
    return sorted((way for way, part in parts.items() if part >= _LEAST), reverse=True)


def syncs(activity: Activity) -> bool:
    """Whether the job waited for the disk by calls of its own."""
    return activity.totals.mpiio.syncs + activity.totals.posix.syncs > 0


def _parts(moved: Mapping[Way, int]) -> dict[Way, float]:
    total = sum(moved.values())
    return {way: bytes_ / total for way, bytes_ in moved.items()}


def _percent(share: float) -> str:
    return f"{100 * min(share, 1.0):.2g}%" if share < 0.995 else "all"
