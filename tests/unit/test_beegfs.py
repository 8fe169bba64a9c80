"""BeeGFS through a fake command: the proof that a file system is one module, one stack, one page and one test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import LAYOUT, LOST, Program, Setting
from stripewise.catalogue.filesystems import find_file_system, of_file, of_role, type_names
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.knobs import Surroundings, judge_script
from stripewise.diagnose.script import parse_script
from stripewise.engine.space import Circumstances, bind_space, default_stacks
from stripewise.errors import UserError
from stripewise.output.export import export
from stripewise.requests.campaign import parse_campaign
from stripewise.requests.campaign_points import Points
from stripewise.requests.experiment import Experiment
from stripewise.runners.injection import inject
from stripewise.runners.native import benchmark_lines
from stripewise.runners.program import checkup

FAKE = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked"
case $1 in
--getentryinfo) printf 'Entry type: directory\\nStripe pattern details:\\n+ Type: RAID0\\n+ Chunksize: 512K\\n'
  printf '+ Number of storage targets: desired: 4\\n+ Storage Pool: 1 (Default)\\n';;
--setpattern) for last; do :; done; test -d "$last" || exit 1;;
esac
"""
LAYOUTS = (
    Setting(LAYOUT, "stripe_count", "8", "beegfs"),
    Setting(LAYOUT, "chunk_size", str(1 << 20), "beegfs"),
    Setting(LAYOUT, "pool", "2", "beegfs"),
)
CAMPAIGN = """
name = "bees"
stacks = ["beegfs"]
operations = ["write"]
files = { folder = "FOLDER", name = "data" }
[[workload]]
name = "file_size"
values = ["1 MiB"]
[[tunable]]
name = "beegfs_stripe_count"
values = [2, 8]
[[tunable]]
name = "beegfs_chunk_size"
values = ["512 KiB", "1 MiB"]
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake ``beegfs-ctl`` in PATH; what it was asked is in the file beside it."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "beegfs-ctl"
    command.write_text(FAKE)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    return command


def asked(tool: Path) -> list[str]:
    return (tool.parent / "asked").read_text().splitlines()


def run(lines: list[str] | str, cwd: Path) -> None:
    text = lines if isinstance(lines, str) else "\n".join(lines)
    done = subprocess.run(["sh", "-eu", "-c", text], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_is_recognised_and_brings_its_stack() -> None:
    assert of_file("beegfs") is find_file_system("beegfs")
    assert "beegfs" in type_names()
    assert default_stacks("romio", Workload(file_system="beegfs")) == ["romio", "beegfs"]
    assert of_role({"file_system": "beegfs", "chunk_size": 65536}, "stripe_size") == 65536


def test_a_directory_is_laid_out_by_the_export_and_its_undo_is_named(tool: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my run"
    folder.mkdir()
    made = export(Plan(LAYOUTS), "lfs", directory=str(folder))
    run(made.text, tmp_path)
    assert asked(tool) == [
        f"--getentryinfo {folder}",
        f"--setpattern --numtargets=8 --chunksize=1048576 --storagepoolid=2 {folder}",
    ]
    assert "getentryinfo printed" in made.undo and not made.cannot
    run(made.undo, tmp_path)


@pytest.mark.parametrize(
    ("key", "value"), [("chunk_size", "100000"), ("chunk_size", "32768"), ("stripe_count", "0"), ("object_size", "1")]
)
def test_what_the_servers_refuse_is_refused_before(key: str, value: str) -> None:
    made = export(Plan((Setting(LAYOUT, key, value, "beegfs"),)), "lfs")
    assert made.empty and made.cannot[0].startswith(f"{key}={value} is not ")


def test_no_hint_no_parameter_and_no_runtime_carries_it() -> None:
    for target in ("hints", "openmpi", "shell"):
        assert len(export(Plan(LAYOUTS), target).cannot) == 3
    hint = Setting(LAYOUT, "stripe_count", "4", "lustre")
    injection = inject(Plan((*LAYOUTS, hint)), Program("mpich", "romio"), Path("/lib.so"), Path("/run"))
    assert [entry.by for entry in injection.carried] == [LOST] * 3 + ["runtime"]
    # The runtime refuses a plan that names a file system unknown to it.
    assert "beegfs" not in injection.files["plan"]
    assert "lfs export" in injection.lost[0].wins


def test_tune_leaves_out_what_cannot_reach_the_program() -> None:
    workload = Workload(
        operation="write", nodes=2, processes_per_node=4, file_size=1 << 30, collective=True, file_system="beegfs"
    )
    experiment = Experiment(command=["app"])

    def lost(parameter):
        plan = Plan((Setting(parameter.carrier, parameter.setting, "1", parameter.layer),))
        found = inject(plan, Program("mpich", "romio"), Path("/lib.so"), Path("/run")).lost
        return found[0].wins if found else ""

    bound = bind_space(experiment, Circumstances(workload, "romio", lost=lost))
    assert "cannot lay out files of beegfs" in bound.left_out["beegfs_chunk_size"]
    assert "romio_cb_write" in bound.space.names


def test_a_campaign_lays_out_its_own_file(tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = parse_campaign(CAMPAIGN.replace("FOLDER", str(tmp_path)), "test")
    points = Points(campaign)
    point = points.point("write", {"file_size": 1 << 20, "beegfs_stripe_count": 8, "beegfs_chunk_size": 1 << 20})
    assert point is not None
    lines = benchmark_lines.lines(campaign, point, points.settings(point), "/bin/kernel")
    run(list(lines.before), tmp_path)
    assert (tmp_path / "data").is_file() and not (tmp_path / "data.layout").exists()
    assert asked(tool) == [f"--setpattern --numtargets=8 --chunksize=1048576 {tmp_path}/data.layout"]
    monkeypatch.setattr(benchmark_lines, "mount_type", lambda folder: "beegfs")
    benchmark_lines._check_stripes(points.settings(point), tmp_path, str(tool.parent))
    with pytest.raises(UserError, match="needs the command beegfs-ctl"):
        benchmark_lines._check_stripes(points.settings(point), tmp_path, "/nowhere")
    monkeypatch.setattr(benchmark_lines, "mount_type", lambda folder: "ext4")
    with pytest.raises(UserError, match="lies on ext4"):
        benchmark_lines._check_stripes(points.settings(point), tmp_path, str(tool.parent))


def test_doctor_shows_the_pattern(tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "mount_type", lambda path: "beegfs")
    found = checkup._storage(tmp_path, {"PATH": str(tool.parent)})[-1]
    assert found.found == "Chunksize: 512K, Number of storage targets: desired: 4, Storage Pool: 1 (Default)"
    assert checkup._storage(tmp_path, {"PATH": "/nowhere"})[-1].status == "missing"


def test_a_script_that_sets_a_pattern_is_read_and_judged() -> None:
    script = "beegfs-ctl --setpattern --numtargets=8 --chunksize=1m out\nsrun ./app\n"
    assert {(s.name, s.value, s.layer) for s in parse_script(script).settings} == {
        ("stripe_count", "8", "beegfs"),
        ("chunk_size", "1m", "beegfs"),
    }
    here = judge_script(script, Surroundings(file_system="beegfs"))
    assert {one.verdict for one in here} == {"live"}
    there = judge_script(script, Surroundings(file_system="lustre"))
    assert all("lays out files on BeeGFS, the program's lie on lustre" in one.reason for one in there)
