"""ROMIO's and OMPIO's rules: who writes, in how many rounds, and which settings act at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.lab import layout, romio
from stripewise.lab.batch import Access, RunBatch
from stripewise.lab.engine import SimulatedOutcome, simulate
from stripewise.lab.site import Site, load_site

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
STRIDED = Workload(
    operation="write", nodes=24, processes_per_node=8, file_size=48 * GIB, transfer_size=4 * MIB, piece_size=64 * KIB,
    layout="strided", collective=True, api="mpiio",
)  # fmt: skip
SEGMENTED = STRIDED.model_copy(update={"layout": "segmented", "piece_size": None})


def site(driver: str = "romio_lustre", vendor: str = "mpich") -> Site:
    base = load_site("edison")
    return base.model_copy(update={"mpi": base.mpi.model_copy(update={"driver": driver, "vendor": vendor})})


def run(
    workload: Workload,
    options: dict[str, Any] | None = None,
    place: Site | None = None,
    access: Access | None = None,
) -> SimulatedOutcome:
    direction = "read" if workload.operation == "read" else "write"
    return simulate(place or site(), RunBatch.make(workload, direction, options, access))


def reading(workload: Workload) -> Workload:
    return workload.model_copy(update={"operation": "read"})


# -- aggregators ---------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 400), st.integers(1, 3000), st.sampled_from([1, 2, 4, 8]))
def test_aggregators_snap_to_divisors_and_multiples_of_the_stripe_count(stripes: int, asked: int, ratio: int) -> None:
    found = int(
        romio.snap_aggregators(np.array([float(stripes)]), np.array([float(asked)]), np.array([float(ratio)]))[0]
    )
    if asked >= stripes:
        assert found == stripes * min(asked // stripes, ratio)
    else:
        assert stripes % found == 0 and found <= asked
        assert not [d for d in range(found + 1, asked + 1) if stripes % d == 0]


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"stripe_count": 24}, 24),  # one a node
        ({"stripe_count": 20}, 20),
        ({"stripe_count": 1}, 1),
        ({"stripe_count": 4}, 4),
        ({"stripe_count": 24, "cb_nodes": 10}, 8),
        ({"stripe_count": 24, "cb_nodes": 7}, 6),
        ({"stripe_count": 4, "romio_lustre_co_ratio": 4}, 16),
        ({"stripe_count": 4, "romio_lustre_co_ratio": 8}, 24),
        ({"stripe_count": 24, "cb_nodes": 192}, 24),
        ({"stripe_count": 24, "cb_nodes": 48, "romio_lustre_co_ratio": 4}, 48),
        ({"stripe_count": 24, "cb_nodes": 48, "romio_lustre_co_ratio": 4, "cb_config_list": "*:1"}, 24),
        ({"stripe_count": 24, "cb_nodes": 500, "romio_lustre_co_ratio": 8, "cb_config_list": "*:*"}, 192),
    ],
)
def test_aggregators_of_lustre_writes(options: dict[str, Any], expected: int) -> None:
    assert run(STRIDED, options).aggregators[0] == expected


def test_aggregators_of_reads_and_other_file_systems_are_as_asked() -> None:
    options = {"stripe_count": 24, "cb_nodes": 7}
    assert run(reading(STRIDED), options).aggregators[0] == 7
    assert run(STRIDED, options, site("romio_ufs")).aggregators[0] == 7
    assert run(reading(STRIDED), {"stripe_count": 4}).aggregators[0] == 24


def test_cray_takes_as_many_aggregators_as_stripes_and_reads_whole_stripes() -> None:
    """Darshan: 24, 36 and 248 processes read 1 MiB at a time on Edison and Cori (NERSC/tokio-abcutils)."""
    cray = site(vendor="cray")
    for workload in (STRIDED, reading(STRIDED)):
        assert run(workload, {"stripe_count": 12}, cray).aggregators[0] == 12
    few = STRIDED.model_copy(update={"nodes": 4, "processes_per_node": 8})
    assert run(few, {"stripe_count": 24}, cray).aggregators[0] == 24
    assert run(few, {"stripe_count": 24}).aggregators[0] == 4


def test_ompio_counts_bytes_unless_told() -> None:
    ompio = site("ompio")
    call = 4 * MIB * 192
    assert run(STRIDED, {}, ompio).aggregators[0] == call // (32 * MIB)
    assert run(STRIDED, {"io_ompio_bytes_per_agg": 64 * MIB}, ompio).aggregators[0] == call // (64 * MIB)
    assert run(STRIDED, {"io_ompio_num_aggregators": 5}, ompio).aggregators[0] == 5
    assert run(STRIDED, {"io_ompio_num_aggregators": -1}, ompio).aggregators[0] == call // (32 * MIB)


@pytest.mark.parametrize(
    "stripes, asked, hosts",
    [(4, 24, 4), (24, 24, 24), (4, 48, 2), (24, 48, 12), (24, 192, 3), (4, 192, 1)],
)
def test_fewer_aggregators_than_asked_are_on_the_first_nodes(stripes: int, asked: int, hosts: int) -> None:
    """ROMIO's list goes host after host; tests/system/test_lustre_driver.py sees it in the driver itself."""
    place = site()
    batch = RunBatch.make(STRIDED, "write", {"stripe_count": stripes, "cb_nodes": asked})
    assert romio.choose_way(place, batch, layout.striping(place, batch), layout.pieces(batch)).hosts[0] == hosts
    cray = site(vendor="cray")
    spread = romio.choose_way(cray, batch, layout.striping(cray, batch), layout.pieces(batch)).hosts[0]
    assert spread == min(24, stripes)


def test_the_threshold_of_collective_calls_is_that_of_their_pieces() -> None:
    apart = Access(hole_size=64 * KIB)  # less than the other ranks' pieces: each rank has a range of its own
    for threshold, aggregated in ((32 * KIB, False), (64 * KIB, True), (MIB, True)):
        found = run(STRIDED, {"romio_lustre_coll_threshold": threshold}, access=apart)
        assert bool(found.aggregated[0]) is aggregated


def test_rounds() -> None:
    calls = 48 * GIB // 192 // (4 * MIB)
    span = 192 * 4 * MIB
    assert run(STRIDED, {"stripe_count": 8, "stripe_size": 2 * MIB}).rounds[0] == calls * span // (8 * 2 * MIB)
    options = {"stripe_count": 8, "cb_buffer_size": 8 * MIB}
    assert run(reading(STRIDED), options).rounds[0] == calls * (span // 24 // (8 * MIB))
    assert run(SEGMENTED, {"romio_cb_write": "disable"}).rounds[0] == 0


def test_min_fdomain_size_lowers_the_number_of_aggregators_of_small_calls() -> None:
    small = STRIDED.model_copy(update={"transfer_size": 64 * KIB, "piece_size": KIB})
    span = 64 * KIB * 192
    found = run(small, {"romio_min_fdomain_size": 4 * MIB}, site("romio_ufs")).aggregators[0]
    assert found == span // (4 * MIB)


# -- which way -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "workload, options, driver, aggregated",
    [
        (SEGMENTED, {}, "romio_lustre", True),  # collective by default on Lustre
        (SEGMENTED, {"romio_lustre_coll_threshold": MIB}, "romio_lustre", False),
        (SEGMENTED, {"romio_lustre_coll_threshold": 4 * MIB}, "romio_lustre", True),
        (STRIDED, {"romio_lustre_coll_threshold": MIB}, "romio_lustre", True),  # interleaved: in any case
        (SEGMENTED, {}, "romio_ufs", False),
        (STRIDED, {}, "romio_ufs", True),
        (reading(SEGMENTED), {}, "romio_lustre", False),
        (reading(STRIDED), {}, "romio_lustre", True),
        (reading(SEGMENTED), {"romio_cb_read": "enable"}, "romio_lustre", True),
        (reading(SEGMENTED), {"romio_no_indep_rw": True}, "romio_lustre", True),
        (STRIDED, {"romio_cb_write": "disable"}, "romio_lustre", False),
        (STRIDED, {"romio_cb_write": "disable", "romio_no_indep_rw": True}, "romio_lustre", True),
        (STRIDED.model_copy(update={"collective": False}), {"romio_cb_write": "enable"}, "romio_lustre", False),
        (STRIDED.model_copy(update={"file_per_process": True}), {}, "romio_lustre", False),
        (STRIDED.model_copy(update={"api": "posix"}), {}, "romio_lustre", False),
        (STRIDED.model_copy(update={"nodes": 1, "processes_per_node": 1}), {}, "romio_lustre", False),
        (SEGMENTED, {}, "ompio", True),
        (SEGMENTED, {"fcoll": "individual"}, "ompio", False),
    ],
)
def test_collective_calls_go_through_aggregators(
    workload: Workload, options: dict[str, Any], driver: str, aggregated: bool
) -> None:
    assert bool(run(workload, options, site(driver)).aggregated[0]) is aggregated


def test_calls_of_several_pieces_are_sieved() -> None:
    alone = STRIDED.model_copy(update={"collective": False})
    assert run(alone).sieved[0]
    assert not run(alone, {"romio_ds_write": "disable"}).sieved[0]
    assert not run(STRIDED).sieved[0]
    assert not run(alone.model_copy(update={"piece_size": 4 * MIB})).sieved[0]
    assert not run(alone, {}, site("ompio")).sieved[0]  # holes of more than 4 KiB
    near = alone.model_copy(update={"nodes": 1, "processes_per_node": 1})
    assert run(near, {}, site("ompio"), Access(hole_size=KIB)).sieved[0]
    assert not run(near, {"fbtl_posix_write_datasieving": False}, site("ompio"), Access(hole_size=KIB)).sieved[0]


def test_striping_follows_the_layout_and_the_hints_that_the_driver_obeys() -> None:
    hints = {"striping_factor": 6, "striping_unit": 2 * MIB}
    assert run(STRIDED, hints).stripe_count[0] == 6
    assert run(STRIDED, hints).stripe_size[0] == 2 * MIB
    assert run(STRIDED, {"striping_unit": 2 * MIB}).stripe_count[0] == 24  # alone it asks for all OSTs
    assert run(STRIDED, {"striping_factor": -1}).stripe_count[0] == 1  # alone it is ignored
    for driver in ("romio_ufs", "ompio"):
        assert run(STRIDED, hints, site(driver)).stripe_count[0] == 1
        assert run(STRIDED, {"stripe_count": 6}, site(driver)).stripe_count[0] == 6
    assert run(STRIDED, {"stripe_count": -1}).stripe_count[0] == 24
    assert run(STRIDED, {"stripe_count": 500}).stripe_count[0] == 24
    assert run(STRIDED, {"stripe_count": 1, "overstripe_count": 48}).stripe_count[0] == 48


# -- dead knobs ----------------------------------------------------------------------------------------------------

ALONE = STRIDED.model_copy(update={"collective": False})
DEAD: list[tuple[str, Workload, dict[str, Any], str, list[Any]]] = [
    ("romio_lustre", STRIDED, {}, "cb_buffer_size", [64 * KIB, MIB, 128 * MIB]),  # mpich#7935
    ("romio_lustre", SEGMENTED, {}, "cb_buffer_size", [64 * KIB, MIB, 128 * MIB]),
    ("romio_lustre", ALONE, {}, "ind_wr_buffer_size", [64 * KIB, 16 * MIB]),  # the stripe size acts
    ("romio_lustre", ALONE, {}, "cb_nodes", [1, 8]),
    ("romio_lustre", ALONE, {}, "romio_cb_write", ["enable", "disable", "automatic"]),
    ("romio_lustre", STRIDED, {}, "romio_ds_write", ["enable", "disable", "automatic"]),
    ("romio_lustre", STRIDED, {}, "romio_cb_read", ["enable", "disable"]),
    ("romio_lustre", STRIDED, {}, "romio_ds_read", ["enable", "disable"]),
    ("romio_lustre", STRIDED, {}, "ind_rd_buffer_size", [64 * KIB, 32 * MIB]),
    ("romio_lustre", STRIDED, {}, "romio_min_fdomain_size", [MIB, 16 * MIB]),
    ("romio_lustre", STRIDED, {"stripe_count": 24}, "romio_lustre_co_ratio", [2, 8]),  # as many as stripes
    ("romio_lustre", STRIDED, {}, "romio_lustre_coll_threshold", [64 * KIB, 4 * MIB]),  # interleaved
    ("romio_lustre", STRIDED, {}, "romio_lustre_ds_in_coll", ["enable", "disable"]),  # no holes
    ("romio_lustre", reading(STRIDED), {}, "romio_lustre_co_ratio", [2, 8]),
    ("romio_lustre", reading(STRIDED), {}, "striping_factor", [4, 8]),
    ("romio_lustre", STRIDED, {"romio_cb_write": "disable"}, "cb_nodes", [1, 8]),
    ("romio_lustre", STRIDED, {}, "romio_cb_alltoall", ["enable", "disable"]),
    ("romio_lustre", STRIDED, {}, "fcoll", ["individual", "vulcan"]),
    ("romio_lustre", STRIDED, {}, "io_ompio_num_aggregators", [1, 64]),
    ("romio_ufs", STRIDED, {}, "romio_lustre_co_ratio", [2, 8]),
    ("romio_ufs", STRIDED, {}, "romio_lustre_coll_threshold", [64 * KIB]),
    ("romio_ufs", STRIDED, {}, "striping_factor", [4, 8]),
    ("ompio", STRIDED, {}, "cb_nodes", [1, 8]),
    ("ompio", STRIDED, {}, "cb_buffer_size", [MIB, 128 * MIB]),
    ("ompio", STRIDED, {}, "romio_cb_write", ["disable"]),
    ("ompio", ALONE, {}, "romio_ds_write", ["disable"]),
    ("ompio", STRIDED, {}, "striping_factor", [4, 8]),  # ompi#10132
    ("romio_lustre", SEGMENTED.model_copy(update={"api": "posix", "collective": False}), {}, "striping_factor", [4, 8]),
]  # fmt: skip


@pytest.mark.parametrize("driver, workload, options, name, values", DEAD)
def test_dead_knobs_have_exactly_no_effect(
    driver: str, workload: Workload, options: dict[str, Any], name: str, values: list[Any]
) -> None:
    place = site(driver)
    plain = run(workload, options, place)
    for value in values:
        other = run(workload, {**options, name: value}, place)
        assert other.seconds[0] == plain.seconds[0]
        assert {k: v[0] for k, v in other.bounds.items()} == {k: v[0] for k, v in plain.bounds.items()}


@pytest.mark.parametrize(
    "driver, workload, options, name, value",
    [
        ("romio_lustre", reading(STRIDED), {}, "cb_buffer_size", 64 * KIB),
        ("romio_ufs", STRIDED, {}, "cb_buffer_size", 64 * KIB),
        ("romio_ufs", ALONE, {}, "ind_wr_buffer_size", 16 * MIB),
        ("romio_lustre", ALONE, {}, "romio_ds_write", "disable"),
        ("romio_lustre", STRIDED, {}, "romio_cb_write", "disable"),
        ("romio_lustre", STRIDED, {"stripe_count": 24}, "cb_nodes", 1),
        ("romio_lustre", STRIDED, {"stripe_count": 4}, "romio_lustre_co_ratio", 4),
        ("romio_lustre", STRIDED, {"stripe_count": 4}, "stripe_size", 64 * KIB),
        ("ompio", STRIDED, {}, "fcoll", "individual"),
        ("ompio", STRIDED, {}, "io_ompio_bytes_per_agg", MIB),
    ],
)
def test_live_knobs_have_an_effect(
    driver: str, workload: Workload, options: dict[str, Any], name: str, value: Any
) -> None:
    place = site(driver)
    assert run(workload, {**options, name: value}, place).seconds[0] != run(workload, options, place).seconds[0]


# -- layout --------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 24), st.integers(1, 64), st.integers(1, 5000), st.integers(1, 100))
def test_the_load_of_the_fullest_ost_is_that_of_counting_stripes(count: int, unit: int, blocks: int, rest: int) -> None:
    size = float(blocks * 65536 + rest)
    stripe = unit * 65536
    batch = RunBatch.make(Workload(file_size=int(size)), "write", {"stripe_count": count, "stripe_size": stripe})
    found = layout.striping(site(), batch)
    starts = np.arange(0, int(size), stripe)
    loads = np.bincount((starts // stripe) % count, weights=np.minimum(stripe, size - starts), minlength=count)
    assert found.load[0] * size == pytest.approx(loads.max())


def test_files_of_their_own_crowd_on_osts() -> None:
    work = Workload(nodes=10, processes_per_node=3, file_per_process=True, file_size=GIB)
    found = layout.striping(site(), RunBatch.make(work, "write", {"stripe_count": 1}))
    assert found.osts[0] == 24
    assert found.load[0] == pytest.approx(2 / 30)


# -- wrong input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"romio_cb_write": "on"}, {"cb_config_list": "node1:2"}, {"romio_no_indep_rw": "maybe"}, {"fcoll": "two"}],
)
def test_values_that_no_library_knows_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        RunBatch.make(STRIDED, "write", options)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(UserError, match="cannot be simulated together"):
        RunBatch.make(STRIDED, "write", {"stripe_count": [1, 2], "stripe_size": [MIB, MIB, MIB]})
    with pytest.raises(UserError, match="no column stripes"):
        RunBatch.make(STRIDED, "write", columns={"stripes": 3})
    with pytest.raises(UserError, match="no direction"):
        RunBatch.make(STRIDED, "up")
