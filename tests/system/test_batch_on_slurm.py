"""Experiments through a real Slurm: from the page, four jobs at once, a run that hangs, a lost node; a killed tuner."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stripewise.store.opening import open_store
from stripewise.store.service import database_of
from stripewise.store.service.tokens import Tokens
from stripewise.trial import State
from tests.system.pages_browser import Watched, log_in, opened
from tests.system.slurm_support import Case, accounted, node_down, program

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.testbed, pytest.mark.timeout(900)]
RUNS = 12


def experiment(case: Case, hanging: int, seconds: float = 2.0) -> Path:
    program(case.folder, case.bed.shared, hanging, seconds, "srun --mpi=pmi2")
    path = case.folder / "experiment.toml"
    path.write_text(
        'command = "./program.sh"\nrunner = "batch"\nstacks = ["romio"]\nsampler = "random"\n'
        f'objective = "write_bandwidth"\ntimeout = 45\nwarmup = 0\nbudget = {RUNS}\n'
        '[workload]\noperation = "write"\nnodes = 1\nprocesses_per_node = 2\n'
        "[batch]\njobs = 4\npoll = 1\n[confirmation]\npairs = 0\n"
        f'[hooks]\ndelete = ["{case.bed.shared}/run.{{run}}"]\n'
    )
    return path


@contextmanager
def service(case: Case) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve on a free port, with one worker that talks to the bed; gives the address and the process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = (
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--root",
        str(case.folder),
        "--root",
        str(case.bed.shared),
    )
    process = case.start(*words)
    try:
        case.until(lambda: "listening on" in (case.folder / "stderr").read_text(), process)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(60)


def test_from_the_page_twelve_runs_four_at_once_one_hangs_and_a_node_goes_down(case: Case) -> None:
    program(case.folder, case.bed.shared, 4, 6.0, "srun --mpi=pmi2")
    with open_store(case.store) as store:
        _, secret = Tokens(database_of(store)).create("ada", "operator")
    # The browser first: where there is none, nothing else is started.
    with opened() as browser, service(case) as (base, process):
        page = browser.new_page()
        watched = Watched(page)
        log_in(page, base, secret)
        page.goto(f"{base}/new")
        page.get_by_text("Advanced: where it runs").click()
        page.get_by_label("Where it runs").select_option("batch")
        page.get_by_role("checkbox", name=re.compile("^romio")).check()
        page.locator("summary", has_text=re.compile("^Confirmation")).click()
        page.locator("summary", has_text=re.compile("^Pruning")).click()
        for name, value in {
            "command": "./program.sh", "folder": str(case.folder), "budget.runs": str(RUNS), "batch.jobs": "4",
            "batch.poll": "1", "workload.nodes": "1", "workload.processes_per_node": "2", "timeout": "45",
            "warmup": "0", "confirmation.pairs": "0", "hooks.delete": f"{case.bed.shared}/run.{{run}}",
        }.items():  # fmt: skip
            page.locator(f"[name='{name}']").fill(value)
        for name, value in {
            "objective": "write_bandwidth", "workload.operation": "write", "sampler_name": "random",
            # The run that hangs is to reach its own time limit.
            "pruning.kind": "none",
        }.items():  # fmt: skip
            page.locator(f"[name='{name}']").select_option(value)
        page.get_by_role("button", name="Start").click()
        page.wait_for_url(re.compile("/experiments/[0-9a-f]+$"))
        page.locator("#live-runs .state.running").first.wait_for()
        case.until(lambda: case.ended() >= 5, process)
        node: list[str] = []
        case.until(lambda: bool(node.append(case.young_node()) or node[-1]), process)
        at_once = len(case.bed.slurm.ask("squeue", "-h", "-t", "PENDING,RUNNING").splitlines())
        with node_down(case.bed, node[-1]):
            # Nobody loads the page again: it follows by itself.
            page.locator("[data-state=finished]").wait_for(timeout=400_000)
        page.locator("summary", has=page.get_by_role("heading", name="Runs", exact=True)).click()
        page.locator("#live-runs .state.failed").first.wait_for()
        shown = page.locator("#live-runs tbody tr").count()
        assert watched.errors == []
    runs = case.runs()
    assert shown == RUNS
    accounted(runs, RUNS)
    failed = [run for run in runs if run.state is State.FAILED]
    assert [run.number for run in failed] == [4], [run.reason for run in failed]
    assert "time limit of 45 s" in failed[0].reason
    lost = [run for run in runs if run.facts.get("resubmissions")]
    assert len(lost) == 1, "the run on the node that went down was made again"
    assert "a node of its job failed" in lost[0].facts.notes[0]
    assert 2 <= at_once <= 4
    assert all(run.facts["queue_seconds"] >= 0 and run.facts.node_hours > 0 for run in runs)
    assert all(run.elapsed is not None and 6 <= run.elapsed < 100 for run in runs)
    assert case.bed.slurm.ask("squeue", "-h").strip() == ""


def test_time_in_the_queue_counts_neither_for_the_run_nor_for_the_budget(case: Case) -> None:
    path = experiment(case, hanging=-1, seconds=1.0)
    case.bed.slurm.ask("scontrol", "update", "partitionname=main", "state=down")
    try:
        process = case.start("tune", str(path), "--json", "--yes", "--budget", "2", "--time", "25")
        case.until(lambda: "PartitionDown" in case.bed.slurm.ask("squeue", "-h", "-o", "%r"), process)
        waited = 30
        time.sleep(waited)
    finally:
        case.bed.slurm.ask("scontrol", "update", "partitionname=main", "state=up")
    result = case.finish(process)
    runs = case.runs()
    accounted(runs, 2)
    assert max(run.facts["queue_seconds"] for run in runs) > waited - 5
    assert all(run.state is State.FINISHED for run in runs), "a time budget of 25 s was not used up by waiting 30 s"
    assert result["seconds"] < 25


def test_the_jobs_of_a_killed_tuner_are_over_before_its_runs_start_again(case: Case) -> None:
    path = experiment(case, hanging=-1, seconds=6.0)
    process = case.start("tune", str(path), "--json", "--yes", "--budget", "4")
    case.until(lambda: len(case.bed.slurm.ask("squeue", "-h", "-t", "RUNNING").splitlines()) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert case.bed.slurm.ask("squeue", "-h").strip(), "jobs outlive the tuner"
    [identifier] = [record["id"] for record in json.loads(_list(case))]
    case.finish(case.start("resume", identifier, "--json", "--yes"))
    runs = case.runs()
    accounted(runs, 4)
    assert all(run.state is State.FINISHED for run in runs)
    completed = [line for line in _completions(case) if "JobState=COMPLETED" in line and case.folder.name in line]
    assert len(completed) <= 8
    assert case.bed.slurm.ask("squeue", "-h").strip() == ""


def test_a_stop_cancels_what_is_under_way(case: Case) -> None:
    process = case.start("tune", str(experiment(case, hanging=-1, seconds=60.0)), "--json", "--yes")
    case.until(lambda: bool(case.bed.slurm.ask("squeue", "-h", "-t", "RUNNING").strip()), process)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    assert process.returncode == 130
    assert case.bed.slurm.ask("squeue", "-h", "-t", "PENDING,RUNNING").strip() == ""


def test_a_controller_that_restarts_costs_nothing(case: Case) -> None:
    slurm = case.bed.slurm
    path = experiment(case, hanging=-1, seconds=6.0)
    process = case.start("tune", str(path), "--json", "--yes", "--budget", "6", "--timeout", "25")
    # A step that begins while the controller is away waits longer than any run here may take.
    case.until(lambda: case.ended() >= 1 and bool(case.young_node()), process)
    slurm.stop_controller()
    try:
        time.sleep(12)
    finally:
        slurm.start_controller()
    case.finish(process)
    runs = case.runs()
    accounted(runs, 6)
    assert any(run.facts.get("resubmissions") for run in runs)
    assert all(run.state is State.FINISHED for run in runs), [run.reason for run in runs]


def _list(case: Case) -> str:
    return subprocess.run(
        case.stripewise("list", "--json"), env=case.environment, capture_output=True, text=True, check=True
    ).stdout


def _completions(case: Case) -> list[str]:
    return (case.bed.slurm.folder / "log" / "jobcomp.txt").read_text().splitlines()
