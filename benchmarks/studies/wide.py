# ruff: noqa: E501  texts of the page
"""The genetic search's study with real ROMIO in a space in which tuning matters: measure all of it, then search what was measured."""

from __future__ import annotations

import csv
import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies import sweep
from benchmarks.studies.steps import Study, in_memory, stripewise, write_toml

KIB, MIB = 1 << 10, 1 << 20
RANKS, PIECE, TOTAL = 4, 4 * KIB, MIB
"""Ranks, and bytes of a piece and of a rank."""
INDEPENDENT = "not collective or romio_cb_write == 'disable'"
BUFFERED = "collective and romio_cb_write == 'automatic'"
PARAMETERS: tuple[dict[str, Any], ...] = (
    {"name": "collective", "values": [True, False], "default": True},
    {"name": "transfer_size", "values": [32 * KIB << i for i in range(6)], "default": 256 * KIB},
    {"name": "romio_cb_write", "values": ["automatic", "disable"], "default": "automatic", "active_if": "collective"},
    {"name": "cb_nodes", "values": [1, 2, 3, 4], "default": 1, "active_if": BUFFERED},
    {"name": "cb_buffer_size", "values": [16 * KIB << i for i in range(11)], "default": 16 * MIB, "active_if": BUFFERED},
    {"name": "romio_ds_write", "values": ["automatic", "disable"], "default": "automatic", "active_if": INDEPENDENT},
    {"name": "ind_wr_buffer_size", "values": [64 * KIB << i for i in range(7)], "default": 512 * KIB, "active_if": f"({INDEPENDENT}) and romio_ds_write == 'automatic'"},
)  # fmt: skip
"""The call and ROMIO's hints; conditions as in the stack ``romio``."""


def space(*, quick: bool) -> list[dict[str, Any]]:
    """Every configuration that differs to ROMIO from the others."""
    values = [parameter["values"][:: 5 if quick else 1] for parameter in PARAMETERS]
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    for chosen in itertools.product(*values):
        own = dict(zip((parameter["name"] for parameter in PARAMETERS), chosen, strict=True))
        buffered = own["collective"] and own["romio_cb_write"] == "automatic"
        usual = {parameter["name"]: parameter["default"] for parameter in PARAMETERS}
        if not own["collective"]:
            own["romio_cb_write"] = usual["romio_cb_write"]
        for name in ("romio_ds_write", "ind_wr_buffer_size") if buffered else ("cb_nodes", "cb_buffer_size"):
            own[name] = usual[name]
        if own["romio_ds_write"] == "disable":
            own["ind_wr_buffer_size"] = usual["ind_wr_buffer_size"]
        kept.setdefault(tuple(own.values()), own)
    return list(kept.values())


def run_of(configuration: Mapping[str, Any]) -> sweep.Run:
    """What a configuration does: four ranks write pieces of 4 KiB in turns."""
    hints = {name: value for name, value in configuration.items() if name not in ("collective", "transfer_size")}
    hints["cb_config_list"] = f"*:{hints['cb_nodes']}"
    call = min(configuration["transfer_size"], TOTAL)
    return sweep.Run("write", "mpiio", configuration["collective"], PIECE, 0, TOTAL, call, hints)


def schema() -> dict[str, Any]:
    """Of the table of all runs."""
    kinds = {bool: "categorical", str: "categorical", int: "ordinal"}
    parameters = []
    for parameter in PARAMETERS:
        kind = kinds[type(parameter["values"][0])]
        size = {"unit": "B", "scale": "log2"} if parameter["name"].endswith("_size") else {}
        parameters.append({**parameter, "kind": kind, **size})
    return {
        "name": "wide-real",
        "description": "Measured: four ranks write pieces of 4 KiB in turns, in the memory of one machine",
        "source": "python -m benchmarks.studies io-search",
        "license": "CC0-1.0",
        "complete": True,
        "objective": {"column": "bandwidth", "direction": "maximize", "unit": "MiB/s"},
        "context": [{"name": "operation", "kind": "categorical", "role": "operation", "values": ["write"]}],
        "parameter": parameters,
    }


def real(study: Study, searches: Mapping[str, Sequence[int]]) -> None:
    """Measure the whole space in rounds, and search what was measured; ``searches`` are samplers with their runs."""
    rounds, seeds, quick = study.size(6, 1), study.size(10, 1), study.quick
    table = study.kept / "wide"
    study.step(
        "wide space on real ROMIO",
        lambda: _measured(study, table, space(quick=quick), rounds),
        "measured",
        (table.with_suffix(".csv"),),
        parameters=list(PARAMETERS), ranks=RANKS, piece=PIECE, total=TOTAL, rounds=rounds,
    )  # fmt: skip
    budgets = study.size(dict(searches), dict.fromkeys(searches, (5,)))
    study.step(
        "race over the wide space", lambda: _raced(table, budgets, seeds), "measured", budgets=budgets, seeds=seeds
    )


def _measured(study: Study, table: Path, configurations: Sequence[dict[str, Any]], rounds: int) -> dict[str, Any]:
    with in_memory(study) as folder:
        found = sweep.measured(
            sweep.built(study.work), list(map(run_of, configurations)), folder / "wide", study.work, ranks=RANKS, rounds=rounds
        )  # fmt: skip
    rows = study.work / "wide-rows.csv"
    names = [parameter["name"] for parameter in PARAMETERS]
    with rows.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["operation", *names, "repeat", "bandwidth"])
        writer.writerows(_rows(configurations, found))
    stripewise("site", "table", "import", rows, "--schema", write_toml(study.work / "wide-schema.toml", schema()), "--out", table)  # fmt: skip
    medians = [statistics.median(values) for values in found]
    usual = {parameter["name"]: parameter["default"] for parameter in PARAMETERS}
    default = next((m for c, m in zip(configurations, medians, strict=True) if c == usual), None)
    best = max(range(len(medians)), key=medians.__getitem__)
    return {
        "configurations": len(configurations), "runs": sum(map(len, found)), "default": default, "best": medians[best],
        "best_configuration": configurations[best], "median": statistics.median(medians), "worst": min(medians),
        "spread": statistics.median(statistics.stdev(v) / statistics.mean(v) for v in found) if rounds > 1 else None,
        "near": sum(median >= 0.95 * medians[best] for median in medians),
    }  # fmt: skip


def _rows(configurations: Sequence[Mapping[str, Any]], found: Sequence[Sequence[float]]) -> Iterator[list[Any]]:
    for configuration, values in zip(configurations, found, strict=True):
        own = [str(value).lower() if isinstance(value, bool) else value for value in configuration.values()]
        yield from (["write", *own, repeat, round(value, 4)] for repeat, value in enumerate(values))


def _raced(table: Path, budgets: Mapping[str, Sequence[int]], seeds: int) -> dict[str, Any]:
    """Search with one half of the rounds, and judge what a search chose by the other half, which it has not seen."""
    from benchmarks.studies.searches import play  # noqa: PLC0415  loads the engine
    from stripewise.engine.race import Recorded  # noqa: PLC0415
    from stripewise.models.landscape import Landscape  # noqa: PLC0415
    from stripewise.models.table import read_table  # noqa: PLC0415

    whole = read_table(table.with_suffix(".csv"))
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for seed in range(seeds):
        seen = whole.repeats % 2 == seed % 2
        searched, judging = Landscape.of(whole.take(seen)), Landscape.of(whole.take(~seen if (~seen).any() else seen))
        judge = Recorded(judging, seed)

        def true(configuration: Any, judge: Any = judge, judging: Any = judging) -> float:
            return float(judging.truth[judge.point(configuration)])

        space = searched.space
        default = true(space.default)
        best = space.configuration(space.points[int(np.argmax(searched.truth))])
        found["exhaustive"].append({"runs": len(searched.table), "final": true(best), "default": default})
        for name, runs in ((name, runs) for name, several in budgets.items() for runs in several):
            trace = play(
                space, whole.objective, Recorded(searched, seed).run, true, sampler=name, runs=runs, seed=seed
            )  # fmt: skip
            found[f"{name} {runs}"].append({"runs": len(trace.values), "final": trace.final, "default": default})
    return {
        name: {
            "searches": len(own),
            "runs": statistics.median(one["runs"] for one in own),
            "final": statistics.median(one["final"] for one in own),
            "over_default": statistics.median(one["final"] / one["default"] for one in own),
            "over_exhaustive": statistics.median(
                one["final"] / other["final"] for one, other in zip(own, found["exhaustive"], strict=True)
            ),
        }
        for name, own in found.items()
    }
