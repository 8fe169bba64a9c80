"""examples/ask.c, the example of stripewise.h: with the runtime it is answered, without it runs all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.building import ROOT, checked
from tests.integration.conftest import Mpi
from tests.integration.runtime_models import save_model
from tests.integration.runtime_support import HEADER, Bench

RANKS = 4


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


@pytest.fixture(scope="module")
def ask(bench: Bench) -> Path:
    program = bench.folder / "ask"
    options = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "native" / "include")]
    checked([str(bench.mpi.mpicc), *options, str(ROOT / "examples" / "ask.c"), "-o", str(program), "-ldl"])
    return program


@pytest.mark.usefixtures("romio")
def test_it_is_answered(bench: Bench, ask: Path, tmp_path: Path) -> None:
    model = save_model(tmp_path)
    environment = {"STRIPEWISE_MODE": "predict", "STRIPEWISE_MODEL": str(model)}
    outcome = bench.run(ask, tmp_path / "data", ranks=RANKS, **environment)
    assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
    first, second = outcome.stdout.splitlines()
    assert first == "status 0, pieces of 1048576 bytes, collective -1, 1.00 times as fast predicted"
    assert second.startswith("hint cb_nodes 4;hint romio_cb_write disable: predicted 1.82 times as good")
    own = outcome.file("data")
    assert (tmp_path / "data").stat().st_size == RANKS << 20
    # What the info brings is the application's own by then: the open itself has nothing left to choose.
    assert own["decision"]["combinations"] == 1
    if bench.is_mpich:
        assert own["info"]["romio_cb_write"] == "disable"


@pytest.mark.parametrize("environment", [None, {"STRIPEWISE_MODE": "observe"}])
def test_without_it_runs_all_the_same(
    bench: Bench, ask: Path, tmp_path: Path, environment: dict[str, str] | None
) -> None:
    outcome = bench.run(ask, tmp_path / "data", ranks=RANKS, preload=environment is not None, **(environment or {}))
    assert outcome.code == 0, outcome.stderr
    assert outcome.stdout.startswith("status 1, pieces of 1048576 bytes, collective -1")
    assert (tmp_path / "data").stat().st_size == RANKS << 20


def test_a_plan_fills_the_info(bench: Bench, ask: Path, tmp_path: Path) -> None:
    outcome = bench.run(ask, tmp_path / "data", ranks=RANKS, plan=HEADER + "hint cb_nodes 2\n")
    assert outcome.code == 0 and "status 0" in outcome.stdout
    assert "hint cb_nodes 2: " in outcome.stdout
