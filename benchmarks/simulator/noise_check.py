"""The noise against the measured percentiles, and max-min rates against an independent solver."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from mechanisms import Check

from stripewise.lab import noise
from stripewise.lab.site import Drift, Noise

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.simulator.maxmin import Flows, bound, makespan, rates
from tests.unit.test_simulate_maxmin import lexicographic, scenario
from tests.unit.test_simulate_noise import MEASURED, PERCENTS

SCENARIOS = 200


def percentiles() -> tuple[list[tuple[str, list[float], list[float]]], Check]:
    """Operation, measured and simulated percentiles of bandwidth over its median."""
    rows = []
    for operation, measured in MEASURED.items():
        drawn = 1 / noise.slowdowns(getattr(Noise(), operation), np.arange(1_000_000), seed=0)
        rows.append((operation, list(measured), list(np.percentile(drawn, PERCENTS) / np.median(drawn))))
    off = max(abs(s / m - 1) for _, measured, simulated in rows for m, s in zip(measured, simulated, strict=True))
    figure = f"10^6 runs each, at most {100 * off:.1f}% off"
    return rows, Check("noise percentiles within 10% of the measured ones", off <= 0.10, figure)


def skewed() -> Check:
    """Bandwidth has its long tail below the median."""
    told, holds = [], True
    for operation in MEASURED:
        logs = -np.log(noise.slowdowns(getattr(Noise(), operation), np.arange(1_000_000), seed=1))
        centred = logs - logs.mean()
        skewness = float((centred**3).mean() / (centred**2).mean() ** 1.5)
        holds &= skewness < -1
        told.append(f"{operation} {skewness:.1f}")
    return Check("left-skewed", holds, f"skewness of ln(bandwidth): {', '.join(told)}")


def drift() -> Check:
    """Days and regimes are off by default, and correlated as asked when on."""
    days = np.arange(20_000)
    off = bool((noise.day_factors(Drift(), days, 0) == 1).all())
    logs = np.log(noise.day_factors(Drift(enabled=True, correlation=0.4), days, 0))
    found = float(np.corrcoef(logs[1:], logs[:-1])[0, 1])
    figure = f"off: factor 1 on every day; on, 0.4 asked for: lag-one correlation {found:.2f}"
    return Check("drift switchable", off and abs(found - 0.4) < 0.05, figure)


def independent_solver() -> Check:
    """Rates against lexicographic max-min by linear programs (HiGHS), on small random scenarios."""
    off = 0.0
    for seed in range(SCENARIOS):
        flows = scenario(seed)
        off = max(off, float(np.abs(rates(flows) / lexicographic(flows) - 1).max()))
    figure = f"{SCENARIOS} random scenarios, at most {off:.1e} off"
    return Check("max-min rates within 1e-3 of an independent solver", off <= 1e-3, figure)


def bound_of_unequal_flows() -> Check:
    """The bound against max-min sharing where flows differ."""
    ratios = []
    for seed in range(SCENARIOS):
        rng = np.random.default_rng(seed)
        clients, osts = int(rng.integers(2, 17)), int(rng.integers(2, 17))
        routes = [[client, clients + ost] for client in range(clients) for ost in range(osts)]
        flows = Flows.of(routes, [float(rng.uniform(1, 8))] * clients + [1.0] * osts)
        sizes = rng.lognormal(0, 0.5, len(routes))
        ratios.append(bound(flows, sizes) / makespan(flows, sizes))
    low, mean = min(ratios), float(np.mean(ratios))
    figure = f"{SCENARIOS} clusters of log-normal flows: bound over max-min {low:.3f} at least, {mean:.3f} on average"
    return Check("the analytic bound is never optimistic by more than 15%", low >= 0.85, figure)
