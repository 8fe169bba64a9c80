"""Study 004's online tuner on the test bed's CephFS, where a layout of four stripes is better than the default."""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.studies import interfaces
from benchmarks.studies.steps import Study, stripewise, write_toml

KIB, MIB = 1 << 10, 1 << 20
PIECE, TOTAL = 64 * KIB, 32 * MIB
"""Bytes of a piece, and of a checkpoint by both ranks, in eight datasets."""
TUNABLES: dict[str, list[Any]] = {
    "cephfs_stripe_count": [1, 4],
    "romio_cb_write": ["automatic", "disable"],
    "hdf5_alignment": [1, MIB],
}


def campaign(program: str, repeats: int) -> dict[str, Any]:
    """Every setting of the checkpoint."""
    pieces = TOTAL // interfaces.RANKS // PIECE
    return {
        "name": "online-bed",
        "program": "command",
        "launcher": interfaces.MPIEXEC,
        "command": [program, "{api}", "{operation}", "{file}", "{piece_size}", str(pieces), "1"],
        "stacks": ["cephfs", "romio", "hdf5"],
        "operations": ["write"],
        "objective": "regex:bandwidth: ([0-9.]+) MiB/s",
        "direction": "maximize",
        "unit": "MiB/s",
        "repeats": repeats,
        "timeout": 300,
        "workload": [
            {"name": "api", "values": ["hdf5"]},
            {"name": "processes_per_node", "values": [interfaces.RANKS]},
            {"name": "file_size", "values": [TOTAL]},
            {"name": "layout", "values": ["strided"]},
            {"name": "piece_size", "values": [PIECE]},
            {"name": "collective", "values": [True]},
        ],
        "tunable": [{"name": name, "values": values} for name, values in TUNABLES.items()],
    }


def statics() -> dict[str, list[str]]:
    """Lines of a plan for every setting."""
    found = {}
    for stripes, buffering, alignment in itertools.product(*TUNABLES.values()):
        lines = [f"layout cephfs stripe_count {stripes}"] if stripes > 1 else []
        lines += [f"hint romio_cb_write {buffering}"] if buffering != "automatic" else []
        lines += [f"hdf5 alignment {alignment}"] if alignment > 1 else []
        found[", ".join(lines) or "default"] = lines
    return found


def bed(study: Study, site: Any) -> None:
    """Learn from a campaign; then default, best static setting and mode online take turns."""
    repeats, phases, rounds = study.size(3, 1), study.size(24, 3), study.size(3, 1)
    folder = site.bed.ceph.mount(1) / site.folder.name
    own = study.work / "online-bed"
    own.mkdir(exist_ok=True)
    table, model = study.kept / "online-bed", own / "model"
    study.step(
        "bed online campaign",
        lambda: _learned(study, folder, table, model, repeats),
        "measured",
        (model,),
        tunables=TUNABLES, piece=PIECE, total=TOTAL, repeats=repeats,
    )  # fmt: skip
    study.step(
        "bed online",
        lambda: interfaces.online(
            interfaces.Program(study, folder, PIECE, TOTAL), own, model, statics(), phases, rounds
        ),
        "measured",
        phases=phases, rounds=rounds, seed=0,
    )  # fmt: skip


def _learned(study: Study, folder: Any, table: Any, model: Any, repeats: int) -> dict[str, Any]:
    plan = write_toml(model.parent / "campaign.toml", campaign(str(interfaces.built(study.work)), repeats))
    told = stripewise(
        "site", "profile", plan, "--folder", folder, "--journal", model.parent / "journal", "--out", table, "--yes"
    )
    stripewise("site", "train", table, "--model", study.size("auto", "boosting"), "--out", model)
    return {"configurations": told["configurations"], "runs": told["runs"]}
