"""What is said to schedulers and what they say, as text; and what a site allows."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.workload import Workload
from stripewise.engine.budget import worst_case
from stripewise.engine.campaign.array import Array
from stripewise.engine.consent import agree_always, agree_never, check_author, check_cost
from stripewise.engine.space import Circumstances, bind_space
from stripewise.errors import UserError
from stripewise.facts import Facts
from stripewise.requests import policy as policies
from stripewise.requests.experiment import Experiment
from stripewise.requests.policy import Policy, PolicyForbidden, PolicyStart, load_policy
from stripewise.runners.allow_list import check_application
from stripewise.runners.batch.script import (
    Work,
    job_script,
    read_end,
    read_owner,
)
from stripewise.runners.program.mpi import SESSIONS
from stripewise.runners.schedulers.job import JobPhase, Standing
from stripewise.runners.schedulers.registry import make_scheduler
from stripewise.runners.schedulers.slurm import Slurm, SlurmArrays, parse_queue, standing_of
from stripewise.store.base import Record

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "scheduler, text, nodes, seconds",
    [
        ("slurm", "#SBATCH -N4\n#SBATCH -t 20   # minutes\n", 4, 1200),
        (
            "slurm",
            "#SBATCH --nodes=2 --time 0:10:00\n\n# a note\n#SBATCH --nodes=8\nmodule load x\n#SBATCH -N 9\n",
            8,
            600,
        ),
        ("pbs", "#PBS -l select=3:ncpus=4\n#PBS -l walltime=00:05:00\n", 3, 300),
        ("lsf", "#BSUB -nnodes 5\n#BSUB -W 1:00\n", 5, 3600),
        ("flux", "#flux: -N 2\n#flux: -t 30s\n", 2, 30),
        ("slurm", "echo first\n#SBATCH -N 4\n", None, None),
        ("slurm", "#SBATCH -N 2\n#SBATCH --job-name=ior-N16-t5\n#SBATCH -w gpu-t12\n", 2, None),
        ("lsf", "#BSUB -nnodes 5\n#BSUB -J test-nnodes9-W3\n", 5, None),
        ("pbs", "#PBS -l nodes=2:ppn=16,walltime=01:00:00\n", 2, 3600),
        ("pbs", "#PBS -N x-lnodes=7\n#PBS -l mem=4gb,walltime=60,select=3:ncpus=2\n", 3, 60),
    ],
)
def test_directives_at_the_head_of_a_script(
    scheduler: str, text: str, nodes: int | None, seconds: float | None
) -> None:
    found = make_scheduler(scheduler).read_script("#!/bin/bash\n" + text)
    assert (found.nodes, found.walltime) == (nodes, seconds)


def test_the_queue_is_read_whatever_a_line_says() -> None:
    text = (
        "12|RUNNING|None|a\n13|PENDING|(ReqNodeNotAvail, UnavailableNodes:n[1-4])|b c\n"
        "This cluster is down on Monday | please note\n14_3|SOME_NEW_STATE|x|d\n\n"
    )
    assert [line.identifier for line in parse_queue(text)] == ["12", "13", "14_3"]
    assert standing_of("SOME_NEW_STATE").phase is JobPhase.ACTIVE, "what is not known to be over is not over"
    assert standing_of("CANCELLED by 1000") == Standing(JobPhase.OVER, "its job was cancelled in the scheduler")
    assert standing_of("NODE_FAIL").lost
    assert not standing_of("TIMEOUT").lost
    assert standing_of("") == Standing(JobPhase.ACTIVE)


def test_scripts_survive_any_word(tmp_path: Path) -> None:
    folder = tmp_path / "it's a $folder"
    folder.mkdir()
    words = ("printf", "%s|", "a'b", 'c"d', "$HOME", "`x`", "*", "")
    work = Work(
        folder,
        tmp_path,
        words,
        {"NAME": "x\ny'z $A"},
        before=("printf '%s' \"$NAME\" > seen",),
        delete=(str(tmp_path / "it's [1].*"),),
        seconds=20.0,
        inside=Slurm.inside,
    )
    (tmp_path / "it's 1.dat").touch()
    text = job_script(work)
    (folder / "job.sh").write_text(text)
    done = subprocess.run(["bash", folder / "job.sh"], env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "5"}, check=False)
    assert done.returncode == 0
    assert (folder / "stdout").read_text() == "a'b|c\"d|$HOME|`x`|*||"
    assert (tmp_path / "seen").read_text() == "x\ny'z $A"
    assert not (tmp_path / "it's 1.dat").exists()
    through = read_end(folder)
    assert through is not None
    assert (through.cause, through.ended.exit_code, read_owner(folder)) == ("exit", 0, "5")


def test_a_job_measures_by_a_clock_that_nobody_sets(tmp_path: Path) -> None:
    text = job_script(Work(tmp_path, tmp_path, ("sleep", "0.3"), inside=Slurm.inside))
    subprocess.run(["bash", "-c", text], env={"PATH": "/usr/bin:/bin"}, check=True)
    through, record = read_end(tmp_path), (tmp_path / "ended").read_text()
    assert through is not None and 0.3 <= through.ended.elapsed < 30
    begun = re.search(r"(?m)^begin ([0-9.]+) [0-9.]+$", record)
    assert begun is not None
    for ahead in (-86400.0, 86400.0):
        (tmp_path / "ended").write_text(record.replace(f"begin {begun[1]}", f"begin {float(begun[1]) + ahead}"))
        moved = read_end(tmp_path)
        assert moved is not None and moved.ended.elapsed == pytest.approx(through.ended.elapsed, abs=0.2)


@pytest.mark.parametrize(("size", "kept"), [(1 << 10, True), (1 << 20, False)])
def test_a_job_says_whether_all_that_was_printed_is_kept(tmp_path: Path, size: int, kept: bool) -> None:
    """A limit on files stands for a full disk; the program notices neither."""
    command = ("bash", "-c", f"echo rate: 1; head -c {size} /dev/zero && echo rate: 9 || exit 3")
    script = tmp_path / "job.sh"
    script.write_text(job_script(Work(tmp_path, tmp_path, command, setup=("wait", "set -eu"), inside=Slurm.inside)))
    line = f"ulimit -f 64; exec bash {script}"
    subprocess.run(["bash", "-c", line], env={"PATH": "/usr/bin:/bin"}, check=True, timeout=30)
    through = read_end(tmp_path)
    assert through is not None
    assert through.ended.exit_code == 0
    assert (through.ended.lost == "") is kept
    assert (tmp_path / "stdout").read_bytes().endswith(b"rate: 9\n") is kept
    assert not [*tmp_path.glob("*.pipe"), *tmp_path.glob("*.open")]


@pytest.mark.parametrize("posix", [{}, {"POSIXLY_CORRECT": "1"}])
def test_options_of_setup_lines_end_no_job(tmp_path: Path, posix: dict[str, str]) -> None:
    (tmp_path / "old.1").touch()
    work = Work(tmp_path, tmp_path, ("sh", "-c", "exit 3"), setup=("set -efu",), delete=(str(tmp_path / "old.*"),))
    subprocess.run(["bash", "-c", job_script(work)], env={"PATH": "/usr/bin:/bin", **posix}, check=True)
    through = read_end(tmp_path)
    assert through is not None and through.ended.exit_code == 3
    assert not (tmp_path / "old.1").exists()


def test_what_is_left_running_keeps_no_job_waiting_for_its_output(tmp_path: Path) -> None:
    text = job_script(Work(tmp_path, tmp_path, ("sh", "-c", "sleep 20 & echo x")))
    text = text.replace("-le 100", "-le 4")
    subprocess.run(["bash", "-c", text], env={"PATH": "/usr/bin:/bin"}, check=True, timeout=15)
    through = read_end(tmp_path)
    assert through is not None and not through.ended.lost
    assert (tmp_path / "stdout").read_text() == "x\n"


@pytest.mark.parametrize(
    ("group", "file"), [("0::/job", "job/memory.events"), ("9:cpu,memory:/job", "memory/job/memory.oom_control")]
)
def test_a_run_that_lost_a_process_to_its_memory_limit_failed(tmp_path: Path, group: str, file: str) -> None:
    """A helper was killed, the program ended with 0, and the setting was proven to be seven times as fast."""
    events = tmp_path / file
    events.parent.mkdir(parents=True)
    events.write_text("oom 0\noom_kill 3\n")
    (tmp_path / "groups").write_text(f"1:name=systemd:/\n{group}\n")
    for line, message in (("true", ""), (f"echo oom_kill 4 > {events}", "its job ran out of memory")):
        text = job_script(Work(tmp_path, tmp_path, ("sh", "-c", line), inside=Slurm.inside))
        text = text.replace("/proc/self/cgroup", str(tmp_path / "groups")).replace("/sys/fs/cgroup", str(tmp_path))
        subprocess.run(["bash", "-c", text], check=True, env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7"})
        ended = read_end(tmp_path)
        assert ended is not None and ended.message.partition(",")[0] == message


def test_what_a_hook_prints_writes_no_field_of_the_record(tmp_path: Path) -> None:
    line = r"printf 'gone\rcause exit\vcode 0\x1ccode 0' >&2; exit 3"
    text = job_script(Work(tmp_path, tmp_path, ("true",), before=(line,), inside=Slurm.inside))
    subprocess.run(["bash", "-c", text], env={"PATH": "/usr/bin:/bin"}, check=True)
    through = read_end(tmp_path)
    assert through is not None
    assert (through.cause, through.ended.exit_code) == ("hook", None)


@pytest.mark.parametrize("chosen", [{}, {"OMPI_MCA_orte_local_tmpdir_base": "/x"}])
def test_a_job_gives_open_mpi_a_session_folder_and_removes_it(tmp_path: Path, chosen: dict[str, str]) -> None:
    command = ("bash", "-c", f'for one in {" ".join(SESSIONS)}; do echo "${{!one:-}}"; ls -d "${{!one:-none}}"; done')
    text = job_script(Work(tmp_path, tmp_path, command, chosen, sessions=True))
    subprocess.run(["bash", "-c", text], env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}, check=True)
    printed = (tmp_path / "stdout").read_text().split()
    if chosen:
        assert printed == []
    else:
        assert len(printed) == 4
        assert len({*printed}) == 1
        assert Path(printed[0]).parent == tmp_path
        assert not Path(printed[0]).exists()


# -- the site file -------------------------------------------------------------------------------------------------


def test_the_site_file_comes_from_the_staff_or_from_the_variable(tmp_path: Path) -> None:
    named, staffs = tmp_path / "named.toml", tmp_path / "staffs.toml"
    named.write_text('[limits]\njobs = 3\n[folders]\nstate = "/scratch/$USER/x"\n')
    found = load_policy({"STRIPEWISE_SITE": str(named)}, staffs)
    assert found.limits.jobs == 3
    assert found.folder("state", {"USER": "ada"}) == Path("/scratch/ada/x")
    assert found.folder("cache", {}) is None
    with pytest.raises(UserError, match="USER"):
        found.folder("state", {})
    assert load_policy({}, staffs) == Policy()
    staffs.write_text("[limits]\njobs = 1\n")
    staffs.chmod(0o666)
    with pytest.raises(UserError, match="others may write it"):
        load_policy({"STRIPEWISE_SITE": str(named)}, staffs)


@pytest.mark.parametrize(
    "text, said",
    [
        ("limits = 3", "limits"),
        ("[limits]\njob = 1", "job"),
        ("a", "not valid TOML"),
        ("[limits]\nrun_bytes = 'lots'", "s.toml: 'lots' is not a size"),
    ],
)
def test_a_wrong_site_file_is_named_with_its_fault(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        load_policy({"STRIPEWISE_SITE": str(path)}, tmp_path / "none")


def test_stripes_and_pools_beyond_the_sites_are_not_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('[striping]\nstripe_count = 6\npools = ["disk"]\n')
    monkeypatch.setenv("STRIPEWISE_SITE", str(path))
    monkeypatch.setattr(policies, "PATH", tmp_path / "none")
    workload = Workload(nodes=1, processes_per_node=4, operation="write", driver="LUSTRE:", file_system="lustre")
    values = bind_space(Experiment(stacks=["lustre"]), Circumstances(workload, "romio")).space["stripe_count"].values
    assert list(values) == [1, 2, 4, 6]
    assert load_policy().allowed_values("pool", ["", "disk", "flash"]) == ("", "disk")
    # The head of a progressive layout has four stripes.
    assert load_policy().allowed_values("head_size", [0, 1 << 26]) == (0, 1 << 26)
    path.write_text("[striping]\nstripe_count = 3\n")
    assert load_policy().allowed_values("head_size", [0, 1 << 26]) == (0,)


def test_applications_that_are_not_allowed_are_refused(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    check_application(None, ["any"], Path("/any"), tmp_path, {})
    patterns = [f"mpiexec -n * {tmp_path}/opt/*/b ...", "./solver"]
    # The program by where it lies, whatever the command calls it; the launcher as PATH finds it.
    check_application(patterns, ["mpiexec", "-n", "4", "./b", "x"], Path("b"), tmp_path / "opt" / "a", {})
    check_application(patterns, ["./solver"], Path("solver"), tmp_path / "elsewhere", {})
    for command, program in (
        (["mpiexec", "-n", "4", "./app"], "/home/x/app"),
        (["/tmp/mpiexec", "-n", "4", "./b"], "/opt/a/b"),
        (["./b"], "/opt/a/b"),
    ):
        with pytest.raises(UserError, match=rf"does not allow {program} to be tuned so; allowed: mpiexec"):
            check_application(patterns, command, Path(program), tmp_path / "opt" / "a", {})


def test_what_another_user_has_written_is_run_only_with_consent() -> None:
    """Whoever shares the store could have put any setup line there."""
    for author in ({"facts": Facts(user="eve")}, {"owner": "eve@login1:7"}):
        record = Record("ab12", Experiment(setup=["id"]), "stopped", 0.0, 0.0, **author)
        check_author(record, "eve", agree_never)
        check_author(record, "ada", agree_always)
        with pytest.raises(
            UserError, match=r"ab12 is by eve; its command, setup lines and hooks would run as ada.*--yes"
        ):
            check_author(record, "ada", agree_never)
    check_author(Record("ab12", Experiment(), "created", 0.0, 0.0), "ada", agree_never)


def test_costs_above_the_limits_need_consent_once() -> None:
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return True

    worst: dict[str, Any] = {"runs": 40, "node_hours": 20.0, "bytes": 3 << 40}
    agreed = check_cost(worst, Policy(), None, ask)
    assert agreed == {"node_hours": 20.0, "bytes": 3 << 40}
    assert asked == ["at worst this takes 20 node-hours and 3 TiB of I/O"]
    assert check_cost({**worst, "node_hours": 15.0}, Policy(), agreed, agree_never) is None
    with pytest.raises(UserError, match=r"25 node-hours, and nobody agreed.*--yes"):
        check_cost({**worst, "node_hours": 25.0}, Policy(), agreed, agree_never)
    assert check_cost({"node_hours": 9.0, "bytes": None}, Policy(), None, agree_never) is None
    strict = Policy.model_validate({"limits": {"node_hours": 5}})
    with pytest.raises(UserError, match="above the site's limit of 5"):
        check_cost({"node_hours": 9.0}, strict, None, agree_always)


def test_runs_side_by_side_cost_their_nodes_at_the_same_time() -> None:
    experiment = Experiment.model_validate({"budget": {"runs": 100, "seconds": 3600}})
    assert worst_case(experiment, 2, 600.0, None, at_once=4)["node_hours"] == 8
    assert worst_case(experiment, 2, 600.0, None)["node_hours"] == 2
    assert worst_case(experiment, 2, 600.0, None, at_once=4)["seconds"] == 3600


def test_keys_of_the_site_file_are_documented() -> None:
    text = (ROOT / "docs/reference/sites.md").read_text()
    part = text[text.index("## The file of a computing centre") :]
    rows = set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))
    wanted = {"applications", "objectives"}
    for name in ("limits", "striping", "folders"):
        wanted |= set(Policy.model_fields[name].annotation.model_fields)  # type: ignore[union-attr]
    assert rows == wanted | set(PolicyForbidden.model_fields) | set(PolicyStart.model_fields)
    example = part[part.index("```toml") + 7 :]
    assert Policy.model_validate(tomllib.loads(example[: example.index("```")]))


# -- job arrays ----------------------------------------------------------------------------------------------------


def answers(config: str, assoc: str | None) -> Any:
    """Stand for Slurm's commands."""

    def call(words: Any) -> subprocess.CompletedProcess[str]:
        if words[0] == "scontrol":
            return subprocess.CompletedProcess(words, 0, config, "")
        return subprocess.CompletedProcess(words, 0 if assoc is not None else 1, assoc or "", "no accounting")

    return call


@pytest.mark.parametrize(
    "config, assoc, wanted, shards, said",
    [
        ("MaxArraySize            = 1001\n", None, 40, 40, ""),
        ("MaxArraySize            = 11\n", None, 40, 10, "MaxArraySize"),
        ("MaxArraySize            = 1001\n", "\n8\n20\n", 40, 8, "MaxSubmitJobs"),
        ("MaxArraySize            = 5\n", "8\n", 40, 4, "MaxArraySize"),
        ("nothing of arrays\n", "\n", 40, 40, ""),
    ],
)
def test_arrays_keep_within_what_the_cluster_takes(
    config: str, assoc: str | None, wanted: int, shards: int, said: str
) -> None:
    number, why = SlurmArrays().allowed(answers(config, assoc), "ada", wanted)
    assert number == shards
    assert said in why
    assert bool(why) == bool(said)


def test_a_cluster_without_arrays_says_so() -> None:
    with pytest.raises(UserError, match="no job arrays"):
        SlurmArrays().limits(answers("MaxArraySize = 0\n", None), "ada")


def test_the_script_of_an_array(tmp_path: Path) -> None:
    array = Array("c", ("stripewise", "site", "profile", "a b.toml"), 8, 2, 4, 2, tmp_path, ("--time=10", "--nodes=5"))
    lines = array.script(Slurm()).splitlines()
    assert lines[0] == "#!/bin/bash"
    assert lines.index("#SBATCH --nodes=4") < lines.index("#SBATCH --nodes=5"), "what is asked for wins"
    assert "#SBATCH --array=1-8%2" in lines
    assert lines[-1] == "exec stripewise site profile 'a b.toml' --shard \"$SLURM_ARRAY_TASK_ID/8\""
    with pytest.raises(UserError, match="needs 4 nodes"):
        Array("c", ("x",), 8, 2, 4, 2, tmp_path, ("-N 2",)).script(Slurm())
