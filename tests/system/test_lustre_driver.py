"""ROMIO's Lustre driver against what Stripewise says of it: who writes, in what sizes, which settings are dead."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numpy import array

from stripewise.catalogue.carriers import LAYOUT, Setting
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.engine.effects import verdicts
from stripewise.lab import romio as rules
from stripewise.observe.from_report import activity_of
from stripewise.observe.report import parse_report
from stripewise.output.export import export
from tests.conftest import require
from tests.integration.building import native_parts
from tests.system.lustre import romio, sweep
from tests.system.lustre.driver import ALL, HERE, KIB, MIB, OSTS, Case, Driver, Seen, content, predicted

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
STRIPE = 64 * KIB
UNIT = {"striping_unit": STRIPE}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    mpicc = Path(sys.prefix) / "bin" / "mpicc"
    require(mpicc.exists(), f"no MPICH in {mpicc.parent}: pip install 'stripewise[mpich]'")
    try:
        return Driver(mpicc, tmp_path_factory.mktemp("lustre"))
    except romio.UnavailableError as reason:
        # A mirror that does not answer is no fault of the change that is tested.
        pytest.skip(f"MPICH's source cannot be had: {reason}")


def laid_out(count: int, size: int = STRIPE, **hints: object) -> dict[str, object]:
    return {"striping_factor": count, "striping_unit": size, **hints}


def test_it_is_the_lustre_driver_and_the_bytes_are_right(driver: Driver, tmp_path: Path) -> None:
    case = Case("file", hints=laid_out(4))
    seen = driver.run(tmp_path / "fs", [case, Case("file", "read_all")], 4)["file"]
    assert seen.info["romio_filesystem_type"] == "LUSTRE:"
    assert seen.right
    size = case.bytes_of_file(4)
    assert (tmp_path / "fs" / "file").read_bytes() == content(size)


# -- layouts -------------------------------------------------------------------------------------------------------


def test_striping_hints_reach_the_file_system_and_are_told_as_they_are(driver: Driver, tmp_path: Path) -> None:
    cases = [
        Case("both", hints=laid_out(4, 2 * STRIPE)),
        Case("unit", hints=UNIT),
        Case("all", hints=laid_out(-1)),
        Case("minus", hints={"striping_factor": -1}),
        Case("many", hints=laid_out(500)),
        Case("old", hints=laid_out(2, romio_lustre_start_iodevice=3)),
        Case("new", hints=laid_out(2, start_iodevice=3)),
        Case("plain"),
    ]
    seen = driver.run(tmp_path / "fs", cases, 2)
    asked = {name: found.asked for name, found in seen.items()}
    assert asked == {
        "both": [(4, 2 * STRIPE, ALL)],
        "unit": [(ALL, STRIPE, ALL)],  # alone it asks for all targets
        "all": [(ALL, STRIPE, ALL)],
        "minus": [],  # alone it is ignored
        "many": [(500, STRIPE, ALL)],
        "old": [(2, STRIPE, 3)],
        "new": [(2, STRIPE, ALL)],  # read since MPICH 4.2
        "plain": [],
    }
    told = {name: (found.info["striping_factor"], found.info["striping_unit"]) for name, found in seen.items()}
    assert told == {
        "both": ("4", str(2 * STRIPE)),
        **dict.fromkeys(("unit", "all", "many"), (str(OSTS), str(STRIPE))),
        "minus": ("1", str(MIB)),
        **dict.fromkeys(("old", "new"), ("2", str(STRIPE))),
        "plain": ("1", str(MIB)),
    }
    for case in cases:
        found = predicted(case, 2, 1)
        if case.name not in ("plain", "minus"):
            assert told[case.name] == (str(int(found.stripes.count[0])), str(int(found.stripes.size[0])))


def test_a_file_that_is_there_keeps_its_layout_and_the_library_tells_it(driver: Driver, tmp_path: Path) -> None:
    place = tmp_path / "fs"
    driver.run(place, [Case("file", hints=laid_out(4))], 2)
    seen = driver.run(place, [Case("file", hints=laid_out(8, MIB))], 2)["file"]
    assert (seen.info["striping_factor"], seen.info["striping_unit"]) == ("4", str(STRIPE))
    assert (place / "file.layout").read_text().split() == ["4", str(STRIPE), "0"]


def test_exported_hints_lay_files_out(driver: Driver, tmp_path: Path) -> None:
    settings = {"stripe_count": "6", "stripe_size": str(STRIPE), "start_ost": "5"}
    plan = Plan(tuple(Setting(LAYOUT, key, value, "lustre") for key, value in settings.items()))
    hints = tmp_path / "hints"
    hints.write_text(export(plan, "hints").text)
    seen = driver.run(tmp_path / "fs", [Case("file")], 2, ROMIO_HINTS=str(hints))["file"]
    assert seen.asked == [(6, STRIPE, 5)]


# -- who writes, in what sizes -------------------------------------------------------------------------------------

RANKS = 8


def aggregated(nodes: int) -> Iterator[Case]:
    """Stripe counts, and aggregators asked for as the romio stack asks for them."""
    for stripes in (1, 2, 4, 6, 12):
        for ratio in (1, 2):
            yield Case(f"{stripes}-{ratio}", hints=laid_out(stripes, romio_lustre_co_ratio=ratio))
            for asked in (3, 5, 8):
                hints = {"cb_nodes": asked, "cb_config_list": f"*:{-(-asked // nodes)}"}
                name = f"{stripes}-{ratio}-{asked}"
                yield Case(name, hints=laid_out(stripes, romio_lustre_co_ratio=ratio, **hints))


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_aggregators_and_rounds_are_those_of_the_simulated_cluster(driver: Driver, tmp_path: Path, nodes: int) -> None:
    cases = {case.name: case for case in aggregated(nodes)}
    seen = driver.run(tmp_path / "fs", cases.values(), RANKS, nodes)
    for name, found in seen.items():
        expected = predicted(cases[name], RANKS, nodes)
        count = int(expected.way.aggregators[0])
        asked = [int(rank) for rank in found.info["romio_aggregator_list"].rstrip(",").split(",")]
        assert sorted(found.writes) == sorted(asked[:count]), name
        assert max(map(len, found.writes.values())) == expected.way.rounds[0], name
        hosts = {rank // (RANKS // nodes) for rank in found.writes}
        assert len(hosts) == expected.clients[0], name
        for rank, transfers in found.writes.items():
            for offset, size in transfers:
                assert offset % STRIPE == 0 and size == STRIPE, name
                assert asked[offset // STRIPE % count] == rank, name


def test_the_rule_for_numbers_that_no_job_here_has_ranks_for() -> None:
    """The driver's own words for two cases; the rest is in tests/unit/test_simulate_rules.py."""
    assert rules.snap_aggregators(array([20.0]), array([42.0]), array([3.0]))[0] == 40
    assert rules.snap_aggregators(array([60.0]), array([8.0]), array([1.0]))[0] == 6


# -- which way -----------------------------------------------------------------------------------------------------

APART = {"layout": "segmented", "pieces": 16, "piece": 8 * KIB, "hole": 4 * KIB}
WHOLE = {"layout": "segmented", "pieces": 1, "piece": 128 * KIB}


@pytest.mark.parametrize(
    ("changes", "hints"),
    [
        ({}, {}),
        ({}, {"romio_cb_write": "disable"}),
        ({}, {"romio_lustre_coll_threshold": 4 * KIB}),
        (WHOLE, {}),
        (WHOLE, {"romio_cb_write": "disable"}),
        (WHOLE, {"romio_lustre_coll_threshold": 64 * KIB}),
        (WHOLE, {"romio_lustre_coll_threshold": 128 * KIB}),
        (WHOLE, {"romio_lustre_coll_threshold": 64 * KIB, "romio_cb_write": "enable"}),
        (APART, {}),
        (APART, {"romio_lustre_coll_threshold": 64 * KIB}),  # the mean piece counts, not the call
        (APART, {"romio_lustre_coll_threshold": 8 * KIB}),
        (APART, {"romio_lustre_coll_threshold": 4 * KIB}),
        ({"way": "write"}, {"romio_cb_write": "enable"}),
        ({"way": "read_all"}, {}),
        ({"way": "read_all"}, {"romio_cb_read": "disable"}),
        (WHOLE | {"way": "read_all"}, {}),
        (WHOLE | {"way": "read_all"}, {"romio_cb_read": "enable"}),
        (WHOLE | {"way": "read_all"}, {"romio_no_indep_rw": "true"}),
    ],
)
def test_which_calls_go_through_aggregators(
    driver: Driver, tmp_path: Path, changes: dict[str, object], hints: dict[str, object]
) -> None:
    case = Case("file", **{**changes, "hints": laid_out(1, **hints)})  # type: ignore[arg-type]
    prepare = Case("file", **{**changes, "way": "write_all", "hints": laid_out(1)})  # type: ignore[arg-type]
    if case.way.startswith("read"):
        driver.run(tmp_path / "fs", [prepare], 4)
    seen = driver.run(tmp_path / "fs", [case], 4)["file"]
    way = case.way.split("_")[0]
    # On one node, with one stripe, aggregation leaves a single rank at work.
    assert sorted(seen.transfers(way)) == ([0] if predicted(case, 4, 1).way.aggregated[0] else [0, 1, 2, 3])
    assert seen.right


def test_holes_are_read_first_unless_told_otherwise(driver: Driver, tmp_path: Path) -> None:
    cases = [
        Case(word, hole=32 * KIB, hints=laid_out(2, romio_lustre_ds_in_coll=word)) for word in ("enable", "disable")
    ]
    place = tmp_path / "fs"
    place.mkdir()
    size = cases[0].bytes_of_file(4)
    for case in cases:
        (place / case.name).write_bytes(b"\xee" * size)
        (place / f"{case.name}.layout").write_text(f"2 {STRIPE} 0\n")
    seen = driver.run(place, cases, 4, 2)
    read = {name: sum(size for moved in found.reads.values() for _, size in moved) for name, found in seen.items()}
    sent = {name: sum(size for moved in found.writes.values() for _, size in moved) for name, found in seen.items()}
    assert read["disable"] == 0
    for case in cases:
        expected = predicted(case, 4, 2)
        # A stripe is half data, half hole. In each aggregator's last one the hole is at the end: it is neither read nor
        # written. The simulated cluster counts it.
        ends = expected.way.aggregators[0] * case.hole if case.name == "enable" else 0
        assert sent[case.name] + ends == expected.sent[0]
        assert read[case.name] == (sent[case.name] - ends if case.name == "enable" else 0)
        assert (read[case.name] > 0) == (expected.read_first[0] > 0)
        stored, period = (place / case.name).read_bytes(), 4 * case.piece + case.hole
        right = content(size)
        for start in range(0, size, period):
            assert stored[start : start + 4 * case.piece] == right[start : start + 4 * case.piece]
            assert set(stored[start + 4 * case.piece : start + period]) <= {0xEE}


def transfers(seen: Seen) -> tuple[object, ...]:
    return tuple((rank, *moved) for way in (seen.reads, seen.writes) for rank, moved in sorted(way.items()))


@pytest.mark.parametrize("operation", ["write", "read"])
def test_hints_called_dead_change_nothing_and_those_called_live_do(
    driver: Driver, tmp_path: Path, operation: str
) -> None:
    """Each hint of the stacks, alone and on top of others, on a file that is there."""
    tried = list(sweep.trials(operation))
    seen = sweep.run(driver, tmp_path / "fs", tried)
    assert all(found.right for found in seen.values())
    acted = [trial for trial in tried if sweep.accesses(seen, trial.case) != sweep.accesses(seen, trial.base)]
    assert [trial for trial in acted if not trial.live] == []
    idle = {(trial.call, trial.parameter) for trial in tried if trial.live}
    idle -= {(trial.call, trial.parameter) for trial in acted}
    # No word of the workload says whether all ranks together leave holes.
    without_holes = {(call, "romio_lustre_ds_in_coll") for call in ("taking turns", "whole")}
    assert idle == (without_holes if operation == "write" else set())


# -- the runtime on top --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    require(shutil.which("cmake"), "no cmake: apt install cmake")
    return native_parts(tmp_path_factory, driver.mpicc, "-DSTRIPEWISE_KERNEL=OFF") / "lib" / "libstripewise.so"


def planned(
    driver: Driver, library: Path, place: Path, plan: str, lfs: bool = True, ranks: int = 4
) -> tuple[Seen, dict[str, Any]]:
    """Run the strided write under a plan, and read the runtime's report."""
    place.mkdir()
    (place / "plan").write_text("stripewise-plan 1\n" + plan)
    environment = {"STRIPEWISE_PLAN": str(place / "plan"), "STRIPEWISE_REPORT": str(place / "report.json")}
    if lfs:
        environment["PATH"] = f"{HERE / 'bin'}:{os.environ['PATH']}"
    seen = driver.run(place, [Case("file")], ranks, ranks, before=[library], **environment, STRIPEWISE_MODE="apply")[
        "file"
    ]
    report: dict[str, Any] = json.loads((place / "report.json").read_text())
    return seen, report


def test_layouts_of_a_plan_reach_the_driver_by_lfs_and_by_hints(driver: Driver, library: Path, tmp_path: Path) -> None:
    plan = f"layout lustre stripe_count 3\nlayout lustre stripe_size {STRIPE}\nlayout lustre start_ost 7\n"
    for lfs in (True, False):
        seen, report = planned(driver, library, tmp_path / str(lfs), plan, lfs)
        assert seen.asked == ([] if lfs else [(3, STRIPE, 7)])
        assert (seen.info["striping_factor"], seen.info["striping_unit"]) == ("3", str(STRIPE))
        assert len(seen.writes) == 3
        (file,) = [entry for entry in report["files"] if Path(entry["path"]).name == "file"]
        assert file["file_system"] == "lustre"
        assert {setting["outcome"] for setting in file["settings"]} == {"applied"}


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ("layout lustre stripe_count 2", "effective"),
        (f"layout lustre stripe_size {STRIPE}", "effective"),
        ("hint romio_cb_write disable", "effective"),
        ("hint cb_buffer_size 65536", "no_effect"),
        ("hint romio_min_fdomain_size 1048576", "unprovable"),
        ("hint romio_lustre_coll_threshold 4096", "unprovable"),
    ],
)
def test_verdicts_on_settings_are_those_of_the_driver(
    driver: Driver, library: Path, tmp_path: Path, settings: str, status: str
) -> None:
    usual, plain = planned(driver, library, tmp_path / "usual", "")
    seen, report = planned(driver, library, tmp_path / "planned", settings + "\n")
    stacks = [load_stack("romio"), load_stack("lustre")]
    context = {"nodes": 1, "processes": 4, "processes_per_node": 4}
    space = Space(
        tuple(parameter.bind(context) for stack in stacks for parameter in stack.parameters),
        derived=tuple(derived for stack in stacks for derived in stack.derived),
        context=context,
    )
    plan = Plan.parse(f"stripewise-plan 1\n{settings}\n", "test").settings
    made, before = (activity_of(parse_report(one), "report.json") for one in (report, plain))
    (effect,) = verdicts(space, plan, [made], [before])
    assert effect.status == status, effect
    # What is not called effective must not have changed anything, unless the reason is another layout.
    if status != "effective":
        assert transfers(seen) == transfers(usual)
