"""The benchmark of real programs: cases are read, and recorded drift comes back in replays."""

import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "real_programs"
sys.path.insert(0, str(FOLDER))

from searching import runs_to_within  # noqa: E402
from sweep import Case, Record, SweepReplay  # noqa: E402

from stripewise.catalogue.plan import Plan  # noqa: E402
from stripewise.catalogue.stack import load_stack  # noqa: E402
from stripewise.launch import Launch  # noqa: E402
from stripewise.search.base import make_sampler  # noqa: E402
from stripewise.sizes import parse_size  # noqa: E402
from stripewise.trial import Phase, State  # noqa: E402

VALUES = (100.0, 300.0, 200.0)
"""Of the default, of collective buffering disabled, and of it enabled, before the machine slows down by half."""
SECONDS = 2.0


def record() -> Record:
    rng = np.random.default_rng(0)
    sweep = [{"romio_cb_write": value} for value in ("automatic", "disable", "enable")]
    runs = []
    for turn in range(60):
        arm, start = int(rng.integers(3)), turn * SECONDS
        level = 1.0 if turn < 30 else 0.5
        runs.append((arm, start, SECONDS, VALUES[arm] * level * float(np.exp(rng.normal(0, 0.01)))))
    runs[7] = (*runs[7][:3], None)
    workload = {"operation": "write", "processes_per_node": 2, "nodes": 1, "collective": True, "layout": "random"}
    about = {
        "sweep": sweep,
        "stacks": ["romio"],
        "io": "romio",
        "workload": workload,
        "objective": {"name": "write_bandwidth", "direction": "maximize", "unit": "MiB/s"},
    }
    return Record(about, runs)


def point(kept: Record, value: str) -> int:
    return int(kept.space.index(kept.space.levels([{**kept.space.default, "romio_cb_write": value}]))[0])


def test_configurations_are_compared_at_one_level_of_the_machine():
    kept = record()
    truth = kept.truth[[point(kept, value) for value in ("automatic", "disable", "enable")]]
    assert truth / truth[0] == pytest.approx([1, 3, 2], rel=0.03)
    assert kept.drift == pytest.approx(2, rel=0.05)
    assert kept.share_of_best(kept.space.default) == pytest.approx(1 / 3, rel=0.03)


def test_a_replay_meets_the_recorded_drift_as_time_passes():
    kept = record()
    runner = SweepReplay(kept, seed=3)
    assert runner.prepare().space is kept.space
    outcomes = [runner.answer(Launch("x", number, kept.space.default, Plan(), Phase.SEARCH)) for number in range(120)]
    values = np.array([outcome.metrics["write_bandwidth"] for outcome in outcomes])
    fast = values > 75
    assert 0.3 < fast.mean() < 0.7
    assert np.median(values[fast]) == pytest.approx(100, rel=0.03)
    assert np.median(values[~fast]) == pytest.approx(50, rel=0.03)
    # It changes when it did, and nowhere else: there and back in twice the time of the record.
    assert np.count_nonzero(np.diff(fast.astype(int))) <= 3
    assert np.diff([outcome.started for outcome in outcomes]) == pytest.approx(SECONDS)


def test_a_run_that_takes_longer_than_its_bound_is_cut():
    kept = record()
    outcome = SweepReplay(kept, seed=0).answer(Launch("x", 0, kept.space.default, Plan(), Phase.SEARCH, bound=0.5))
    assert (outcome.state, outcome.elapsed) == (State.PRUNED, 0.5)


def test_a_search_of_a_record_counts_runs_until_one_is_close_to_the_best():
    kept = record()
    # The default comes first, and then the knowledge of the stack, which is right here.
    assert runs_to_within(kept, make_sampler("auto"), seed=0, budget=5) == 2
    assert runs_to_within(kept, make_sampler("auto"), seed=0, budget=1) is None
    found = {runs_to_within(kept, make_sampler("random"), seed, budget=20) for seed in range(8)}
    assert None not in found and len(found) > 1


@pytest.mark.parametrize("name", ["benchio", "2decomp", "column-wise", "pnetcdf-blocks", "pnetcdf-cyclic"])
def test_exhaustive_sweeps_have_every_value_that_can_act(name):
    case = Case.read(FOLDER / "programs.toml", name, program="/b/x", mpiexec="mpirun", folder="/f", stack="romio")
    stack = {parameter.name: parameter for parameter in load_stack("romio").parameters}
    for swept in ("cb_buffer_size", "ind_wr_buffer_size"):
        values = {entry[swept] for entry in case.sweep if swept in entry}
        assert {parse_size(value) for value in values} == set(stack[swept].values)


def test_a_record_is_written_and_read_back(tmp_path):
    kept = record()
    kept.write(tmp_path / "x.json")
    again = Record.read(tmp_path / "x.json")
    assert (again.about, again.runs) == (kept.about, kept.runs)


@pytest.mark.parametrize("name", ["ior-strided", "btio", "s3d-io"])
def test_a_case_takes_program_launcher_and_folder(name):
    case = Case.read(
        FOLDER / "programs.toml", name, program="/b/x", mpiexec="mpirun --mca io romio321", folder="/f", stack="romio"
    )
    assert case.experiment.command[:5] == ["mpirun", "--mca", "io", "romio321", "-n"]
    assert "/b/x" in case.experiment.command and "{" not in " ".join(case.experiment.command)
    assert case.sweep[0] == {} and len(case.sweep) == 8
    assert case.sweep[-1] == {"romio_cb_write": "enable", "cb_nodes": 2, "cb_buffer_size": "16 MiB"}
