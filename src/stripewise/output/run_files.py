"""The runs of an experiment as files for other tools."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from stripewise.output.experiment_view import ExperimentView
from stripewise.trial import Role, State, Trial

_HEAD = ("run", "trial", "role", "phase", "pair", "arm", "state", "value", "elapsed", "started", "reason")


def write_csv(view: ExperimentView) -> str:
    """Write a row for each run with every parameter's value, as HiPlot and spreadsheets read it."""
    default = view.default
    names = sorted({*default, *(name for trial in view.trials for name in trial.configuration)})
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow([*_HEAD, *map(_cell, names)])
    for run, trial in view.runs:
        values = {**default, **trial.configuration}
        told = {**run.as_json(), "run": run.number, "trial": trial.number, "role": trial.role.value}
        rows.writerow([*(_cell(told.get(name)) for name in _HEAD), *(_cell(values.get(name)) for name in names)])
    return text.getvalue()


def _cell(value: Any) -> Any:
    # A spreadsheet would take such a text for a formula.
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


_INVALIDITY = {State.FAILED: "runtime", State.PRUNED: "timeout"}
"""What T4 calls an ended trial that has no value of its own."""

_CONFIGURED = (Role.DEFAULT, Role.CANDIDATE)
"""All others run something else, with which T4 would take the default's values for measured twice."""


def write_t4(view: ExperimentView) -> str:
    """Write a result for each configuration that ended, in T4.

    Times are in milliseconds, as Kernel Tuner writes them. The format is ``results-schema.json`` 1.0.0 of
    https://github.com/odgaard/TuningSchema.
    """
    ended = [trial for trial in view.trials if any(run.state.ended for run in trial.runs)]
    results = [_result(view, trial) for trial in ended if trial.role in _CONFIGURED]
    return json.dumps({"schema_version": "1.0.0", "results": results}, indent=1, allow_nan=False)


def _result(view: ExperimentView, trial: Trial) -> dict[str, Any]:
    ended = [run for run in trial.runs if run.state.ended]
    began = min((run.started for run in ended if run.started is not None), default=None)
    states = [run.state for run in ended]
    right = State.FINISHED in states
    measured = trial.value
    values = () if measured is None else ({"name": view.quantity, "value": measured, "unit": view.unit},)
    return {
        "timestamp": "" if began is None else datetime.datetime.fromtimestamp(began, datetime.UTC).isoformat(" "),
        "configuration": {**view.default, **trial.configuration},
        "times": {"runtimes": [1e3 * run.elapsed for run in ended if run.elapsed is not None]},
        "invalidity": "correct" if right else _INVALIDITY[states[-1]],
        "correctness": 1.0 if right else 0.0,
        "measurements": list(values),
        "objectives": [view.quantity],
    }


RUN_FILES: Mapping[str, Callable[[ExperimentView], str]] = {".csv": write_csv, ".t4.json": write_t4}
"""How a file of runs is written, by the ending of its name."""
