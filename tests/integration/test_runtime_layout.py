"""Laying files out before they are created, on pretended CephFS and Lustre (our own statfs, a script called lfs)."""

import os
from pathlib import Path

import pytest

from tests.integration.conftest import Mpi
from tests.integration.runtime_support import HEADER, Bench, Outcome

CEPH, LUSTRE, BEEGFS = "00c36400", "0bd00bd0", "19830326"
RANKS = 4


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


@pytest.fixture
def lfs(tmp_path: Path) -> dict[str, str]:
    """An lfs command that notes how it was called, creates the file and knows its stripes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "lfs"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$*" >> {tmp_path}/lfs.log\n'
        "for file; do :; done\n"
        'case "$1 $3" in\n'
        '"setstripe 99") echo "lfs setstripe: stripe count too large" >&2; exit 34;;\n'
        'setstripe*) : > "$file";;\n'
        'getstripe*) echo "lmm_stripe_count:  4"; echo "lmm_stripe_size:   1048576";;\n'
        "esac\n"
    )
    script.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "PRETEND_MAGIC": LUSTRE}


def run(bench: Bench, tmp_path: Path, plan: str, scenario: str = "plain", **environment: str) -> Outcome:
    outcome = bench.run(
        bench.program("scenarios.c", "-pthread"),
        tmp_path / "data",
        scenario,
        ranks=RANKS,
        plan=HEADER + plan,
        behind=(bench.preload("pretended_fs.c"),),
        **environment,
    )
    assert outcome.code == 0, outcome.stderr
    assert outcome.complaints == []
    return outcome


CEPH_PLAN = "layout cephfs stripe_count 4\nlayout cephfs stripe_unit 65536\nlayout cephfs object_size 4194304\n"


def test_cephfs_new_file_gets_its_layout(bench: Bench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path, CEPH_PLAN, PRETEND_MAGIC=CEPH)
    expected = "stripe_count=4 stripe_unit=65536 object_size=4194304"
    assert (tmp_path / "data.layout").read_text() == expected
    file = outcome.file("data")
    assert file["file_system"] == "ceph"
    assert file["layout"] == {
        "file_system": "cephfs",
        "stripe_count": 4,
        "stripe_unit": 65536,
        "object_size": 4194304,
    }
    setting = outcome.setting("data", "cephfs stripe_count")
    assert (setting["layer"], setting["given"], setting["outcome"]) == ("layout", "4", "applied")
    assert (tmp_path / "data").stat().st_size == RANKS * 1024


def test_cephfs_empty_file_is_laid_out_and_full_one_is_left(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    assert (
        run(bench, tmp_path, CEPH_PLAN, PRETEND_MAGIC=CEPH).setting("data", "cephfs stripe_unit")["outcome"]
        == "applied"
    )
    (tmp_path / "data.layout").unlink()
    inode = (tmp_path / "data").stat().st_ino
    setting = run(bench, tmp_path, CEPH_PLAN, PRETEND_MAGIC=CEPH).setting("data", "cephfs stripe_unit")
    assert (setting["outcome"], setting["given"]) == ("not_applicable", None)
    assert "not empty" in setting["note"]
    assert not (tmp_path / "data.layout").exists()
    assert (tmp_path / "data").stat().st_ino == inode


def test_exclusive_creation_is_never_prepared(bench: Bench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path, CEPH_PLAN, "exclusive", PRETEND_MAGIC=CEPH)
    setting = outcome.setting("data", "cephfs stripe_count")
    assert setting["outcome"] == "not_applicable" and "exclusively" in setting["note"]
    assert not (tmp_path / "data.layout").exists()
    assert outcome.file("data")["operations"]["write_at"]["bytes"] == RANKS * 1024


@pytest.mark.parametrize(
    ("plan", "note"),
    [
        ("layout cephfs stripe_count 99\n", "failed"),
        ("layout cephfs stripe_size 4\n", 'no layout key "stripe_size"'),
        (f"layout cephfs stripe_count {'1' * 600}\n", "too long"),
    ],
)
def test_cephfs_refusals_are_noted_and_the_file_is_written(bench: Bench, tmp_path: Path, plan: str, note: str) -> None:
    outcome = run(bench, tmp_path, plan, PRETEND_MAGIC=CEPH)
    (setting,) = outcome.file("data")["settings"]
    assert setting["outcome"] == "refused" and note in setting["note"]
    assert (tmp_path / "data").stat().st_size == RANKS * 1024


LUSTRE_PLAN = "layout lustre stripe_count 4\nlayout lustre stripe_size 1048576\nlayout lustre pool flash\n"


def test_lustre_new_file_is_created_by_lfs(bench: Bench, tmp_path: Path, lfs: dict[str, str]) -> None:
    outcome = run(bench, tmp_path, LUSTRE_PLAN, **lfs)
    calls = (tmp_path / "lfs.log").read_text().splitlines()
    assert calls[0] == f"getstripe -d {tmp_path}/"
    assert calls[1] == f"setstripe -c 4 -S 1048576 -p flash {tmp_path}/data"
    assert [call.split()[0] for call in calls[2:]] == ["getstripe"]
    assert {setting["outcome"] for setting in outcome.file("data")["settings"]} == {"applied"}
    layout = outcome.file("data")["layout"]
    assert (
        layout.items() >= {"file_system": "lustre", "stripe_count": 4, "stripe_size": 1048576, "head_size": 0}.items()
    )


def test_lustre_overstriping_replaces_the_count(bench: Bench, tmp_path: Path, lfs: dict[str, str]) -> None:
    run(bench, tmp_path, LUSTRE_PLAN + "layout lustre overstripe_count 8\nlayout lustre start_ost 2\n", **lfs)
    assert (tmp_path / "lfs.log").read_text().splitlines()[1] == (
        f"setstripe -C 8 -S 1048576 -p flash -i 2 {tmp_path}/data"
    )


def test_lustre_existing_file_is_left(bench: Bench, tmp_path: Path, lfs: dict[str, str]) -> None:
    (tmp_path / "data").touch()
    setting = run(bench, tmp_path, LUSTRE_PLAN, **lfs).setting("data", "lustre stripe_count")
    assert setting["outcome"] == "not_applicable" and "exists" in setting["note"]


@pytest.mark.parametrize(
    ("plan", "note"),
    [
        ("layout lustre stripe_count 99\n", "exit code 34: lfs setstripe: stripe count too large"),
        ("layout lustre stripe_count many\n", "not an integer"),
        ("layout lustre stripe_unit 5\n", 'no layout key "stripe_unit"'),
    ],
)
def test_lustre_refusals_are_noted(bench: Bench, tmp_path: Path, lfs: dict[str, str], plan: str, note: str) -> None:
    (setting,) = run(bench, tmp_path, plan, **lfs).file("data")["settings"]
    assert setting["outcome"] == "refused" and note in setting["note"]
    assert (tmp_path / "data").stat().st_size == RANKS * 1024


def test_without_lfs_the_reason_is_noted(bench: Bench, tmp_path: Path) -> None:
    setting = run(bench, tmp_path, LUSTRE_PLAN, PRETEND_MAGIC=LUSTRE).setting("data", "lustre pool")
    assert setting["outcome"] == "refused" and "lfs" in setting["note"]


def test_other_file_systems_are_told(bench: Bench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path, LUSTRE_PLAN + CEPH_PLAN, PRETEND_MAGIC="ef53")
    notes = {setting["note"] for setting in outcome.file("data")["settings"]}
    assert notes == {"the file is on ext4, not on lustre", "the file is on ext4, not on cephfs"}
    assert outcome.file("data")["layout"] is None


def test_beegfs_layouts_are_read_and_left_to_the_folder(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "beegfs-ctl"
    script.write_text(
        "#!/bin/sh\n"
        'echo "Stripe pattern details:"; echo "+ Type: RAID0"; echo "+ Chunksize: 512K"\n'
        'echo "+ Number of storage targets: desired: 4; actual: 4"; echo "+ Storage Pool: 1 (Default)"\n'
    )
    script.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "PRETEND_MAGIC": BEEGFS}
    outcome = run(bench, tmp_path, "layout beegfs chunk_size 1048576\n", **environment)
    setting = outcome.setting("data", "beegfs chunk_size")
    assert setting["outcome"] == "not_applicable" and "beegfs-ctl --setpattern" in setting["note"]
    assert outcome.file("data")["layout"] == {"file_system": "beegfs", "stripe_count": 4, "chunk_size": 512 << 10}
