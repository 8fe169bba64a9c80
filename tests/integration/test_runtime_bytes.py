"""The bytes in a file are the same with and without the runtime, in every mode: generated programs, by the kernel."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import THOROUGH
from tests.integration.conftest import Mpi
from tests.integration.runtime_models import save_model
from tests.integration.runtime_support import HEADER, Bench

MODES = ("observe", "apply", "predict", "online")
EXAMPLES = 4 if THOROUGH else 2
RANKS = 3


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


@st.composite
def programs(draw: st.DrawFn) -> list[str]:
    """Options of a kernel run that writes."""
    api = draw(st.sampled_from(["mpiio", "mpiio", "posix"]))
    layout = draw(st.sampled_from(["segmented", "strided", "random", "tile"]))
    words = ["--api", api, "--layout", layout, "--write", "--keep", "--seed", str(draw(st.integers(0, 9)))]
    if api == "mpiio" and draw(st.booleans()):
        words.append("--collective")
    if layout == "tile":
        words += ["--tile-x", str(draw(st.integers(1, 64))), "--tile-y", str(draw(st.integers(1, 16)))]
    else:
        piece = 2 ** draw(st.integers(3, 10))
        transfer = piece * 2 ** draw(st.integers(0, 4))
        words += ["--transfer", str(transfer), "--block", str(transfer * draw(st.integers(1, 3)))]
        words += ["--segments", str(draw(st.integers(1, 2)))]
        if layout == "strided" and api == "mpiio":
            words += ["--piece", str(piece)]
    if layout != "tile" and draw(st.integers(0, 3)) == 0:
        words.append("--file-per-process")
    words += ["--repetitions", str(draw(st.integers(1, 3)))]
    return words


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(words=programs())
def test_same_bytes_in_every_mode(
    bench: Bench, kernel: Callable[[Mpi], Path], tmp_path: Path, words: list[str]
) -> None:
    program = kernel(bench.mpi)
    model = save_model(tmp_path)

    def run(mode: str) -> dict[str, bytes]:
        folder = tmp_path / "files"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        environment = {} if mode == "none" else {"STRIPEWISE_MODE": mode}
        if mode in ("predict", "online"):
            environment |= {"STRIPEWISE_MODEL": str(model)}
        plan = HEADER + "hint cb_nodes 2\nhint romio_cb_write enable\n" if mode == "apply" else None
        outcome = bench.run(
            program, *words, "--file", folder / "data", ranks=RANKS, plan=plan, preload=mode != "none", **environment
        )
        assert outcome.code == 0, (words, outcome.stdout, outcome.stderr)
        assert outcome.complaints == []
        return contents(folder)

    expected = run("none")
    assert any(expected.values())
    for mode in MODES:
        assert run(mode) == expected, (mode, words)
