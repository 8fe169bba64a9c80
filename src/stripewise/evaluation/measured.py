"""An evaluation from the question to the answer: test cases with prescriptions, and what their runs have shown."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.evaluation.cases import CasePoints, EvaluationCase, cases_campaign, make_cases
from stripewise.evaluation.prescribed import Values, evaluation, judge, pairs
from stripewise.model.base import PerformanceModel
from stripewise.model.registry import load_model
from stripewise.runner.native.benchmark import Bench
from stripewise.spec.campaign import Campaign
from stripewise.spec.campaign_points import Point, Points


@dataclass(frozen=True)
class Evaluation:
    """Test cases with their prescriptions, ready to be measured.

    Attributes
    ----------
    asked : Campaign
        Whose points are the default test cases.
    model : PerformanceModel
    cases : list of EvaluationCase
    points : CasePoints
        To be measured; their campaign is the evaluation's own.
    eager : bool
    seconds : float
        That the prescriptions took.
    """

    asked: Campaign
    model: PerformanceModel
    cases: list[EvaluationCase]
    points: CasePoints
    eager: bool
    seconds: float

    @classmethod
    def prepare(cls, asked: Campaign, model: Path, defaults: Sequence[Point], *, eager: bool = False) -> Evaluation:
        """Prescribe for a campaign's test cases.

        Parameters
        ----------
        asked : Campaign
        model : Path
            Written by ``stripewise train``.
        defaults : sequence of Point
            The test cases as they are.
        eager : bool
            Take the best prediction even where its gain is within its uncertainty.

        Raises
        ------
        UserError
            If the model cannot be read or does not fit, or the campaign cannot be evaluated.
        """
        loaded = load_model(model)
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        own = cases_campaign(asked, loaded, f"{'e' if eager else 'c'}{digest}")
        begun = time.perf_counter()
        cases = make_cases(Points(own), defaults, loaded, eager=eager)
        return cls(asked, loaded, cases, CasePoints(own, cases), eager, time.perf_counter() - begun)

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
        values : mapping
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
        domain = self.model.domain
        return {
            "campaign": self.asked.name,
            "model": {"name": self.model.name, "table": domain.schema.name, "rows": domain.rows},
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
