"""The ceiling of a site for one job: from a calibration, which is of one process, or from a campaign's table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stripewise.catalogue.workload import Workload
from stripewise.diagnose.causes.models import load
from stripewise.errors import UserError
from stripewise.lab.fit import read_measured
from stripewise.models.table import read_table
from stripewise.observe.activity import Activity
from stripewise.observe.ceiling import Ceiling, Way, main_ways, syncs
from stripewise.sizes import count_of


def ceiling_for(path: Path, activity: Activity) -> Ceiling:
    """Give the ceiling for a job, and how near the job is.

    Parameters
    ----------
    path : Path
        What ``site calibrate`` wrote, or the table of a campaign.

    Raises
    ------
    UserError
        If the file cannot be read, or holds nothing that the job can be compared with.
    """
    ways = main_ways(activity)
    found = _of_process(path, activity, ways) if path.suffix == ".json" else _of_table(path, activity.job.ranks, ways)
    return found.model_copy(update={"default": found.share(activity)})


def _of_process(path: Path, activity: Activity, ways: list[Way]) -> Ceiling:
    """Read a calibration: what one process gets in its largest calls, from the disk or, for writes, from memory."""
    models, ranks = load(path).models, activity.job.ranks
    if ranks != 1:
        raise UserError(
            f"{path} is a calibration, of one process, and the job has {ranks:,} ranks",
            "give the table of a campaign: stripewise site profile",
        )
    synced = syncs(activity)
    rates: dict[Way, float] = {}
    for way in ways:
        model = models.get(way, {}).get("cached" if way == "write" and not synced else "uncached")
        if model is None:
            raise UserError(f"{path} has no {way}s that the job can be compared with", "calibrate the site again")
        rates[way] = model.largest / float(model.time(model.largest))
    return Ceiling(rates=rates, ranks=1, synced=synced if "write" in rates else None, origin=str(path))


def _of_table(path: Path, ranks: int, ways: list[Way]) -> Ceiling:
    """Read a table: the best configuration, by the median of its repeats, of as many ranks."""
    data = read_measured(read_table(path), Workload())
    rates: dict[Way, float] = {}
    known: set[int] = set()
    for rows, batch in data.batches:
        way: Way = "write" if bool(np.all(batch.write)) else "read"
        counts = np.broadcast_to(batch.nodes * batch.processes_per_node, rows.shape)
        known |= {int(count) for count in counts} if way in ways else set()
        if way in ways and np.any(counts == ranks):
            rates[way] = float(np.exp(np.max(data.values[rows[counts == ranks]])))
    if set(rates) != set(ways):
        shown = ", ".join(f"{count:,}" for count in sorted(known)) or "none"
        raise UserError(
            f"{path} has no {' and '.join(way for way in ways if way not in rates)} with {count_of(ranks, 'rank')}",
            f"measure it with stripewise site profile; ranks of the table: {shown}",
        )
    return Ceiling(rates=rates, ranks=ranks, origin=str(path))
