"""What knowing every true value would score, under noise that is known here."""

from __future__ import annotations

import numpy as np
import pytest

from stripewise.models.landscape import Landscape
from stripewise.models.prescription_quality import _judge_choice, log_performance, score_true_best
from stripewise.models.table import Column, ObjectiveColumn, Schema, make_table


def made(truth: np.ndarray, noise: float, repeats: int, seed: int) -> np.ndarray:
    return truth[:, None] + np.random.default_rng(seed).normal(0.0, noise, (len(truth), repeats))


def test_without_noise_all_of_it_can_be_reached() -> None:
    ratios = score_true_best([made(np.linspace(0, 1, 5), 0.0, 8, 0)])
    assert ratios is not None and np.all(ratios == 1.0)


@pytest.mark.parametrize("gaps", [0.0, 0.5])
def test_the_estimate_is_what_the_true_best_scores(gaps: float) -> None:
    """Where configurations are alike, the best measured one is luck, which no model can know."""
    truth = np.linspace(0.0, gaps, 7)
    tables = [made(truth, 0.35, 14, seed) for seed in range(100)]
    actual = np.mean([_judge_choice(logs, 6) for logs in tables])
    estimated = np.mean([np.mean(found) for seed, logs in enumerate(tables[:30])
                         if (found := score_true_best([logs], seed, draws=10)) is not None])  # fmt: skip
    assert actual < 0.97
    assert estimated == pytest.approx(actual, abs=0.025)


def test_a_clear_best_stands_out_of_noise() -> None:
    ratios = score_true_best([made(np.array([0.0, 0.1, 3.0]), 0.02, 10, 1)])
    assert ratios is not None and float(np.mean(ratios)) > 0.985


def test_few_repeats_tell_nothing() -> None:
    assert score_true_best([made(np.zeros(3), 0.1, 7, 0)]) is None
    assert score_true_best([np.full((2, 8), -np.inf)]) is None


def test_repeats_of_what_folds_together_are_averaged_and_smaller_may_be_better() -> None:
    schema = Schema(
        name="t",
        objective=ObjectiveColumn(column="time", direction="minimize", unit="s"),
        parameter=[Column(name="cb_nodes", kind="ordinal", values=[1, 2])],
    )
    rows = [{"cb_nodes": c, "repeat": r, "time": float(c + r)} for c in (1, 2) for r in range(2) if (c, r) != (2, 1)]
    found = log_performance(Landscape.of(make_table(schema, rows, "here")))
    assert found.shape == (2, 2)
    assert np.allclose(found, [[0.0, -np.log(2)], [-np.log(2), np.nan]], equal_nan=True)
