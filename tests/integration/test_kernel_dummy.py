"""The kernel's dummy backend: seeded delays that respond to settings, with computed or real time."""

import json
import math
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Mpi

Dummy = Callable[..., dict[str, Any]]
CLEARED = ("STRIPEWISE_MODE", "STRIPEWISE_PLAN", "ROMIO_HINTS", "OMPI_MCA_fcoll", "RUN_NUMBER")


def command(mpich: Mpi, program: Path, options: tuple[object, ...], ranks: int) -> list[str]:
    return [*mpich.mpiexec(ranks), str(program), "-a", "dummy", *map(str, options)]


def environment(extra: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in CLEARED} | extra


@pytest.fixture
def dummy(mpich: Mpi, kernel: Callable[[Mpi], Path]) -> Dummy:
    """Run with computed times; returns the JSON."""
    program = kernel(mpich)

    def start(*options: object, ranks: int = 2, **extra: str) -> dict[str, Any]:
        words = command(mpich, program, ("--dummy-virtual", "--json", "-", *options), ranks)
        done = subprocess.run(words, capture_output=True, text=True, env=environment(extra), timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        parsed: dict[str, Any] = json.loads(done.stdout)
        return parsed

    return start


def bandwidths(outcome: dict[str, Any], operation: str = "write") -> list[float]:
    return [entry["bandwidth"] for entry in outcome["repetitions"] if entry["operation"] == operation]


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_without_noise_the_bandwidth_is_the_one_asked_for(dummy: Dummy, ranks: int) -> None:
    outcome = dummy("--dummy-bandwidth", "250", "-b", "10m", "-t", "1m", ranks=ranks)
    assert bandwidths(outcome) == pytest.approx([250])
    assert bandwidths(outcome, "read") == pytest.approx([250])
    assert outcome["repetitions"][0]["access"] == pytest.approx(10 * ranks / 250)
    assert outcome["repetitions"][0]["verified"] is None


def test_latency_is_paid_by_open_sync_close_and_each_call(dummy: Dummy) -> None:
    write, read = dummy("--dummy-latency", "0.25", "--dummy-bandwidth", "1e9", "-b", "4m", "-t", "1m", "-e")[
        "repetitions"
    ]
    assert [write[phase] for phase in ("open", "access", "sync", "close")] == pytest.approx(
        [0.25, 1, 0.25, 0.25], rel=1e-6
    )
    assert [read[phase] for phase in ("open", "access", "sync", "close")] == pytest.approx([0.25, 1, 0, 0.25], rel=1e-6)


NOISY = ("--dummy-noise", "0.1", "--dummy-rank-noise", "0.05", "-i", "20")


def test_the_same_seed_and_options_give_the_same_times(dummy: Dummy, tmp_path: Path) -> None:
    first = dummy(*NOISY, "--seed", "5")
    again = dummy(*NOISY, "--seed", "5", "-o", tmp_path / "elsewhere")
    assert first["repetitions"] == again["repetitions"]
    assert len({*bandwidths(first), *bandwidths(first, "read")}) == 40, "repetitions and operations draw apart"


def test_another_seed_rank_count_option_or_setting_gives_other_times(dummy: Dummy, tmp_path: Path) -> None:
    hints = tmp_path / "hints"
    hints.write_text("cb_nodes 2\n")
    plan = tmp_path / "plan"
    plan.write_text("stripewise-plan 1\nhint cb_nodes 4\n")
    runs = [
        dummy(*NOISY),
        dummy(*NOISY, "--seed", "1"),
        dummy(*NOISY, "-t", "64k"),
        dummy(*NOISY, "-U", hints),
        dummy(*NOISY, STRIPEWISE_PLAN=str(plan)),
    ]
    values = [bandwidths(outcome)[0] for outcome in runs]
    assert len(set(values)) == len(runs)


def test_the_noise_is_log_normal_around_the_bandwidth(dummy: Dummy) -> None:
    values = bandwidths(dummy("--dummy-bandwidth", "400", "--dummy-noise", "0.1", "-i", "4000", "-w"))
    logarithms = [math.log(value / 400) for value in values]
    assert abs(statistics.mean(logarithms)) < 4 * 0.1 / math.sqrt(4000)
    assert statistics.stdev(logarithms) == pytest.approx(0.1, rel=0.06)
    beyond = sum(abs(value) > 0.2 for value in logarithms) / 4000
    assert beyond == pytest.approx(0.0455, abs=0.015)


def test_the_seed_can_come_from_the_run(dummy: Dummy, tmp_path: Path) -> None:
    """A tuner starts one command many times; each run needs noise of its own, the same when repeated."""

    def by_variable(number: int) -> list[float]:
        return bandwidths(dummy("--dummy-noise", "0.1", "--dummy-seed-from", "env:RUN_NUMBER", RUN_NUMBER=str(number)))

    def by_plan(plan_id: str, source: str) -> list[float]:
        plan = tmp_path / "plan"
        plan.write_text(f"stripewise-plan 1\nid {plan_id}\n")
        return bandwidths(dummy("--dummy-noise", "0.1", "--dummy-seed-from", source, STRIPEWISE_PLAN=str(plan)))

    assert by_variable(1) == by_variable(1) != by_variable(2)
    assert by_plan("exp-a.1", "plan-id") != by_plan("exp-b.1", "plan-id")
    assert by_plan("exp-a.1", "plan-run") == by_plan("exp-b.1", "plan-run") != by_plan("exp-a.2", "plan-run")


EFFECTS = ("--dummy-bandwidth", "100", "--dummy-effect", "cb_nodes=4:1.5", "--dummy-effect", "stripe_count=8:2")


def test_effects_follow_the_plan(dummy: Dummy, tmp_path: Path) -> None:
    plan = tmp_path / "plan"

    def planned(text: str, *options: object, **extra: str) -> float:
        plan.write_text(f"stripewise-plan 1\n# a comment\n\n{text}\n")
        [value] = bandwidths(dummy(*EFFECTS, "-w", *options, STRIPEWISE_PLAN=str(plan), **extra))
        return value

    assert bandwidths(dummy(*EFFECTS, "-w")) == pytest.approx([100])
    assert planned("hint cb_nodes 4") == pytest.approx(150)
    assert planned("hint cb_nodes 2") == pytest.approx(100)
    assert planned("hint cb_nodes 4\nlayout lustre stripe_count 8") == pytest.approx(300)
    assert planned("hint cb_nodes 4", STRIPEWISE_MODE="observe") == pytest.approx(100)
    assert planned("hint cb_nodes 4", STRIPEWISE_MODE="apply") == pytest.approx(150)
    assert planned("file *.nc\nhint cb_nodes 4", "-o", "out.h5") == pytest.approx(100)
    assert planned("file *.nc\nhint cb_nodes 4", "-o", "out.nc") == pytest.approx(150)
    assert planned("file /*/out.nc\nhint cb_nodes 4", "-o", "out.nc") == pytest.approx(150)


def test_effects_follow_the_other_carriers_and_their_precedence(dummy: Dummy, tmp_path: Path) -> None:
    hints, romio, plan = tmp_path / "hints", tmp_path / "romio", tmp_path / "plan"
    hints.write_text("cb_nodes 4\n")
    romio.write_text("cb_nodes 4\nstripe_count 8 voided\n")

    def measured(*options: object, **extra: str) -> float:
        return bandwidths(dummy(*EFFECTS, "--dummy-effect", "fcoll=vulcan:3", "-w", *options, **extra))[0]

    assert measured("-U", hints) == pytest.approx(150)
    assert measured(ROMIO_HINTS=str(romio)) == pytest.approx(150)
    assert measured(OMPI_MCA_fcoll="vulcan") == pytest.approx(300)
    plan.write_text("stripewise-plan 1\nhint cb_nodes 1\n")
    assert measured("-U", hints, STRIPEWISE_PLAN=str(plan)) == pytest.approx(150), "the application's hint wins"
    assert measured(ROMIO_HINTS=str(romio), STRIPEWISE_PLAN=str(plan)) == pytest.approx(100), "the plan wins"
    plan.write_text("stripewise-plan 1\noverride yes\nhint cb_nodes 1\n")
    assert measured("-U", hints, STRIPEWISE_PLAN=str(plan)) == pytest.approx(100), "the plan overrides"


def test_failures_come_with_the_probability_asked_for(mpich: Mpi, kernel: Callable[[Mpi], Path]) -> None:
    outcomes = []
    for seed in range(30):
        options = ("--dummy-virtual", "-w", "--dummy-fail-probability", "0.5", "--seed", seed)
        words = command(mpich, kernel(mpich), options, 1)
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == ("injected failure" in done.stderr)
        outcomes.append(done.returncode)
    assert 6 <= sum(outcomes) <= 24


def test_a_setting_can_fail_or_hang(mpich: Mpi, kernel: Callable[[Mpi], Path], tmp_path: Path) -> None:
    hints = tmp_path / "hints"
    hints.write_text("cb_nodes 3\n")

    def start(*options: object, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        words = command(mpich, kernel(mpich), ("--dummy-virtual", "-U", hints, *options), 2)
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)

    assert start("--dummy-fail-if", "cb_nodes=3").returncode == 1
    assert start("--dummy-fail-if", "cb_nodes=2", "--dummy-hang-if", "cb_nodes=2").returncode == 0
    for options in (["--dummy-hang-if", "cb_nodes=3"], ["--dummy-hang"]):
        with pytest.raises(subprocess.TimeoutExpired):
            start(*options, timeout=2)


def test_real_delays_last_as_long_as_computed_ones(mpich: Mpi, kernel: Callable[[Mpi], Path], dummy: Dummy) -> None:
    options = ("-w", "-b", "8m", "-t", "64k", "--dummy-bandwidth", "40", "--json", "-")
    [computed] = dummy(*options)["repetitions"]
    start = time.monotonic()
    done = subprocess.run(
        command(mpich, kernel(mpich), (*options, "-i", "3"), 2), capture_output=True, text=True, timeout=60, check=False
    )
    elapsed = time.monotonic() - start
    # Another program may hold up one of them.
    slept = min(json.loads(done.stdout)["repetitions"], key=lambda repetition: repetition["access"])
    assert computed["access"] == pytest.approx(0.4)
    assert computed["access"] * 0.99 <= slept["access"] <= elapsed
    assert slept["access"] < computed["access"] + 0.5, "short sleeps add up"
