"""An evaluation from the question to the answer: test cases with prescriptions, and what their runs have shown.

The statistics are those of the neural-network study of MPI-IO (its Listing 5 and Tables 8 to 11): each case's value is
the mean of its repeats. The oracle knows for each workload which of all measured settings is best; it chooses on
some repeats and is scored on the others, so that its luck is not counted.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Configuration
from stripewise.documents import make_finite
from stripewise.errors import UserError
from stripewise.models.cases import CasePoints, EvaluationCase, cases_campaign, configuration_of, make_cases
from stripewise.models.registry import load_model
from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Point, Points
from stripewise.requests.objective import Objective
from stripewise.runners.native.benchmark import Bench

Values = Mapping[tuple[str, Configuration], Sequence[float]]
"""Measured values of points, by operation and values, in the order of their repeats."""

_WORTH = 1.05
_COMMON = 10


@dataclass(frozen=True)
class JudgedCase:
    """A case with what was measured.

    Attributes
    ----------
    default, tuned, oracle : float
        Means over repeats; the oracle's of repeats on which it did not choose.
    """

    case: EvaluationCase
    default: float
    tuned: float
    oracle: float


def judge(
    cases: Sequence[EvaluationCase], values: Values, objective: Objective, campaign: Campaign
) -> list[JudgedCase]:
    """Put cases and measurements together; cases whose runs all failed are left out."""
    oracle = _oracles(values, objective, campaign)
    judged = []
    for case in cases:
        before, after = values.get(_key(case.default), ()), values.get(_key(case.tuned), ())
        if before and after:
            best = oracle[_workload(case.default.operation, case.default.values, campaign)]
            judged.append(JudgedCase(case, float(np.mean(before)), float(np.mean(after)), best))
    return judged


def _key(point: Point) -> tuple[str, Configuration]:
    return point.operation, point.values


def _workload(operation: str, values: Configuration, campaign: Campaign) -> tuple[str, Configuration]:
    """What the operation cannot change: the workload, and tunables of other operations."""
    fixed = [factor.name for factor in campaign.workload]
    fixed += [tunable.name for tunable in campaign.tunable if operation not in tunable.operations]
    return operation, Configuration({name: values[name] for name in fixed})


def _oracles(values: Values, objective: Objective, campaign: Campaign) -> dict[tuple[str, Configuration], float]:
    """Value of the best of all measured settings of each workload.

    Each repeat in turn scores what the other repeats choose, so that luck is not counted; the mean over all turns.
    """
    groups: dict[tuple[str, Configuration], list[NDArray[np.float64]]] = {}
    for (operation, point), runs in values.items():
        if runs:
            groups.setdefault(_workload(operation, point, campaign), []).append(np.asarray(runs, dtype=np.float64))
    return {key: _oracle(members, objective) for key, members in groups.items()}


def _oracle(members: Sequence[NDArray[np.float64]], objective: Objective) -> float:
    turns = max(len(runs) for runs in members)
    whole = [runs for runs in members if len(runs) == turns]
    table = np.stack(whole)
    sign = 1.0 if objective.maximize else -1.0
    if turns == 1:
        return float(sign * np.max(sign * table))
    scores = []
    for turn in range(turns):
        others = np.delete(table, turn, axis=1).mean(axis=1)
        scores.append(table[int(np.argmax(sign * others)), turn])
    return float(np.mean(scores))


def evaluation(judged: Sequence[JudgedCase], objective: Objective, campaign: Campaign) -> dict[str, Any]:
    """Make the tables of an evaluation.

    Returns
    -------
    dict
        By operation; the keys are those of ``docs/reference/prescribe.md``.

    Raises
    ------
    UserError
        If no case was measured.
    """
    if not judged:
        raise UserError("no test case has a result", "look at the runs' failures")
    found: dict[str, Any] = {}
    for operation in campaign.operations:
        own = [entry for entry in judged if entry.case.default.operation == operation]
        if own:
            found[operation] = _table(own, objective, campaign)
    return found


def _table(judged: Sequence[JudgedCase], objective: Objective, campaign: Campaign) -> dict[str, Any]:
    default = np.array([entry.default for entry in judged])
    tuned = np.array([entry.tuned for entry in judged])
    oracle = np.array([entry.oracle for entry in judged])
    changed = np.array([entry.case.changed for entry in judged])
    better = np.array([objective.better(entry.tuned, entry.default) for entry in judged]) & changed
    ratio = np.array([objective.speedup(entry.tuned, entry.default) for entry in judged])
    possible = np.array([objective.speedup(entry.oracle, entry.default) for entry in judged])
    reached = np.array([objective.speedup(entry.tuned, entry.oracle) for entry in judged])
    worth = possible > _WORTH
    gain, oracle_gain = _overall(default, tuned, objective), _overall(default, oracle, objective)
    n = len(judged)
    return {
        "cases": n,
        "improved": int(better.sum()),
        "not_improved": int((changed & ~better).sum()),
        "unchanged": int((~changed).sum()),
        "improved_percent": 100.0 * float(better.mean()),
        "default": _statistics(default),
        "tuned": _statistics(tuned),
        "oracle": _statistics(oracle),
        "overall_gain_percent": gain,
        "oracle_gain_percent": oracle_gain,
        "share_of_oracle_gain": gain / oracle_gain if oracle_gain > 0 else None,
        "geometric_speedup": _geometric_mean(ratio),
        "oracle_geometric_speedup": _geometric_mean(possible),
        "of_oracle": {
            "arithmetic_percent": 100.0 * float(np.mean(reached)),
            "harmonic_percent": 100.0 / float(np.mean([math.inf if share == 0 else 1.0 / share for share in reached])),
            "worst_percent": 100.0 * float(reached.min()),
        },
        "improvable": int(worth.sum()),
        "improvable_improved": int((worth & better).sum()),
        "improvable_improved_percent": 100.0 * float(better[worth].mean()) if worth.any() else None,
        "common": _list_common(judged, better, campaign),
    }


def _geometric_mean(ratios: NDArray[np.float64]) -> float:
    """0 or infinite where a value of 0 makes a ratio so; not a number where both occur."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.exp(np.mean(np.log(ratios))))


def _statistics(values: NDArray[np.float64]) -> dict[str, float]:
    """The study's: of all cases, population variance."""
    return {
        "mean": float(values.mean()),
        "max": float(values.max()),
        "min": float(values.min()),
        "median": float(np.median(values)),
        "standard_deviation": float(values.std()),
        "variance": float(values.var()),
    }


def _overall(default: NDArray[np.float64], other: NDArray[np.float64], objective: Objective) -> float:
    """Improvement of the mean in percent."""
    ratio = objective.speedup(float(other.mean()), float(default.mean()))
    return 100.0 * (ratio - 1.0)


def _list_common(judged: Sequence[JudgedCase], better: NDArray[np.bool_], campaign: Campaign) -> list[dict[str, Any]]:
    """The settings prescribed most often, with how often each improved the case."""
    chosen = [configuration_of(entry.case, campaign) for entry in judged]
    count = Counter(c for c, entry in zip(chosen, judged, strict=True) if entry.case.changed)
    improved = Counter(c for c, good in zip(chosen, better, strict=True) if good)
    return [
        {
            "settings": dict(configuration),
            "selected": times,
            "improved": improved[configuration],
            "not_improved": times - improved[configuration],
            "improved_percent": 100.0 * improved[configuration] / times,
        }
        for configuration, times in count.most_common(_COMMON)
    ]


def pairs(judged: Sequence[JudgedCase]) -> list[dict[str, Any]]:
    """Each case with its values, for machines and figures."""
    return [
        {
            "operation": entry.case.default.operation,
            "default_settings": dict(entry.case.default.values),
            "tuned_settings": dict(entry.case.tuned.values),
            "default": make_finite(entry.default),
            "tuned": make_finite(entry.tuned),
            "oracle": make_finite(entry.oracle),
        }
        for entry in judged
    ]


def choose_for_cases(asked: Campaign, model: Path, defaults: Sequence[Point], *, eager: bool) -> dict[str, Any]:
    """Prescribe for a campaign's test cases; see :meth:`Evaluation.prepare`.

    Returns
    -------
    dict
        Of plain JSON values: ``model`` (``name``, ``table``, ``rows``), ``campaign`` (under which the cases are
        measured), ``tuned`` (values of each case) and ``seconds``.
    """
    loaded = load_model(model)
    loaded.add_stacks(asked.stacks)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    own = cases_campaign(asked, loaded, f"{'e' if eager else 'c'}{digest}")
    begun = time.perf_counter()
    cases = make_cases(Points(own), defaults, loaded, eager=eager)
    return {
        "model": {"name": loaded.name, "table": loaded.domain.schema.name, "rows": loaded.domain.rows},
        "campaign": own.model_dump(mode="json", exclude_unset=True),
        "tuned": [dict(case.tuned.values) for case in cases],
        "seconds": time.perf_counter() - begun,
    }


@dataclass(frozen=True)
class Evaluation:
    """Test cases with their prescriptions, ready to be measured.

    Attributes
    ----------
    asked : Campaign
        Whose points are the default test cases.
    model : dict
        ``name``, ``table`` and ``rows``.
    points : CasePoints
        To be measured; their campaign is the evaluation's own.
    seconds : float
        That the prescriptions took.
    """

    asked: Campaign
    model: dict[str, Any]
    cases: list[EvaluationCase]
    points: CasePoints
    eager: bool
    seconds: float

    @classmethod
    def prepare(cls, asked: Campaign, model: Path, defaults: Sequence[Point], *, eager: bool = False) -> Evaluation:
        """Prescribe for a campaign's test cases.

        Parameters
        ----------
        model : Path
            Written by ``stripewise site train``.
        defaults : sequence of Point
            The test cases as they are.
        eager : bool
            Take the best prediction even where its gain is within its uncertainty.

        Raises
        ------
        UserError
            If the model cannot be read or does not fit, or the campaign cannot be evaluated.
        """
        return cls.of(asked, defaults, choose_for_cases(asked, model, defaults, eager=eager), eager=eager)

    @classmethod
    def of(cls, asked: Campaign, defaults: Sequence[Point], found: Mapping[str, Any], *, eager: bool) -> Evaluation:
        """Put test cases and what :func:`choose_for_cases` gave for them together."""
        own = Campaign.model_validate(found["campaign"])
        points = Points(own)
        cases = [
            EvaluationCase(default, points.point(default.operation, tuned) or default)
            for default, tuned in zip(defaults, found["tuned"], strict=True)
        ]
        return cls(asked, found["model"], cases, CasePoints(own, cases), eager, found["seconds"])

    @property
    def says(self) -> str:
        """What will be measured, in a line."""
        changed = sum(case.changed for case in self.cases)
        return (
            f"cases     {len(self.cases):,}, {changed:,} of them with other settings prescribed; "
            f"{len(self.points.all):,} points"
        )

    def document(self, values: Values, failed: int, bench: Bench) -> dict[str, Any]:
        """Give the document of ``evaluate --json``.

        Parameters
        ----------
        failed : int
            Runs without a value.
        bench : Bench
            What the runs were made with.

        Raises
        ------
        UserError
            If no case was measured.
        """
        own, objective = self.points.campaign, bench.objective(self.points.all[0])
        judged = judge(self.cases, values, objective, own)
        return {
            "campaign": self.asked.name,
            "model": self.model,
            "simulated": bench.simulated,
            "kind": bench.kind,
            "eager": self.eager,
            "objective": {"name": self.asked.objective, "direction": objective.direction, "unit": objective.unit},
            "repeats": own.repeats,
            "cases": len(self.cases),
            "points": len(self.points.all),
            "failed": failed,
            "left_out": len(self.cases) - len(judged),
            "decision_seconds": self.seconds,
            "operations": evaluation(judged, objective, own),
            "pairs": pairs(judged),
        }
