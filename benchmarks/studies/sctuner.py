"""Study 004: interfaces, sizes and aggregators measured a hundred times each; what stays good under load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.studies.steps import Study, stripewise, summarised, write_toml

SITE = "sim:cori-haswell"
MIB, GIB = 1 << 20, 1 << 30
NODES = 512
STRIPES = [1, 8, 64]
"""The first is the site's default."""


def campaign(apis: list[str], sizes: list[int], repeats: int) -> dict[str, Any]:
    """Collective buffering, alignment and striping, for collective reads and writes of 512 nodes."""
    return {
        "name": "sctuner-512",
        "runner": SITE,
        "stacks": ["romio", "hdf5", "lustre"],
        "operations": ["write", "read"],
        "repeats": repeats,
        "warmup": 0,
        "timeout": 1e7,
        "workload": [
            {"name": "api", "values": apis},
            {"name": "nodes", "values": [NODES]},
            {"name": "processes_per_node", "values": [8]},
            {"name": "file_size", "values": [1024 * GIB]},
            {"name": "layout", "values": ["strided"]},
            {"name": "transfer_size", "values": sizes},
            {"name": "collective", "values": [True]},
        ],
        "tunable": [
            {"name": "romio_cb_write", "values": ["automatic", "disable"]},
            {"name": "hdf5_alignment", "values": [1, MIB]},
            {"name": "stripe_count", "values": STRIPES, "default": 1},
        ],
    }


def simulated(study: Study) -> None:
    """Five-number summaries and clusters at 512 nodes, and what the dependable setting gives HDF5 there."""
    apis = study.size(["posix", "mpiio", "hdf5"], ["mpiio", "hdf5"])
    sizes, repeats = study.size([MIB, 16 * MIB], [MIB]), study.size(100, 3)
    table = study.work / "sctuner"
    told = study.step(
        "simulated campaign",
        lambda: _at_scale(study, campaign(apis, sizes, repeats), table),
        "simulated",
        site=SITE, apis=apis, sizes=sizes, stripes=STRIPES, repeats=repeats,
    )  # fmt: skip
    setting = told["operations"]["write"]["configuration"]
    study.step("HDF5 speed-ups", lambda: {"rows": _speedups(study, setting, sizes)}, "simulated", setting=setting)


def _at_scale(study: Study, plan: Mapping[str, Any], table: Path) -> dict[str, Any]:
    title, text = f"At {NODES} nodes (simulated)", f"{NODES} nodes with 8 processes each write and read 1 TiB."
    return summarised(plan, table, title, text)


def _speedups(study: Study, setting: Mapping[str, Any], sizes: list[int]) -> list[dict[str, Any]]:
    """True bandwidths of HDF5 writes: by default, with the dependable setting, and with the best of all static ones."""
    site, file = SITE.removeprefix("sim:"), study.work / "hdf5.toml"
    chosen = {name: value for name, value in setting.items() if value is not None}
    tried = {
        "romio_cb_write": ["automatic", "disable"],
        "hdf5_alignment": [1, MIB],
        "stripe_count": STRIPES,
    }
    rows = []
    for size in sizes:
        workload = {
            "operation": "write", "nodes": NODES, "processes_per_node": 8, "file_size": 1024 * GIB, "layout": "strided",
            "transfer_size": size, "piece_size": size, "collective": True, "api": "hdf5",
        }  # fmt: skip
        found = []
        for settings in ({}, chosen, tried):
            write_toml(file, {"workload": workload, "settings": settings})
            found.append(max(run["bandwidth"] for run in stripewise("lab", "simulate", "run", site, file)["runs"]))
        rows.append(
            {
                "workload": f"writes of {size // MIB} MiB, {8 * NODES:,} processes",
                "default": found[0],
                "setting": ", ".join(f"{name}={value}" for name, value in chosen.items()),
                "speedup": found[1] / found[0],
                "best": found[2] / found[0],
            }
        )
    return rows


def real(study: Study) -> None:
    """The same for real and small, and what only a real program shows."""
    from benchmarks.studies import hdf5_online, interfaces  # noqa: PLC0415  need MPI and HDF5

    interfaces.real(study)
    hdf5_online.real(study)


def bed(study: Study, site: Any) -> None:
    """What each setting of HDF5 brings on the test bed, and what mode online makes of it."""
    from benchmarks.studies import hdf5_settings, online_bed  # noqa: PLC0415  of the system tests

    hdf5_settings.bed(study, site)
    online_bed.bed(study, site)
