"""Test cases of a campaign with their prescriptions: the points to be measured to judge a model by its choices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from stripewise.catalogue.configuration import Configuration, Value
from stripewise.errors import UserError
from stripewise.models.base import PerformanceModel
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.table import Column
from stripewise.models.tunables import bytes_of
from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Point, Points

LEAST_REPEATS = 3


@dataclass(frozen=True)
class EvaluationCase:
    """A test case.

    Attributes
    ----------
    default : Point
        As it is before: the settings that the campaign lists.
    tuned : Point
        With the prescribed values in place of them.
    """

    default: Point
    tuned: Point

    @property
    def changed(self) -> bool:
        """Whether anything else was prescribed."""
        return self.default.values != self.tuned.values


class CasePoints(Points):
    """The points that the cases need, each once: defaults and prescriptions.

    Parameters
    ----------
    campaign : Campaign
        A grid; see :func:`cases_campaign`.
    """

    def __init__(self, campaign: Campaign, cases: Sequence[EvaluationCase]) -> None:
        super().__init__(campaign)
        self.cases = tuple(cases)
        self._union: dict[str, tuple[Point, ...]] = {}
        for operation in campaign.operations:
            own = [case for case in cases if case.default.operation == operation]
            points = {point.values: point for case in own for point in (case.default, case.tuned)}
            self._union[operation] = tuple(points.values())

    def of(self, operation: str) -> tuple[Point, ...]:
        """Give the points of an operation."""
        return self._union[operation]


def cases_campaign(campaign: Campaign, model: PerformanceModel, model_digest: str) -> Campaign:
    """Give the campaign under which the cases are measured.

    It has a name, and so a journal, of its own; its tunables may have the model's values beside their own.

    Raises
    ------
    UserError
        If the campaign asks for fewer than three repeats, or is sequential.
    """
    if campaign.repeats < LEAST_REPEATS:
        raise UserError(
            f"campaign {campaign.name} has {campaign.repeats} repeats, an evaluation needs {LEAST_REPEATS} or more",
            f"give --repeats {LEAST_REPEATS}",
        )
    if campaign.design.kind == "sequential":
        raise UserError(
            "test cases of a sequential design depend on one another", "use grid, subset or latin_hypercube"
        )
    fields = campaign.model_dump(mode="json", exclude_unset=True)
    fields |= {"name": f"{campaign.name}-{model_digest[:8]}", "design": {"kind": "grid"}, "repeats": campaign.repeats}
    known = {column.name: (place, column) for place, column in enumerate(model.domain.columns)}
    for entry, tunable in zip(fields["tunable"], campaign.tunable, strict=True):
        if tunable.name not in known:
            continue
        place, column = known[tunable.name]
        seen = [
            _from_model(column.values[position], column, tunable.unit or "") for position in model.domain.seen[place]
        ]
        values = [*tunable.values, *(value for value in seen if value not in tunable.values)]
        entry["values"] = sorted(values, key=float) if tunable.ordered else values
        if tunable.default is None and tunable.role in ("stripe_count", "stripe_size"):
            # A layout's default is the first value: it is to stay what it was.
            entry["default"] = tunable.values[0]
    return Campaign.model_validate(fields)


def make_cases(
    points: Points, defaults: Sequence[Point], model: PerformanceModel, *, eager: bool = False
) -> list[EvaluationCase]:
    """Prescribe for test cases, all at once.

    Parameters
    ----------
    points : Points
        Of :func:`cases_campaign`.
    defaults : sequence of Point
        The test cases as they are.
    eager : bool
        See :meth:`Prescriber.everything`.

    Raises
    ------
    UserError
        If the model needs a column that the campaign does not have, or tunes nothing of it.
    """
    domain = model.domain
    tunables = {factor.name for factor in points.campaign.tunable}
    known = {column.name for column in domain.columns[domain.contexts :]}
    if not tunables & known:
        raise UserError(
            f"the model tunes none of {', '.join(sorted(tunables))}", f"it tunes {', '.join(sorted(known))}"
        )
    units = {factor.name: factor.unit or "" for factor in points.campaign.factors}
    requests = [_request(point, domain.columns, domain.contexts, units) for point in defaults]
    answers = Prescriber(model).everything(requests, eager=eager)
    cases = []
    for point, answer in zip(defaults, answers, strict=True):
        tuned = dict(point.values)
        for column in domain.columns[domain.contexts :]:
            if column.name in tunables:
                tuned[column.name] = _from_model(answer[column.name], column, units[column.name])
        cases.append(EvaluationCase(point, _find_point(points, point.operation, tuned, tunables - known) or point))
    return cases


def _find_point(points: Points, operation: str, tuned: Mapping[str, Any], unknown: Set[str]) -> Point | None:
    """The point of prescribed values; None where there is none.

    Tunables that the model does not have keep their values where the campaign's constraints allow it. Otherwise they
    follow what was prescribed: they take their first values that are allowed.
    """
    found = points.point(operation, tuned)
    if found is not None:
        return found
    follow = [factor for factor in points.campaign.tunable if factor.name in unknown and operation in factor.operations]
    for values in itertools.product(*(factor.values for factor in follow)):
        changed = dict(zip((factor.name for factor in follow), values, strict=True))
        found = points.point(operation, {**tuned, **changed})
        if found is not None:
            return found
    return None


def _request(point: Point, columns: Sequence[Column], contexts: int, units: dict[str, str]) -> PrescriptionRequest:
    given: dict[str, Value] = {}
    current: dict[str, Value] = {}
    for place, column in enumerate(columns):
        if column.name in point.values:
            value = _to_model(point.values[column.name], column, units[column.name])
            (given if place < contexts else current)[column.name] = value
    return PrescriptionRequest(point.workload, current, given)


def _to_model(value: Value, column: Column, unit: str) -> Value:
    if unit == "B" and bytes_of(column) != 1.0:
        return float(value) / bytes_of(column)
    return value


def _from_model(value: Value, column: Column, unit: str) -> Any:
    if unit == "B" and bytes_of(column) != 1.0:
        return int(float(value) * bytes_of(column))
    return value


def configuration_of(case: EvaluationCase, campaign: Campaign) -> Configuration:
    """The prescribed values of the case's tunables that its operation can set."""
    names = [tunable.name for tunable in campaign.tunable if case.default.operation in tunable.operations]
    return Configuration({name: case.tuned.values[name] for name in names})
