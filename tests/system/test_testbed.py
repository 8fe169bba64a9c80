"""The test bed is what its users rely on: stripes add bandwidth, a slow OSD is felt, nodes see their own clients."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stripewise.observe.left import PREFIX
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import read_report_file
from tests.conftest import require
from tests.integration.test_observer import accelerator  # noqa: F401  a fixture
from tests.system.testbed.bed import Bed
from tests.system.testbed.placement import object_hash, settled, spread_file
from tests.system.testbed.processes import BedError, of_bed, pid_in, running
from tests.system.testbed.slurm import installed

MEBI = 1 << 20
pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.testbed, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    require(os.geteuid() == 0 and installed(), "the test bed needs root, Slurm and Ceph (make cluster-up says which)")
    bed = Bed(Path("/var/tmp/stripewise-testbed-test"))
    try:
        bed.up()
        yield bed
    finally:
        bed.down()


def written(path: Path, mebibytes: int) -> float:
    """MB/s of one writer, synchronised."""
    block = bytes(4 * MEBI)
    started = time.monotonic()
    with path.open("r+b", buffering=0) as stream:
        for _ in range(mebibytes // 4):
            stream.write(block)
        os.fsync(stream.fileno())
    return mebibytes * MEBI / 1e6 / (time.monotonic() - started)


def test_placement_is_what_ceph_says(bed: Bed) -> None:
    primaries = settled(bed.ceph)
    for name in ("10000000000.00000000", "10000000abc.00000003", "short", "exactly12byt"):
        told = bed.ceph.ceph("osd", "map", "data", name, "-f", "json")
        expected = int(told.split('"acting_primary":')[1].split("}")[0].split(",")[0])
        assert primaries[object_hash(name.encode()) % len(primaries)] == expected


def test_stripes_add_bandwidth_and_a_slow_one_takes_it(bed: Bed) -> None:
    primaries = settled(bed.ceph)
    rates = {}
    for stripes in (1, 4):
        path = bed.ceph.mount(1) / f"striped{stripes}"
        osds = spread_file(path, stripes, MEBI, primaries)
        assert len(set(osds)) == stripes
        rates[stripes] = written(path, 32 * stripes)
    assert rates[1] < 60, "the throttle does not hold"
    assert rates[4] > 2 * rates[1]
    bed.ceph.throttle(3, 10)
    try:
        slow = written(bed.ceph.mount(1) / "striped4", 128)
    finally:
        bed.ceph.throttle(3, bed.rate)
    assert slow < 0.75 * rates[4]


def test_every_node_has_a_client_of_its_own(bed: Bed) -> None:
    (bed.ceph.mount(1) / "seen").write_text("by all")
    line = f"cat {bed.shared}/seen; echo; stat -f -c %T {bed.shared}; echo $SLURMD_NODENAME"
    told = bed.slurm.ask("srun", "-N4", "sh", "-c", line, timeout=60).split("\n")
    assert told.count("by all") == bed.nodes
    assert {f"n{number}" for number in range(1, bed.nodes + 1)} <= set(told)
    assert not list(bed.shared.iterdir()), "outside a job the folder is empty"


def daemons(bed: Bed) -> dict[str, int]:
    files = [*bed.folder.glob("*.pid"), *bed.slurm.folder.glob("*.pid")]
    return {file.name: pid for file in files if (pid := pid_in(file))}


def test_a_second_start_changes_nothing(bed: Bed) -> None:
    before = daemons(bed)
    assert len(before) == 3 + 4 + 2 + bed.nodes, "monitor, manager, metadata server; OSDs; munge, slurmctld; nodes"
    bed.up()
    assert daemons(bed) == before


def test_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BedError, match="needs root"):
        Bed(tmp_path / "bed").up()


def test_one_bed_a_host(bed: Bed, tmp_path: Path) -> None:
    with pytest.raises(BedError, match="already up in"):
        Bed(tmp_path / "another").up()


def test_new_files_of_programs_without_mpi_are_laid_out(bed: Bed, accelerator: Path, tmp_path: Path) -> None:  # noqa: F811
    folder = bed.ceph.mount(1) / "posix"
    folder.mkdir()
    (folder / "old").touch()
    program = """
import os
for name in ("new", "old", "own"):
    fd = os.open(name, os.O_CREAT | os.O_WRONLY | (os.O_EXCL if name == "own" else 0), 0o640)
    os.write(fd, name.encode())
    os.close(fd)
"""
    variables = {
        "LD_PRELOAD": str(accelerator),
        "STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}",
        "STRIPEWISE_LAYOUT": "cephfs stripe_count=2,cephfs stripe_unit=65536,cephfs object_size=1048576",
        "STRIPEWISE_POSIX_FILES": f"{folder}/*",
    }
    words = [sys.executable, "-S", "-E", "-c", program]
    subprocess.run(words, cwd=folder, env={**os.environ, **variables}, check=True, timeout=120)
    assert merge_parts(tmp_path, tmp_path / "report.json")
    files = {Path(f.path).name: f for f in read_report_file(tmp_path / "report.json").files if f.settings}
    asked = {"stripe_count": 2, "stripe_unit": 65536, "object_size": 1048576}
    for name, (acted, layout) in {"new": (1, asked), "own": (1, asked), "old": (0, {"stripe_count": 1})}.items():
        assert {setting.acted for setting in files[name].settings} == {acted}, files[name].settings
        told = files[name].layout
        assert told is not None and layout.items() <= told.items()
        for key, number in layout.items():
            assert os.getxattr(folder / name, f"ceph.file.layout.{key}") == str(number).encode()
        assert (folder / name).read_text() == name
    mask = os.umask(0o022)
    os.umask(mask)
    assert (folder / "new").stat().st_mode & 0o777 == 0o640 & ~mask


def test_down_leaves_nothing(bed: Bed) -> None:
    # The last one: it ends the bed of this file.
    pids = list(daemons(bed).values())
    bed.down()
    assert not bed.folder.exists()
    assert of_bed(bed.folder) == []
    assert not any(running(pid) for pid in pids)
    assert str(bed.folder) not in Path("/proc/mounts").read_text()
