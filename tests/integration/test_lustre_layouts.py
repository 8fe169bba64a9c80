"""Composite, overstriped and templated layouts of Lustre: what is asked for comes back from lfs and liblustreapi.

No Lustre runs here. ``tests/fixtures/bin/lfs`` answers in the form of Lustre 2.17, and the files of
``tests/fixtures/lustre`` hold what ``lfs getstripe -y`` prints there for the examples of lfs-setstripe(1).
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from stripewise.catalogue.filesystems import find_file_system
from stripewise.catalogue.stack import load_stack
from tests.integration.building import ROOT, checked, once

FIXTURES = ROOT / "tests" / "fixtures"
LUSTRE = find_file_system("lustre")
MIB = 1 << 20
RECORDED = sorted((FIXTURES / "lustre").glob("*.yaml"))


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build(folder: Path) -> None:
        cc = shutil.which("cc") or "gcc"
        core = ROOT / "native" / "core"
        lustre = [core / "layout_lustre.c", core / "input.c"]
        sources = [FIXTURES / "programs" / "lustre_layout.c", *lustre]
        paths = ["-I", core, "-I", core.parent / "include"]
        checked([cc, "-std=c11", *paths, *sources, "-o", folder / "tool", "-ldl", "-pthread"])
        checked([cc, "-shared", "-fPIC", FIXTURES / "preloads" / "fake_llapi.c", "-o", folder / "liblustreapi.so.1"])

    return once(tmp_path_factory, "lustre-layouts", build)


@pytest.fixture
def lfs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{FIXTURES / 'bin'}:{os.environ['PATH']}")


def lay_out(tool: Path, path: Path, **keys: object) -> dict[str, int]:
    """Ask for a layout, or only read it; gives what Lustre tells of the file."""
    asked = [f"{key}={value}" for key, value in keys.items()]
    done = subprocess.run([tool / "tool", path, *asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {key: int(value) for key, value in re.findall(r"(\w+)=(-?\d+)", done.stdout)}


def refused(tool: Path, path: Path, **keys: object) -> str:
    asked = [f"{key}={value}" for key, value in keys.items()]
    done = subprocess.run([tool / "tool", path, *asked], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and not path.exists()
    return done.stderr


@pytest.mark.usefixtures("lfs")
@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
def test_what_lfs_prints_is_understood_and_makes_the_same_file_again(
    tool: Path, tmp_path: Path, recorded: Path
) -> None:
    _, told, *_ = recorded.read_text("utf-8").splitlines()
    expected = {key: int(value) for key, value in re.findall(r"(\w+)=(-?\d+)", told)}
    assert lay_out(tool, tmp_path / "data", template=recorded) == expected


def shapes() -> list[dict[str, int]]:
    """Every end of a head that the stack offers, before plain and overstriped rests."""
    values = {p.name: [int(value) for value in p.values] for p in load_stack("lustre").parameters if p.unit == "B"}
    rests = [{"stripe_count": 8, "stripe_size": MIB}, {"overstripe_count": 64}, {"overstripe_count": -2}]
    heads = [(0, size) for size in values["mdt_size"]] + [
        (size, values["mdt_size"][-1]) for size in values["head_size"]
    ]
    return [
        {"mdt_size": mdt, "head_size": head, **rests[number % 3]} for number, (head, mdt) in enumerate(heads[:-1])
    ] + [{"mdt_size": 0, "head_size": heads[-1][0], **rests[0]}]


@pytest.mark.usefixtures("lfs")
def test_every_head_comes_back_from_the_runtime_and_from_the_exported_command(tool: Path, tmp_path: Path) -> None:
    for number, shape in enumerate(shapes()):
        told = lay_out(tool, tmp_path / f"runtime{number}", **shape)
        over = shape.get("overstripe_count", 0)
        count = over if over > 0 else 16 if over else 8
        wanted = {"mdt_size": shape["mdt_size"], "head_size": shape["head_size"], "stripe_count": count}
        assert wanted.items() <= told.items() and told["overstripe_count"] == (count if over else 0), shape
        words = {key: str(value) for key, value in shape.items() if value}
        assert not any(LUSTRE.refused(key, value, words) for key, value in words.items())
        (line,) = LUSTRE.for_file(words, str(tmp_path / f"command{number}"))
        subprocess.run(shlex.split(line), check=True)
        assert lay_out(tool, tmp_path / f"command{number}") == told


@pytest.mark.usefixtures("lfs")
def test_a_folders_own_head_stays_unless_one_is_asked_for(tool: Path, tmp_path: Path) -> None:
    own = ["-E", "1M", "-L", "mdt", "-E", "64M", "-c", "2", "-E", "eof", "-c", "8", "-p", "flash"]
    subprocess.run(["lfs", "setstripe", *own, tmp_path], check=True)
    told = lay_out(tool, tmp_path / "wide", stripe_count=16)
    assert (told["mdt_size"], told["head_size"], told["stripe_count"]) == (MIB, 64 * MIB, 16)
    text = (tmp_path / "wide.layout").read_text()
    assert re.findall(r"stripe_count:\s+(\d+)", text) == ["0", "2", "16"] and "pool:          flash" in text
    told = lay_out(tool, tmp_path / "none", mdt_size=0, head_size=0)
    assert (told["mdt_size"], told["head_size"], told["stripe_count"]) == (0, 0, 8)


@pytest.mark.usefixtures("lfs")
def test_a_pool_and_growing_components_reach_lfs(tool: Path, tmp_path: Path) -> None:
    told = lay_out(tool, tmp_path / "data", extension_size=64 * MIB, stripe_count=4, pool="disk", start_ost=3)
    assert (told["extension_size"], told["stripe_count"]) == (64 * MIB, 4)
    assert "pool:          disk" in (tmp_path / "data.layout").read_text()


@pytest.mark.usefixtures("lfs")
def test_layouts_that_cannot_be_are_refused_with_the_reason(tool: Path, tmp_path: Path) -> None:
    path = tmp_path / "data"
    assert "1 MiB" in refused(tool, path, head_size=65536)
    assert "16 times" in refused(tool, path, head_size=MIB * 16, mdt_size=MIB)
    assert "excludes" in refused(tool, path, template="x.lyl", stripe_count=2)
    subprocess.run(["lfs", "setstripe", "--yaml", FIXTURES / "lustre" / "mirrored.yaml", tmp_path], check=True)
    assert "mirrored" in refused(tool, path, stripe_count=2)
    assert LUSTRE.refused("head_size", str(MIB), {}).startswith("needs stripe_count")
    assert LUSTRE.refused("stripe_count", "4", {"template": "x.lyl"}) == "excludes template, which was kept"


def test_the_library_makes_the_same_components(tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tool))
    monkeypatch.setenv("FAKE_LLAPI_LOG", str(log))
    told = lay_out(tool, tmp_path / "a", overstripe_count=32, head_size=64 * MIB, mdt_size=MIB)
    assert told["mdt_size"] == MIB and told["head_size"] == 64 * MIB and told["overstripe_count"] == 32
    monkeypatch.setenv("FAKE_LLAPI_COMPOSITE", "1")
    lay_out(tool, tmp_path / "b", stripe_count=-1)
    heads = [line.split(maxsplit=2)[2] for line in log.read_text().splitlines()]
    assert heads == [f"mdt:{MIB} count=1 count=4 count=32", f"mdt:{MIB} count=-1"]
    assert "only the lfs command" in refused(tool, tmp_path / "c", overstripe_count=-2)


def test_each_component_of_a_script_has_its_keys() -> None:
    line = "lfs setstripe -E 64M -c 1 -E eof -c 8 -S 4M /scratch/out"
    assert list(LUSTRE.in_script(line.split())) == [
        (1, "stripe_count", "1"),
        (2, "stripe_count", "8"),
        (2, "stripe_size", "4M"),
    ]
    line = "lfs setstripe -E1M -L mdt --component-end=-1 -c 8 /scratch/out"
    assert list(LUSTRE.in_script(line.split())) == [(1, "mdt_size", "1M"), (2, "stripe_count", "8")]
