"""How well a model predicts what it has not seen: k-fold, inverse k-fold, and leaving out whole workloads.

Nothing of a model is learned from rows that test it: features, ranges, scalings, weights and shifts are all made anew
in every fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.evaluation.prescribing import Prescribing, prescribing
from stripewise.model.metrics import Scores, oracle_scores, scores
from stripewise.model.registry import make_model
from stripewise.model.table import Table

ALL_CONTEXTS = "contexts"
"""Stands for all context columns: leave one workload out."""

_FOLDS = 5
_MOST_FITS = 10
_LEAST_TRAINING = 2

Progress = Callable[[int, int], None]
"""Told how many fits are done, of how many."""


@dataclass(frozen=True)
class ValidationResult:
    """What a validation found.

    Attributes
    ----------
    model : str
    rows : int
        Of the table.
    tested : int
        Rows that were predicted; all, but for inverse k-fold, where a row is predicted several times.
    folds : int
    how : str
        What was held out, in words.
    metrics : Scores
    oracle_accuracy : float or None
        Prediction accuracy of the noise-free oracle on the same rows; None where nothing was repeated.
    oracle_r2_log : float or None
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
    oracle_accuracy: float | None
    oracle_r2_log: float | None
    curve: list[dict[str, Any]] = field(default_factory=list)
    prescription: Prescribing | None = None
    skipped: list[str] = field(default_factory=list)
    pairs: list[tuple[float, float]] = field(default_factory=list, repr=False)

    def as_json(self) -> dict[str, Any]:
        """Give the document of ``validate --json``."""
        return {
            "model": self.model,
            "rows": self.rows,
            "folds": self.folds,
            "held_out": self.how,
            "metrics": {
                **self.metrics.as_json(),
                "oracle_accuracy": self.oracle_accuracy,
                "oracle_r2_log": self.oracle_r2_log,
            },
            "prescription": None if self.prescription is None else self.prescription.as_json(),
            "learning_curve": self.curve,
            "skipped": self.skipped,
        }


def validate(
    table: Table,
    model: str,
    options: Mapping[str, Any] | None = None,
    *,
    folds: int | None = None,
    inverse: int | None = None,
    columns: Sequence[str] = (),
    depths: Sequence[int] = (),
    seed: int = 0,
    progress: Progress = lambda done, of: None,
) -> ValidationResult:
    """Validate in one of the three ways, as ``stripewise validate`` is asked.

    Parameters
    ----------
    folds : int, optional
        Random parts, 5 by default; with ``columns`` groups of what is left out.
    inverse : int, optional
        Learn from one of so many parts.
    columns : sequence of str
        Leave out what shares a value of these.
    depths : sequence of int
        With ``columns``: of the trees that prescribe.

    Raises
    ------
    UserError
        If the ways are mixed up, or as the functions of each.
    """
    if inverse is not None and (folds is not None or columns):
        raise UserError("--inverse excludes --folds and --leave-out", "choose one")
    if depths and not columns:
        raise UserError("--depths needs whole workloads to be held out", "add --leave-out contexts")
    if columns:
        return leave_out(table, model, columns, options, folds=folds, depths=depths, seed=seed, progress=progress)
    if inverse is not None:
        return inverse_validate(table, model, options, folds=inverse, seed=seed, progress=progress)
    return cross_validate(table, model, options, folds=_FOLDS if folds is None else folds, seed=seed, progress=progress)


def cross_validate(
    table: Table,
    model: str,
    options: Mapping[str, Any] | None = None,
    *,
    folds: int,
    seed: int = 0,
    progress: Progress = lambda done, of: None,
) -> ValidationResult:
    """Hold out each of ``folds`` random parts of the rows.

    Raises
    ------
    UserError
        Fewer than two folds, more folds than rows, or a fold from which a model cannot be made.
    """
    table.check_positive()
    if not 2 <= folds <= len(table):
        raise UserError(f"{folds} folds of {len(table)} rows are not possible", f"choose 2 to {len(table)}")
    fold = np.random.default_rng(seed).permutation(len(table)) % folds
    predicted, skipped = _predict(table, model, options, fold, seed, progress)
    return _validation(table, model, predicted, folds, "random rows", skipped)


def inverse_validate(
    table: Table,
    model: str,
    options: Mapping[str, Any] | None = None,
    *,
    folds: int,
    seed: int = 0,
    progress: Progress = lambda done, of: None,
) -> ValidationResult:
    """Learn from one part and predict all others: how little needs to be measured.

    The parts are halves, quarters ... down to ``folds`` parts; of many parts ten are learned from. The metrics are
    those of the smallest parts.

    Raises
    ------
    UserError
        As :func:`cross_validate`, or parts too small to learn from.
    """
    table.check_positive()
    if not 2 <= folds <= len(table) // _LEAST_TRAINING:
        raise UserError(
            f"{folds} parts of {len(table)} rows leave too few rows to learn from",
            f"choose 2 to {len(table) // _LEAST_TRAINING}",
        )
    sizes = sorted({folds, *(2**i for i in range(1, 32) if 2**i < folds)}, reverse=True)
    fits = sum(min(parts, _MOST_FITS) for parts in sizes)
    done, curve, skipped = 0, [], []
    first: tuple[Scores, Table] | None = None
    for parts in sizes:
        part = np.random.default_rng(seed).permutation(len(table)) % parts
        actual, predicted, tested = [], [], []
        for chosen in range(min(parts, _MOST_FITS)):
            train = part == chosen
            values, reason = _fit_predict(table, model, options, train, ~train, seed)
            done += 1
            progress(done, fits)
            if reason:
                skipped.append(f"part {chosen + 1} of {parts}: {reason}")
            known = np.isfinite(values)
            rows = np.flatnonzero(~train)[known]
            actual.append(table.values[rows])
            predicted.append(values[known])
            tested.append(rows)
        if not sum(map(len, actual)):
            raise UserError(f"no row of table {table.name} could be predicted: {skipped[-1]}", "measure more rows")
        score = scores(np.concatenate(actual), np.concatenate(predicted), maximize=table.objective.maximize)
        rows = len(table) // parts
        curve.append({"parts": parts, "training_rows": rows, **score.as_json()})
        if first is None:
            first = (score, table.take(np.concatenate(tested)))
    if first is None:
        raise AssertionError("unreachable: there is at least one size")
    oracle = oracle_scores(table)
    return ValidationResult(
        model, len(table), len(first[1]), folds, f"all but one of {folds} random parts", first[0],
        None if oracle is None else oracle.prediction_accuracy, None if oracle is None else oracle.r2_log,
        curve, None, skipped,
    )  # fmt: skip


def leave_out(
    table: Table,
    model: str,
    columns: Sequence[str],
    options: Mapping[str, Any] | None = None,
    *,
    folds: int | None = None,
    depths: Sequence[int] = (),
    seed: int = 0,
    progress: Progress = lambda done, of: None,
) -> ValidationResult:
    """Hold out, one after the other, all rows that share a value in each of some columns.

    With all context columns (or the word ``contexts``) this is leave-one-workload-out. If every fold consists of whole
    workloads, prescriptions are judged too.

    Parameters
    ----------
    folds : int, optional
        Deal them at random into so many groups, and hold out one group after the other: a table may have thousands.
    depths : sequence of int
        Depths of the trees that prescribe, see :func:`prescribing`.

    Raises
    ------
    UserError
        An unknown column, columns that never vary, or depths where no whole workloads are held out.
    """
    table.check_positive()
    names = [column.name for column in table.schema.columns]
    contexts = [column.name for column in table.schema.context]
    wanted = contexts if list(columns) == [ALL_CONTEXTS] and ALL_CONTEXTS not in names else list(columns)
    if not wanted:
        raise UserError(f"table {table.name} has no contexts to leave out", "name columns, or use --folds")
    for name in wanted:
        if name not in names:
            raise UserError(f"table {table.name} has no column {name}", f"choose from {', '.join(names)}")
    levels = np.concatenate([table.context_levels, table.levels], axis=1)[:, [names.index(name) for name in wanted]]
    fold = np.unique(levels, axis=0, return_inverse=True)[1].reshape(-1)
    groups = int(fold.max()) + 1
    if groups < 2:
        raise UserError(f"{', '.join(wanted)} never varies in table {table.name}", "leave out another column")
    if folds is not None and folds < 2:
        raise UserError(f"{folds} groups cannot be held out one after the other", "choose 2 or more")
    if folds is not None and folds < groups:
        fold = (np.random.default_rng(seed).permutation(groups) % folds)[fold]
    folds = groups if folds is None else min(folds, groups)
    whole = set(wanted) <= set(contexts)
    if depths and not whole:
        raise UserError(
            "--depths needs whole workloads to be held out", f"leave out contexts only: {', '.join(contexts) or 'none'}"
        )
    predicted, skipped = _predict(table, model, options, fold, seed, progress)
    judged = prescribing(table, fold, predicted, depths, seed) if whole and not np.isnan(predicted).all() else None
    return _validation(table, model, predicted, folds, ", ".join(wanted), skipped, judged)


def _predict(
    table: Table,
    model: str,
    options: Mapping[str, Any] | None,
    fold: NDArray[np.int64],
    seed: int,
    progress: Progress,
) -> tuple[NDArray[np.float64], list[str]]:
    """Predict each row by a model of the other folds; NaN where that was impossible."""
    predicted = np.full(len(table), np.nan)
    skipped: list[str] = []
    folds = int(fold.max()) + 1
    for chosen in range(folds):
        test = fold == chosen
        if test.any():
            values, reason = _fit_predict(table, model, options, ~test, test, seed)
            predicted[test] = values
            if reason:
                skipped.append(f"fold {chosen + 1}: {reason}")
        progress(chosen + 1, folds)
    return predicted, skipped


def _fit_predict(
    table: Table,
    model: str,
    options: Mapping[str, Any] | None,
    train: NDArray[np.bool_],
    test: NDArray[np.bool_],
    seed: int,
) -> tuple[NDArray[np.float64], str]:
    """Predict the test rows; those with a category that training never showed are left NaN, with the reason."""
    learning, testing = table.take(train), table.take(test)
    fitted = make_model(model, options).fit(learning, seed)
    new = _unseen(learning, testing)
    values = np.full(len(testing), np.nan)
    if not new.all():
        values[~new] = fitted.predict_table(testing.take(~new)).value
    if not new.any():
        return values, ""
    return values, f"{int(new.sum())} rows have a category that the other folds never show"


def _unseen(learning: Table, testing: Table) -> NDArray[np.bool_]:
    """Rows of ``testing`` with a category that ``learning`` has never shown, shape ``(n,)``."""
    new = np.zeros(len(testing), dtype=bool)
    seen = np.concatenate([learning.context_levels, learning.levels], axis=1)
    asked = np.concatenate([testing.context_levels, testing.levels], axis=1)
    for index, column in enumerate(learning.schema.columns):
        if column.kind == "categorical":
            new |= ~np.isin(asked[:, index], seen[:, index])
    return new


def _validation(
    table: Table,
    model: str,
    predicted: NDArray[np.float64],
    folds: int,
    how: str,
    skipped: list[str],
    judged: Prescribing | None = None,
) -> ValidationResult:
    known = np.isfinite(predicted)
    if not known.any():
        raise UserError(
            f"no row of table {table.name} could be predicted: {skipped[0]}", "leave out fewer columns at once"
        )
    score = scores(table.values[known], predicted[known], maximize=table.objective.maximize)
    oracle = oracle_scores(table)
    return ValidationResult(
        model, len(table), int(known.sum()), folds, how, score,
        None if oracle is None else oracle.prediction_accuracy, None if oracle is None else oracle.r2_log,
        [], judged, skipped, list(zip(table.values[known].tolist(), predicted[known].tolist(), strict=True)),
    )  # fmt: skip
