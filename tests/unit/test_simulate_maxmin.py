"""Max-min fair rates agree with an independent linear-programming solver; the analytic bound is never far off."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.simulator.maxmin import Flows, bound, finish_times, makespan, rates
from numpy.typing import NDArray
from scipy.optimize import linprog


def scenario(seed: int, most: int = 8) -> Flows:
    """A few flows over up to three of a few resources, some held by a limit of their own."""
    rng = np.random.default_rng(seed)
    resources, count = int(rng.integers(2, 6)), int(rng.integers(2, most + 1))
    routes = np.full((count, 3), -1)
    for row in routes:
        chosen = rng.choice(resources, size=int(rng.integers(1, min(3, resources) + 1)), replace=False)
        row[: len(chosen)] = chosen
    limits = np.where(rng.random(count) < 0.3, rng.lognormal(-1, 1, count), np.inf)
    return Flows.of(routes, rng.lognormal(0, 1, resources), limits)


def lexicographic(flows: Flows) -> NDArray[np.float64]:
    """Max-min rates by linear programs: raise the least rate, fix every flow that cannot exceed it, and go on."""
    count = len(flows.routes)
    uses = np.zeros((len(flows.capacities), count))
    for flow, row in enumerate(flows.routes):
        uses[row[row >= 0], flow] = 1
    most = [None if np.isinf(limit) else limit for limit in flows.limits]
    fixed = np.full(count, np.nan)
    while np.isnan(fixed).any():
        free = np.flatnonzero(np.isnan(fixed))
        least = np.zeros((len(free), count + 1))
        least[np.arange(len(free)), free] = -1
        least[:, -1] = 1
        lines = np.vstack([np.hstack([uses, np.zeros((len(uses), 1))]), least])
        bounds = [(0, most[i]) if np.isnan(fixed[i]) else (fixed[i], fixed[i]) for i in range(count)]
        right = np.concatenate([flows.capacities, np.zeros(len(free))])
        found = linprog([*[0.0] * count, -1.0], lines, right, bounds=[*bounds, (0, None)], method="highs")
        assert found.success
        level = found.x[-1]
        for flow in free:
            floor = [(level * (1 - 1e-9), top) if i in free else (low, top) for i, (low, top) in enumerate(bounds)]
            alone = linprog(-np.eye(count)[flow], uses, flows.capacities, bounds=floor, method="highs")
            if alone.x[flow] <= level * (1 + 1e-6):
                fixed[flow] = level
    return fixed


def lexicographic_makespan(flows: Flows, sizes: NDArray[np.float64]) -> float:
    """The time of the last end, sharing anew by linear programs after each end."""
    left, now = sizes.copy(), 0.0
    while (left > 0).any():
        keep = left > 0
        rate = lexicographic(flows.take(keep))
        step = (left[keep] / rate).min()
        now += step
        left[keep] = np.where(left[keep] / rate <= step * (1 + 1e-9), 0.0, left[keep] - rate * step)
    return now


# All 200 scenarios are run by benchmarks/simulator; these are a sample for every day.
@pytest.mark.parametrize("seed", range(0, 200, 25))
def test_rates_are_those_of_an_independent_solver(seed: int) -> None:
    flows = scenario(seed)
    assert rates(flows) == pytest.approx(lexicographic(flows), rel=1e-3)


@pytest.mark.parametrize("seed", [3, 4])
def test_the_makespan_is_that_of_an_independent_solver(seed: int) -> None:
    flows = scenario(seed, most=5)
    sizes = np.random.default_rng(seed).lognormal(0, 0.5, len(flows.routes))
    assert makespan(flows, sizes) == pytest.approx(lexicographic_makespan(flows, sizes), rel=1e-3)


def test_nobody_gets_more_at_the_cost_of_one_who_has_less() -> None:
    for seed in range(50):
        flows = scenario(seed, most=30)
        rate = rates(flows)
        used = np.zeros(len(flows.capacities))
        for flow, row in zip(rate, flows.routes, strict=True):
            used[row[row >= 0]] += flow
        assert (used <= flows.capacities * (1 + 1e-9)).all()
        # Every flow is held: by its limit, or by a full resource on which nobody has more than it.
        for flow, row in zip(range(len(rate)), flows.routes, strict=True):
            crossed = row[row >= 0]
            full = crossed[used[crossed] >= flows.capacities[crossed] * (1 - 1e-9)]
            largest = [rate[(flows.routes == r).any(axis=1)].max() for r in full]
            assert rate[flow] >= flows.limits[flow] * (1 - 1e-9) or any(rate[flow] >= m * (1 - 1e-9) for m in largest)


def test_a_chain_is_shared_as_in_the_textbook() -> None:
    # Flow 0 crosses all three links, the others one each: 1/3 each on the narrow link, the rest to the others.
    flows = Flows.of([[0, 1, 2], [0, -1, -1], [1, -1, -1], [1, -1, -1], [2, -1, -1]], [1.0, 1.0, 2.0])
    assert rates(flows) == pytest.approx([1 / 3, 2 / 3, 1 / 3, 1 / 3, 5 / 3])


def test_the_bound_is_exact_for_equal_flows() -> None:
    routes = [[client, 4 + ost] for client in range(4) for ost in range(8)]
    flows = Flows.of(routes, [5.0] * 4 + [1.0] * 8)
    sizes = np.ones(len(routes))
    assert makespan(flows, sizes) == pytest.approx(bound(flows, sizes), rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_optimistic_and_never_by_more_than_15_percent(seed: int) -> None:
    # Clients that write files of log-normal sizes to OSTs, as in the comparison of the notes.
    rng = np.random.default_rng(seed)
    clients, osts = int(rng.integers(2, 17)), int(rng.integers(2, 17))
    routes = [[client, clients + ost] for client in range(clients) for ost in range(osts)]
    flows = Flows.of(routes, [float(rng.uniform(1, 8))] * clients + [1.0] * osts)
    sizes = rng.lognormal(0, 0.5, len(routes))
    ratio = bound(flows, sizes) / makespan(flows, sizes)
    assert 0.85 <= ratio <= 1 + 1e-9


def test_flows_of_nothing_end_at_once() -> None:
    flows = Flows.of([[0], [0]], [2.0])
    assert finish_times(flows, [0.0, 4.0]).tolist() == [0.0, 2.0]
    assert makespan(Flows.of(np.empty((0, 2), dtype=int), [1.0]), []) == 0


def test_scaling_all_rates_scales_the_shares() -> None:
    flows = scenario(7)
    faster = Flows.of(flows.routes, flows.capacities * 8, flows.limits * 8)
    assert rates(faster) == pytest.approx(8 * rates(flows))


@pytest.mark.parametrize(
    ("routes", "capacities", "limits"),
    [
        ([[2]], [1.0], None),
        ([[-2]], [1.0], None),
        ([[0]], [0.0], None),
        ([[0]], [1.0], [0.0]),
        ([[-1]], [1.0], None),
        ([[0]], [1.0], [1.0, 2.0]),
    ],
)
def test_impossible_flows_are_refused(
    routes: list[list[int]], capacities: list[float], limits: list[float] | None
) -> None:
    with pytest.raises(ValueError, match=r"resource|above zero|nothing holds"):
        Flows.of(routes, capacities, limits)
