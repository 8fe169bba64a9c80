"""Several experiments side by side: what each found, what it cost, and whether they may be compared at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from stripewise.plots.places import comparison, progress
from stripewise.report.reading import Reading


def gain(reading: Reading) -> tuple[float, float | None, float | None, bool] | None:
    """Speed-up over the own default, ends of its interval, and whether it is proven; None before there is any."""
    result = reading.result
    if result["confirmed"]:
        low, high = result.get("speedup_ci95") or (None, None)
        return float(result["speedup"]), low, high, True
    candidate = result.get("candidate") or {}
    if candidate.get("speedup") is None:
        return None
    low, high = candidate.get("speedup_ci95") or (None, None)
    return float(candidate["speedup"]), low, high, False


def settings(reading: Reading) -> dict[str, Any]:
    """What the best changes, or what looks best."""
    result = reading.result
    shown = result["best"] if result["confirmed"] else result.get("candidate") or {}
    default = reading.default
    return {k: v for k, v in shown.get("configuration", {}).items() if default.get(k) != v}


def figures(readings: Mapping[str, Reading]) -> dict[str, go.Figure]:
    """Draw speed-ups and the way to them; readings by the names to be shown."""
    rows = {name: found for name, reading in readings.items() if (found := gain(reading)) is not None}
    drawn: dict[str, go.Figure] = {}
    if rows:
        drawn["speedups"] = comparison(rows)
    curves: dict[str, list[tuple[int, float]]] = {}
    lasts: dict[str, int] = {}
    for name, reading in readings.items():
        base = reading.result["default"].get("value")
        if not base:
            continue
        curves[name] = [
            (run, value / base if reading.maximize else base / value) for run, value in reading.incumbent() if value
        ]
        lasts[name] = max((run.number for run, _ in reading.runs), default=0)
    if any(curves.values()):
        drawn["progress"] = progress(curves, lasts)
    return drawn


def differences(readings: Sequence[Reading]) -> list[str]:
    """Say what keeps experiments from being compared number by number."""
    notes = []
    for what, values in (
        ("objectives", {f"{r.quantity} ({r.result['objective']['direction']})" for r in readings}),
        ("workloads", {_words(r.result.get("workload") or {}) for r in readings}),
        ("MPI libraries", {str(r.result.get("environment", {}).get("mpi") or "unknown") for r in readings}),
        ("hosts", {str(r.result.get("environment", {}).get("host") or "unknown") for r in readings}),
        ("kinds of figures", {"simulated" if r.result.get("simulated") else "measured" for r in readings}),
    ):
        if len(values) > 1:
            notes.append(f"different {what}: {'; '.join(sorted(values))}")
    return notes


def _words(workload: Mapping[str, Any]) -> str:
    keys = ("operation", "nodes", "processes_per_node", "file_size", "transfer_size", "layout")
    return " ".join(f"{key}={workload[key]}" for key in keys if workload.get(key) is not None) or "unknown"
