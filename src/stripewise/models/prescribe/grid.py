"""Every combination of some parameters for one or many workloads, predicted together."""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import place_of, plain_number
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.meaning import with_defaults
from stripewise.catalogue.plan import spell
from stripewise.errors import UserError
from stripewise.models.base import PerformanceModel, combine_deviations
from stripewise.models.domain import Floats
from stripewise.models.measured import NUMBER_ROLES, find_harms, keeps_pair, list_setting_values, mark_together
from stripewise.models.tunables import TunableColumn, bytes_of, known_parameters

MOST = 2_000_000
_ROWS = 200_000
_FEW = 4_000
_LEAST = 2


@dataclass(frozen=True)
class LogPrediction:
    """What is expected of workloads, each with some configuration.

    Attributes
    ----------
    mean, deviation, shared : ndarray, shape (w,)
        Of ln(performance), larger is better; see :class:`stripewise.models.base.Prediction`.
    """

    mean: Floats
    deviation: Floats
    shared: Floats

    def gain_deviation(self, other: LogPrediction) -> Floats:
        """Standard deviation of the gain over other configurations of the same workloads, shape ``(w,)``."""
        return combine_deviations(self.deviation, self.shared, other.deviation, other.shared)


@dataclass(frozen=True)
class BestCombination:
    """The best combination of each workload.

    Attributes
    ----------
    points : ndarray, shape (w, c)
        Of the model's domain.
    combinations : ndarray of int, shape (w,)
        Allowed ones, each behaviour once.
    """

    points: Floats
    expected: LogPrediction
    combinations: NDArray[np.int64]


class CandidateGrid:
    """The combinations of the free parameters.

    Parameters
    ----------
    everything : sequence of TunableColumn
        All tunables: rules may name those that are not free.
    standin : TunableColumn, optional
        The column "collective or not", where ``romio_cb_*`` stands in for it.

    Raises
    ------
    UserError
        If there are more than two million.
    """

    def __init__(
        self,
        model: PerformanceModel,
        free: Sequence[TunableColumn],
        everything: Sequence[TunableColumn],
        standin: TunableColumn | None = None,
    ) -> None:
        self.model = model
        self._standin = standin
        self.free = tuple(free)
        self._tunables = tuple(everything)
        domain = model.domain
        self._known = {name: parameter for name, (_, parameter) in known_parameters(domain.schema).items()}
        choices = [self.choices(tunable) for tunable in free]
        count = int(np.prod([len(c) for c in choices], dtype=np.float64)) if choices else 1
        if count > MOST:
            raise UserError(
                f"{count:,} combinations of {', '.join(k.name for k in free)}, more than the {MOST:,} that are tried",
                "train the model on a table with fewer of these columns: those that never mattered can go",
            )
        self.candidates = np.asarray(list(itertools.product(*choices)), dtype=np.float64).reshape(count, len(choices))
        self._columns = len(domain.columns)
        self._harms = find_harms(domain, self._tunables)
        if standin is None:
            self._harms = tuple(piece for piece in self._harms if piece.condition.names & self._named)

    def choices(self, tunable: TunableColumn) -> list[float]:
        """Numbers of the values that were measured, as points have them."""
        seen, column = self.model.domain.seen[tunable.place], tunable.column
        return [
            float(position) if column.kind == "categorical" else float(column.values[position]) for position in seen
        ]

    def __len__(self) -> int:
        return len(self.candidates)

    # -- rules ---------------------------------------------------------------------------------------------

    def points(self, fixed: Floats) -> Floats:
        """Cross workloads, shape (w, c), with the candidates, shape (w * m, c); candidates vary fastest."""
        points: Floats = np.repeat(fixed, len(self), axis=0)
        for place, tunable in enumerate(self.free):
            points[:, tunable.place] = np.tile(self.candidates[:, place], len(fixed))
        return points

    @property
    def _named(self) -> set[str]:
        """Parameters of stacks that columns are."""
        return {tunable.parameter.name for tunable in self._tunables if tunable.parameter is not None}

    def lawful(
        self, points: Floats, words: Mapping[str, Any], now: Floats, *, founded: bool = True
    ) -> NDArray[np.bool_]:
        """Say which rows are allowed, and set what means nothing in them to its default; ``points`` are changed.

        Parameters
        ----------
        points : ndarray, shape (n * m, c)
        words : mapping
            The workload's words, scalars or arrays of length ``n``.
        now : ndarray, shape (n, c)
            The same with today's settings: of what is expected to harm only a change counts.
        founded : bool
            Leave out what was never measured together, and what is expected to harm.
        """
        columns = self._columns_of(points, words)
        allowed = np.ones(len(points), dtype=bool)
        for tunable in self._ordered():
            parameter = tunable.parameter
            assert parameter is not None
            default = self._default(tunable, columns)
            # Where the default cannot be told, what means nothing stays as it is today.
            usual = np.repeat(now[:, tunable.place], len(points) // len(now)) if default is None else default
            acts = parameter.acts_in(columns, len(points))
            points[:, tunable.place] = np.where(acts, points[:, tunable.place], usual)
            self._note(columns, tunable, points)
            if parameter.maximum_from is not None and parameter.maximum_from.names <= columns.keys():
                allowed &= points[:, tunable.place] <= np.asarray(parameter.maximum_from(columns), dtype=np.float64)
            for constraint in tunable.constraints:
                if constraint.names <= columns.keys():
                    allowed &= np.broadcast_to(np.asarray(constraint(columns), dtype=bool), allowed.shape)
        return allowed & self.measured(points, words) & self._harmless(points, words, now) if founded else allowed

    def acting(self, points: Floats, words: Mapping[str, Any]) -> list[TunableColumn]:
        """List what is free and means something in at least one of some points, shape ``(n, c)``."""
        columns = self._columns_of(points, words)
        rules = [(tunable, tunable.parameter) for tunable in self.free]
        return [t for t, p in rules if p is None or p.acts_in(columns, len(points)).any()]

    # -- what the measurements and the stacks support ------------------------------------------------------

    def measured(self, points: Floats, words: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Say which rows keep to what was measured: the table's constraints, and values measured together."""
        allowed = mark_together(self.model.domain, points)
        for rule in self.model.domain.schema.rules:
            allowed &= self._truth(rule, self._by_column(points, words))
        return allowed

    def _harmless(self, points: Floats, words: Mapping[str, Any], now: Floats) -> NDArray[np.bool_]:
        """Say which rows are under no condition that is expected to harm and that does not hold today."""
        allowed = np.ones(len(points), dtype=bool)
        if not self._harms or not len(points):
            return allowed
        after, before = (self._by_parameter(rows, words) for rows in (points, now))
        for piece in self._harms:
            held = np.broadcast_to(self._truth(piece.condition, before), len(now))
            allowed &= ~self._truth(piece.condition, after) | np.repeat(held, len(points) // len(now))
        return allowed

    def why_not(self, point: Floats, words: Mapping[str, Any], now: Floats) -> list[str]:
        """Say what leaves a combination out, of which no measurement says that it does well.

        Parameters
        ----------
        point, now : ndarray, shape (c,)
        words : mapping
            The workload's words.
        """
        domain, rows = self.model.domain, point[None, :]
        columns = self._by_column(rows, words)
        found = []
        told_of: set[str] = set()
        for rule in domain.schema.rules:
            if not self._truth(rule, columns).all():
                told_of |= rule.names
                told = self._spell({name: columns[name] for name in sorted(rule.names)})
                found.append(f"{told} was never measured: the table's constraint is {rule.text}")
        folded = domain.folded(rows)
        for pair in () if domain.measured is None else domain.measured.apart:
            places = {domain.names[place]: place for place in (pair.other, pair.place)}
            if not keeps_pair(domain, pair, folded).all() and not places.keys() & told_of:
                told = self._spell({name: domain.values(place, folded[:, place]) for name, place in places.items()})
                found.append(f"{told} was never measured")
        after, before = self._by_parameter(rows, words), self._by_parameter(now[None, :], words)
        for piece in self._harms:
            if self._truth(piece.condition, after).all() and not self._truth(piece.condition, before).any():
                names = piece.condition.names & (self._named | ({*after} - {*words}))
                found.append(
                    f"{self._spell({name: after[name] for name in sorted(names)})} is expected to be {piece.gain:.2g} "
                    f"times as fast ({piece.source}), and no measurement of such a workload says otherwise"
                )
        return found

    @staticmethod
    def _spell(values: Mapping[str, Any]) -> str:
        return " with ".join(f"{name} = {spell(plain_number(np.ravel(v).tolist()[0]))}" for name, v in values.items())

    @staticmethod
    def _truth(rule: Expression, values: Mapping[str, Any]) -> NDArray[np.bool_]:
        return np.asarray(rule(values), dtype=bool)

    def _by_column(self, points: Floats, words: Mapping[str, Any]) -> dict[str, Any]:
        """Values of what a table's constraints name: its columns, else words and parameters."""
        domain = self.model.domain
        own = {name: domain.values(place, points[:, place]) for place, name in enumerate(domain.names)}
        return {**self._by_parameter(points, words), **own}

    def _by_parameter(self, points: Floats, words: Mapping[str, Any]) -> dict[str, Any]:
        """Values of what the stacks' conditions name: words, of numbers as the columns have them, and parameters."""
        told = with_defaults(self._told(points, words), self._known.values())
        return {**told, **list_setting_values(self.model.domain, self._tunables, self._standin, points)}

    def _told(self, points: Floats, words: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the words of each point: of numbers as its columns have them, which also stand for unknown ones."""
        domain = self.model.domain
        told = {name: w if np.ndim(w) == 0 else np.repeat(w, len(points) // len(w)) for name, w in words.items()}
        for place, column in enumerate(domain.schema.context):
            if column.role in NUMBER_ROLES:
                told[column.role] = points[:, place] * bytes_of(column)
            elif place == domain.operation:
                told[column.role] = domain.values(place, points[:, place])
        return told

    # -- rules of the stacks -------------------------------------------------------------------------------

    def _ordered(self) -> list[TunableColumn]:
        """Free settings, each after those that its rules name."""
        remaining = [tunable for tunable in self.free if tunable.parameter is not None]
        ordered: list[TunableColumn] = []
        while remaining:
            names = {k.parameter.name for k in remaining if k.parameter is not None}
            ready = next((k for k in remaining if not self._needs(k) & names), remaining[0])
            ordered.append(ready)
            remaining.remove(ready)
        return ordered

    @staticmethod
    def _needs(tunable: TunableColumn) -> set[str]:
        assert tunable.parameter is not None
        return {name for rule in tunable.parameter.rules for name in rule.names} - {tunable.parameter.name}

    def _columns_of(self, points: Floats, words: Mapping[str, Any]) -> dict[str, Any]:
        columns = self._told(points, words)
        # A parameter that the model does not have acts at its default, and rules that name it see just that.
        columns = with_defaults(columns, (self._known[name] for name in self._unknown()))
        for tunable in self._tunables:
            self._note(columns, tunable, points)
        return columns

    def _unknown(self) -> set[str]:
        """Parameters of stacks that rules name and no column is."""
        own = [tunable.parameter for tunable in self._tunables if tunable.parameter is not None]
        rules = [rule for tunable in self.free for rule in tunable.constraints]
        rules += [rule for parameter in own for rule in parameter.rules]
        named = {name for rule in rules for name in rule.names}
        return (named & self._known.keys()) - {parameter.name for parameter in own}

    def _note(self, columns: dict[str, Any], tunable: TunableColumn, points: Floats) -> None:
        if tunable.parameter is not None:
            columns[tunable.parameter.name] = self.model.domain.values(tunable.place, points[:, tunable.place])

    def put_defaults(self, points: Floats, words: Mapping[str, Any], told: Container[str]) -> Floats:
        """Give points with the defaults that follow from the workload, such as one aggregator per node.

        Parameters
        ----------
        told : container of str
            Columns whose values today are known.
        """
        result = points.copy()
        columns = self._by_parameter(points, words)
        for tunable in self._tunables:
            if tunable.name not in told and (found := self._derived_default(tunable, columns)) is not None:
                result[:, tunable.place] = found
        return result

    def _derived_default(self, tunable: TunableColumn, columns: Mapping[str, Any]) -> Floats | None:
        """Numbers of a default that the workload decides; None for other settings."""
        parameter = tunable.parameter
        rule = None if parameter is None or tunable.column.default is not None else parameter.default_from
        if rule is None or not rule.names <= columns.keys() or tunable.column.kind == "categorical":
            return None
        return np.asarray(rule(columns), dtype=np.float64) / bytes_of(tunable.column)

    def _default(self, tunable: TunableColumn, columns: Mapping[str, Any]) -> float | Floats | None:
        """Numbers of a setting's default, where it can be told: one of the column's, or what the workload decides."""
        parameter = tunable.parameter
        assert parameter is not None
        if tunable.column.role in ("stripe_count", "stripe_size"):
            return None
        if tunable.column.default is None and parameter.default_from is not None:
            return self._derived_default(tunable, columns)
        default = parameter.default if tunable.column.default is None else tunable.column.default
        place = place_of(default, tunable.column.values)
        if place is None:
            return None
        if tunable.column.kind == "categorical":
            return float(place) if place in self.model.domain.seen[tunable.place] else None
        return float(tunable.column.values[place])

    # -- predictions ---------------------------------------------------------------------------------------

    def best(
        self, fixed: Floats, words: Mapping[str, Any], groups: int = 1, *, founded: bool = True
    ) -> BestCombination:
        """Find the best combination of each workload; of one without any, the expectation is minus infinity.

        Parameters
        ----------
        fixed : ndarray, shape (w * groups, c)
            Points with today's settings. With ``groups`` > 1 as many rows in a row are the same workload with
            different values of what is unknown; their predictions are averaged.
        words : mapping
            The workload's words, scalars or arrays of length ``w * groups``.
        founded : bool
            See :meth:`lawful`.
        """
        workloads = len(fixed) // groups
        step = max(1, _ROWS // max(1, len(self) * groups))
        parts = []
        for start in range(0, workloads, step):
            rows = slice(start * groups, min(workloads, start + step) * groups)
            own = {name: w[rows] if isinstance(w, np.ndarray) else w for name, w in words.items()}
            parts.append(self._some(fixed[rows], own, groups, founded))
        return BestCombination(
            np.concatenate([p.points for p in parts]),
            LogPrediction(
                *(np.concatenate([getattr(p.expected, k) for p in parts]) for k in ("mean", "deviation", "shared"))
            ),
            np.concatenate([p.combinations for p in parts]),
        )

    def _some(self, fixed: Floats, words: Mapping[str, Any], groups: int, founded: bool) -> BestCombination:
        workloads, m = len(fixed) // groups, len(self)
        points = self.points(fixed)
        lawful = self.lawful(points, words, fixed, founded=founded).reshape(workloads, groups, m)
        allowed: NDArray[np.bool_] = np.logical_and.reduce(lawful, axis=1)
        shaped = points.reshape(workloads, groups, m, -1)
        rough = self.model.rough(points) if len(points) > _FEW else None
        if rough is not None:
            rough = rough.reshape(workloads, groups, m).mean(axis=1)
            rough = np.where(allowed, rough, -np.inf)
            kept = min(m, max(_LEAST, _FEW // max(1, workloads * groups)))
            chosen = np.argpartition(-rough, kept - 1, axis=1)[:, :kept]
        else:
            chosen = np.broadcast_to(np.arange(m), (workloads, m))
        picked = np.take_along_axis(shaped, chosen[:, None, :, None], axis=2)
        found = self.model.predict_points(picked.reshape(-1, points.shape[1]))
        mean, deviation, shared = (
            each.reshape(workloads, groups, -1).mean(axis=1) for each in (found.mean, found.deviation, found.shared)
        )
        mean = np.where(np.take_along_axis(allowed, chosen, axis=1), mean, -np.inf)
        # Among equals the cheaper, then the first: folded forms of one behaviour are equal to the last bit.
        price = self._price(picked[:, 0].reshape(-1, points.shape[1])).reshape(mean.shape)
        paid = np.where(mean >= mean.max(axis=1, keepdims=True), price, np.inf)
        place = np.argmin(paid, axis=1)
        rows = np.arange(workloads)
        count = (
            np.array([self._distinct(shaped[w, 0][allowed[w]]) for w in rows])
            if workloads <= 64
            else (allowed.sum(axis=1))
        )
        return BestCombination(
            picked[rows, 0, place], LogPrediction(mean[rows, place], deviation[rows, place], shared[rows, place]), count
        )

    def _distinct(self, points: Floats) -> int:
        return len(np.unique(points, axis=0))

    def _price(self, points: Floats) -> Floats:
        """What larger values cost: the sum of cost times log2(value)."""
        total = np.zeros(len(points))
        for tunable in self.free:
            if tunable.parameter is not None and tunable.parameter.cost > 0 and tunable.column.kind == "ordinal":
                total += tunable.parameter.cost * np.log2(np.maximum(points[:, tunable.place], 1.0))
        return total

    def predict(self, points: Floats, groups: int = 1) -> LogPrediction:
        """What is expected of points, averaged over groups of rows."""
        found = self.model.predict_points(points)
        return LogPrediction(
            *(each.reshape(-1, groups).mean(axis=1) for each in (found.mean, found.deviation, found.shared))
        )
