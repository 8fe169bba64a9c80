"""Several experiments side by side: what each found, what it cost, and whether they may be compared at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from stripewise.catalogue.workload import Workload
from stripewise.output.markup import value_text, workload_text
from stripewise.output.plots.parameters import comparison, progress
from stripewise.output.reading import Reading
from stripewise.result import Interval


def gain(reading: Reading) -> tuple[float, float | None, float | None, bool] | None:
    """Speed-up over the own default, ends of its interval, and whether it is proven; None before there is any."""
    result = reading.result
    if result.confirmed:
        return result.speedup, *_ends(result.speedup_interval), True
    candidate = result.candidate
    if candidate is None or candidate.speedup is None:
        return None
    return candidate.speedup, *_ends(candidate.speedup_interval), False


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def settings(reading: Reading) -> dict[str, Any]:
    """What the best changes, or what looks best."""
    return reading.result.changed(reading.result.shown)


def parameters(readings: Sequence[Reading]) -> list[tuple[str, list[str]]]:
    """Each parameter that the best of one of them changes, with its value in each."""
    names = sorted({name for one in readings for name in settings(one)})
    return [(name, [_setting(one, name) for one in readings]) for name in names]


def _setting(one: Reading, name: str) -> str:
    changed, unit = settings(one), one.units.get(name, "")
    if name in changed:
        return value_text(changed[name], unit)
    return f"default ({value_text(one.default[name], unit)})" if name in one.default else "not searched"


def figures(readings: Mapping[str, Reading]) -> dict[str, go.Figure]:
    """Draw speed-ups and the way to them; readings by the names to be shown."""
    rows = {name: found for name, reading in readings.items() if (found := gain(reading)) is not None}
    drawn: dict[str, go.Figure] = {}
    if rows:
        drawn["speedups"] = comparison(rows)
    curves: dict[str, list[tuple[int, float]]] = {}
    lasts: dict[str, int] = {}
    for name, reading in readings.items():
        base = reading.result.default.value
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
        ("objectives", {f"{r.quantity} ({r.result.objective.direction})" for r in readings}),
        ("workloads", {_words(r.result.workload) for r in readings}),
        ("MPI libraries", {str(r.result.environment.get("mpi") or "unknown") for r in readings}),
        ("hosts", {str(r.result.environment.get("host") or "unknown") for r in readings}),
        ("kinds of figures", {"simulated" if r.result.simulated else "measured" for r in readings}),
    ):
        if len(values) > 1:
            notes.append(f"different {what}: {'; '.join(sorted(values))}")
    return notes


def _words(workload: Workload) -> str:
    keys = {"operation", "nodes", "processes_per_node", "file_size", "transfer_size", "layout"}
    known = workload.model_dump(include=keys, exclude_none=True)
    return " ".join(f"{key}={workload_text(key, value)}" for key, value in known.items()) or "unknown"
