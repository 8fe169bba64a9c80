"""Artifacts with known preferences, for the runtime to prescribe from."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from stripewise.formats import ARTIFACT_NONE, CONTEXT, TUNABLE, WORD, Op
from stripewise.models.artifact.content import Artifact, ArtifactInput, InputValue, Member, Texts, TreeBlock
from stripewise.models.artifact.file import save_artifact
from stripewise.models.artifact.program import OUTPUT, apply, constant, read

MIB = 1 << 20


def _tree(feature: int, threshold: float, low: float, high: float) -> TreeBlock:
    """One split: ``low`` where the feature is at most the threshold."""
    return TreeBlock(
        np.asarray([threshold, low, high], np.float32),
        np.asarray([feature, ARTIFACT_NONE, ARTIFACT_NONE], np.uint32),
        np.asarray([2, 0, 0], np.uint32),
    )


def save_model(
    folder: Path, *, layer: str = "lustre", gains: dict[str, float] | None = None, margin: float = 0.05
) -> Path:
    """Write an artifact over hints and a layout; ``gains`` are in ln(bandwidth).

    ``cb_write``: of romio_cb_write=disable. ``cb_nodes``: of more than two aggregators. ``stripes``: of more than two
    stripes, for writes. ``large``: of any of it, where the file has more than 1 MiB.
    """
    worth = {"cb_write": 0.4, "cb_nodes": 0.2, "stripes": 0.8, "large": 0.0} | (gains or {})
    texts = Texts()
    operations = tuple(InputValue(float(texts.code(word)), word) for word in ("read", "write"))
    words = tuple(InputValue(float(texts.code(word)), word) for word in ("automatic", "disable", "enable"))
    counts = tuple(InputValue(float(n), str(n)) for n in (1, 2, 4))
    sizes = tuple(InputValue(float(n), str(n)) for n in (MIB // 4, 4 * MIB))
    names = ("operation", "file_size", "stripe_count", "romio_cb_write", "cb_nodes", "ranks")
    operation, size, stripes, cb_write, cb_nodes, _ = (read(n) for n, _ in enumerate(names))
    writes = apply(Op.EQUAL, operation, constant(float(texts.code("write"))))
    features = (
        apply(Op.EQUAL, cb_write, constant(float(texts.code("disable")))),
        cb_nodes,
        apply(Op.MULTIPLY, stripes, writes),
        apply(Op.LOG2, size),
    )
    member = Member(
        features,
        trees=(
            _tree(0, 0.5, 0.0, worth["cb_write"]),
            _tree(1, 2.5, 0.0, worth["cb_nodes"]),
            _tree(2, 2.5, 0.0, worth["stripes"]),
            _tree(3, 20.5, 0.0, worth["large"]),
        ),
        base=4.0,
    )
    artifact = Artifact(
        name="known preferences",
        identifier="test",
        objective="bandwidth",
        unit="MiB/s",
        maximize=True,
        margin=constant(margin),
        inputs=(
            ArtifactInput("operation", CONTEXT, "operation", categorical=True, values=operations),
            ArtifactInput("file_size", CONTEXT, "file_size", "B", values=sizes),
            ArtifactInput(
                "stripe_count", TUNABLE, "stripe_count", values=counts, carrier="layout", layer=layer,
                key="stripe_count", cost=0.1, free=writes,
            ),
            ArtifactInput(
                "romio_cb_write", TUNABLE, categorical=True, values=words, carrier="hint", key="romio_cb_write"
            ),
            ArtifactInput("cb_nodes", TUNABLE, "aggregators", values=counts, carrier="hint", key="cb_nodes", cost=0.1),
            ArtifactInput("processes", WORD),
        ),
        members=(member,),
        result=apply(Op.EXP, OUTPUT),
        texts=texts,
    )  # fmt: skip
    path = folder / "known.swm"
    save_artifact(artifact, path)
    return path


def save_hdf5_model(folder: Path) -> Path:
    """Write an artifact that knows of HDF5: alignment, collective metadata, chunks, the chunk cache, and a hint.

    The logarithms of the gains for writes are 0.8, 0.4 (each), and 0.2 for the hint; for reads 0.8 for the cache.
    ``all_coll_metadata_ops`` would gain 2, and no model may choose it inside a program.
    """
    texts = Texts()
    operations = tuple(InputValue(float(texts.code(word)), word) for word in ("read", "write"))
    flags = tuple(InputValue(float(texts.code(word)), word) for word in ("false", "true"))
    words = tuple(InputValue(float(texts.code(word)), word) for word in ("automatic", "disable"))
    names = ("operation", "alignment", "coll_metadata_write", "chunk_size", "chunk_cache", "all_coll_metadata_ops")
    levels = {"alignment": (1, 65536), "chunk_size": (0, 4096), "chunk_cache": (MIB, 4 * MIB)}
    operation, *properties, cb_write = (read(n) for n in range(len(names) + 1))
    writes = apply(Op.EQUAL, operation, constant(float(texts.code("write"))))
    code = {name: values[-1].number for name, values in (("flag", flags), ("hint", words))}
    acts = [
        apply(Op.MULTIPLY, apply(Op.GREATER, properties[0], constant(1.0)), writes),
        apply(Op.MULTIPLY, apply(Op.EQUAL, properties[1], constant(code["flag"])), writes),
        apply(Op.MULTIPLY, apply(Op.GREATER, properties[2], constant(0.0)), writes),
        apply(Op.MULTIPLY, apply(Op.GREATER, properties[3], constant(float(MIB))), apply(Op.NOT, writes)),
        apply(Op.EQUAL, properties[4], constant(code["flag"])),
        apply(Op.MULTIPLY, apply(Op.EQUAL, cb_write, constant(code["hint"])), writes),
    ]
    gains = (0.8, 0.4, 0.4, 0.8, 2.0, 0.2)
    member = Member(tuple(acts), trees=tuple(_tree(n, 0.5, 0.0, gain) for n, gain in enumerate(gains)), base=4.0)
    tunables = (
        ArtifactInput(
            name,
            TUNABLE,
            categorical=name not in levels,
            values=tuple(InputValue(float(n), str(n)) for n in levels[name]) if name in levels else flags,
            carrier="hdf5",
            key=name,
        )
        for name in names[1:]
    )
    artifact = Artifact(
        name="known preferences of HDF5",
        identifier="test",
        objective="bandwidth",
        unit="MiB/s",
        maximize=True,
        margin=constant(0.05),
        inputs=(
            ArtifactInput("operation", CONTEXT, "operation", categorical=True, values=operations),
            *tunables,
            ArtifactInput(
                "romio_cb_write", TUNABLE, categorical=True, values=words, carrier="hint", key="romio_cb_write"
            ),
        ),
        members=(member,),
        result=apply(Op.EXP, OUTPUT),
        texts=texts,
    )
    path = folder / "hdf5.swm"
    save_artifact(artifact, path)
    return path


def combinations() -> int:
    """Of :func:`save_model` where all is free."""
    return len(list(itertools.product((1, 2, 4), range(3), (1, 2, 4))))
