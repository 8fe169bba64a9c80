"""DAOS and Spectrum Scale through fake commands; neither was run for real."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import LAYOUT, LOST, Program, Setting
from stripewise.catalogue.filesystems import find_file_system, gpfs, network_label, of_file, type_names
from stripewise.catalogue.filesystems.base import mount_source, mount_type
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.workload import Workload
from stripewise.engine.space import default_stacks
from stripewise.output.export import export
from stripewise.runners.injection import inject

DAOS = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked"
case $2 in get-attr) printf 'Object Class = RP_2GX\\nObject Chunk Size = 1048576\\n';; esac
"""
MMLSFS = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked"
cat <<END
flag                value                    description
------------------- ------------------------ -----------------------------------
 -B                 8388608                  Block size
 -f                 16384                    Minimum fragment (subblock) size in bytes
 -r                 1                        Default number of data replicas
END
"""
MOUNTS = """22 1 8:1 / / rw - ext4 /dev/sda1 rw
40 22 0:50 / /gpfs/my\\040data rw shared:5 - gpfs /dev/data0 rw
41 22 0:51 / /mnt/dfuse rw - fuse.daos dfuse rw
"""
LAYOUTS = (Setting(LAYOUT, "object_class", "SX", "dfuse"), Setting(LAYOUT, "chunk_size", "4194304", "dfuse"))


def fake(folder: Path, name: str, text: str) -> Path:
    command = folder / name
    command.write_text(text)
    command.chmod(0o755)
    return command


def told(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def asked(tool: Path) -> list[str]:
    return (tool.parent / "asked").read_text().splitlines()


def test_they_are_recognised_by_their_mounts(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    folder = Path("/gpfs/my data/run")
    assert (mount_type(folder, mounts), mount_source(folder, mounts)) == ("gpfs", "/dev/data0")
    dfuse = of_file(mount_type(Path("/mnt/dfuse/x"), mounts))
    assert dfuse is find_file_system("dfuse") and of_file(None, "DAOS: ROMIO driver") is dfuse
    assert of_file("gpfs") is find_file_system("gpfs") and "GPFS" in network_label(0x47504653)
    assert {"gpfs", "daos"} <= set(type_names()) and mount_source(folder, tmp_path / "none") == ""
    assert default_stacks("romio", Workload(file_system="fuse.daos")) == ["romio", "dfuse"]
    # Nothing can be laid out there, and the variables of the stack gpfs are for those who name it.
    assert default_stacks("romio", Workload(file_system="gpfs")) == ["romio"]


def test_a_directory_of_daos_is_laid_out_by_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = fake(tmp_path, "daos", DAOS)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    made = export(Plan(LAYOUTS), "lfs", directory=str(tmp_path / "my run"))
    told(["sh", "-eu", "-c", made.text])
    told(["sh", "-eu", "-c", made.undo])
    place = f"--path={tmp_path}/my run"
    assert asked(tool) == [
        f"fs get-attr {place}",
        f"fs set-attr --oclass=SX --chunk-size=4194304 {place}",
        f"fs reset-attr {place}",
    ]
    assert find_file_system("dfuse").for_file({"chunk_size": "131072"}, "/d/a b") == [
        "daos fs set-attr --chunk-size=131072 --path='/d/a b'"
    ]
    found = find_file_system("dfuse").look(tmp_path, str(tool), told)
    assert found is not None and found.text == "Object Class = RP_2GX, Object Chunk Size = 1048576"
    assert export(Plan(LAYOUTS), "hints").text.split() == [
        "romio_daos_obj_class",
        "SX",
        "romio_daos_chunk_size",
        "4194304",
    ]


@pytest.mark.parametrize(
    ("key", "value"), [("object_class", "sx"), ("object_class", "-x"), ("chunk_size", "4k"), ("width", "1")]
)
def test_what_daos_refuses_is_refused_before(key: str, value: str) -> None:
    made = export(Plan((Setting(LAYOUT, key, value, "dfuse"),)), "lfs")
    assert made.empty and made.cannot[0].startswith(f"{key}={value} is not ")


def test_the_runtime_lays_out_nothing_on_daos() -> None:
    injection = inject(Plan(LAYOUTS), Program("mpich", "romio"), Path("/lib.so"), Path("/run"))
    assert [entry.by for entry in injection.carried] == [LOST] * 2
    assert "lfs export" in injection.lost[0].wins


def test_spectrum_scale_tells_its_block_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = fake(tmp_path, "mmlsfs", MMLSFS)
    monkeypatch.setattr(gpfs, "mount_source", lambda path: "/dev/data0")
    system = find_file_system("gpfs")
    found = system.look(tmp_path, str(tool), told)
    assert found is not None and found.status == "ok"
    assert found.text == "no layout to choose; block size 8388608, subblock size 16384, copies of data 1"
    assert asked(tool) == ["data0 -B -f -r"]
    failed = system.look(tmp_path, str(tool), lambda words: "")
    assert failed is not None and failed.status == "note" and "mmlsfs data0 failed" in failed.text
    missing = system.look(tmp_path, None, told)
    assert missing is not None and "/usr/lpp/mmfs/bin" in missing.fix
