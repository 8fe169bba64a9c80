"""What a model expects: the present settings, the prescribed ones, and the best case with a changed program."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.workload import Workload
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.prescription import Prescription
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import load_model
from stripewise.observe.activity import Activity
from stripewise.observe.workload import describe_workload

_MIB = 2**20
_WIDE = 1.96


@dataclass(frozen=True)
class Expectation:
    """What is expected in one of the three cases.

    Attributes
    ----------
    what : {"present settings", "prescribed settings", "best case"}
    objective : float or None
        In the model's unit.
    seconds : float or None
        I/O time; None where the objective says nothing of time.
    speedup : float or None
        Over the present settings.
    interval : (float, float) or None
        95% interval of the speed-up.
    """

    what: str
    says: str
    objective: float | None = None
    seconds: float | None = None
    speedup: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class SettingsPrediction:
    """Expectations for one job.

    Attributes
    ----------
    origin : str
        The model, and whether its measurements were simulated.
    settings : tuple of Setting
        The prescribed ones.
    decided : tuple of Setting
        All that the model chose among, changed or not, with the values chosen.
    notes : tuple of str
        What was not known of the job.
    """

    origin: str
    expectations: tuple[Expectation, ...]
    settings: tuple[Setting, ...] = ()
    decided: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        return {
            "origin": self.origin,
            "expectations": [asdict(expectation) for expectation in self.expectations],
            "settings": [setting.line() for setting in self.settings],
            "decided": [setting.line() for setting in self.decided],
            "notes": list(self.notes),
        }


def predict(activity: Activity, model: Path) -> SettingsPrediction:
    """Ask a model about a job.

    Parameters
    ----------
    model : Path
        Written by ``stripewise site train``.

    Raises
    ------
    UserError
        If the model cannot be read, or knows nothing of such jobs.
    """
    loaded = load_model(model)
    seen = describe_workload(activity)
    request = PrescriptionRequest(Workload()).with_observed(seen, loaded.domain)
    found = Prescriber(loaded).prescribe(request)
    origin = f"{found.origin}{' (simulated measurements)' if found.simulated else ''}"
    notes = (*seen.notes, *found.notes)
    return SettingsPrediction(origin, tuple(_cases(found, activity)), found.plan.settings, found.decided, notes)


def _cases(found: Prescription, activity: Activity) -> list[Expectation]:
    cases = [_case("present settings", found, activity, found.current)]
    gain = 0.0
    if found.kept or found.gain is None:
        why = found.kept or "there is nothing to change"
        cases.append(Expectation("prescribed settings", f"the present settings stay: {why}"))
    else:
        gain = found.gain
        cases.append(_case("prescribed settings", found, activity, found.predicted, gain, found.deviation))
    best = max(found.advice, key=lambda advice: advice.speedup, default=None)
    if best is not None and best.speedup > 1:
        gain += math.log(best.speedup)
        larger = found.objective is None or found.objective.maximize
        value = None if found.current is None else found.current * math.exp(gain if larger else -gain)
        case = _case("best case", found, activity, value, gain, found.deviation)
        cases.append(replace(case, says=f"{case.says}, if the program changed: {best.text}"))
    return cases


def _case(
    what: str,
    found: Prescription,
    activity: Activity,
    value: float | None,
    gain: float = 0.0,
    deviation: float | None = None,
) -> Expectation:
    unit = found.objective.unit if found.objective is not None else ""
    seconds = _seconds(unit, activity, value)
    interval = None
    if deviation is not None and gain:
        interval = (math.exp(gain - _WIDE * deviation), math.exp(gain + _WIDE * deviation))
    says = "unknown" if value is None else f"{value:.4g} {unit}".rstrip()
    if seconds is not None:
        says += f", {seconds:.3g} s of I/O"
    if gain:
        says += f", {math.exp(gain):.3g} times as fast"
    if interval:
        says += f" (95% interval {interval[0]:.3g} to {interval[1]:.3g})"
    return Expectation(what, says, value, seconds, math.exp(gain), interval)


def _seconds(unit: str, activity: Activity, value: float | None) -> float | None:
    if value is None or value <= 0:
        return None
    if unit == "s":
        return value
    return activity.bytes / _MIB / value if unit == "MiB/s" else None
