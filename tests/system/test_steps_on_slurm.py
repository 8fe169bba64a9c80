"""Experiments inside an allocation: steps side by side, a run that hangs, a node that goes down, pairs of runs."""

from __future__ import annotations

import json
import shlex
import time

import pytest

from stripewise.trial import Phase, State
from tests.system.slurm_support import Case, accounted, node_down, program
from tests.system.testbed.slurm import Job

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.testbed, pytest.mark.timeout(900)]
RUNS = 12


def within(case: Case, experiment: str, *words: str) -> Job:
    """Tune inside an allocation of all nodes, which outlives one of them."""
    (case.folder / "experiment.toml").write_text(experiment)
    call = case.stripewise("tune", "experiment.toml", "--json", "--yes", *words)
    job = case.folder / "allocation.sh"
    job.write_text(f"#!/bin/bash\n{shlex.join(call)} > result.json 2>> stderr\n")
    options = ["--nodes=4", "--ntasks-per-node=2", "--exclusive", "--no-kill", "--time=10", "--output=job.out"]
    return case.bed.slurm.submit(job, *options, env=case.environment, folder=case.folder)


def definition(case: Case, hanging: int, seconds: float, runs: int, pairs: int = 0) -> str:
    # Only what is faster than the default is confirmed. A run that hangs is to reach its own time limit.
    program(case.folder, case.bed.shared, hanging, seconds, untuned=1.0 if pairs else 0.0)
    return (
        f'command = "srun --mpi=pmi2 -n 2 --ntasks-per-node=2 ./program.sh"\nrunner = "steps"\nstacks = ["romio"]\n'
        f'sampler = "random"\nobjective = "elapsed"\ntimeout = 45\nwarmup = 0\nbudget = {runs}\n'
        '[workload]\noperation = "write"\nnodes = 1\nprocesses_per_node = 2\n'
        f'[pruning]\nkind = "none"\n[confirmation]\npairs = {pairs}\n'
        f'[hooks]\ndelete = ["{case.bed.shared}/run.{{run}}"]\n'
    )


def test_twelve_runs_side_by_side_one_hangs_and_a_node_goes_down(case: Case) -> None:
    process = within(case, definition(case, hanging=4, seconds=6.0, runs=RUNS))
    case.until(lambda: case.ended() >= 5, process)
    with node_down(case.bed, "n4"):
        # Not the node on which the tuner itself runs.
        time.sleep(1)
    # It is back at once, yet no longer a part of the allocation.
    assert process.wait(timeout=400) == 0, (case.folder / "stderr").read_text()
    result = json.loads((case.folder / "result.json").read_text())
    runs = case.runs()
    accounted(runs, RUNS)
    failed = [run for run in runs if run.state is State.FAILED]
    assert [run.number for run in failed] == [4], [run.reason for run in failed]
    assert "time limit of 45 s" in failed[0].reason
    # The hanging run may have been the only one on n4, and is then on another node in the end.
    assert {"n1", "n2", "n3"} <= {run.facts.node_list for run in runs} <= {"n1", "n2", "n3", "n4"}
    lost = [run for run in runs if run.facts.get("resubmissions")]
    assert len(lost) <= 1, "at most the run on n4 was started again"
    assert all("n4 went down" in run.facts.notes[0] for run in lost)
    assert result["runs"] == RUNS
    assert all(run.facts.node_hours == pytest.approx((run.elapsed or 0) / 3600) for run in runs)


def test_both_of_a_pair_run_on_the_same_nodes_and_pairs_take_turns(case: Case) -> None:
    process = within(case, definition(case, hanging=-1, seconds=0.2, runs=16, pairs=6))
    assert process.wait(timeout=400) == 0, (case.folder / "stderr").read_text()
    pairs: dict[int, set[str]] = {}
    for run in case.runs():
        if run.phase is Phase.CONFIRMATION:
            assert run.pair is not None
            pairs.setdefault(run.pair, set()).add(run.facts.node_list)
    assert len(pairs) >= 4
    assert all(len(nodes) == 1 for nodes in pairs.values())
    assert len({nodes for pair in pairs.values() for nodes in pair}) > 1
