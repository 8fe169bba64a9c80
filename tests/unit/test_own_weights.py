"""A network that somebody else trained is read without PyTorch, and refused with the reason where it does not fit."""

from __future__ import annotations

import contextlib
import gzip
import json
import pickle
import random
import resource
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from stripewise.errors import UserError
from stripewise.models import own_weights
from stripewise.models.ann import read_pt
from stripewise.models.files import read_model_file
from stripewise.models.own_weights import read_weights
from stripewise.models.registry import load_model, make_model
from stripewise.models.table import Schema, make_table

NETWORKS = Path(__file__).parents[1] / "fixtures" / "networks"


def unpacked(name, folder):
    path = folder / f"{name}.pt"
    path.write_bytes(gzip.decompress((NETWORKS / f"{name}.pt.gz").read_bytes()))
    return path


def forward(layers, x):
    value = np.asarray(x, dtype=np.float64)
    for place, (weight, bias) in enumerate(zip(*layers, strict=True)):
        value = value @ weight.astype(np.float64).T + bias
        value = np.maximum(value, 0) if place < 2 else value
    return value[:, 0]


@pytest.mark.parametrize("name", ["state", "script"])
def test_a_network_of_pytorch_gives_what_it_gave_there(name, tmp_path):
    layers = read_weights(unpacked(name, tmp_path), 3)
    assert [weight.shape for weight in layers[0]] == [(256, 3), (128, 256), (1, 128)]
    # What PyTorch itself printed for these inputs.
    assert forward(layers, [[0.5, 0.25, 1.0], [1, 1, 1]]) == pytest.approx([-0.37587184, -0.37259829], abs=1e-6)


def test_a_network_of_another_shape_or_a_whole_module_is_refused_with_the_reason(tmp_path):
    with pytest.raises(UserError, match=r"is a network 3 - 256 - 128 - 1, and this table needs 7 - 256 - 128 - 1"):
        read_weights(unpacked("state", tmp_path), 7)
    with pytest.raises(UserError, match=r"an object of __main__\.Net.*state_dict"):
        read_weights(unpacked("whole", tmp_path), 3)
    other = tmp_path / "notes.pt"
    other.write_text("not a network")
    with pytest.raises(UserError, match=r"is not a \.pt file"):
        read_weights(other, 3)
    with pytest.raises(UserError, match="cannot read the model"):
        read_weights(tmp_path / "nothing.pt", 3)


class Evil:
    def __init__(self, made):
        self.made = made

    def __reduce__(self):
        return self.made


def archived(content, path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps(content, protocol=2))
    return path


def nested(depth):
    inner = {}
    for _ in range(depth):
        inner = {str(key): inner for key in range(50)}
    return inner


@pytest.mark.parametrize(
    "content",
    [
        Evil((__import__("os").system, ("touch made-by-the-file",))),
        Evil((eval, ("open('made-by-the-file', 'w')",))),
        OrderedDict(weight=Evil((getattr, (str, "join")))),
        nested(8),
        [1, 2, 3],
        "text",
    ],
)
def test_a_file_runs_nothing_and_cannot_hold_up_its_reader(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError):
        read_weights(archived(content, tmp_path / "own.pt"), 3)
    assert not (tmp_path / "made-by-the-file").exists()


@pytest.mark.parametrize("remembered", [b"]" + 500 * b"h\x00Qa", b"Nr\xff\xff\xff\x07"], ids=["repeated", "far"])
def test_a_small_file_does_not_fill_the_memory(remembered, tmp_path):
    storage = b"\x80\x02(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x01tq\x000"
    with zipfile.ZipFile(tmp_path / "own.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", storage + remembered + b".")
        archive.writestr("x/data/0", bytes(4 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError):
        read_weights(tmp_path / "own.pt", 3)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20


@pytest.mark.parametrize("bits", [1, 0x20, 0x41])
def test_an_archive_that_is_encrypted_or_patched_is_refused_in_one_line(bits: int, tmp_path):
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02}.")
    data = bytearray(path.read_bytes())
    for place, mark in ((6, b"PK\3\4"), (8, b"PK\1\2")):
        data[data.index(mark) + place] |= bits
    path.write_bytes(data)
    with pytest.raises(UserError, match="damaged"):
        read_weights(path, 3)


@pytest.mark.parametrize("pickled", [b"T\0", b"\x95", b"\x8e\0"])
def test_a_pickle_that_ends_too_soon_is_refused_in_one_line(pickled: bytes, tmp_path):
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02" + pickled)
    with pytest.raises(UserError, match="damaged"):
        read_weights(tmp_path / "m.pt", 3)


@pytest.mark.parametrize("name", [b"_rebuild_parameter", b"_rebuild_tensor_v2"])
def test_a_file_changes_nothing_of_its_reader(name, tmp_path):
    with zipfile.ZipFile(tmp_path / "own.pt", "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02ctorch._utils\n" + name + b"\nN}U\x01xK\x07s\x86b.")
    with pytest.raises(UserError, match="attributes of an unknown object"):
        read_weights(tmp_path / "own.pt", 3)
    assert not vars(own_weights._make_parameter) and not vars(own_weights._make_tensor)


def test_a_tensor_of_no_known_shape_is_refused(tmp_path):
    text = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\x00K\x00(]K\x00aJ\xff\xff\xff\x7ft(K\x01ttR."
    with zipfile.ZipFile(tmp_path / "own.pt", "w") as archive:
        archive.writestr("x/data.pkl", text)
    with pytest.raises(UserError, match="unknown shape"):
        read_weights(tmp_path / "own.pt", 3)


@pytest.mark.parametrize("key", [b"K\x01", b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x1f", b")", b"N"])
def test_keys_that_could_share_a_hash_are_refused(key: bytes, tmp_path):
    """Numbers and tuples do at will: 60 KiB of them took seconds, a MiB a quarter of an hour."""
    with zipfile.ZipFile(tmp_path / "own.pt", "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02}(" + key + b"Nu.")
    for read in (lambda path: read_weights(path, 3), read_pt):
        with pytest.raises(UserError, match="a key that is not a text"):
            read(tmp_path / "own.pt")


def saved(head, arrays, path):
    """Write what PyTorch writes of a text and tensors."""
    types = {"float32": "FloatStorage", "float64": "DoubleStorage", "int64": "LongStorage"}

    def text(word):
        raw = word.encode()
        return b"X" + struct.pack("<I", len(raw)) + raw

    def number(value):
        return b"J" + struct.pack("<i", value)

    pickled = b"\x80\x02}(" + text("stripewise") + text(head)
    with zipfile.ZipFile(path, "w") as archive:
        for place, (name, array) in enumerate(arrays.items()):
            kind = b"ctorch\n" + types[array.dtype.name].encode() + b"\n"
            storage = b"(" + text("storage") + kind + text(str(place)) + text("cpu") + number(array.size) + b"tQ"
            shape = b"(" + b"".join(map(number, array.shape)) + b"t"
            strides = b"(" + b"".join(number(part // array.itemsize) for part in array.strides) + b"t"
            hooks = b"\x89ccollections\nOrderedDict\n)R"
            pickled += (
                text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00" + shape + strides + hooks
            )
            pickled += b"tR"
            archive.writestr(f"m/data/{place}", array.tobytes())
        archive.writestr("m/data.pkl", pickled + b"u.")
    return path


def test_a_model_in_pytorchs_format_is_read_without_pytorch_and_checked_as_others_are(tmp_path):
    model = make_model("ann", {"weights": str(unpacked("state", tmp_path))}).fit(table())
    model.save(tmp_path / "own.model")
    stored = read_model_file(tmp_path / "own.model")
    head, path = json.dumps(stored.head), saved(json.dumps(stored.head), stored.arrays, tmp_path / "m.pt")
    again = load_model(path)
    assert np.array_equal(again.predict_table(table()).value, model.predict_table(table()).value)
    rng = random.Random(0)
    with zipfile.ZipFile(path) as archive:
        pickled = archive.read("m/data.pkl")
        data = {name: archive.read(name) for name in archive.namelist() if "/data/" in name}
    for _ in range(200):
        changed = bytearray(pickled)
        for _ in range(rng.choice((1, 3))):
            changed[rng.choice((rng.randrange(len(changed)), rng.randrange(len(head), len(changed))))] = rng.randrange(
                256
            )
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in {"m/data.pkl": bytes(changed), **data}.items():
                archive.writestr(name, content)
        with contextlib.suppress(UserError):
            load_model(path).predict_table(table())


def table():
    rows = [
        {"nodes": nodes, "cb_nodes": cb, "romio_cb_write": how, "bandwidth": 100.0 * nodes * (2 if how else 1)}
        for nodes in (1, 2, 4)
        for cb in (1, 2, 4)
        for how in (True, False)
    ]
    schema = {
        "name": "writes",
        "objective": {"column": "bandwidth", "direction": "maximize", "unit": "MiB/s"},
        "context": [{"name": "nodes", "kind": "ordinal", "role": "nodes", "values": [1, 2, 4]}],
        "parameter": [
            {"name": "cb_nodes", "kind": "ordinal", "role": "aggregators", "values": [1, 2, 4], "default": 1},
            {"name": "romio_cb_write", "kind": "categorical", "values": [True, False], "default": True},
        ],
    }
    return make_table(Schema.model_validate(schema), rows)


def test_it_is_a_model_of_a_table_with_the_tables_scale_and_is_kept_without_pytorch(tmp_path):
    path = unpacked("state", tmp_path)
    model = make_model("ann", {"weights": str(path)})
    model.fit(table())
    (network,) = model.networks.values()
    assert list(network.inputs[:2]) == [4, 4] and network.output == pytest.approx(800)
    # The weights are random: what the table shows says so.
    assert network.spread > 0.5
    model.save(tmp_path / "own.model")
    path.unlink()
    again = load_model(tmp_path / "own.model")
    point = {"nodes": [2], "cb_nodes": [1], "romio_cb_write": [True]}
    points = again.domain.points(point)
    assert again.expected(points) == pytest.approx(model.expected(points))
