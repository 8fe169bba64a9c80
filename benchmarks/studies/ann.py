"""Study 000: neural networks predict MPI-IO bandwidths on Kay, and the best prediction is used as setting.

A campaign of 15,360 configurations an operation on the simulated site, two networks of the study's shape and the
model ``auto``, their accuracy on a fifth of the rows, and 1,458 test cases an operation with files larger
than any in training. What table 1 and table 5 do not print is assumed, in the campaign ``mpi-io-ann`` and here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies.oracle import CASES, GIB, MIB, PIECE, Oracle, runner
from benchmarks.studies.steps import ROOT, Study, stripewise, write_toml

SITES = {"kay": ("ann", "auto"), "kay-hardware": ("auto",)}
"""Models by site: the site that was fitted to the study, and its form that was not."""
MODELS = SITES["kay"]
REPEATS = 15
"""Runs of which medians are taken, to judge predictions by."""
SHOWN = 50
"""Predictions in the study's figure 4."""
DEFAULTS = {"stripe_count": 1, "stripe_size": MIB}


def cases_campaign(quick: bool, site: str = "kay") -> dict[str, Any]:
    """The test cases as a campaign: every combination of what a program has by default.

    A collective call is not contiguous in the study, any other is.
    """
    values = {name: (listed[-1:] if quick and name != "collective" else listed) for name, listed in CASES.items()}
    own = ("nodes", "processes_per_node", "file_size")
    striping = [{"name": name, "values": values[name], "operations": ["write"]} for name in DEFAULTS]
    return {
        "name": "kay-cases",
        "runner": runner(site),
        "stacks": ["lustre"],
        "operations": ["write", "read"],
        "constraints": ["collective == (layout == 'strided')"],
        "repeats": 3,
        "warmup": 0,
        "timeout": 1e7,
        "workload": [
            *({"name": name, "values": values[name]} for name in own),
            {"name": "piece_size", "values": [PIECE]},
        ],
        "tunable": [
            *striping,
            {"name": "transfer_size", "values": values["transfer_size"]},
            {"name": "layout", "values": ["segmented", "strided"]},
            {"name": "collective", "values": values["collective"]},
        ],
    }


def training_campaign() -> dict[str, Any]:
    """A small campaign of the bundled one's kind, for a quick look."""
    small = cases_campaign(quick=True)
    small["workload"] = [
        {"name": "nodes", "values": [2, 8]},
        {"name": "processes_per_node", "values": [1, 4]},
        {"name": "file_size", "values": [2 * GIB, 16 * GIB]},
        {"name": "piece_size", "values": [PIECE]},
    ]
    chosen = {"stripe_count": [1, 16], "stripe_size": [MIB, 2 * GIB], "transfer_size": [512 * MIB, GIB]}
    for tunable in small["tunable"]:
        tunable["values"] = chosen.get(tunable["name"], tunable["values"])
    return small | {"name": "kay-small", "repeats": 1}


def simulated(study: Study) -> None:
    """Measure, learn, choose and judge on the simulated site, and on its form that was not fitted."""
    for site, models in study.size(SITES, {"kay": ("boosting",)}).items():
        _on_site(study, site, models)
    times = study.size(3, 1)
    for name in study.size(MODELS, ("boosting",)):
        model = _model(study, "kay", name)
        study.step(
            f"time to decide of {name}",
            lambda model=model: decision_seconds(study, model, times),
            "measured",
            runs=times,
        )


def _model(study: Study, site: str, name: str) -> Path:
    return study.work / f"{site}-{name}{'.pt' if name == 'ann' else '.model'}"


def _on_site(study: Study, site: str, models: Sequence[str]) -> None:
    """All of the study's steps on a site; names of steps tell the site where it is not the first."""
    table, of = study.work / site, "" if site == "kay" else f"{site}: "
    study.step(
        f"{of}campaign",
        lambda: _profiled(study, site, table),
        "simulated",
        (table.with_suffix(".csv"),),
        site=runner(site), campaign=study.size("mpi-io-ann", training_campaign()), piece=PIECE,
    )  # fmt: skip
    if not of:
        count = study.size(400, 20)
        for way in study.size(("read", "write"), ("write",)):
            study.step(f"parallel coordinates, {way}", lambda way=way: sampled(table, way, count), "simulated", seed=0)
    for name in models:
        study.step(
            f"{of}accuracy of {name}",
            lambda name=name: _accuracy(study, site, table, name),
            "simulated",
            seed=0, test=0.2, medians_of=REPEATS,
        )  # fmt: skip
        model = _model(study, site, name)
        study.step(
            f"{of}training of {name}",
            lambda name=name, model=model: (
                {
                    key: stripewise("site", "train", table, "--model", name, "--out", model)[key]
                    for key in ("rows", "seconds")
                }
                | ({"device": device()} if name == "ann" else {})
            ),
            "simulated",
            (model,),
            seed=0,
        )
        study.step(
            f"{of}cases of {name}",
            lambda model=model: _cases(study, site, model),
            "simulated",
            cases=CASES, piece=PIECE, repeats=3,
        )  # fmt: skip


def device() -> str:
    """Where networks are trained here."""
    from stripewise.models.network import import_torch, training_device  # noqa: PLC0415  loads PyTorch

    return str(training_device(import_torch()))


def _profiled(study: Study, site: str, table: Path) -> dict[str, Any]:
    """Simulate the bundled campaign in one go: ``profile`` asks the same engine for one run after the other."""
    if study.quick:
        plan = write_toml(study.work / "training.toml", training_campaign())
        found = stripewise("site", "profile", plan, "--out", table)
        return {"configurations": found["configurations"], "runs": found["runs"]["finished"]}
    from stripewise.engine.campaign.outcome import save  # noqa: PLC0415  loads the engine

    measured, _ = _tables(site, repeats=1, seed=0)
    save(measured, table)
    return {"configurations": len(measured), "runs": len(measured)}


def sampled(path: Path, operation: str, size: int) -> dict[str, Any]:
    """Some runs of an operation of the campaign, as a picture with parallel coordinates shows them."""
    from stripewise.models.table import read_table  # noqa: PLC0415  loads the engine
    from stripewise.sizes import format_size  # noqa: PLC0415

    table = read_table(path)
    columns = [*table.schema.context, *table.schema.parameter]
    levels = np.concatenate([table.context_levels, table.levels], axis=1)
    place = next(i for i, column in enumerate(columns) if column.name == "operation")
    own = list(map(str, columns[place].values)).index(operation)
    rows = np.flatnonzero(levels[:, place] == own)
    chosen = np.random.default_rng(0).choice(rows, size=min(size, len(rows)), replace=False)
    kept = [i for i, column in enumerate(columns) if i != place and len(column.values) > 1]

    def label(column: Any, value: Any) -> str:
        return format_size(int(value)) if column.unit == "B" else str(value).lower()

    return {
        "axes": {
            columns[i].name.replace("_", " "): [label(columns[i], value) for value in columns[i].values] for i in kept
        },
        "rows": [
            {"levels": [int(levels[row, i]) for i in kept], "value": round(float(table.values[row]), 1)}
            for row in sorted(chosen)
        ],
    }


def _accuracy(study: Study, site: str, table: Path, name: str) -> dict[str, Any]:
    from stripewise.models.table import read_table  # noqa: PLC0415  loads the engine

    return accuracy(read_table(table), name, None if study.quick else medians_of_runs(site, REPEATS))


def accuracy(table: Any, name: str, medians: np.ndarray | None) -> dict[str, Any]:
    """Prediction accuracy on a random fifth that the model has not seen, for each operation, as the study has it.

    Parameters
    ----------
    table : Table
        The campaign.
    name : str
        Of a model.
    medians : numpy.ndarray of shape (rows,), optional
        Of other runs of the same configurations: to judge by besides the single runs, and what an oracle knows.

    Returns
    -------
    dict
        For each operation: scores by ``runs`` and ``medians``, those of an ``oracle`` and of a ``random`` run of the
        training for single runs, and some runs with their predictions.
    """
    from stripewise.models.registry import make_model  # noqa: PLC0415
    from stripewise.models.validation import score_predictions  # noqa: PLC0415  loads the engine

    rng = np.random.default_rng(0)
    order = rng.permutation(len(table))
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    told, known = table.take(test), table.take(train)
    predicted = make_model(name).fit(known, 0).predict_table(told).value
    found: dict[str, Any] = {}
    place = [column.name for column in table.schema.context].index("operation")
    for level, operation in enumerate(table.schema.context[place].values):
        rows = np.flatnonzero(told.context_levels[:, place] == level)
        runs = told.values[rows]
        guess = rng.choice(known.values[known.context_levels[:, place] == level], size=len(rows))
        pairs = {"runs": (runs, predicted[rows]), "random": (runs, guess)}
        if medians is not None:
            typical = medians[test][rows]
            pairs |= {"medians": (typical, predicted[rows]), "oracle": (runs, typical)}
        found[str(operation)] = {
            against: dict(score_predictions(actual, told_by, maximize=True).as_json())
            for against, (actual, told_by) in pairs.items()
        } | {
            "shown": [[round(float(a), 1), round(float(p), 1)] for a, p in zip(runs, predicted[rows], strict=True)][
                :SHOWN
            ]
        }
    return found


def medians_of_runs(site: str, repeats: int) -> np.ndarray:
    """Medians of further runs of each configuration of the campaign, in its table's order."""
    measured, _ = _tables(site, repeats, seed=1)
    return np.median(measured.values.reshape(repeats, -1), axis=0)


def _tables(site: str, repeats: int, seed: int) -> Any:
    """The bundled campaign on a site, with and without noise."""
    sys.path.insert(0, str(ROOT / "benchmarks" / "models"))
    from simulated import tables  # noqa: PLC0415  of benchmarks/models

    return tables(runner(site).removeprefix("sim:"), repeats, seed, PIECE)


def _cases(study: Study, site: str, model: Path) -> dict[str, Any]:
    """The study's listing 5, and an oracle that knows every setting's true value."""
    campaign = write_toml(study.work / "cases.toml", cases_campaign(study.quick, site))
    told = stripewise("site", "evaluate", campaign, "--model", model, "--repeats", 3, "--eager")
    oracle = Oracle(site, study.work)
    found: dict[str, Any] = {
        "cases": told["cases"],
        "points": told["points"],
        "decision_seconds": told["decision_seconds"],
        "operations": told["operations"],
    }
    for operation in ("read", "write"):
        pairs = [pair for pair in told["pairs"] if pair["operation"] == operation]
        if pairs:
            found["operations"][operation]["true"] = oracle.judge(pairs)
            # Texts, because a list has a line of the results' file for each number.
            found["operations"][operation]["shown"] = {
                end: " ".join(str(round(pair[end])) for pair in pairs) for end in ("default", "tuned")
            }
    return found


def decision_seconds(study: Study, model: Path, times: int) -> dict[str, float]:
    """Wall time of ``prescribe`` from a cold start, and of what is not starting Python; medians of an odd number."""
    workload = {"operation": "write", "nodes": 16, "processes_per_node": 8, "file_size": 64 * GIB}
    file = write_toml(study.work / "decide.toml", {"workload": workload})
    command = [sys.executable, "-m", "stripewise", "prescribe", str(model), "--workload", str(file), "--json"]

    def timed(words: list[str]) -> float:
        seconds = []
        for _ in range(times):
            begin = time.perf_counter()
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            seconds.append(time.perf_counter() - begin)
        if "prescribe" in words:
            json.loads(done.stdout)
        return sorted(seconds)[times // 2]

    return {"prescribe": timed(command), "start of Python": timed([sys.executable, "-m", "stripewise", "--version"])}


def bed_campaign(kernel: str, site: Any, size: int, repeats: int = 2) -> dict[str, Any]:
    """The seven parameters in small, for the test bed."""
    from benchmarks.studies.on_bed import LAUNCHER  # noqa: PLC0415  of the system tests

    return {
        "name": "mpi-io-ann-bed",
        "executable": kernel,
        "launcher": LAUNCHER,
        "stacks": ["cephfs"],
        # After the campaign has made the file with its layout; what it has written to be read stays where it is.
        "setup": [site.placing("campaign")],
        "files": {"name": "campaign"},
        "operations": ["write", "read"],
        "repeats": repeats,
        "timeout": 120,
        "design": {"kind": "latin_hypercube", "size": size},
        "workload": [
            {"name": "nodes", "values": [1, 2, 4]},
            {"name": "processes_per_node", "values": [1, 2]},
            {"name": "file_size", "values": [16 * MIB, 32 * MIB]},
        ],
        "tunable": [
            {"name": "cephfs_stripe_count", "values": [1, 2, 4], "operations": ["write"]},
            {"name": "cephfs_stripe_unit", "values": [MIB, 4 * MIB], "operations": ["write"]},
            {"name": "transfer_size", "values": [MIB, 2 * MIB]},
            {"name": "collective", "values": [False, True]},
        ],
    }


def bed(study: Study, site: Any) -> None:
    """A small campaign of the same parameters on the test bed, and how well models predict its runs."""
    from benchmarks.studies.on_bed import MPICC  # noqa: PLC0415  of the system tests

    kernel = stripewise("site", "native", "build", "--mpicc", MPICC)["kernel"]
    table, size, repeats = study.work / "bed", study.size(32, 4), study.size(2, 1)
    journal = study.work / "bed-journal"

    def measured() -> dict[str, Any]:
        plan = write_toml(study.work / "bed-campaign.toml", bed_campaign(kernel, site, size, repeats))
        told = site.stripewise(
            "site", "profile", plan, "--folder", site.folder, "--journal", journal, "--out", table, "--yes"
        )
        return {key: told[key] for key in ("configurations", "repeats", "runs")}

    study.step("bed campaign", measured, "measured", (table.with_suffix(".csv"),), size=size, seed=0)
    study.step(
        "bed accuracy",
        lambda: {
            name: stripewise("site", "validate", table, "--model", name, "--folds", study.size(5, 2))["metrics"]
            for name in study.size(MODELS, ("boosting",))
        },
        "measured",
        folds=study.size(5, 2), seed=0,
    )  # fmt: skip
