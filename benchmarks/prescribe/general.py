"""What the policy ``general`` knows: what 4 to 16 stripes brought collective writes from several nodes, on two systems.

    python benchmarks/prescribe/general.py CHECKOUTS   # a line for each workload, and what the policy's figures are

Measured sweeps of S3D-IO and BT-IO on Lustre, whose configurations differ in hints and stripe sizes too: the median of
those with 4 to 16 stripes and collective buffering, over the default. ``lustre_sweeps.py`` says what CHECKOUTS holds.
Workloads outside the policy's conditions, which keep the default, are listed as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "search"))

from lustre_sweeps import sweeps  # noqa: E402
from portfolio_sources import TABLES, facts_of  # noqa: E402

from stripewise.model.landscape import Landscape, landscapes  # noqa: E402
from stripewise.model.table import read_table  # noqa: E402
from stripewise.prescribe.general import why_not  # noqa: E402
from stripewise.spec.workload import Workload  # noqa: E402

FEW, MANY = 4, 16


def workloads(checkouts: Path) -> Iterator[tuple[str, str, dict[str, Any], Landscape]]:
    """System, name, what is known of the workload, and its configurations."""
    for sweep in sweeps(checkouts):
        yield "HPC2010", sweep.name, sweep.facts, landscapes(sweep.table)[0]
    for name in ("s3d_write_lustre_hints", "ior_stripe_count_by_file_size", "ior_write_lustre_hints"):
        for one in landscapes(read_table(TABLES / f"{name}.toml")):
            facts = facts_of(one)
            if facts["operation"] == "write":
                yield "Tianhe", f"{name.partition('_')[0]} {facts.get('file_size', 0) / 2**20:.0f} MiB", facts, one


def gains(landscape: Landscape) -> tuple[np.ndarray, np.ndarray, str]:
    """Of the configurations that the policy could mean: performance over the default's, and over the best; others.

    The others are those with fewer stripes, and those without collective buffering, as a phrase.
    """
    names, parameters = landscape.space.names, landscape.space.parameters

    def of(name: str, otherwise: Any) -> np.ndarray:
        if name not in names:
            return np.full(len(landscape.space.points), otherwise)
        place = names.index(name)
        return np.array(parameters[place].values)[landscape.space.points[:, place]]

    stripes, apart = of("stripe_count", 1), of("romio_cb_write", "automatic") == "disable"
    default = int(landscape.space.index(landscape.space.levels([landscape.space.default]))[0])
    over = landscape.truth / landscape.truth[default]
    meant = (stripes >= FEW) & (stripes <= MANY) & ~apart
    others = {f"fewer than {FEW} stripes": (stripes < FEW) & ~apart, "no collective buffering": apart}
    words = [f"{name} {np.median(over[which]):.2f}" for name, which in others.items() if which.any()]
    return over[meant], landscape.truth[meant] / landscape.truth.max(), ", ".join(words)


def main() -> None:
    """Print it."""
    logs: dict[str, list[float]] = {}
    shares = []
    for system, name, facts, landscape in workloads(Path(sys.argv[1])):
        words = {key: value for key, value in facts.items() if key in Workload.model_fields}
        reason = why_not(Workload.model_validate(words))
        over, share, others = gains(landscape)
        if len(over) == 0:
            print(f"{system:8s} {name:28s} no such configuration  {reason}")
            continue
        gain = float(np.median(over))
        print(f"{system:8s} {name:28s} {gain:5.2f} ({len(over)})  {reason or 'prescribed'} [{others}]")
        if not reason:
            logs.setdefault(f"{system} {name.split()[0]}", []).append(float(np.log(gain)))
            shares.append((float(np.median(share)), float(np.median(share)) / gain))
    for group, found in logs.items():
        least, most = np.exp(min(found)), np.exp(max(found))
        print(
            f"{group}: {len(found)} workloads, geometric mean {np.exp(np.mean(found)):.2f}, deviation "
            f"{np.std(found, ddof=1):.2f}, {least:.2f} to {most:.2f}"
        )
    each = [np.concatenate([v for g, v in logs.items() if g.startswith(s)]) for s in ("HPC2010", "Tianhe")]
    means = [float(np.mean(one)) for one in each]
    within = np.sqrt(np.mean([np.var(one, ddof=1) for one in each]))
    deviation = np.hypot(within, np.std(means, ddof=1))
    every = np.concatenate(each)
    print(
        f"{len(every)} workloads on {len(each)} systems: gain {np.mean(means):.3f} (logarithm, mean of the systems), "
        f"deviation of a new workload on a new system {deviation:.3f}, least {np.exp(every.min()):.2f}, "
        f"share of the best {np.mean([a for a, _ in shares]):.2f}, of the default {np.mean([b for _, b in shares]):.2f}"
    )


if __name__ == "__main__":
    main()
