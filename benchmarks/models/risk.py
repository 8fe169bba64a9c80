"""Whether caution makes better choices for workloads left out, and how good choices can be under the noise of a table.

    python benchmarks/models/risk.py CHECKOUTS [TABLE]

CHECKOUTS is the folder of the public repositories (see ``public.py``); the table is ``forwarding_marenostrum`` unless
another is named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from public import TABLES
from run import GROUPS, held_out

from stripewise.models.landscape import list_landscapes
from stripewise.models.prescription_quality import Quality, judge_choices, log_performance, score_true_best
from stripewise.models.registry import make_model
from stripewise.models.table import Table

CAUTION = (0.25, 0.5, 1.0)
SHARES = (0.05, 0.1, 0.2)
LEAST = 4
"""Repeats of a workload of which the oracle is asked; it is accurate to about a point from eight on."""


def of_oracle(table: Table) -> Quality | None:
    """Choices that are the best in truth, under runs that scatter as the measured ones."""
    draws = score_true_best([log_performance(landscape) for landscape in list_landscapes(table)], least=LEAST)
    if draws is None:
        return None
    each = [Quality.of(ratios) for ratios in draws]
    means = [float(np.mean([getattr(q, name) for q in each])) for name in ("arithmetic", "harmonic", "worst")]
    return Quality(*means, workloads=draws.shape[1])


def by_workload(table: Table, of: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Fill in a number for each row from the rows of its workload and their configurations."""
    found = np.empty(len(table))
    configurations = np.unique(table.levels, axis=0, return_inverse=True)[1].reshape(-1)
    for context in table.contexts():
        rows = np.flatnonzero(table.of(context))
        found[rows] = of(rows, configurations[rows])
    return found


def main() -> None:
    name = sys.argv[2] if len(sys.argv) > 2 else "forwarding_marenostrum"
    table = next(entry for entry in TABLES if entry.name == name).table(Path(sys.argv[1]))
    fold = held_out(table, "workloads", GROUPS)
    mean, deviation = np.empty(len(table)), np.empty(len(table))
    for number in np.unique(fold):
        test = fold == number
        told = make_model("auto").fit(table.take(~test)).predict_table(table.take(test))
        mean[test], deviation[test] = told.mean, told.deviation

    def say(label: str, quality: Quality | None) -> None:
        if quality is not None:
            print(f"{label}: {quality.arithmetic:.1f}, {quality.harmonic:.1f}, {quality.worst:.1f}", flush=True)

    def judged(score: np.ndarray) -> Quality:
        return judge_choices(table, fold, np.exp(score if table.objective.maximize else -score)).quality

    say("expected logarithm", judged(mean))
    for caution in CAUTION:
        say(f"less {caution} standard deviations", judged(mean - caution * deviation))

    log = np.log(table.values) * (1.0 if table.objective.maximize else -1.0)

    def median(rows: np.ndarray, configurations: np.ndarray) -> np.ndarray:
        return np.array([np.median(log[rows[configurations == own]]) for own in configurations])

    truth = by_workload(table, median)
    behind = by_workload(table, lambda rows, configurations: truth[rows] - truth[rows].max())
    configuration = np.unique(table.levels, axis=0, return_inverse=True)[1].reshape(-1)
    usual = np.empty(len(table))
    for number in np.unique(fold):
        for own in np.unique(configuration):
            rows = (fold == number) & (configuration == own)
            usual[rows] = behind[(fold != number) & (configuration == own)].mean()
    for share in SHARES:
        say(f"{share:.0%} of what is good everywhere", judged((1.0 - share) * mean + share * usual))
    say("the best medians of these very runs", judged(truth))
    say("oracle", of_oracle(table))


if __name__ == "__main__":
    main()
