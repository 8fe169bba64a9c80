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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.studies.oracle import CASES, GIB, MIB, SITE, Oracle
from benchmarks.studies.steps import ROOT, Study, stripewise, write_toml

MODELS = ("ann", "auto")
REPEATS = 15
"""Runs of which medians are taken, to judge predictions by."""
CAMPAIGNS = 3
"""Of which accuracies are medians; the first is the one that everything else learns from."""
DEFAULTS = {"stripe_count": 1, "stripe_size": MIB}


def cases_campaign(quick: bool) -> dict[str, Any]:
    """The test cases as a campaign: every combination of what a program has by default."""
    values = {name: (listed[-1:] if quick and name != "collective" else listed) for name, listed in CASES.items()}
    own = ("nodes", "processes_per_node", "file_size")
    striping = [{"name": name, "values": values[name], "operations": ["write"]} for name in DEFAULTS]
    return {
        "name": "kay-cases",
        "runner": SITE,
        "stacks": ["lustre"],
        "operations": ["write", "read"],
        "repeats": 3,
        "warmup": 0,
        "timeout": 1e7,
        "workload": [{"name": name, "values": values[name]} for name in own],
        "tunable": [
            *striping,
            {"name": "transfer_size", "values": values["transfer_size"]},
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
    ]
    chosen = {"stripe_count": [1, 16], "stripe_size": [MIB, 2 * GIB], "transfer_size": [512 * MIB, GIB]}
    for tunable in small["tunable"]:
        tunable["values"] = chosen.get(tunable["name"], tunable["values"])
    return small | {"name": "kay-small", "repeats": 1}


def simulated(study: Study) -> None:
    """Measure, learn, choose and judge on the simulated site."""
    table = study.work / "kay"
    study.step(
        "campaign",
        lambda: _profiled(study, table),
        "simulated",
        (table.with_suffix(".csv"),),
        site=SITE, campaign=study.size("mpi-io-ann", training_campaign()),
    )  # fmt: skip
    study.step("parallel coordinates", lambda: sampled(table, study.size(400, 20)), "simulated", seed=0)
    times = study.size(3, 1)
    for name in study.size(MODELS, ("boosting",)):
        study.step(
            f"accuracy of {name}",
            lambda name=name: _accuracy(study, table, name),
            "simulated",
            seed=0, test=0.2, medians_of=REPEATS, campaigns=study.size(CAMPAIGNS, 1),
        )  # fmt: skip
        model = study.work / (f"{name}.pt" if name == "ann" else f"{name}.model")
        study.step(
            f"training of {name}",
            lambda name=name, model=model: {
                key: stripewise("train", table, "--model", name, "--out", model)[key] for key in ("rows", "seconds")
            },
            "simulated",
            (model,),
            seed=0,
        )
        study.step(f"cases of {name}", lambda model=model: _cases(study, model), "simulated", cases=CASES, repeats=3)
        study.step(
            f"time to decide of {name}",
            lambda model=model: decision_seconds(study, model, times),
            "measured",
            runs=times,
        )


def _profiled(study: Study, table: Path) -> dict[str, Any]:
    """Simulate the bundled campaign in one go: ``profile`` asks the same engine for one run after the other."""
    if study.quick:
        plan = write_toml(study.work / "training.toml", training_campaign())
        found = stripewise("profile", plan, "--out", table)
        return {"configurations": found["configurations"], "runs": found["runs"]["finished"]}
    from stripewise.profiling.outcome import save  # noqa: PLC0415  loads the engine

    measured, _ = _tables(repeats=1, seed=0)
    save(measured, table)
    return {"configurations": len(measured), "runs": len(measured)}


def sampled(path: Path, size: int) -> dict[str, Any]:
    """Some writes of the campaign, as a picture with parallel coordinates shows them."""
    from stripewise.model.table import read_table  # noqa: PLC0415  loads the engine
    from stripewise.spec.sizes import format_size  # noqa: PLC0415

    table = read_table(path)
    columns = [*table.schema.context, *table.schema.parameter]
    levels = np.concatenate([table.context_levels, table.levels], axis=1)
    place = next(i for i, column in enumerate(columns) if column.name == "operation")
    write = list(map(str, columns[place].values)).index("write")
    rows = np.flatnonzero(levels[:, place] == write)
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


def _accuracy(study: Study, table: Path, name: str) -> dict[str, Any]:
    from stripewise.model.table import read_table  # noqa: PLC0415  loads the engine

    if study.quick:
        return accuracy([read_table(table)], name, None)
    return accuracy([_tables(1, seed)[0] for seed in range(CAMPAIGNS)], name, medians_of_runs(REPEATS))


def accuracy(tables: Sequence[Any], name: str, medians: np.ndarray | None) -> dict[str, Any]:
    """Prediction accuracy on a random fifth that the model has not seen, for each operation, as the study has it.

    Parameters
    ----------
    tables : sequence of Table
        The campaign, measured anew for each: a model of each, since the luck of single runs moves an accuracy by a
        point.
    name : str
        Of a model.
    medians : numpy.ndarray of shape (rows,), optional
        Of other runs of the same configurations, to judge by besides the single runs.

    Returns
    -------
    dict
        For each operation and each of what is judged by: the median over the tables of every score, and each table's
        accuracy.
    """
    found: dict[str, Any] = {}
    for table in tables:
        for operation, against, scored in _scored(table, name, medians):
            found.setdefault(operation, {}).setdefault(against, []).append(scored)
    return {
        operation: {
            against: {key: float(np.median([one[key] for one in each])) for key in each[0]}
            | {"each": [one["prediction_accuracy"] for one in each]}
            for against, each in judged.items()
        }
        for operation, judged in found.items()
    }


def _scored(table: Any, name: str, medians: np.ndarray | None) -> Iterator[tuple[str, str, dict[str, float]]]:
    from stripewise.model.metrics import scores  # noqa: PLC0415  loads the engine
    from stripewise.model.registry import make_model  # noqa: PLC0415

    order = np.random.default_rng(0).permutation(len(table))
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    fitted = make_model(name).fit(table.take(train), 0)
    told = table.take(test)
    predicted = fitted.predict_table(told).value
    actual = {"runs": told.values} | ({} if medians is None else {"medians": medians[test]})
    place = [column.name for column in table.schema.context].index("operation")
    for level, operation in enumerate(table.schema.context[place].values):
        rows = told.context_levels[:, place] == level
        for against, values in actual.items():
            yield str(operation), against, dict(scores(values[rows], predicted[rows], maximize=True).as_json())


def medians_of_runs(repeats: int) -> np.ndarray:
    """Medians of further runs of each configuration of the campaign, in its table's order."""
    measured, _ = _tables(repeats, seed=CAMPAIGNS)
    return np.median(measured.values.reshape(repeats, -1), axis=0)


def _tables(repeats: int, seed: int) -> Any:
    """The bundled campaign on the site, with and without noise."""
    sys.path.insert(0, str(ROOT / "benchmarks" / "models"))
    from simulated import tables  # noqa: PLC0415  of benchmarks/models

    return tables(SITE.removeprefix("sim:"), repeats, seed)


def _cases(study: Study, model: Path) -> dict[str, Any]:
    """The study's listing 5, and an oracle that knows every setting's true value."""
    campaign = write_toml(study.work / "cases.toml", cases_campaign(study.quick))
    told = stripewise("evaluate", campaign, "--model", model, "--repeats", 3, "--eager")
    oracle = Oracle(study.work)
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

    kernel = stripewise("native", "build", "--mpicc", MPICC)["kernel"]
    table, size, repeats = study.work / "bed", study.size(32, 4), study.size(2, 1)
    journal = study.work / "bed-journal"

    def measured() -> dict[str, Any]:
        plan = write_toml(study.work / "bed-campaign.toml", bed_campaign(kernel, site, size, repeats))
        told = site.stripewise("profile", plan, "--folder", site.folder, "--journal", journal, "--out", table, "--yes")
        return {key: told[key] for key in ("configurations", "repeats", "runs")}

    study.step("bed campaign", measured, "measured", (table.with_suffix(".csv"),), size=size, seed=0)
    study.step(
        "bed accuracy",
        lambda: {
            name: stripewise("validate", table, "--model", name, "--folds", study.size(5, 2))["metrics"]
            for name in study.size(MODELS, ("boosting",))
        },
        "measured",
        folds=study.size(5, 2), seed=0,
    )  # fmt: skip
