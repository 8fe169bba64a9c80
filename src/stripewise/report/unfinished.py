"""An experiment read at any moment: what its runs show so far, in the words of a result."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from stripewise.measure.statistics import median_ci
from stripewise.report.reading import Reading
from stripewise.spec.objective import Objective
from stripewise.spec.trial import Phase, Role, Run, State, Trial
from stripewise.store.base import Record


def reading_of(record: Record, trials: Sequence[Trial], completed: Callable[[str], str] = str) -> Reading:
    """Read an experiment: by its result, or by what is known until it has one."""
    if record.result is None:
        record = replace(record, result=so_far(record, trials))
    return Reading(record, trials, completed)


def so_far(record: Record, trials: Sequence[Trial]) -> dict[str, Any]:
    """Write what an unfinished experiment has shown: the parts of a result that need no conclusion.

    Nothing in it is confirmed: ``best`` is the default, and ``candidate`` is what looks best in the search.
    """
    objective = _objective(record)
    default = next((trial for trial in trials if trial.role is Role.DEFAULT), None)
    reference = next((trial for trial in trials if trial.role is Role.REFERENCE), None)
    space = dict(record.facts.get("space") or {"parameters": _parameters(trials)})
    base = {p["name"]: p.get("default") for p in space["parameters"]}
    sign = -1 if objective.maximize else 1
    ranked = sorted(
        (trial for trial in trials if trial.value is not None and trial.role is Role.CANDIDATE),
        key=lambda trial: (sign * float(trial.value or 0.0), trial.number),
    )
    best = ranked[0] if ranked else None
    better = (
        best is not None
        and best.value is not None
        and (default is None or default.value is None or objective.better(best.value, default.value))
    )
    runs = [run for trial in trials for run in trial.runs]
    return {
        "experiment": record.id,
        "name": record.experiment.name,
        "simulated": record.experiment.runner.startswith("sim:"),
        "state": record.state,
        "objective": asdict(objective),
        "default": {**_summary(default), "configuration": base},
        "reference": None if reference is None else _summary(reference),
        # Figures stress the trial; nothing better than the default is claimed.
        "best": {"configuration": base, **_summary(default), "trial": _shown(best if better else default)},
        "candidate": _candidate(best, default, objective) if better and best is not None else None,
        "confirmed": False,
        "confirmation": {"pairs": pairs(runs)},
        "failures": _failures(runs),
        "runs": len(runs),
        "seconds": float(record.facts.get("seconds", 0.0)),
        "node_hours": sum(float(run.facts.get("node_hours", 0.0)) for run in runs),
        "environment": dict(record.facts.get("environment", {})),
        "workload": dict(record.facts.get("workload", {})),
        "space": space,
    }


def pairs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """List the pairs of the confirmation as they stand, those of the latest candidate."""
    own = sorted((run for run in runs if run.phase is Phase.CONFIRMATION), key=lambda run: run.number)
    if not own:
        return []
    latest = own[-1].facts.get("against")
    rows: dict[int, dict[str, Any]] = {}
    for run in own:
        if run.pair is None or run.facts.get("against") != latest:
            continue
        row = rows.setdefault(
            run.pair, {"pair": run.pair, "order": f"{run.arm}-first", "default": None, "candidate": None}
        )
        if run.state is State.FINISHED:
            row[run.arm] = run.value
    return list(rows.values())


def _objective(record: Record) -> Objective:
    known = record.facts.get("objective")
    return Objective(**known) if known else record.experiment.objective.build()


def _parameters(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """The parameters as the trials name them, where the space is not known yet."""
    found: dict[str, list[Any]] = {}
    for trial in trials:
        for name, value in trial.configuration.items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    default: Mapping[str, Any] = next((trial.configuration for trial in trials if trial.role is Role.DEFAULT), {})
    return [
        {"name": name, "values": values, "count": len(values), "default": default.get(name)}
        for name, values in found.items()
    ]


def _shown(trial: Trial | None) -> int | None:
    return None if trial is None else trial.number


def _summary(trial: Trial | None) -> dict[str, Any]:
    if trial is None or not trial.values:
        return {"value": None, "ci95": None, "runs": 0}
    found = median_ci(trial.values)
    known = found.low is not None and found.high is not None
    return {"value": found.median, "ci95": [found.low, found.high] if known else None, "runs": found.runs}


def _candidate(best: Trial, default: Trial | None, objective: Objective) -> dict[str, Any]:
    speedup = None
    if default is not None and default.values and best.values:
        speedup = objective.speedup(statistics.median(best.values), statistics.median(default.values))
    return {
        "configuration": dict(best.configuration),
        "trial": best.number,
        "value": best.value,
        "speedup": speedup,
        "speedup_ci95": None,
    }


def _failures(runs: Sequence[Run]) -> list[dict[str, Any]]:
    failed = [run for run in runs if run.state is State.FAILED]
    first = {run.reason: run.number for run in reversed(failed)}
    return [
        {"run": first[reason], "reason": reason, "count": count}
        for reason, count in Counter(run.reason for run in failed).most_common()
    ]
