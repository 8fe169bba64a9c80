"""Study 000: neural networks predict MPI-IO bandwidths on Kay, and the best prediction is used as setting.

A campaign of 15,360 configurations an operation on the simulated site, two networks of the study's shape and the
model ``auto``, their accuracy on a fifth of the rows, and 1,458 test cases an operation with files larger
than any in training. What table 1 and table 5 do not print is assumed, in the campaign ``mpi-io-ann`` and here.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.studies.steps import ROOT, Study, stripewise, write_toml

SITE = "sim:kay"
MIB, GIB = 1 << 20, 1 << 30
MODELS = ("ann", "auto")
STRIPES, STRIPE_SIZES = [1, 4, 8, 16], [MIB, 4 * MIB, 64 * MIB, 512 * MIB, 2 * GIB]
"""What the study's models choose from (listing 3; the values in between are assumed)."""
CHUNKS = [256 * MIB, 512 * MIB, GIB, 2 * GIB]
CASES: dict[str, list[Any]] = {
    "nodes": [4, 8, 16],
    "processes_per_node": [1, 4, 8],
    "file_size": [64 * GIB, 128 * GIB, 256 * GIB],
    "stripe_count": [1, 4, 8],
    "stripe_size": [MIB, 64 * MIB, GIB],
    "transfer_size": [512 * MIB, 2 * GIB, 4 * GIB],
    "collective": [False, True],
}
"""Six parameters with three values and two patterns: the 1,458 cases of table 5, whose values are assumed."""
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
    for name in study.size(MODELS, ("boosting",)):
        study.step(f"accuracy of {name}", lambda name=name: accuracy(table, name), "simulated", seed=0, test=0.2)
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
        study.step(f"time to decide of {name}", lambda model=model: decision_seconds(study, model), "measured", runs=3)


def _profiled(study: Study, table: Path) -> dict[str, Any]:
    """Simulate the bundled campaign in one go: ``profile`` asks the same engine for one run after the other."""
    if study.quick:
        plan = write_toml(study.work / "training.toml", training_campaign())
        found = stripewise("profile", plan, "--out", table)
        return {"configurations": found["configurations"], "runs": found["runs"]["finished"]}
    sys.path.insert(0, str(ROOT / "benchmarks" / "models"))
    from simulated import tables  # noqa: PLC0415  of benchmarks/models

    from stripewise.profiling.outcome import save  # noqa: PLC0415  loads the engine

    measured, _ = tables(SITE.removeprefix("sim:"), repeats=1)
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


def accuracy(path: Path, name: str) -> dict[str, Any]:
    """Prediction accuracy on a random fifth that the model has not seen, for each operation, as the study has it."""
    from stripewise.model.metrics import scores  # noqa: PLC0415  loads the engine
    from stripewise.model.registry import make_model  # noqa: PLC0415
    from stripewise.model.table import read_table  # noqa: PLC0415

    table = read_table(path)
    order = np.random.default_rng(0).permutation(len(table))
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    fitted = make_model(name).fit(table.take(train), 0)
    told = table.take(test)
    predicted = fitted.predict_table(told).value
    place = [column.name for column in table.schema.context].index("operation")
    found: dict[str, Any] = {}
    for level, operation in enumerate(table.schema.context[place].values):
        rows = told.context_levels[:, place] == level
        found[str(operation)] = scores(told.values[rows], predicted[rows], maximize=True).as_json()
    return found


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


class Oracle:
    """The best of all settings that a model could have chosen, without noise.

    Parameters
    ----------
    work : Path
        For the files of workloads.
    """

    def __init__(self, work: Path) -> None:
        self._file = work / "workload.toml"
        self._known: dict[tuple[Any, ...], dict[tuple[Any, ...], float]] = {}

    def judge(self, pairs: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Compare true values of defaults, choices and the oracle's choices.

        Parameters
        ----------
        pairs : list of mapping
            The document's ``pairs`` of one operation.
        """
        default, tuned, best = [], [], []
        for pair in pairs:
            before, after = pair["default_settings"], pair["tuned_settings"]
            default.append(self._value(pair["operation"], before))
            tuned.append(self._value(pair["operation"], after))
            # A program's own settings are a choice, too.
            best.append(max(self._best(pair["operation"], before), default[-1]))
        d, t, b = (np.array(values) for values in (default, tuned, best))
        worth = b > 1.05 * d
        possible = float(b.mean() - d.mean())
        return {
            "default_mean": float(d.mean()),
            "tuned_mean": float(t.mean()),
            "oracle_mean": float(b.mean()),
            "improvable": int(worth.sum()),
            "improvable_improved_percent": 100.0 * float(np.mean(t[worth] > d[worth])) if worth.any() else None,
            "share_of_oracle_gain": float(t.mean() - d.mean()) / possible if possible > 0 else None,
            "of_oracle_percent": 100.0 * float(np.mean(t / b)),
        }

    def _value(self, operation: str, settings: Mapping[str, Any]) -> float:
        chunk = (settings["transfer_size"], settings["collective"])
        return self._values(operation, settings, chunk)[settings["stripe_count"], settings["stripe_size"]]

    def _best(self, operation: str, settings: Mapping[str, Any]) -> float:
        layout = (settings["stripe_count"], settings["stripe_size"])
        found = 0.0
        for chunk in itertools.product(CHUNKS, (False, True)):
            values = self._values(operation, settings, chunk)
            # The layout of a file that is read is not the reader's to choose.
            chosen = [layout] if operation == "read" else list(itertools.product(STRIPES, STRIPE_SIZES))
            found = max(found, *(values[each] for each in chosen))
        return found

    def _values(
        self, operation: str, settings: Mapping[str, Any], chunk: tuple[int, bool]
    ) -> dict[tuple[Any, ...], float]:
        """Bandwidths of all layouts, as ``simulate run`` gives them."""
        nodes, each, size = (settings[name] for name in ("nodes", "processes_per_node", "file_size"))
        transfer = min(chunk[0], size // (nodes * each))
        key = (operation, nodes, each, size, transfer, chunk[1])
        if key not in self._known:
            workload = {
                "operation": operation, "nodes": nodes, "processes_per_node": each, "file_size": size,
                "transfer_size": transfer, "piece_size": transfer, "collective": chunk[1], "layout": "segmented",
                "api": "mpiio",
            }  # fmt: skip
            layouts = {
                "stripe_count": sorted({*STRIPES, *CASES["stripe_count"]}),
                "stripe_size": sorted({*STRIPE_SIZES, *CASES["stripe_size"]}),
            }
            write_toml(self._file, {"workload": workload, "settings": layouts})
            told = stripewise("simulate", "run", SITE.removeprefix("sim:"), self._file)["runs"]
            self._known[key] = {
                (run["settings"]["stripe_count"], run["settings"]["stripe_size"]): run["bandwidth"] for run in told
            }
        return self._known[key]


def decision_seconds(study: Study, model: Path) -> dict[str, float]:
    """Wall time of ``prescribe`` from a cold start, and of what is not starting Python; medians of three."""
    workload = {"operation": "write", "nodes": 16, "processes_per_node": 8, "file_size": 64 * GIB}
    file = write_toml(study.work / "decide.toml", {"workload": workload})
    command = [sys.executable, "-m", "stripewise", "prescribe", str(model), "--workload", str(file), "--json"]

    def timed(words: list[str]) -> float:
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            seconds.append(time.perf_counter() - begin)
        if "prescribe" in words:
            json.loads(done.stdout)
        return sorted(seconds)[1]

    return {"prescribe": timed(command), "start of Python": timed([sys.executable, "-m", "stripewise", "--version"])}
