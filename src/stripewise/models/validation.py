"""How well a model predicts what it has not seen: k-fold, inverse k-fold, and leaving out whole workloads.

Nothing of a model is learned from rows that test it: features, ranges, scalings, weights and shifts are all made anew
in every fold.

How good predictions are, and how good they could be: the scores of an oracle that knows every true value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError, choose
from stripewise.models.cells import Data, group_rows
from stripewise.models.domain import Domain, Floats
from stripewise.models.prescription_quality import Prescribing, judge_choices
from stripewise.models.registry import make_model
from stripewise.models.table import Table

_ROUNDING = 1e-24
_EQUAL = 10
_SHARE = 0.05
_GROWTH = 1.10


@dataclass(frozen=True)
class Scores:
    """Scores of predictions ``r`` for measured values ``y``.

    Attributes
    ----------
    prediction_accuracy : float
        ``100 - mean(|y - r| / y) * 100``, in percent; it may be negative.
    mape : float
        Mean absolute error relative to ``y``, in percent.
    r2_log : float or None
        Share of the variance of ln y that is explained; None where y does not vary.
    mae : float
        Mean absolute error, in the objective's unit.
    class_error : float
        See :func:`measure_class_error`.
    typical_factor : float
        By which half of the predictions are wrong at most.
    """

    prediction_accuracy: float
    mape: float
    r2_log: float | None
    mae: float
    class_error: float
    typical_factor: float

    def as_json(self) -> Mapping[str, float | None]:
        """By name."""
        return asdict(self)


def score_predictions(actual: Floats, predicted: Floats, *, maximize: bool) -> Scores:
    """Score predictions.

    Parameters
    ----------
    actual, predicted : ndarray, shape (n,)
        Positive; at least one.
    maximize : bool
        Whether larger is better, for the classes.
    """
    mape = 100.0 * float(np.mean(np.abs(actual - predicted) / actual))
    y, r = np.log(actual), np.log(predicted)
    total = float(np.sum((y - y.mean()) ** 2))
    return Scores(
        prediction_accuracy=100.0 - mape,
        mape=mape,
        # Equal values leave rounding errors, of which nothing is to be explained.
        r2_log=1.0 - float(np.sum((y - r) ** 2)) / total if total > _ROUNDING * len(y) else None,
        mae=float(np.mean(np.abs(actual - predicted))),
        class_error=measure_class_error(actual, predicted, maximize=maximize),
        typical_factor=float(np.exp(np.median(np.abs(y - r)))),
    )


def score_oracle(table: Table) -> Scores | None:
    """Scores of the noise-free oracle: it predicts each run by the median of all runs of its folded configuration.

    Returns
    -------
    Scores or None
        None where nothing was repeated: noise is then unknown.
    """
    truth = find_true_values(table)
    if truth is None:
        return None
    return score_predictions(table.values, truth, maximize=table.objective.maximize)


def find_true_values(table: Table) -> Floats | None:
    """True value of each row: the median over all runs that fold together; None where nothing was repeated."""
    data = Data.of(Domain.of(table), table)
    if data.gathered.count.max() < 2:
        return None
    truth: Floats = data.gathered.medians(table.values)[data.gathered.cell]
    return truth


def list_class_bounds(maximum: float) -> Floats:
    """Upper bounds of all performance classes but the last, which has none; ascending.

    Ten classes are of equal width up to 5% of the maximum, then each is 10% wider than the one before. A class says how
    far apart two performances are where a relative error would exaggerate (very slow runs) and an absolute one would
    hide it (Kunkel, Zimmer and Betke, 2015).

    Parameters
    ----------
    maximum : float
        Largest performance of the system; positive.
    """
    width = maximum * _SHARE / _EQUAL
    bounds = [width * (i + 1) for i in range(_EQUAL)]
    while bounds[-1] < maximum:
        width *= _GROWTH
        bounds.append(bounds[-1] + width)
    return np.asarray(bounds[:-1] if len(bounds) > _EQUAL else bounds)


def classify_values(values: Floats, bounds: Floats) -> NDArray[np.int64]:
    """Class of each performance, 0 for the slowest; a value on a bound belongs below it."""
    return np.searchsorted(bounds, values, side="left").astype(np.int64)


def measure_class_error(actual: Floats, predicted: Floats, *, maximize: bool) -> float:
    """Mean distance, in classes, between what was measured and what was predicted.

    Parameters
    ----------
    actual, predicted : ndarray, shape (n,)
        Positive values of the objective.
    maximize : bool
        Whether larger values are better; if not, performance is the inverse.
    """
    first = actual if maximize else 1.0 / actual
    second = predicted if maximize else 1.0 / predicted
    bounds = list_class_bounds(float(first.max()))
    return float(np.mean(np.abs(classify_values(first, bounds) - classify_values(second, bounds))))


ALL_CONTEXTS = "contexts"
"""Stands for all context columns: leave one workload out."""

_FOLDS = 5
_MOST_FITS = 10
_LEAST_TRAINING = 2

Progress = Callable[[int, int], None]
"""Told how many fits are done, of how many."""


@dataclass(frozen=True)
class HoldOut:
    """Which rows a model is tested on without having seen them, in one of three ways.

    By default each of ``folds`` random parts of the rows is held out. With ``inverse`` one part is learned from and all
    others are predicted, which shows how little needs to be measured: the parts are halves, quarters ... down to
    ``inverse`` parts, of many parts ten are learned from, and the metrics are those of the smallest parts. With
    ``columns`` all rows that share a value in each of these are held out, one group after the other. With all context
    columns (or the word ``contexts``) this is leave-one-workload-out. If every fold consists of whole workloads,
    prescriptions are judged too.

    Attributes
    ----------
    folds : int or None
        Random parts, 5 by default; with ``columns`` the groups are dealt at random into so many: a table may have
        thousands.
    inverse : int or None
        Learn from one of so many parts.
    columns : sequence of str
        Leave out what shares a value of these.
    depths : sequence of int
        With ``columns``: of the trees that prescribe, see :func:`judge_choices`.
    """

    folds: int | None = None
    inverse: int | None = None
    columns: Sequence[str] = ()
    depths: Sequence[int] = ()
    seed: int = 0


@dataclass(frozen=True)
class ValidationResult:
    """What a validation found.

    Attributes
    ----------
    rows : int
        Of the table.
    tested : int
        Rows that were predicted; all, but for inverse k-fold, where a row is predicted several times.
    how : str
        What was held out, in words.
    oracle : Scores or None
        Of the noise-free oracle on all rows; None where nothing was repeated.
    curve : list of dict
        Of inverse k-fold: training rows with the scores, the smallest first.
    prescription : Prescribing or None
        Where whole workloads were held out.
    skipped : list of str
        Folds that could not be scored, with the reason.
    pairs : list of (float, float)
        Of each row that was predicted: measured and predicted value, for figures. Empty for inverse k-fold.
    """

    model: str
    rows: int
    tested: int
    folds: int
    how: str
    metrics: Scores
    oracle: Scores | None
    curve: list[dict[str, Any]] = field(default_factory=list)
    prescription: Prescribing | None = None
    skipped: list[str] = field(default_factory=list)
    pairs: list[tuple[float, float]] = field(default_factory=list, repr=False)

    @property
    def verdict(self) -> str:
        """Say in one sentence how good predictions and choices are."""
        said = f"usually wrong by a factor of {self.metrics.typical_factor:.2g}"
        if self.prescription is None:
            return said
        quality = self.prescription.quality
        return f"{said}; its choices reach {quality.arithmetic:.0f}% of the best, at worst {quality.worst:.0f}%"

    def as_json(self) -> dict[str, Any]:
        """Give the document of ``validate --json``."""
        return {
            "verdict": self.verdict,
            "model": self.model,
            "rows": self.rows,
            "folds": self.folds,
            "held_out": self.how,
            "metrics": {
                **self.metrics.as_json(),
                "oracle_accuracy": None if self.oracle is None else self.oracle.prediction_accuracy,
                "oracle_r2_log": None if self.oracle is None else self.oracle.r2_log,
            },
            "prescription": None if self.prescription is None else self.prescription.as_json(),
            "learning_curve": self.curve,
            "skipped": self.skipped,
        }


def validate(
    table: Table,
    model: str,
    options: Mapping[str, Any] | None = None,
    hold_out: HoldOut = HoldOut(),
    progress: Progress = lambda done, of: None,
) -> ValidationResult:
    """Validate a kind of model on a table, as ``stripewise site validate`` is asked.

    Parameters
    ----------
    model : str
        A name of :mod:`stripewise.models.registry`.
    options : mapping, optional
        Of the model.

    Raises
    ------
    UserError
        If the ways are mixed up; fewer than two folds, more folds than rows, or parts too small to learn from; an
        unknown column, columns that never vary, or depths where no whole workloads are held out.
    """
    if hold_out.inverse is not None and (hold_out.folds is not None or hold_out.columns):
        raise UserError("--inverse excludes --folds and --leave-out", "choose one")
    if hold_out.depths and not hold_out.columns:
        raise UserError("--depths needs whole workloads to be held out", "add --leave-out contexts")
    table.check_learnable()
    asked = _Validation(table, model, options, hold_out.seed, progress)
    if hold_out.columns:
        return asked.leave_out(hold_out.columns, hold_out.folds, hold_out.depths)
    if hold_out.inverse is not None:
        return asked.inverse(hold_out.inverse)
    return asked.random(_FOLDS if hold_out.folds is None else hold_out.folds)


@dataclass(frozen=True)
class _Validation:
    """What is validated, whichever way."""

    table: Table
    model: str
    options: Mapping[str, Any] | None
    seed: int
    progress: Progress

    def random(self, folds: int) -> ValidationResult:
        rows = len(self.table)
        if not 2 <= folds <= rows:
            raise UserError(f"{folds} folds of {rows} rows are not possible", f"choose 2 to {rows}")
        fold = np.random.default_rng(self.seed).permutation(rows) % folds
        return self._result(*self._predict(fold), folds, "random rows")

    def inverse(self, folds: int) -> ValidationResult:
        table, most = self.table, len(self.table) // _LEAST_TRAINING
        if not 2 <= folds <= most:
            raise UserError(
                f"{folds} parts of {len(table)} rows leave too few rows to learn from", f"choose 2 to {most}"
            )
        sizes = sorted({folds, *(2**i for i in range(1, 32) if 2**i < folds)}, reverse=True)
        fits = sum(min(parts, _MOST_FITS) for parts in sizes)
        done, curve, skipped = 0, [], []
        found: list[tuple[Scores, int]] = []
        for parts in sizes:
            part = np.random.default_rng(self.seed).permutation(len(table)) % parts
            actual, predicted = [], []
            for chosen in range(min(parts, _MOST_FITS)):
                train = part == chosen
                values, reason = self._fit_predict(train, ~train)
                done += 1
                self.progress(done, fits)
                if reason:
                    skipped.append(f"part {chosen + 1} of {parts}: {reason}")
                known = np.isfinite(values)
                actual.append(table.values[~train][known])
                predicted.append(values[known])
            tested = sum(map(len, actual))
            if not tested:
                raise UserError(f"no row of table {table.name} could be predicted: {skipped[-1]}", "measure more rows")
            score = score_predictions(
                np.concatenate(actual), np.concatenate(predicted), maximize=table.objective.maximize
            )
            curve.append({"parts": parts, "training_rows": len(table) // parts, **score.as_json()})
            found.append((score, tested))
        how, (score, tested) = f"all but one of {folds} random parts", found[0]
        return ValidationResult(
            self.model, len(table), tested, folds, how, score, score_oracle(table), curve, None, skipped
        )

    def leave_out(self, columns: Sequence[str], folds: int | None, depths: Sequence[int]) -> ValidationResult:
        table = self.table
        names = [column.name for column in table.schema.columns]
        contexts = [column.name for column in table.schema.context]
        wanted = contexts if list(columns) == [ALL_CONTEXTS] and ALL_CONTEXTS not in names else list(columns)
        if not wanted:
            raise UserError(f"table {table.name} has no contexts to leave out", "name columns, or use --folds")
        for name in wanted:
            if name not in names:
                raise UserError(f"table {table.name} has no column {name}", choose(name, names))
        levels = table.every_level[:, [names.index(n) for n in wanted]]
        fold = group_rows(levels)
        groups = int(fold.max()) + 1
        if groups < 2:
            raise UserError(f"{', '.join(wanted)} never varies in table {table.name}", "leave out another column")
        if folds is not None and folds < 2:
            raise UserError(f"{folds} groups cannot be held out one after the other", "choose 2 or more")
        if folds is not None and folds < groups:
            fold = (np.random.default_rng(self.seed).permutation(groups) % folds)[fold]
        folds = groups if folds is None else min(folds, groups)
        whole = set(wanted) <= set(contexts)
        if depths and not whole:
            raise UserError(
                "--depths needs whole workloads to be held out",
                f"leave out contexts only: {', '.join(contexts) or 'none'}",
            )
        predicted, skipped = self._predict(fold)
        judged = None
        if whole and not np.isnan(predicted).all():
            judged = judge_choices(table, fold, predicted, depths, self.seed)
        return self._result(predicted, skipped, folds, ", ".join(wanted), judged)

    def _predict(self, fold: NDArray[np.int64]) -> tuple[NDArray[np.float64], list[str]]:
        """Predict each row by a model of the other folds; NaN where that was impossible."""
        predicted = np.full(len(self.table), np.nan)
        skipped: list[str] = []
        folds = int(fold.max()) + 1
        for chosen in range(folds):
            test = fold == chosen
            if test.any():
                predicted[test], reason = self._fit_predict(~test, test)
                if reason:
                    skipped.append(f"fold {chosen + 1}: {reason}")
            self.progress(chosen + 1, folds)
        return predicted, skipped

    def _fit_predict(self, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> tuple[NDArray[np.float64], str]:
        """Predict the test rows; those with a category that no model can guess are left NaN, with the reason."""
        learning, testing = self.table.take(train), self.table.take(test)
        fitted = make_model(self.model, self.options).fit(learning, self.seed)
        known = find_predictable(fitted.domain, testing)
        values = np.full(len(testing), np.nan)
        if known.any():
            values[known] = fitted.predict_table(testing.take(known)).value
        beyond = int((~known).sum())
        return values, f"{beyond} rows have a category that the other folds never show" if beyond else ""

    def _result(
        self,
        predicted: NDArray[np.float64],
        skipped: list[str],
        folds: int,
        how: str,
        judged: Prescribing | None = None,
    ) -> ValidationResult:
        table, known = self.table, np.isfinite(predicted)
        if not known.any():
            raise UserError(
                f"no row of table {table.name} could be predicted: {skipped[0]}", "leave out fewer columns at once"
            )
        actual, found = table.values[known], predicted[known]
        score = score_predictions(actual, found, maximize=table.objective.maximize)
        pairs = list(zip(actual.tolist(), found.tolist(), strict=True))
        return ValidationResult(
            *(self.model, len(table), len(actual), folds, how, score, score_oracle(table)), [], judged, skipped, pairs
        )


def find_predictable(domain: Domain, testing: Table) -> NDArray[np.bool_]:
    """Find the rows whose categories were measured, or can be predicted from those that were, shape ``(n,)``."""
    known = np.ones(len(testing), dtype=bool)
    for index, column in enumerate(domain.columns):
        if column.kind == "categorical" and not domain.admits_new(index):
            known &= np.isin(testing.every_level[:, index], domain.seen[index])
    return known
