"""Energy: RAPL's counters in a fake sysfs folder, and real commands."""

from __future__ import annotations

import dataclasses

import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.errors import RunFailed, UserError
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import Conditions, energy, kind_of, measure, parse_objective
from stripewise.requests.experiment import Experiment
from stripewise.runners.registry import make_runner
from stripewise.trial import Phase, State

LOCAL = Conditions("local", nodes=1)
RANGE = 262_143_328_850


@pytest.fixture
def fake_sysfs(tmp_path, monkeypatch):
    """A fake /sys/class/powercap: two packages, the cores of one of them, and the whole platform."""
    root = tmp_path / "fake-powercap"
    for folder, name, counter in (
        ("intel-rapl:0", "package-0", 1_000_000),
        ("intel-rapl:1", "package-1", RANGE - 500_000),
        ("intel-rapl:0:0", "core", 7),
        ("intel-rapl:2", "psys", 7),
    ):
        place = root / folder
        place.mkdir(parents=True)
        (place / "name").write_text(f"{name}\n")
        (place / "energy_uj").write_text(f"{counter}\n")
        (place / "max_energy_range_uj").write_text(f"{RANGE}\n")
    monkeypatch.setattr(energy, "POWERCAP", root)
    return root


def outcome(**fields):
    return dataclasses.replace(Outcome(3, State.FINISHED, elapsed=2.0, started=100.0), **fields)


def local_run(folder, objective, script):
    experiment = Experiment(command=["/bin/sh", "-c", script], objective=objective, stacks=["lustre"])
    with make_runner(experiment, folder, runtime="none", cwd=folder) as runner:
        runner.prepare()
        runner.start(Launch("e", 0, Configuration({}), Plan(), Phase.WARMUP))
        ended = []
        while not ended:
            ended = runner.poll(1.0)
    return ended[0]


def test_a_run_is_charged_what_its_packages_used_across_a_wrap(fake_sysfs, tmp_path):
    script = f"echo 3500000 > {fake_sysfs}/intel-rapl:0/energy_uj; echo 1000000 > {fake_sysfs}/intel-rapl:1/energy_uj"
    ended = local_run(tmp_path, "energy", script)
    assert ended.state is State.FINISHED, ended.reason
    assert measure(parse_objective("energy"), ended) == pytest.approx(2.5 + 1.5)


def test_counters_that_wrap_more_than_once_are_sampled(fake_sysfs, monkeypatch):
    monkeypatch.setattr(energy, "_SAMPLE_SECONDS", 0.02)
    counter = fake_sysfs / "intel-rapl:0" / "energy_uj"

    def seen(value):
        # As the kernel's: never read half written.
        fresh = counter.with_name("fresh")
        fresh.write_text(str(value))
        fresh.replace(counter)
        until = energy.time.monotonic() + 10
        while meter._last[counter] != value and energy.time.monotonic() < until:
            energy.time.sleep(0.005)

    with energy._Meter([counter.parent]) as meter:
        for _ in range(3):
            seen(RANGE - 1)
            seen(0)
    assert meter.joules == pytest.approx((3 * RANGE - 1_000_000) / 1e6, rel=1e-9)


def test_counters_that_vanish_fail_the_run(fake_sysfs, tmp_path):
    ended = local_run(tmp_path, "energy", f"rm {fake_sysfs}/intel-rapl:1/energy_uj")
    assert ended.state is State.FINISHED
    with pytest.raises(RunFailed, match="could not be read in this run"):
        measure(parse_objective("energy"), ended)


def test_where_it_cannot_be_measured_is_said_before_the_first_run(fake_sysfs, tmp_path, monkeypatch):
    kind = kind_of("energy")
    kind.check(LOCAL)
    for elsewhere in (Conditions("batch"), Conditions("steps"), Conditions("local", nodes=2)):
        with pytest.raises(UserError, match="use other nodes") as caught:
            kind.check(elsewhere)
        assert "energy:COMMAND" in caught.value.fix
    (fake_sysfs / "intel-rapl:0" / "energy_uj").unlink()
    with pytest.raises(UserError, match=r"cannot be read: .*energy_uj"):
        kind.check(LOCAL)
    monkeypatch.setattr(energy, "POWERCAP", tmp_path / "nothing")
    with pytest.raises(UserError, match="has no RAPL counters"):
        local_run(tmp_path, "energy", "true")
    kind_of("energy:echo 5").check(Conditions("batch"))


def test_a_command_is_asked_about_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("STRIPEWISE_TOKEN", "secret")
    command = 'echo "${STRIPEWISE_TOKEN-none} $STRIPEWISE_RUN $STRIPEWISE_RUN_FOLDER" > asked; echo noise; '
    command += "echo $((STRIPEWISE_JOB * 10))"
    monkeypatch.chdir(tmp_path)
    ended = outcome(facts={"job": "42"}, folder=tmp_path)
    assert measure(parse_objective(f"energy:{command}"), ended) == 420.0
    assert (tmp_path / "asked").read_text() == f"none 3 {tmp_path}\n"
    spent = 'echo "$STRIPEWISE_END - $STRIPEWISE_BEGIN" | sed "s/\\.0//g" | xargs expr'
    assert measure(parse_objective(f"energy:{spent}"), outcome()) == 2.0


def test_accounting_may_be_late(tmp_path):
    command = f"test -e {tmp_path}/asked && echo 7; touch {tmp_path}/asked"
    assert measure(parse_objective(f"energy:{command}"), outcome()) == 7.0


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo 12.3K", "printed '12.3K', which is not a number of joules"),
        ("echo no such job >&2; exit 4", "exit code 4: no such job"),
        ("echo 0", "must be above zero"),
        ("sleep 30 & wait", "did not end within 0.3 s"),
    ],
)
def test_commands_that_tell_nothing(command, reason, monkeypatch):
    monkeypatch.setattr(energy, "_COMMAND_SECONDS", 0.3)
    with pytest.raises(RunFailed, match=reason):
        measure(parse_objective(f"energy:{command}"), outcome())


def test_the_site_file_gives_the_command(tmp_path, monkeypatch):
    site = tmp_path / "site.toml"
    site.write_text('[objectives]\nenergy = "echo 11"\n')
    monkeypatch.setenv("STRIPEWISE_SITE", str(site))
    kind = kind_of("energy")
    kind.check(Conditions("batch"))
    assert kind.starts == ""
    assert measure(parse_objective("energy"), outcome()) == 11.0
    assert measure(parse_objective("energy:echo 12"), outcome()) == 12.0


def test_it_is_minimised_in_joules_and_not_simulated():
    found = parse_objective("energy")
    assert (found.direction, found.unit) == ("minimize", "J")
    experiment = Experiment(runner="sim:kay", objective="energy", workload=WORKLOAD)
    with make_runner(experiment, None) as runner, pytest.raises(UserError, match="energy cannot be simulated"):
        runner.prepare()


WORKLOAD = {"operation": "write", "nodes": 2, "processes_per_node": 4, "file_size": "1 GiB"}


def test_a_service_with_an_allow_list_starts_no_users_command(tmp_path):
    policy = pytest.importorskip("stripewise.desk.server.policy")
    from stripewise.desk.server.problems import Refused
    from stripewise.desk.server.service import Settings

    settings = Settings(store=None, data=tmp_path, roots=(tmp_path,), allow=("/bin/true",))
    asked = Experiment(command=["/bin/true"], objective="energy:touch /tmp/pwned")
    with pytest.raises(Refused, match="'objective' is not allowed"):
        policy.check_experiment(asked, tmp_path, settings)
