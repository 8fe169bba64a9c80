"""The same program under several versions of HDF5: each has its own defaults, settings and advice.

Version 1.10 is Debian's. Others are built by hand, and named in HDF5_ROOT.
"""

from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.carriers.runtime import HDF5
from stripewise.catalogue.meaning import Situation, acts, in_version, parameters
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import spell
from stripewise.catalogue.workload import Workload
from stripewise.engine.binding import FirstRun
from stripewise.engine.effects import effects_in_run
from stripewise.observe.from_report import activity_of
from stripewise.observe.report import parse_report
from tests.integration.conftest import Mpi
from tests.integration.hdf5_support import BuiltHdf5Bench, Hdf5Bench, built_hdf5, debian_mpi, differences
from tests.integration.runtime_support import HEADER, Outcome

RANKS = 2
SETTINGS = {
    "chunk_cache": "4194304",
    "chunk_slots": "2053",
    "mdc_size": "33554432",
    "libver_low": "v110",
    "meta_block_size": "65536",
}
AnyBench = Hdf5Bench | BuiltHdf5Bench


@pytest.fixture(scope="module", params=["1.10", "1.14", "2.0", "2.2"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AnyBench:
    if request.param == "1.10":
        return Hdf5Bench(debian_mpi("mpich"), tmp_path_factory)
    wanted = tuple(map(int, request.param.split(".")))
    root = next((root for found, root in built_hdf5() if found == wanted), None)
    if root is None:
        pytest.skip(f"no parallel HDF5 {request.param} built with the MPICH of this environment: name one in HDF5_ROOT")
    mpich: Mpi = request.getfixturevalue("mpich")
    return BuiltHdf5Bench(mpich, tmp_path_factory, hdf5=root)


def run(bench: AnyBench, path: Path, name: str, plan: str | None = None) -> Outcome:
    program = bench.hdf5_program("hdf5_patterns.c")
    outcome = bench.run(program, path, name, plan=plan and HEADER + plan, ranks=RANKS)
    assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
    return outcome


def is_since(version: str, bound: tuple[int, int]) -> bool:
    return tuple(map(int, version.split(".")[:2])) >= bound


def is_since_library(outcome: Outcome) -> bool:
    return is_since(outcome.file("data.h5")["hdf5"]["library"], (2, 0))


def of_file(situation: Situation) -> dict[str, Parameter]:
    """The properties of files, with the defaults of a version."""
    found = [in_version(one, situation) for one in parameters().values() if one.carrier is HDF5]
    return {one.setting: one for one in found}


def test_defaults_are_those_of_the_library(bench: AnyBench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path / "data.h5", "columns_all")
    hdf5 = outcome.file("data.h5")["hdf5"]
    activity = activity_of(parse_report(outcome.report), "report")
    assert activity.versions == {"HDF5": hdf5["library"]}
    first = FirstRun(versions=activity.versions)
    assert FirstRun.from_json(first.as_json()) == first
    known = of_file(Situation(versions=first.versions))
    assert {key: spell(known[key].default) for key in hdf5["properties"]} == hdf5["properties"]
    (dataset,) = hdf5["datasets"]
    expected = (8388608, 8191) if is_since(hdf5["library"], (2, 0)) else (1048576, 521)
    assert (dataset["cache_bytes"], dataset["cache_slots"]) == expected


def test_a_value_is_dead_where_it_is_the_version_s_default(bench: AnyBench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path / "data.h5", "columns_all")
    versions = activity_of(parse_report(outcome.report), "report").versions
    situation = Situation(Workload(operation="read", api="hdf5"), versions=versions)
    new = is_since(versions["HDF5"], (2, 0))
    for name, old, later in (("hdf5_chunk_cache", 1 << 20, 8 << 20), ("hdf5_chunk_slots", 521, 8191)):
        parameter = parameters()[name]
        assert (acts(parameter, old, situation).acts, acts(parameter, later, situation).acts) == (new, not new), name


def test_settings_are_given_and_read_back(bench: AnyBench, tmp_path: Path) -> None:
    plan = "".join(f"hdf5 {key} {value}\n" for key, value in SETTINGS.items())
    run(bench, tmp_path / "plain.h5", "columns_all")
    outcome = run(bench, tmp_path / "data.h5", "columns_all", plan + "hdf5 fill_time never\n")
    for key, value in SETTINGS.items():
        setting = outcome.setting("data.h5", key)
        assert (setting["outcome"], setting["given"], setting["echoed"]) == ("applied", value, value), setting
    assert outcome.setting("data.h5", "fill_time")["echoed"] == "never"
    (dataset,) = outcome.file("data.h5")["hdf5"]["datasets"]
    assert (dataset["cache_bytes"], dataset["cache_slots"]) == (4194304, 2053)
    assert differences(tmp_path / "plain.h5", tmp_path / "data.h5") == ""
    asked = [Setting(HDF5, key, value) for key, value in SETTINGS.items()]
    effects = effects_in_run(asked, activity_of(parse_report(outcome.report), "report"))
    assert {effect.status for effect in effects} == {"echoed"}, effects


def test_a_cache_without_slots_gets_them_in_proportion(bench: AnyBench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path / "data.h5", "columns_all", "hdf5 chunk_cache 16777216\n")
    properties = outcome.file("data.h5")["hdf5"]["properties"]
    assert (properties["chunk_cache"], properties["chunk_slots"]) == ("16777216", "8353")
    small = run(bench, tmp_path / "data.h5", "columns_all", "hdf5 chunk_cache 65536\n")
    least = "8191" if is_since_library(small) else "521"
    assert small.file("data.h5")["hdf5"]["properties"]["chunk_slots"] == least


def test_pages_are_buffered_only_where_one_process_has_pages(bench: AnyBench, tmp_path: Path) -> None:
    buffered = "hdf5 page_buffer_size 1048576\n"
    outcome = run(bench, tmp_path / "data.h5", "apart", buffered + "hdf5 file_space_strategy page\n")
    # The open file's list names a buffer only where there is one: parallel builds of 1.10 make none.
    versions = activity_of(parse_report(outcome.report), "report").versions
    given = "1048576" if is_since(versions["HDF5"], (1, 14)) else "0"
    assert outcome.setting("data.h5.0", "page_buffer_size")["echoed"] == given
    assert "in parallel" in outcome.setting("data.h5", "page_buffer_size")["note"]
    assert outcome.setting("data.h5", "file_space_strategy")["echoed"] == "page"
    without = run(bench, tmp_path / "data.h5", "apart", buffered)
    assert "file_space_strategy page" in without.setting("data.h5.0", "page_buffer_size")["note"]


def test_a_format_that_the_library_lacks_is_refused_and_nothing_breaks(bench: AnyBench, tmp_path: Path) -> None:
    plan = "hdf5 libver_low v200\nhdf5 mdc_size 512\nhdf5 fill_time sometimes\n"
    outcome = run(bench, tmp_path / "data.h5", "rows", plan)
    found: dict[str, Any] = {key: outcome.setting("data.h5", key) for key in ("libver_low", "mdc_size", "fill_time")}
    assert found["libver_low"]["outcome"] == ("applied" if is_since_library(outcome) else "refused")
    assert found["mdc_size"]["outcome"] == found["fill_time"]["outcome"] == "refused"
    assert "HDF5-DIAG" not in outcome.stderr
