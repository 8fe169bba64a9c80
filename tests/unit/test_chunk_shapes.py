"""Shapes of chunks that a run shows, and what they become in a space and in a script."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.carriers.runtime import HDF5
from stripewise.catalogue.meaning import parameters
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.workload import Workload
from stripewise.engine.binding import FirstRun
from stripewise.engine.space import Circumstances, as_used
from stripewise.observe.activity import FileActivity
from stripewise.observe.chunk_shapes import propose_shapes
from stripewise.output.export import export
from tests.conftest import require

SERIES = {"write": {"calls": 100, "bytes": 4 << 20, "box": [1, 64, 128]}, "read": {"calls": 9, "box": [100, 1, 1]}}


def file(*datasets: dict[str, Any], **more: Any) -> FileActivity:
    usual = {"name": "/field", "size": [100, 128, 128], "chunk": [1, 128, 128], "element_size": 4, "ranks": 2}
    return FileActivity.model_validate({"path": "/d.h5", "datasets": [usual | one for one in datasets], **more})


def test_shapes_follow_what_is_written_and_read() -> None:
    assert propose_shapes([file(SERIES)]) == {
        "writers": "writers:2x*/2x*",  # two ranks divide the rows, and one step is too few bytes
        "readers": "readers:*x2x*",
        "balanced": "balanced:13x16x*",
    }


def test_a_shape_is_neither_tiny_nor_larger_than_the_old_cache() -> None:
    for size, box in (([4096, 4096], [4096, 2048]), ([4096, 4096], [1, 1]), ([3, 5], [1, 1])):
        value = propose_shapes([file({"size": size, "write": {"box": box}, "chunk": [2, 2]})])["writers"]
        counts = [
            full if text == "*" else -(-full // int(text[2:])) if "/" in text else int(text)
            for text, full in zip(value.removeprefix("writers:").split("x"), size, strict=True)
        ]
        bytes_ = 4 * counts[0] * counts[1]
        assert bytes_ <= 1 << 20 and (bytes_ >= 1 << 16 or counts == size), value


def test_what_one_step_leaves_unfinished_fits_the_cache() -> None:
    # Chunks of eight steps would stay open until the eighth: 8 MiB of them, and each step would write all anew.
    large = {
        "size": [64, 512, 512],
        "chunk": [1, 512, 512],
        "write": {"box": [1, 512, 512]},
        "read": {"box": [64, 1, 16]},
    }
    assert propose_shapes([file(large)])["balanced"] == "balanced:1x32x*"
    assert propose_shapes([file(large | {"element_size": 1})])["balanced"] == "balanced:4x32x*"
    # The last chunk of a dimension ends with the dataset: it is full although it is shorter.
    odd = large | {"size": [64, 515, 515], "chunk": [1, 515, 515], "write": {"box": [1, 515, 515]}}
    assert propose_shapes([file(odd)])["balanced"] == "balanced:1x34x*"


def test_a_dataset_that_grows_has_no_whole() -> None:
    shapes = propose_shapes([file(SERIES, hdf5_calls={"dataset_extend": 100})])
    assert shapes and not any("*" in value for value in shapes.values())


def test_names_are_told_apart_only_where_shapes_differ() -> None:
    other = SERIES | {"write": {"bytes": 1, "box": [1, 128, 128]}, "read": None, "chunk": [2, 2, 2]}
    assert "=" not in propose_shapes([file(SERIES, SERIES | {"name": "/step1/b"})])["writers"]
    assert "," in (both := propose_shapes([file(SERIES, other | {"name": "/step1/b"})])["writers"])
    assert "step*/b=1x*x*" in both and "field=2x*/2x*" in both
    assert "evil" not in propose_shapes([file(SERIES, other | {"name": "/evil=1,*"})])["writers"]


def test_nothing_is_proposed_that_changes_nothing_or_was_not_seen() -> None:
    same = {"write": {"box": [1, 128, 128]}, "read": {"box": [1, 128, 128]}}
    assert propose_shapes([file(same)]) == {}
    assert propose_shapes([file({"write": {"box": []}})]) == {}
    whole = file(SERIES | {"chunk": []})
    assert propose_shapes([whole]) == {} and propose_shapes([whole], contiguous=True)


def test_words_become_values_after_the_first_run() -> None:
    parameter, shapes = parameters()["hdf5_chunk_shape"], propose_shapes([file(SERIES)])
    first = FirstRun(shapes=shapes)
    assert FirstRun.from_json(first.as_json()) == first
    known = Circumstances(Workload(operation="both"), shapes=shapes)
    assert as_used(parameter, replace(known, shapes=None), asked=False) == (parameter, "")
    found, why = as_used(parameter, known, asked=False)
    assert (why, found.values) == ("", ("own", *shapes.values()))
    assert "no other shape" in as_used(parameter, replace(known, shapes={}), asked=False)[1]
    writes = replace(known, workload=Workload(operation="write"))
    assert "readers" in as_used(parameter, writes, asked=False)[1]
    assert not as_used(parameter, writes, asked=True)[1]


def shaped(value: str) -> Plan:
    return Plan((Setting(HDF5, "chunk_shape", value), Setting(HDF5, "chunk_cache", "4194304")))


_WRITES = 'for new; do :; done; echo copy > "$new"'


@pytest.mark.parametrize("tool", ["h5repack", "nccopy"])
def test_an_export_copies_files_with_other_chunks(tool: str, tmp_path: Path) -> None:
    made = export(shaped("writers:fie*=*/2x3x*,2x9"), tool)
    assert "chunk_cache" in made.cannot[0] and len(made.cannot) == 1
    odd = "/a,b Dataset {7, 7}\n/c:d Dataset {7, 7}\n"  # the tools take , and : for ends of names
    listed = rf"printf '/          Group\n/g/field  Dataset {{10/Inf, 4, 8}}\n{odd}/b Dataset {{7, 7}}\n'"
    for name, answer in (("h5ls", listed), (tool, f"{_WRITES}; echo $*")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "script").write_text(made.text)
    done = subprocess.run(
        ["sh", str(tmp_path / "script"), "old", "new"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = {
        "h5repack": "-l g/field:CHUNK=5x3x8 -l b:CHUNK=2x7 old",
        "nccopy": "-M 0 -c g/field:5,3,8 -c b:2,7 old",
    }
    assert done.stdout.split()[:-1] == expected[tool].split()
    kept = f"keeps its chunks: {tool} takes no name with a comma or a colon\n"
    assert done.stderr == f"/a,b {kept}/c:d {kept}"


def test_a_copy_has_the_chunks_and_the_same_data(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    require(Path("/usr/bin/h5repack").exists(), "no h5repack: apt install hdf5-tools")
    old, new, script = tmp_path / "old.h5", tmp_path / "new.h5", tmp_path / "script"
    with h5py.File(old, "w", libver=("earliest", "v110")) as made:
        made.create_dataset("g/field one", data=[[i * j for j in range(9)] for i in range(40)], chunks=(1, 9))
    script.write_text(export(shaped("*/4x100"), "h5repack").text)
    subprocess.run(["sh", str(script), str(old), str(new)], check=True)
    with h5py.File(old) as before, h5py.File(new) as after:
        assert after["g/field one"].chunks == (10, 9)
        assert (after["g/field one"][:] == before["g/field one"][:]).all()


def test_a_netcdf_copy_has_chunks_below_the_tools_own_limit(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    require(shutil.which("nccopy") and shutil.which("h5ls"), "no nccopy: apt install netcdf-bin hdf5-tools")
    old, new, script, text = (tmp_path / name for name in ("old.nc", "new.nc", "script", "old.cdl"))
    text.write_text("netcdf old {\ndimensions: y=300; x=40;\ngroup: g { variables: float b(y, x); }\n}\n")
    subprocess.run(["ncgen", "-4", "-o", str(old), str(text)], check=True)
    script.write_text(export(shaped("*/15x20"), "nccopy").text)
    subprocess.run(["sh", str(script), str(old), str(new)], check=True)
    with h5py.File(new) as after:
        assert after["g/b"].chunks == (20, 20)


@pytest.mark.parametrize("tool", ["h5repack", "nccopy"])
def test_a_copy_takes_the_place_of_no_file(tool: str, tmp_path: Path) -> None:
    """nccopy empties a file of netCDF-3 before it reads it, where NEW is a link to it."""
    old, empty, new = (tmp_path / name for name in ("-old", "empty", "-new"))
    old.write_text("data")
    for name, text in (("h5ls", 'test -s "$2"'), (tool, _WRITES)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    empty.touch()
    (tmp_path / "hard").hardlink_to(old)
    (tmp_path / "soft").symlink_to(old)
    (tmp_path / "nowhere").symlink_to("missing")

    def code(*files: str) -> int:
        command = ["sh", "-c", export(shaped("*/4x100"), tool).text, "script", *files]
        path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        return subprocess.run(command, env=path, cwd=tmp_path, capture_output=True, check=False).returncode

    assert [code("-old", name) for name in ("-old", "./-old", "hard", "soft", "nowhere", "empty")] == [1] * 6
    assert code("empty", "-new"), "a file that cannot be listed gets no chunks"
    assert not new.exists() and not (tmp_path / "missing").exists() and old.read_text() == "data"
    assert code("-old", "-new") == 0
    assert new.read_text() == "copy\n"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(("how", "code"), [("INT", 130), ("TERM", 143), ("KILL", -9)])
def test_a_copy_that_is_interrupted_leaves_no_half_file(shell: str, how: str, code: int, tmp_path: Path) -> None:
    for name, text in (("h5ls", ":"), ("h5repack", f"{_WRITES}; kill -{how} $PPID")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    command = [shell, "-c", export(shaped("*/4x*"), "h5repack").text, "script", "old", "new"]
    done = subprocess.run(command, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=tmp_path, check=False)
    assert done.returncode == code
    assert not (tmp_path / "new").exists()
    assert bool([*tmp_path.glob("new.*")]) is (how == "KILL")


@pytest.mark.parametrize(
    "value", ["a) touch pwned ;; b=8x8", "a'$(touch pwned)'b=8x8", "b=*/a[$(touch pwned)]x8", "b=$(touch pwned)x8"]
)
def test_a_shape_is_no_shell(value: str, tmp_path: Path) -> None:
    (tmp_path / "h5ls").write_text("#!/bin/sh\nprintf '/a Dataset {7, 7}\\n/b Dataset {7, 7}\\n'\n")
    (tmp_path / "h5repack").write_text("#!/bin/sh\n")
    for name in ("h5ls", "h5repack"):
        (tmp_path / name).chmod(0o755)
    for shell in ("sh", "bash"):
        subprocess.run(
            [shell, "-c", export(shaped(value), "h5repack").text, "script", "old", "new"],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=tmp_path, capture_output=True, check=False,
        )  # fmt: skip
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_link_of_the_file_is_no_shell(shell: str, tmp_path: Path) -> None:
    # bash runs commands within numbers; h5ls prints the target of a link as it is
    target = r"x Dataset {old[$(touch${IFS}pwned)]/,8}"
    listed = f"/a\\ b Dataset {{7, 8/Inf}}\n/c Soft Link {{{target}}}\n/d Soft Link {{x\n/e Dataset {{{target}}}\n"
    for name, text in (("h5ls", f"cat <<'END'\n{listed}END"), ("h5repack", f'{_WRITES}; printf "%s|" "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [shell, "-c", export(shaped("*/4x*"), "h5repack").text, "script", "old", "new"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("-l|a b:CHUNK=2x8|old|new.")
    assert not (tmp_path / "pwned").exists()


def test_without_a_shape_there_is_nothing_to_copy() -> None:
    assert export(shaped("own"), "h5repack").empty
