"""Experiments run on the simulated cluster as on a real one: reports, effects, failures, queue, time, seeds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stripewise.catalogue.carriers import HINT, LAYOUT, Setting
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.result import describe_unneeded, print_dry_run
from stripewise.engine.dryrun import dry_run
from stripewise.engine.effects import verdicts
from stripewise.engine.events import Event
from stripewise.engine.session import Given, Session
from stripewise.engine.space import Circumstances, bind_space
from stripewise.errors import UserError
from stripewise.launch import Launch, Outcome
from stripewise.observe.from_report import activity_of
from stripewise.observe.workload import workload_of
from stripewise.requests.experiment import Experiment
from stripewise.result import Candidate
from stripewise.runners.registry import make_runner
from stripewise.runners.simulated.runner import SimulatedRunner, open_site
from stripewise.search.samplers.nonadaptive import RandomSampler
from stripewise.store.base import MEMORY
from stripewise.store.opening import open_store
from stripewise.trial import History, Phase, State
from tests.unit.test_simulate_noise import percentiles

SITE = """
name = "test"
nodes = 8
cores = 16
[network]
node_write_bandwidth = "2 GB/s"
node_read_bandwidth = "2 GB/s"
[oss]
count = 2
bandwidth = "4 GB/s"
[ost]
count = 8
write_bandwidth = "500 MB/s"
read_bandwidth = "600 MB/s"
"""
WORKLOAD = {
    "operation": "write",
    "nodes": 4,
    "processes_per_node": 8,
    "file_size": "16 GiB",
    "transfer_size": "1 MiB",
    "piece_size": "64 KiB",
    "layout": "strided",
    "collective": True,
}
DEFAULT = Plan(identifier="x.0")


@pytest.fixture
def site(tmp_path: Path) -> str:
    path = tmp_path / "test.toml"
    path.write_text(SITE)
    return str(path)


def runner(site: str, changes: str = "", workload: dict[str, Any] | None = None, **fields: Any) -> SimulatedRunner:
    """A runner on the test's site."""
    experiment = {"workload": {**WORKLOAD, **(workload or {})}, "objective": "bandwidth", **fields}
    return SimulatedRunner(f"{site}@{changes}" if changes else site, Experiment.model_validate(experiment))


def plan(**hints: str) -> Plan:
    return Plan(tuple(Setting(HINT, key, value) for key, value in hints.items()), "x.1")


def run(simulated: SimulatedRunner, number: int = 0, with_plan: Plan = DEFAULT, **limits: float) -> Outcome:
    """One outcome."""
    simulated.start(Launch("x", number, Configuration({}), with_plan, Phase.SEARCH, **limits))
    (outcome,) = simulated.poll(0)
    return outcome


def test_a_run_says_what_the_model_says(site: str) -> None:
    quiet = runner(site, "noise.enabled=false")
    outcome = run(quiet)
    assert outcome.state is State.FINISHED
    assert outcome.facts["simulated"] is True
    assert outcome.metrics["write_bandwidth"] == pytest.approx(16 * 1024 / outcome.elapsed)
    # One OST of 500 MB/s holds the default file.
    assert outcome.metrics["write_bandwidth"] < 500e6 / 2**20
    assert sum(outcome.facts.phases["write"].values()) == pytest.approx(outcome.elapsed)
    assert outcome.facts["binding"]["write"] == max(
        outcome.facts.bounds["write"], key=outcome.facts.bounds["write"].__getitem__
    )
    wide = run(quiet, with_plan=plan(striping_factor="8"))
    assert wide.metrics["write_bandwidth"] > 3 * outcome.metrics["write_bandwidth"]


@pytest.mark.parametrize("kind, said", [("within", "40 phases"), ("sim", "40 launches")])
def test_a_dry_run_counts_phases_where_these_are_the_runs(
    kind: str, said: str, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "within" if kind == "within" else f"sim:{site}"
    experiment = {"workload": WORKLOAD, "command": "true", "stacks": ["lustre"], "runner": own}
    print_dry_run(dry_run(Experiment.model_validate(experiment), runner(site, stacks=["lustre"])), False)
    assert f"worst case: {said}" in capsys.readouterr().out


def test_stripes_are_searched_up_to_the_sites_targets(site: str) -> None:
    experiment = {"workload": WORKLOAD, "objective": "bandwidth", "stacks": ["lustre"], "runner": f"sim:{site}"}
    simulated = runner(site, stacks=["lustre"])
    (count,) = [
        p
        for p in dry_run(Experiment.model_validate(experiment), simulated)["space"]["parameters"]
        if p["name"] == "stripe_count"
    ]
    assert max(count["values"]) == simulated.site.ost.count


def test_noise_is_that_of_the_site_and_belongs_to_the_run(site: str) -> None:
    quiet = run(runner(site, "noise.enabled=false")).elapsed
    noisy = runner(site)
    slow = np.array([run(noisy, number).elapsed for number in range(300)]) / quiet
    expected = 1 / percentiles(noisy.site.noise.write, [75, 50, 25])
    assert np.percentile(slow, [25, 50, 75]) / np.median(slow) == pytest.approx(expected, rel=0.06)
    assert run(noisy, 17).elapsed == pytest.approx(slow[17] * quiet, rel=1e-12)
    assert run(runner(site, seed=1), 17).elapsed != pytest.approx(slow[17] * quiet, rel=1e-6)


def test_both_directions_are_timed_apart(site: str) -> None:
    outcome = run(runner(site, workload={"operation": "both"}))
    report = outcome.report
    assert set(outcome.facts.phases) == {"write", "read"}
    assert report.totals.bytes_read == report.totals.bytes_written == 16 << 30
    assert outcome.metrics["write_bandwidth"] == pytest.approx(report.totals.write_bandwidth)
    assert outcome.elapsed == pytest.approx(report.job.elapsed)


# -- reports and effects ---------------------------------------------------------------------------------


def test_the_report_describes_the_workload_that_ran(site: str) -> None:
    outcome = run(runner(site))
    outcome.report.as_json(files=20)
    report = outcome.report
    assert report.simulated is True
    assert "simulated" in report.mpi.library
    seen = workload_of(activity_of(report, "report.json"))
    assert (seen.nodes, seen.processes_per_node, seen.operation) == (4, 8, "write")
    assert (seen.collective, seen.file_per_process, seen.piece_size) == (True, False, 65536)
    assert (seen.driver, seen.file_system) == ("LUSTRE:", "lustre")
    assert report.files[0].collective.bytes == 16 << 30


def test_a_file_each_is_a_file_each(site: str) -> None:
    report = run(runner(site, workload={"file_per_process": True, "file_size": "512 MiB"})).report
    assert workload_of(activity_of(report, "report.json")).file_per_process
    assert len(report.files) == 20
    assert report.totals.bytes_written == 16 << 30


def test_posix_is_not_seen_by_the_runtime(site: str) -> None:
    outcome = run(runner(site, workload={"api": "posix", "collective": False}))
    assert outcome.report is None
    assert outcome.metrics["write_bandwidth"] > 0


def effects(site: str, *settings: Setting, workload: dict[str, Any] | None = None) -> dict[str, str]:
    """The status of each setting of a plan, judged from reports as for real runs."""
    simulated = runner(site, "noise.enabled=false", workload=workload)
    simulated.prepare()
    names = {setting.key: {} for setting in settings}
    everywhere = {"cb_buffer_size": {"active_if": "writes"}, "ind_wr_buffer_size": {"active_if": "writes"}}
    experiment = Experiment.model_validate(
        {
            "stacks": ["romio", "lustre"],
            "workload": {**WORKLOAD, **(workload or {})},
            "parameters": {name: change for name, change in everywhere.items() if name in names},
        }
    )
    space = bind_space(experiment, Circumstances(simulated.workload, "romio")).space
    made = Plan(settings, "x.1")
    runs = [run(simulated, with_plan=p).activity for p in (made, DEFAULT)]
    return {effect.name: effect.status for effect in verdicts(space, settings, runs[:1], runs[1:])}


def hint(key: str, value: str) -> Setting:
    return Setting(HINT, key, value)


def test_dead_knobs_are_called_dead_and_others_effective(site: str) -> None:
    # The stripe size takes the place of both buffers in Lustre's writes (ad_lustre_wrcoll.c, ad_lustre_wrstr.c).
    assert effects(site, hint("cb_buffer_size", "4194304")) == {"cb_buffer_size": "no_effect"}
    assert effects(site, hint("ind_wr_buffer_size", "4194304")) == {"ind_wr_buffer_size": "no_effect"}
    assert effects(site, hint("romio_cb_write", "enable")) == {"romio_cb_write": "no_effect"}
    assert effects(site, hint("romio_cb_write", "disable")) == {"romio_cb_write": "effective"}
    assert effects(site, Setting(LAYOUT, "stripe_count", "4", "lustre")) == {"stripe_count": "effective"}
    # More than there are becomes what there is.
    assert effects(site, Setting(LAYOUT, "stripe_count", "64", "lustre")) == {"stripe_count": "no_effect"}


def test_a_dead_knob_changes_no_time_at_all(site: str) -> None:
    simulated = runner(site)
    before = run(simulated, 3).elapsed
    for dead in (plan(cb_buffer_size="65536"), plan(ind_wr_buffer_size="16777216"), plan(romio_cb_write="enabel")):
        assert run(simulated, 3, dead).elapsed == before


def test_striping_of_another_file_system_is_not_applicable(site: str) -> None:
    made = Plan((Setting(LAYOUT, "stripe_count", "4", "cephfs"),))
    outcome = run(runner(site), with_plan=made)
    (setting,) = outcome.report.files[0].settings
    assert setting.outcome == "not_applicable"
    assert "cephfs" in setting.note
    assert outcome.elapsed == run(runner(site)).elapsed


# -- failures, queue and time ----------------------------------------------------------------------------


def test_nothing_fails_unless_asked_for(site: str) -> None:
    simulated = runner(site)
    assert all(run(simulated, number).state is State.FINISHED for number in range(100))


def test_nodes_are_lost_as_often_as_asked_for(site: str) -> None:
    simulated = runner(site, "failures.node_lost=0.2")
    outcomes = [run(simulated, number) for number in range(200)]
    lost = [outcome for outcome in outcomes if outcome.state is State.FAILED]
    assert len(lost) == pytest.approx(40, rel=0.35)
    assert all("node was lost" in outcome.reason and "simulated" in outcome.reason for outcome in lost)
    whole = [run(runner(site), outcome.number).elapsed for outcome in lost]
    assert all(0 < outcome.elapsed < full for outcome, full in zip(lost, whole, strict=True))


def test_a_slow_ost_slows_the_runs_that_use_it(site: str) -> None:
    wide = plan(striping_factor="8")
    healthy, sick = runner(site), runner(site, "failures.ost_slow=0.5,failures.ost_slow_factor=0.25")
    outcomes = [(run(healthy, number, wide).elapsed, run(sick, number, wide)) for number in range(100)]
    hit = [(before, after) for before, after in outcomes if "slow_ost" in after.facts]
    assert 30 < len(hit) < 70
    assert all(after.elapsed > 1.5 * before for before, after in hit)
    assert all(after.elapsed == before for before, after in outcomes if "slow_ost" not in after.facts)


def test_a_job_is_killed_at_its_walltime(site: str) -> None:
    outcome = run(runner(site, "queue.walltime=10 s"))
    assert (outcome.state, outcome.elapsed) == (State.FAILED, 10.0)
    assert "walltime limit of 10 s" in outcome.reason


def test_whatever_comes_first_ends_the_run(site: str) -> None:
    simulated = runner(site, "queue.walltime=10 s")
    assert run(simulated, bound=5.0, timeout=7.0).state is State.PRUNED
    assert "time limit of 7 s" in run(simulated, bound=8.0, timeout=7.0).reason


def test_jobs_wait_in_simulated_time(site: str) -> None:
    simulated = runner(site, "queue.wait=2 h")
    outcomes = [run(simulated, number) for number in range(100)]
    waits = np.array([outcome.facts["queue_seconds"] for outcome in outcomes])
    assert waits.mean() == pytest.approx(7200, rel=0.3)
    assert outcomes[-1].started > 99 * 7200, "days of waiting pass in no time"
    assert run(simulated, 42).started == outcomes[42].started
    assert [o.elapsed for o in outcomes[:20]] == [run(runner(site), n).elapsed for n in range(20)], "no part of a run"


def test_drift_is_common_to_the_runs_of_a_day(site: str) -> None:
    drifting = runner(site, "queue.wait=12 h,noise.enabled=false,drift.enabled=true,drift.sigma=0.2")
    by_day: dict[int, set[float]] = {}
    for number in range(40):
        outcome = run(drifting, number)
        by_day.setdefault(int(outcome.started // 86400), set()).add(round(outcome.elapsed, 9))
    assert len(by_day) > 10
    assert all(len(times) == 1 for times in by_day.values())
    assert len(set.union(*by_day.values())) == len(by_day)


def test_others_slow_what_servers_hold_back_and_nothing_else(site: str) -> None:
    alone = run(runner(site, "noise.enabled=false")).elapsed
    shared = run(runner(site, "noise.enabled=false,background.load=0.5")).elapsed
    assert shared == pytest.approx(2 * alone, rel=0.05)
    # One process cannot fill an OST, however little of it is left.
    slow = {
        "nodes": 1,
        "processes_per_node": 1,
        "file_size": "64 MiB",
        "transfer_size": "64 KiB",
        "layout": "segmented",
    }
    quiet = "noise.enabled=false,client.process_bandwidth=50 MB/s"
    assert run(runner(site, f"{quiet},background.load=0.3", slow)).elapsed == run(runner(site, quiet, slow)).elapsed


# -- what cannot be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "workload", "fields", "message"),
    [
        ("", {"operation": None}, {}, r"\[workload\] says nothing of operation"),
        ("", {"file_size": None, "nodes": None}, {}, "says nothing of nodes, file_size"),
        ("", {"nodes": 9}, {}, "nodes = 9, but the simulated site test has 8"),
        ("", {"processes_per_node": 17}, {}, "processes_per_node = 17"),
        ("", {}, {"objective": {"name": "regex:(.)", "direction": "maximize"}}, "cannot be simulated: no program runs"),
        ("", {}, {"objective": "read_bandwidth"}, "operation is write"),
        ("failures.node_gone=1", {}, {}, "changes nothing that a site has"),
        ("failures=1", {}, {}, "changes nothing that a site has"),
        ("nodes", {}, {}, "changes nothing that a site has"),
        ("failures.node_lost=2", {}, {}, "node_lost"),
        ("access.fsyn=true", {}, {}, "fsyn"),
    ],
)
def test_what_cannot_run_is_refused_before_the_first_run(
    site: str, changes: str, workload: dict[str, Any], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        runner(site, changes, workload, **fields).prepare()


def test_single_values_of_a_site_can_be_changed(site: str) -> None:
    changed, access = open_site(f"{site}@nodes=4,ost.write_bandwidth=1 GB/s,access.fsync=false,drift.enabled=true")
    assert (changed.nodes, changed.ost.write_bandwidth, changed.drift.enabled) == (4, 1e9, True)
    assert access.fsync is False
    assert runner(site).prepare().fingerprint != runner(site, "nodes=4").prepare().fingerprint


def test_what_a_file_for_real_runs_has_is_named_as_not_run(site: str) -> None:
    simulated = runner(site, command=["mpiexec", "app"], setup=["module load x"])
    (warning,) = simulated.prepare().warnings
    assert "the command, setup lines: not run" in warning


def test_the_registry_knows_it(tmp_path: Path) -> None:
    experiment = Experiment.model_validate({"runner": "sim:nowhere", "workload": tomllib.loads("")})
    with pytest.raises(UserError, match="unknown site 'nowhere'"):
        make_runner(experiment, tmp_path).prepare()
    with pytest.raises(UserError, match="names no site"):
        make_runner(experiment.model_copy(update={"runner": "sim:"}), tmp_path)


def test_the_workload_gets_the_site_s_driver(site: str) -> None:
    assert runner(site).prepare().workload.driver == "LUSTRE:"
    ufs = runner(site, "mpi.driver=romio_ufs").prepare()
    assert (ufs.workload.driver, ufs.workload.file_system) == ("UFS:", None)
    assert runner(site, "mpi.driver=ompio").prepare().io == "ompio"
    assert Workload().driver is None


class Sated(RandomSampler):
    """Expects nothing more once five configurations were tried."""

    def expected_improvement(self, space: Space, history: History) -> float | None:
        return 0.0 if len(history.trials) > 5 else None


def test_a_search_that_has_little_to_gain_saves_launches(site: str) -> None:
    asked = Experiment.model_validate(
        {
            "runner": f"sim:{site}", "stacks": ["lustre"], "objective": {"name": "write_bandwidth"},
            "workload": WORKLOAD, "budget": {"runs": 40},
            "stopping": {"expected_gain": {"uses": 33}},
        }
    )  # fmt: skip
    store, told = open_store(MEMORY), list[str]()
    identifier = store.create(asked)

    def listen(event: Event) -> None:
        told.append(event.data.get("text", ""))

    given = Given(sampler=Sated())
    found = Session(store, identifier, make_runner(asked, Path()), "test", listen, given=given).run()
    assert any("another run is expected to gain" in text for text in told)
    assert found.cost is not None and found.cost.unneeded == 40 - found.runs > 0
    assert found.confirmed and len(found.confirmation.pairs) <= 7
    assert describe_unneeded(found) == f"saved {40 - found.runs} of 40 launches: the answer needed no more"
    unproven = found.model_copy(update={"candidate": Candidate(value=1.0)})
    assert describe_unneeded(unproven).endswith("launches: they would hardly have proven the gain")


def test_a_search_that_a_stopping_rule_ends_says_so(site: str) -> None:
    asked = Experiment.model_validate(
        {
            "runner": f"sim:{site}", "stacks": ["lustre", "romio"], "objective": {"name": "write_bandwidth"},
            "workload": WORKLOAD, "budget": {"runs": 40}, "sampler": "random", "confirmation": {"pairs": 0},
            "stopping": {"improvement": {"window": 1}},
        }
    )  # fmt: skip
    store = open_store(MEMORY)
    identifier = store.create(asked)
    told: list[str] = []
    Session(
        store, identifier, make_runner(asked, Path()), "test", lambda event: told.append(event.data.get("text", ""))
    ).run()
    (said,) = [text for text in told if "stopping rule" in text]
    assert said == "The search ends by its stopping rule: the last trial is not 1% better than those before."


def test_a_parameter_of_the_command_chooses_what_a_simulated_program_does(site: str) -> None:
    pattern = {"argument": "pattern", "role": "collective", "values": [True, False], "default": True}
    quiet = runner(site, "noise.enabled=false", stacks=["romio"], parameters={"pattern": pattern})

    def written(configuration: dict[str, Any]) -> float:
        quiet.start(Launch("x", 0, Configuration(configuration), DEFAULT, Phase.SEARCH))
        (outcome,) = quiet.poll(0)
        return outcome.metrics["write_bandwidth"]

    together, alone = written({"pattern": True}), written({"pattern": False})
    assert together == written({}) != alone
    assert alone == run(runner(site, "noise.enabled=false", workload={"collective": False})).metrics["write_bandwidth"]
