"""Hostile text in everything that reaches a job script, a directive or an environment: nothing foreign runs.

Each value is either refused where it enters, or stands in the script for exactly itself. The scripts are read by a
real bash and carried out in a folder of their own; a payload that runs leaves the file ``foreign`` somewhere there.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, LAYOUT, Carrier, Setting
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.stack import StackFile
from stripewise.engine.campaign.array import Array
from stripewise.errors import UserError
from stripewise.output.export import TARGETS, export
from stripewise.requests.campaign import Campaign
from stripewise.requests.experiment import Batch, Experiment
from stripewise.runners.batch.script import Work, job_script
from stripewise.runners.injection import Program, inject
from stripewise.runners.program.command import shell_line
from stripewise.runners.schedulers.job import JobRequest
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.runners.schedulers.registry import all_schedulers, make_scheduler, scheduler_names
from stripewise.runners.schedulers.slurm import Slurm
from stripewise.runners.setup_lines import environment_after

SCHEDULERS = scheduler_names()
REFUSED = (UserError, ValidationError)
BREAKS = ("\n", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029")
PAYLOADS = (
    *(f"a{end}touch foreign{end}" for end in BREAKS),
    *(f"a{end}#SBATCH --foreign{end}" for end in BREAKS),
    "a\n#PBS --foreign\n",
    "a\n#BSUB --foreign\n",
    "a; touch foreign;",
    "a'; touch foreign; '",
    'a"; touch foreign; "',
    "$(touch foreign)",
    "`touch foreign`",
    "a'$(touch foreign)'",
    'a"$(touch foreign)"',
    "a\\",
    "a && touch foreign #",
    "a\nEND_OF_SETTINGS\ntouch foreign\n",
    "a\u2028END_OF_SETTINGS\u2028touch foreign\u2028",
    "--foreign=x",
    "a --foreign=x",
    "a\0b",
    "\udc80",
)
WORDS = st.one_of(
    st.sampled_from(PAYLOADS),
    st.lists(st.sampled_from([*BREAKS, *"'\"`$();&|\\#-<>{} \t=,:ab", "touch foreign", "#SBATCH --foreign"])).map(
        "".join
    ),
    st.text(max_size=12),
)
MARKS = tuple(scheduler.mark for scheduler in all_schedulers())
MANY = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def carry_out(text: str, folder: Path, *, checked: bool = True) -> subprocess.CompletedProcess[str]:
    """Let bash read a script, then carry it out, where ``srun``, ``mpiexec`` and ``./app`` do nothing of their own."""
    tools = folder / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    for name in ("srun", "mpiexec", "lfs", "setfattr", "getfattr"):
        (tools / name).write_text("#!/bin/sh\nexit 0\n")
        (tools / name).chmod(0o755)
    script = folder / "script.sh"
    script.write_text(text, "utf-8")
    parsed = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert not checked or parsed.returncode == 0, f"{parsed.stderr}\n{text}"
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(folder), "STRIPEWISE_LIBRARY": "/dev/null"}
    done = subprocess.run(
        ["bash", script],
        capture_output=True,
        text=True,
        errors="replace",
        cwd=folder,
        env=environment,
        timeout=30,
        check=False,
    )
    assert not list(folder.rglob("foreign")), f"a payload ran:\n{text}"
    return done


def assert_directives(text: str) -> None:
    """No line of a script, however lines are told apart, is a directive that nobody asked for."""
    lines = [line for part in text.split("\n") for line in re.split(r"[\r\v\f]", part)]
    assert not [line for line in lines if line.lstrip().startswith(tuple(f"{mark} --foreign" for mark in MARKS))], text
    assert not [line for line in lines if line.startswith(MARKS) and line.endswith("\\")], text


# -- jobs --------------------------------------------------------------------------------------------------------


def job(folder: Path, kind: str = "slurm", **values: Any) -> str:
    batch = {name: value for name, value in values.items() if name in Batch.model_fields}
    checked = Batch.model_validate({"scheduler": kind, "nodes": 1, **batch})
    place = folder / values.get("place", "runs")
    request = JobRequest(values.get("name", "stripewise-x.1"), place / "job.sh", place, 60.0, checked)
    return make_scheduler(kind).script(request)


@pytest.mark.parametrize("kind", SCHEDULERS)
@pytest.mark.parametrize("field", ["queue", "account", "reservation", "directives", "name", "place"])
def test_no_value_of_a_job_becomes_shell_or_a_directive(kind: str, field: str, tmp_path: Path) -> None:
    for number, payload in enumerate(PAYLOADS):
        given = [f"--comment={payload}"] if field == "directives" else payload
        folder = tmp_path / str(number)
        try:
            text = job(folder, kind, **{field: given})
        except REFUSED:
            continue
        assert_directives(text)
        carry_out(text, folder)


@MANY
@given(st.sampled_from(SCHEDULERS), WORDS, WORDS, WORDS, WORDS)
def test_whatever_the_batch_table_holds(
    tmp_path_factory: pytest.TempPathFactory, kind: str, queue: str, account: str, reservation: str, option: str
) -> None:
    folder = tmp_path_factory.mktemp("job")
    for values in (
        {"queue": queue},
        {"account": account},
        {"reservation": reservation},
        {"directives": [f"--comment={option}"]},
        {"name": option},
    ):
        try:
            text = job(folder, kind, **values)
        except REFUSED:
            continue
        assert_directives(text)
        carry_out(text, folder)


def test_only_line_feeds_part_the_lines_of_a_users_own_script() -> None:
    for end in BREAKS:
        if not end.endswith("\n"):
            assert Slurm().read_script(f"#!/bin/bash\n# note{end}#SBATCH --foreign\n./app\n").lines == ()


# -- the script of a run -----------------------------------------------------------------------------------------


def work(cwd: Path, **fields: Any) -> Work:
    place = cwd / "run"
    place.mkdir(parents=True, exist_ok=True)
    return Work(**{"folder": place, "cwd": cwd, "command": ("true",), **fields})


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_runs_script_quotes_all_that_is_not_shell(payload: str, tmp_path: Path) -> None:
    cases: dict[str, dict[str, Any]] = {
        "command": {"command": ("true", payload)},
        "value": {"exports": {"NAME": payload}, "command": ("sh", "-c", 'printf %s "$NAME"')},
        "name": {"exports": {payload: "x"}},
        "name and setup": {"exports": {payload: "x"}, "setup": ("true",)},
        "unset": {"unset": (payload,)},
        "delete": {"delete": (f"{tmp_path}/{payload}",)},
        "known": {"caches": "advise", "known": (Path("/") / payload,)},
        "folder": {"folder": tmp_path / f"f{payload}"},
    }
    for name, fields in cases.items():
        folder = tmp_path / name.replace(" ", "-")
        try:
            text = job_script(work(folder, **fields))
            text.encode()
        except REFUSED:
            continue
        carry_out(text, folder)
        if name == "value":
            assert (folder / "run" / "stdout").read_bytes() == payload.encode()


@MANY
@given(st.dictionaries(WORDS, WORDS, max_size=3), st.lists(WORDS, max_size=3), WORDS)
def test_whatever_a_run_is_given(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str], words: list[str], pattern: str
) -> None:
    folder = tmp_path_factory.mktemp("run")
    try:
        text = job_script(work(folder, exports=variables, command=("true", *words), delete=(f"{folder}/{pattern}",)))
        text.encode()
    except REFUSED:
        return
    carry_out(text, folder)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_variables_of_experiments_and_campaigns_have_names(payload: str) -> None:
    with pytest.raises(ValidationError):
        Experiment.model_validate({"command": ["true"], "env": {payload: "x"}})
    for part in ("env", "off"):
        given = {"env": {payload: "x"}} if part == "env" else {"off": {"unset": [payload]}}
        with pytest.raises(ValidationError, match=part):
            StackFile.model_validate({"name": "s", "layer": "s", "parameter": [], **given})
    with pytest.raises(ValidationError, match="env"):
        Campaign.model_validate({"name": "c", "env": {payload: "x"}, "tunable": []})


@pytest.mark.parametrize("line", ["cat <<END", "true \\", "cat <<'X' # y", "for x in 1", "echo '"])
def test_no_setup_line_takes_the_lines_after_it(line: str, tmp_path: Path) -> None:
    folder = tmp_path / "x"
    text = job_script(work(folder, setup=(line, "true"), exports={"A": "b"}, command=("touch", "came-through")))
    done = carry_out(text, folder, checked=False)
    ended = (folder / "run" / "ended").read_text()
    assert (folder / "came-through").exists() or "cause setup" in ended, done.stderr


@pytest.mark.parametrize("payload", [p for p in PAYLOADS if "\0" not in p])
def test_setup_leaves_only_what_was_exported(payload: str, tmp_path: Path) -> None:
    for exports in ({payload: "x"}, {"NAME": payload}):
        try:
            found = environment_after(["true"], exports, {"PATH": os.environ["PATH"]}, tmp_path, 30.0)
        except REFUSED:
            found = {}
        assert found.get("NAME", payload) == payload
        assert not list(tmp_path.rglob("foreign"))


def test_the_record_of_a_run_holds_one_line_a_field(tmp_path: Path) -> None:
    text = job_script(work(tmp_path, before=("false #\ncode 0\ncause exit",)))
    carry_out(text, tmp_path)
    ended = (tmp_path / "run" / "ended").read_text()
    assert "cause hook\n" in ended
    assert "cause exit\n" not in ended


@pytest.mark.parametrize("value", ["a;touch foreign", "$(touch foreign)", "`x`", "a'b", 'a"b', "a\nb", "a|b", "~", "*"])
def test_a_value_that_a_shell_would_read_is_not_put_into_a_hook(value: str) -> None:
    assert shell_line("echo {mode} {else}", {"mode": "/a b/c-1,d"}) == "echo /a b/c-1,d {else}"
    with pytest.raises(UserError, match="mode"):
        shell_line('echo "{mode}"', {"mode": value})


@pytest.mark.parametrize("identifier", ["-u root", "--user=root", "1 2", "1;x", "1\n2", "", "$(x)"])
def test_a_jobs_identifier_is_not_an_option_of_scancel(identifier: str, tmp_path: Path) -> None:
    """The identifier is read from the run's folder, which the job can write."""
    with pytest.raises(UserError, match="identifier"):
        JobQueue(Batch(), tmp_path, {}).attach(identifier, "stripewise-x.1")


# -- plans, hints and exports ------------------------------------------------------------------------------------


def plan_with(payload: str, carrier: Carrier, part: str) -> Plan:
    key = payload if part == "key" else "name"
    value = payload if part == "value" else "v"
    layer = "lustre" if carrier is LAYOUT else ""
    return Plan((Setting(carrier, key, value, layer),), identifier=payload if part == "id" else "x")


@pytest.mark.parametrize("target", TARGETS)
def test_exports_hold_settings_and_programs_for_what_they_are(target: str, tmp_path: Path) -> None:
    carried_out = set()
    for payload in PAYLOADS:
        for carrier in Carrier.known.values():
            for part in ("key", "value", "id"):
                try:
                    made = export(plan_with(payload, carrier, part), target, changed={"p": payload})
                    Plan.parse(plan_with(payload, carrier, part).text(), "x")
                except REFUSED:
                    continue
                assert_directives(made.text)
                # A carrier that a target does not hold gives the same script for each payload.
                if target not in ("hints", "plan", "toml") and made.text not in carried_out:
                    carried_out.add(made.text)
                    carry_out(made.text, tmp_path / str(len(carried_out)))
                if target in ("hints", "plan"):
                    assert all(len(line.split()) > 1 for line in made.text.split("\n") if line and line[0] != "#")
                    assert "\n" not in made.text.replace("\n", "", made.text.count("\n"))


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("target", ["shell", "sbatch", "lfs"])
def test_an_exports_program_and_directory_stay_on_their_line(target: str, payload: str, tmp_path: Path) -> None:
    plan = Plan((Setting(LAYOUT, "stripe_count", "2", "lustre"),))
    for number, words in enumerate(({"program": shlex.join(["./app", payload])}, {"directory": payload})):
        folder = tmp_path / str(number)
        try:
            made = export(plan, target, **words)
            made.text.encode()
        except REFUSED:
            continue
        carry_out(made.text, folder)


@MANY
@given(st.sampled_from(TARGETS), st.sampled_from(list(Carrier.known.values())), WORDS, WORDS, WORDS)
def test_whatever_is_exported(
    tmp_path_factory: pytest.TempPathFactory, target: str, carrier: Carrier, key: str, value: str, files: str
) -> None:
    folder = tmp_path_factory.mktemp("export")
    layer = "lustre" if carrier is LAYOUT else ""
    plan = Plan((Setting(carrier, key, value, layer),), files=files)
    try:
        Plan.parse(plan.text(), "x")
        made = export(plan, target)
        made.text.encode()
    except REFUSED:
        return
    if target not in ("hints", "plan", "toml"):
        carry_out(made.text, folder)


@pytest.mark.parametrize("key", ["--split-string", "-S", "-u", "A;B", "A B", "1A", "é", ""])
def test_a_plans_variables_have_names_and_are_no_options_of_env(key: str) -> None:
    with pytest.raises(UserError):
        Plan((Setting(ENVIRONMENT, key, "touch foreign"),)).text()


@pytest.mark.parametrize(
    "key, value, files",
    [
        ("a:cb_nodes", "1", "*"),
        ("a", "1:romio_ds_write=enable", "*"),
        ("a", "1", "*:romio_no_indep_rw=true,*"),
        ("a,*", "1", "*"),
    ],
)
def test_crays_variable_carries_only_the_plans_hints(key: str, value: str, files: str, tmp_path: Path) -> None:
    found = inject(Plan((Setting(HINT, key, value),), files=files), Program(cray=True), None, tmp_path)
    assert "MPICH_MPIIO_HINTS" not in found.environment
    assert found.lost


@pytest.mark.parametrize("key, value", [("nc_a", "1;nc_b=2"), ("nc_a;nc_b", "1"), ("nc_a=1;b", "1")])
def test_pnetcdfs_variable_carries_only_the_plans_hints(key: str, value: str, tmp_path: Path) -> None:
    found = inject(Plan((Setting(HINT, key, value),)), Program(), None, tmp_path)
    assert "PNETCDF_HINTS" not in found.environment
    assert found.lost


def test_a_hints_file_holds_one_line_a_hint(tmp_path: Path) -> None:
    for payload in PAYLOADS:
        for key, value in ((payload, "1"), ("cb_nodes", payload)):
            try:
                plan = Plan.parse(Plan((Setting(HINT, key, value),)).text(), "x")
            except REFUSED:
                continue
            found = inject(plan, Program(io="romio"), None, tmp_path)
            lines = found.files.get("romio-hints", "").split("\n")
            assert [line for line in lines if line and len(line.split()) != 2] == []
            assert len(lines) <= 2


# -- job arrays --------------------------------------------------------------------------------------------------


def array(folder: Path, **fields: Any) -> str:
    return Array(
        **{
            "name": "c",
            "command": ("true", "campaign.toml"),
            "shards": 4,
            "at_once": 1,
            "nodes": 1,
            "processes_per_node": 1,
            "logs": folder / "logs",
            "directives": (),
            **fields,
        }
    ).script(Slurm())


def array_cases(payload: str, folder: Path) -> dict[str, Callable[[], str]]:
    return {
        "name": lambda: array(folder, name=payload),
        "command": lambda: array(folder, command=("true", payload)),
        "logs": lambda: array(folder, logs=folder / payload),
        "directives": lambda: array(folder, directives=(f"--comment={payload}",)),
    }


@pytest.mark.parametrize("payload", PAYLOADS)
def test_an_arrays_script_runs_nothing_but_its_command(payload: str, tmp_path: Path) -> None:
    for name, make in array_cases(payload, tmp_path).items():
        folder = tmp_path / name
        try:
            text = make()
            text.encode()
        except REFUSED:
            continue
        if name != "command":
            assert_directives(text)
        carry_out(text, folder)


@MANY
@given(WORDS)
def test_whatever_an_array_is_made_of(tmp_path_factory: pytest.TempPathFactory, payload: str) -> None:
    folder = tmp_path_factory.mktemp("array")
    for make in array_cases(payload, folder).values():
        try:
            text = make()
            text.encode()
        except REFUSED:
            continue
        carry_out(text, folder)
