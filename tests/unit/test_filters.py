"""The choice of a filter for a dataset."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.main import main
from stripewise.diagnose import filters as evaluated
from stripewise.diagnose.filters import Filter, Measured, chunk_shape, expect, find_best, read_sample, round_reals
from tests.conftest import require


def of(name: str, ratio: float, rate: float) -> Measured:
    cost = 0.0 if rate == np.inf else 1 / rate
    return Measured(Filter(((name, "1"),) if name else ()), np.full(8, ratio), np.full(8, cost), np.full(8, cost / 4))


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        arrays(np.float64, 40, elements=st.floats(allow_subnormal=True)),
        arrays(np.float32, 40, elements=st.floats(width=32, allow_subnormal=True)),
    ),
    st.floats(1e-37, 1e300),
)
def test_no_real_is_rounded_by_more_than_the_accuracy(values, accuracy):
    found = round_reals(values, accuracy)
    finite = np.isfinite(values)
    assert found.dtype == values.dtype
    assert np.array_equal(found[~finite], values[~finite], equal_nan=True)
    with np.errstate(over="ignore"):
        assert np.all(np.abs(found[finite].astype(float) - values[finite].astype(float)) <= accuracy)


def test_a_filter_pays_where_storage_is_slower_than_what_it_saves():
    measured = [of("", 1.0, np.inf), of("slow", 0.1, 50e6), of("fast", 0.25, 400e6)]
    found = expect(measured, [100e6], processes=1)
    assert [entry.filter.name for entry in found] == ["fast 1", "none", "slow 1"]
    assert found[0].speedup == pytest.approx(2.0) and find_best(found) is found[0]
    assert find_best(expect(measured, [2e9], processes=1)).filter.name == "none"
    # Twenty processes share the work of the filter, not the bandwidth; each reading costs a quarter of a writing.
    assert find_best(expect(measured, [100e6], processes=20)).filter.name == "slow 1"
    assert expect(measured, [100e6], processes=1, reads=1)[0].speedup == pytest.approx(20 / (2.5 + 0.625 + 5))


def test_a_gain_within_the_noise_of_the_bandwidth_is_no_reason_for_a_filter():
    measured = [of("", 1.0, np.inf), of("little", 0.5, 220e6)]
    assert find_best(expect(measured, [100e6, 101e6], processes=1)).filter.name == "little 1"
    noisy = find_best(expect(measured, [20e6, 40e6, 180e6, 180e6], processes=1))
    assert noisy.filter.name == "none"


def test_chunks_keep_the_fastest_dimensions_whole():
    # tests/integration/test_runtime_hdf5.py compares with what the runtime does.
    assert chunk_shape((128, 256), 8, 65536) == (32, 256)
    assert chunk_shape((5, 3, 1000), 8, 64) == (1, 1, 8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    require(find_spec("h5py"), "no h5py: pip install h5py")
    import h5py

    rng = np.random.default_rng(0)
    smooth = np.sin(np.linspace(0, 9, 1 << 15)) + rng.normal(0, 1e-4, 1 << 15)
    smooth[[5, 6, 7]] = np.nan, np.inf, 5e-324
    with h5py.File(tmp_path / "data.h5", "w") as made:
        made["run/smooth"] = smooth.reshape(128, 256)
        made["noise"] = rng.integers(-(2**31), 2**31 - 1, 1 << 14, dtype="i4")
        made.create_dataset("own", data=np.zeros(4096), chunks=(512,), compression=1)
        made["title"] = "a text"
    return tmp_path / "data.h5"


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> dict:
    assert main(["site", "filters", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_plan_holds_the_choice_for_the_dataset(file, tmp_path, capsys):
    words = (file, "--dataset", "smo*", "--accuracy", "1e-3", "--bandwidth", "1MiB/s", "--processes", 2, "--collective")
    found = asked(capsys, *words, "--chunk-size", "64 KiB", "-o", tmp_path / "a.plan")
    plan = Plan.parse((tmp_path / "a.plan").read_text(), "a.plan")
    keys = {setting.key: setting.value for setting in plan.settings}
    assert keys.pop("deflate") in "149" and found["plan"] == plan.text()
    assert keys == {
        "datasets": "smo*", "chunk_size": "65536", "accuracy": "0.001", "shuffle": "true",
        "collective_writes": "true",
    }  # fmt: skip
    by_name = {entry["filter"]: entry for entry in found["filters"]}
    assert by_name["accuracy 0.001 shuffle deflate 1"]["ratio"] < by_name["shuffle deflate 1"]["ratio"] / 2
    # HDF5's filter for digits of reals breaks the accuracy: it is never a choice.
    assert not any("scaleoffset" in name for name in by_name)
    assert found["dataset"] == "/run/smooth" and found["sampled"] == 1
    assert main(["site", "filters", *map(str, words), "-o", str(tmp_path / "b.plan")]) == 0
    printed = capsys.readouterr().out
    assert "hdf5 deflate" not in printed and f"written: {tmp_path / 'b.plan'}\n" in printed
    table = printed[printed.index("filter ") : printed.index("note: ")].splitlines()
    assert len(table) == 8 and max(map(len, table)) <= 80


def test_nothing_is_chosen_for_noise_or_fast_storage(file, capsys):
    for words in (["--dataset", "noise", "--bandwidth", "1MiB"], ["--bandwidth", "1 TiB"]):
        found = asked(capsys, file, *words)
        assert found["chosen"] == "none" and "hdf5" not in found["plan"]


def test_a_dataset_with_filters_of_its_own_is_named(file, capsys):
    found = asked(capsys, file, "--dataset", "own", "--bandwidth", "1MiB")
    assert any("filters this dataset itself" in note for note in found["notes"])
    assert "chunk_size" not in found["plan"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "bandwidth of the storage is not known"),
        (["--bandwidth", "1GiB", "--dataset", "title"], "no dataset of numbers called title"),
        (["--bandwidth", "1GiB", "--dataset", "t*"], "no dataset of numbers that t* matches"),
        (["--bandwidth", "1GiB", "--plugin", "12"], "--plugin 12 is not the number of a filter"),
        (["--bandwidth", "1GiB", "--plugin", "65000"], "HDF5_PLUGIN_PATH"),
        (["--bandwidth", "1GiB", "--chunk-size", "0"], "--chunk-size 0 is not possible"),
        (["--from", "none.json"], "none.json is not a report"),
        (["--bandwidth", "1GiB", "--accuracy", "0"], "--accuracy 0.0 is not possible"),
    ],
)
def test_wrong_use_says_what_to_do(file, capsys, words, text):
    assert main(["site", "filters", str(file), *words]) == 2
    assert text in " ".join(capsys.readouterr().err.split())


def test_h5py_is_named_where_it_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert main(["site", "filters", str(tmp_path / "data.h5"), "--bandwidth", "1GiB"]) == 2
    assert "pip install '.[hdf5]'" in capsys.readouterr().err


def hostile(h5py, made, kind):
    """Write what a file may claim, or what it may lead to."""
    if kind == "external":
        made.create_dataset("x", (1000,), "i1", external=[("/dev/zero", 0, 1000)])
    elif kind == "virtual":
        layout = h5py.VirtualLayout((1000,), "i1")
        layout[:] = h5py.VirtualSource("/dev/zero", "x", (1000,))
        made.create_virtual_dataset("x", layout)
    elif kind == "chunk":
        made.create_dataset("x", (2**29 - 1,), "f8", chunks=(2**29 - 1,), compression="gzip")
    elif kind == "endless":
        made.create_dataset("x", (2**62, 2**40), "i1", chunks=(1, 1))
    elif kind == "name":
        made["a\x1b]0;x\x07\nenv LD_PRELOAD x.so"] = range(1000)
    elif kind == "bytes":
        h5py.h5d.create(made.id, b"\xff\xfe", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((1000,)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("external", "lie in other files"),
        ("virtual", "lie in other files"),
        ("chunk", "has chunks of 4095 MiB"),
        ("endless", ""),
        ("name", "no dataset of numbers"),
        ("bytes", "no dataset of numbers"),
    ],
)
def test_a_hostile_file_is_refused_with_one_line(tmp_path, kind, text):
    require(find_spec("h5py"), "no h5py: pip install h5py")
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as made:
        hostile(h5py, made, kind)
    told, blocks = read_sample(tmp_path / "a.h5", None, 1 << 20, 1 << 20)
    assert text in told["error"][0] if text else sum(block.size for block in blocks.values()) <= 16


def test_a_file_is_read_by_a_child_that_may_end(file, tmp_path, capfd, monkeypatch):
    # A pipe would never end, and the library may crash on a file.
    os.mkfifo(tmp_path / "pipe.h5")
    for path, text in ((tmp_path / "pipe.h5", "is not a regular file"), (file, "its reader ended with 7")):
        monkeypatch.setattr(evaluated, "python", lambda *_: ["/bin/sh", "-c", "exit 7"])
        assert main(["site", "filters", str(path), "--bandwidth", "1GiB"]) == 2
        assert text in " ".join(capfd.readouterr().err.split())
