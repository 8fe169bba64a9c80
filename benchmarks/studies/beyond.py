# ruff: noqa: E501  texts of the page
"""The chain that none of the five studies has, on a simulated cluster of ten thousand nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.studies.steps import Study, stripewise, write_toml

MIB, GIB = 1 << 20, 1 << 30
SITE = "sim:frontier-like"
KEPT = ("stripe_count", "stripe_size", "romio_cb_write", "cb_nodes")
NODES = 10_000


def site_file(study: Study) -> str:
    """The bundled site with ten thousand nodes, as a file of its own."""
    import stripewise as package  # noqa: PLC0415

    bundled = Path(package.__file__).parent / "lab" / "sites" / "frontier-like.toml"
    lines = bundled.read_text("utf-8").splitlines()
    changed = [f"nodes = {NODES + 240}" if line.startswith("nodes = ") else line for line in lines]
    file = study.work / "ten-thousand.toml"
    file.write_text("\n".join(changed).replace('name = "frontier-like"', 'name = "ten-thousand"') + "\n", "utf-8")
    return f"sim:{file}"


def workload() -> dict[str, Any]:
    """A checkpoint that no campaign has measured."""
    return {
        "operation": "write",
        "nodes": NODES,
        "processes_per_node": 8,
        "file_size": NODES * 8 * 64 * MIB,
        "layout": "strided",
        "transfer_size": 4 * MIB,
        "piece_size": 256 << 10,
        "collective": True,
        "api": "mpiio",
    }


def campaign(runner: str, size: int) -> dict[str, Any]:
    """A site's campaign on a few hundred nodes at most: nobody measures on all of them."""
    return {
        "name": "ten-thousand",
        "runner": runner,
        "stacks": ["romio", "lustre"],
        "operations": ["write"],
        "repeats": 1,
        "warmup": 0,
        "timeout": 1e7,
        "design": {"kind": "latin_hypercube", "size": size},
        "workload": [
            {"name": "nodes", "values": [32, 128, 512, 2048]},
            {"name": "processes_per_node", "values": [8]},
            {"name": "file_size", "values": [64 * GIB, 512 * GIB, 4096 * GIB]},
            {"name": "layout", "values": ["strided"]},
            {"name": "transfer_size", "values": [4 * MIB, 16 * MIB]},
            {"name": "piece_size", "values": [64 << 10, 256 << 10, MIB]},
            {"name": "collective", "values": [True]},
        ],
        "tunable": [
            {"name": "cb_nodes", "values": [8, 32, 128, 512]},
            {"name": "romio_cb_write", "values": ["enable", "disable"]},
            {"name": "stripe_count", "values": [1, 8, 32, 128], "default": 1},
            {"name": "stripe_size", "values": [MIB, 4 * MIB, 16 * MIB], "default": MIB},
        ],
    }


def experiment(runner: str, runs: int, model: str | None) -> dict[str, Any]:
    """The tuning of the checkpoint with so many runs of the search."""
    from benchmarks.studies.searches import space_of  # noqa: PLC0415

    asked: dict[str, Any] = {
        "name": "checkpoint",
        "runner": runner,
        "stacks": ["romio", "lustre"],
        "objective": {"name": "write_bandwidth"},
        "budget": {"runs": runs},
        "warmup": 0,
        "timeout": 1e7,
        "confirmation": {"pairs": 0},
        "workload": workload(),
        "model": model,
    }
    left_out = {name: {"exclude": True} for name in space_of(asked)[0].names if name not in KEPT}
    values = {
        "cb_nodes": {"values": [8, 32, 128, 512, 2048]},
        "romio_cb_write": {"values": ["automatic", "enable", "disable"]},
        "stripe_count": {"values": [1, 2, 4, 8, 16, 32, 64, 128], "default": 1},
        "stripe_size": {"values": [MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB], "default": MIB},
    }
    return {**asked, "parameters": {**left_out, **values}}


def simulated(study: Study) -> None:
    """Profile, learn, prescribe, search."""
    size = study.size(500, 60)
    study.step(
        "simulated chain", lambda: _chain(study, size), "simulated", site=SITE, nodes=NODES, campaign=size, seed=0
    )


def _chain(study: Study, size: int) -> dict[str, Any]:
    from benchmarks.studies.searches import Truth, search  # noqa: PLC0415

    runner = site_file(study)
    table, model = study.work / "site", study.work / "site.model"
    stripewise("site", "profile", write_toml(study.work / "campaign.toml", campaign(runner, size)), "--out", table)
    kind = "auto" if size > 100 else "boosting"
    stripewise("site", "train", table, "--model", kind, "--out", model)
    truth = Truth(experiment(runner, 1, None))
    every = truth.all()
    told = stripewise("prescribe", model, "--workload", write_toml(study.work / "w.toml", {"workload": workload()}))
    chosen = {name: value for name, value in told["settings"].items() if name in KEPT and value is not None}
    rows = [
        {"stage": "default", "runs": 0, "value": truth.of({})},
        {"stage": "prescribed", "runs": 0, "value": truth.of(chosen)},
    ]
    for runs in (5,):
        with_model = search(experiment(runner, runs + 1, str(model)), truth)
        without = search(experiment(runner, runs + 1, None), truth)
        rows.append(
            {
                "stage": f"searched, {runs} runs beyond the default, with the model",
                "runs": runs + 1,
                "value": with_model.final,
            }
        )
        rows.append(
            {"stage": f"searched, {runs} runs beyond the default, without", "runs": runs + 1, "value": without.final}
        )
    return {
        "default": rows[0]["value"],
        "best": max(every),
        "configurations": len(every),
        "prescribed": chosen,
        "rows": rows,
        "text": (
            f"Simulated: a checkpoint of {NODES:,} nodes and {8 * NODES:,} processes on a site that resembles Frontier, written in pieces of 256 KiB. The campaign has {size} combinations on 32 to "
            f"2,048 nodes, one run each; so the model extrapolates beyond everything that it has seen. *Of the best*: of {len(every):,} configurations, all known without noise."
        ),
    }


def bed(study: Study, site: Any) -> None:
    """The same with a real program on the test bed, with the runtime and online learning at its end."""
    from benchmarks.studies import chain  # noqa: PLC0415  of the system tests

    chain.on_bed(study, site)
