"""How a plan travels, with the runtime and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import (
    ARGUMENT,
    ENVIRONMENT,
    HINT,
    HINTS_FILE,
    HINTS_LIMIT,
    LAYOUT,
    MCA,
    Program,
    Setting,
)
from stripewise.catalogue.plan import Plan
from stripewise.runners.injection import Injection, inject, prepend

FOLDER = Path("/runs/3")
LIBRARY = Path("/cache/libstripewise.so")
MPICH = Program(abi="mpich", io="romio")
STATIC = Program(abi="mpich", io="romio", obstacle="static")


def hints(**values: str) -> tuple[Setting, ...]:
    return tuple(Setting(HINT, key, value) for key, value in values.items())


def carriers(injection: Injection) -> list[str]:
    return [entry.by for entry in injection.carried]


def test_the_runtime_gets_the_plan_and_observes_without_one() -> None:
    applied = inject(Plan(hints(cb_nodes="2"), "e.1"), MPICH, LIBRARY, FOLDER)
    assert applied.environment == {
        "ASAN_OPTIONS": "verify_asan_link_order=0",
        "LD_PRELOAD": "/cache/libstripewise.so",
        "STRIPEWISE_MODE": "apply",
        "STRIPEWISE_PLAN": "/runs/3/plan",
        "STRIPEWISE_REPORT": "/runs/3/report.json",
    }
    assert Plan.parse(applied.files["plan"], "plan").settings == hints(cb_nodes="2")
    observed = inject(Plan(), MPICH, LIBRARY, FOLDER)
    assert observed.environment["STRIPEWISE_MODE"] == "observe"
    assert "STRIPEWISE_PLAN" not in observed.environment
    assert observed.files == {}


def test_settings_of_further_files_need_the_runtime() -> None:
    plan = Plan(hints(cb_nodes="2"), "e.1", files="a*", sections=(("b*", hints(cb_nodes="4")),))
    applied = inject(plan, MPICH, LIBRARY, FOLDER)
    assert Plan.parse(applied.files["plan"], "plan").sections == plan.sections
    assert carriers(applied) == ["runtime"] and carriers(inject(plan, STATIC, None, FOLDER))[1:] == ["none"]
    # A plan whose first files have no settings is one for the others.
    only = replace(plan, settings=())
    applied = inject(only, MPICH, LIBRARY, FOLDER)
    assert applied.environment["STRIPEWISE_MODE"] == "apply"
    assert Plan.parse(applied.files["plan"], "plan") == Plan(hints(cb_nodes="4"), "e.1", files="b*")


def test_our_library_stands_before_what_the_user_preloads() -> None:
    program = Program("mpich", "romio", environment={"LD_PRELOAD": "/d/libdarshan.so /x.so"})
    assert inject(Plan(), program, LIBRARY, FOLDER).environment["LD_PRELOAD"] == f"{LIBRARY}:/d/libdarshan.so:/x.so"
    assert prepend("/a.so", "/b.so:/a.so") == "/a.so:/b.so"
    checked = Program("mpich", "romio", environment={"ASAN_OPTIONS": "detect_leaks=0"})
    environment = inject(Plan(), checked, LIBRARY, FOLDER).environment
    assert environment["ASAN_OPTIONS"] == "detect_leaks=0:verify_asan_link_order=0"


def test_who_wins_follows_the_override() -> None:
    plan = Plan(hints(cb_nodes="2"))
    assert "own hints win" in inject(plan, MPICH, LIBRARY, FOLDER).carried[0].wins
    over = Plan(hints(cb_nodes="2"), override=True)
    assert "plan wins" in inject(over, MPICH, LIBRARY, FOLDER).carried[0].wins


@pytest.mark.parametrize("library", [LIBRARY, None])
def test_mca_and_variables_travel_the_same_way_with_and_without_the_runtime(library: Path | None) -> None:
    plan = Plan((Setting(MCA, "fcoll", "vulcan"), Setting(ENVIRONMENT, "X", "a b"), Setting(ARGUMENT, "n", "4")))
    injection = inject(plan, Program("openmpi", "ompio"), library, FOLDER)
    assert injection.environment["OMPI_MCA_fcoll"] == "vulcan"
    assert injection.environment["X"] == "a b"
    assert carriers(injection) == ["OMPI_MCA", "environment", "command"]


@pytest.mark.parametrize("obstacle", ["static", "setuid", "setgid", "capabilities"])
def test_a_program_that_cannot_be_preloaded_gets_a_hints_file(obstacle: str) -> None:
    program = Program("mpich", "romio", obstacle=obstacle)
    injection = inject(Plan(hints(romio_cb_write="enable", cb_nodes="2")), program, LIBRARY, FOLDER)
    assert injection.environment == {"ROMIO_HINTS": f"/runs/3/{HINTS_FILE}"}
    assert injection.files == {HINTS_FILE: "romio_cb_write enable\ncb_nodes 2\n"}
    assert carriers(injection) == ["ROMIO_HINTS"] * 2
    assert all("own hints win" in entry.wins for entry in injection.carried)


def test_a_hints_file_cannot_override_and_says_so() -> None:
    injection = inject(Plan(hints(cb_nodes="2"), override=True), STATIC, None, FOLDER)
    assert "although the plan asks" in injection.carried[0].wins


def test_the_users_own_hints_file_is_kept_where_the_plan_is_silent(tmp_path: Path) -> None:
    own = tmp_path / "hints"
    own.write_text("# mine\ncb_nodes 8\nromio_ds_write disable\nvoid line here\n")
    program = Program("mpich", "romio", obstacle="static", environment={"ROMIO_HINTS": str(own)})
    injection = inject(Plan(hints(cb_nodes="2")), program, None, FOLDER)
    assert injection.files[HINTS_FILE] == "cb_nodes 2\nromio_ds_write disable\n"


def test_what_a_hints_file_cannot_hold_is_named_not_dropped() -> None:
    two_words = inject(Plan(hints(cb_config_list="*:1, n2:2", cb_nodes="2")), STATIC, None, FOLDER)
    assert carriers(two_words) == ["none", "ROMIO_HINTS"]
    assert [entry.setting.key for entry in two_words.lost] == ["cb_config_list"]
    many = inject(Plan(tuple(Setting(HINT, f"key_{i:03}", "v" * 50) for i in range(80))), STATIC, None, FOLDER)
    assert set(carriers(many)) == {"none"}
    assert str(HINTS_LIMIT) in many.carried[0].wins
    assert "ROMIO_HINTS" not in many.environment
    assert many.files == {}


def test_the_largest_hints_file_that_romio_reads() -> None:
    line = len("k 1\n")
    for value, expected in ((HINTS_LIMIT - 1 - line - 2 - 1, "ROMIO_HINTS"), (HINTS_LIMIT - line - 2 - 1, "none")):
        plan = Plan((Setting(HINT, "k", "1"), Setting(HINT, "l", "v" * value)))
        assert carriers(inject(plan, STATIC, None, FOLDER))[1] == expected


def test_cray_takes_its_own_variable_and_keeps_the_users() -> None:
    program = Program("mpich", "romio", True, "static", {"MPICH_MPIIO_HINTS": "*.nc:cb_nodes=4"})
    plan = Plan(hints(cb_nodes="2", romio_cb_write="enable", cb_config_list="*:1"), files="*.h5")
    injection = inject(plan, program, None, FOLDER)
    assert injection.environment == {"MPICH_MPIIO_HINTS": "*.nc:cb_nodes=4,*.h5:cb_nodes=2:romio_cb_write=enable"}
    assert carriers(injection) == ["MPICH_MPIIO_HINTS", "MPICH_MPIIO_HINTS", "none"]
    assert "cannot express" in injection.carried[2].wins


def test_pnetcdf_hints_win_and_keep_the_users_other_ones() -> None:
    program = Program(
        "mpich",
        "romio",
        obstacle="static",
        environment={"PNETCDF_HINTS": "nc_in_place_swap=auto;nc_header_align_size=1"},
    )
    injection = inject(Plan(hints(nc_header_align_size="4096")), program, None, FOLDER)
    assert injection.environment == {"PNETCDF_HINTS": "nc_in_place_swap=auto;nc_header_align_size=4096"}
    assert "wins over" in injection.carried[0].wins


def test_pnetcdf_hints_take_their_variable_beside_the_runtime_as_well() -> None:
    plan = Plan(hints(nc_var_align_size="65536", cb_nodes="2"))
    injection = inject(plan, Program("mpich", "romio"), LIBRARY, FOLDER)
    assert injection.environment["PNETCDF_HINTS"] == "nc_var_align_size=65536"
    assert carriers(injection) == ["PNETCDF_HINTS", "runtime"]


def test_ompio_reads_no_hints_file() -> None:
    injection = inject(Plan(hints(cb_nodes="2")), Program("openmpi", "ompio", obstacle="static"), None, FOLDER)
    assert carriers(injection) == ["none"]
    assert "the component of ROMIO that `ompi_info --param io all` lists" in injection.carried[0].wins


def test_lustre_layouts_become_hints_where_there_is_a_hint_for_them() -> None:
    plan = Plan(
        (
            Setting(LAYOUT, "stripe_count", "4", "lustre"),
            Setting(LAYOUT, "pool", "flash", "lustre"),
            Setting(LAYOUT, "stripe_count", "4", "cephfs"),
        )
    )
    injection = inject(plan, STATIC, None, FOLDER)
    assert carriers(injection) == ["ROMIO_HINTS", "none", "none"]
    assert injection.files[HINTS_FILE] == "striping_factor 4\n"
    assert set(carriers(inject(plan, MPICH, LIBRARY, FOLDER))) == {"runtime"}
    first = Plan((Setting(LAYOUT, "start_ost", "3", "lustre"),))
    both = inject(first, STATIC, None, FOLDER).files[HINTS_FILE]
    assert both == "start_iodevice 3\nromio_lustre_start_iodevice 3\n"


def test_nothing_is_carried_to_a_program_without_mpi():
    program = Program(without_mpi="ls uses no MPI library")
    plan = Plan((*hints(cb_nodes="2"), Setting(MCA, "io_ompio_num_aggregators", "2"), Setting(ENVIRONMENT, "A", "1")))
    injection = inject(plan, program, None, FOLDER)
    assert carriers(injection) == ["none", "none", "environment"]
    assert injection.lost[0].wins == "ls uses no MPI library"
    assert injection.environment == {"A": "1"} and injection.files == {}
