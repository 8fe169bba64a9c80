"""Does it help to learn the cost of a run as a sum of its parts? On recorded real sweeps that keep the reports.

    python benchmarks/search/parts.py record --store STORE --program CHECKPOINT --file /dev/shm/sweep.dat [--sweeps 3]
    python benchmarks/search/parts.py learn --store STORE [--draws 20]

``record`` runs 110 random configurations of ROMIO under ``benchmarks/real_romio/programs/checkpoint.c`` (8 MiB, four
ranks), the same ones in each sweep. ``learn`` shows the process of ``auto`` one run each of some configurations, and
asks for the others: once by their whole time, once by a process for each part, and once with opening, closing and
setting views, which none of these hints can touch, replaced by their median.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "real_programs"))
from launching import carry_out  # noqa: E402
from scipy.stats import spearmanr  # noqa: E402

from stripewise.catalogue.configuration import Value  # noqa: E402
from stripewise.catalogue.space import Levels, Space  # noqa: E402
from stripewise.models.landscape import Landscape  # noqa: E402
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table  # noqa: E402
from stripewise.observe.report import Report, parse_report  # noqa: E402
from stripewise.requests.experiment import Experiment  # noqa: E402
from stripewise.requests.objective import Objective  # noqa: E402
from stripewise.search.belief.belief import believe  # noqa: E402
from stripewise.store.opening import open_store  # noqa: E402
from stripewise.trial import History, Phase, Role, Run, State, Trial  # noqa: E402

NAME = "parts"
PARTS = ("open, close, set view", "exchange and waiting", "writing", "reading in order to write")
Floats = np.ndarray


def record(options: argparse.Namespace) -> None:
    """Run the sweeps."""
    experiment = {
        "name": NAME,
        "command": ["mpiexec", "-n", "4", options.program, options.file, "8"],
        "stacks": ["romio"],
        "objective": "write_bandwidth",
        "sampler": "random",
        "budget": 112,
        "resampling": {"kind": "none"},
        "confirmation": {"pairs": 0},
    }
    for _ in range(options.sweeps):
        with tempfile.TemporaryDirectory() as folder:
            carry_out(Experiment.model_validate(experiment), options.store, Path(folder))


def parts_of(report: Report) -> tuple[float, ...]:
    """Seconds of a rank in each part."""
    file = max(report.files, key=lambda file: file.collective.bytes + file.independent.bytes)

    def seconds(*operations: str) -> float:
        return sum(file.operations[name].time_sum for name in operations if name in file.operations) / file.ranks

    def moving(posix: object) -> float:
        shares = [getattr(posix, name) for name in ("during_collective", "during_independent", "during_write")]
        return sum(share.time_sum or 0.0 for share in shares) / file.ranks

    writing, reading = moving(file.posix.write), moving(file.posix.read)
    calls = seconds("write", "write_at", "write_all", "write_at_all")
    aside = seconds("open", "close", "set_view")
    return aside, max(1e-5, calls - writing - reading), max(1e-5, writing), max(1e-6, reading)


def sweeps(store: str) -> dict[tuple[tuple[str, Value], ...], list[tuple[float, ...]]]:
    """The parts of each run, by configuration."""
    found: dict[tuple[tuple[str, Value], ...], list[tuple[float, ...]]] = {}
    opened = open_store(store)
    for one in opened.records(limit=100):
        if one.experiment.name != NAME or one.result is None:
            continue
        default = one.result.default.configuration
        for trial in opened.trials(one.id):
            values: Mapping[str, Value] = default if trial.role is Role.DEFAULT else trial.configuration
            for run in trial.runs:
                if run.phase is Phase.SEARCH and run.facts.report:
                    found.setdefault(tuple(sorted(values.items())), []).append(parts_of(parse_report(run.facts.report)))
    return found


def space_of(configurations: list[dict[str, Value]]) -> tuple[Space, Levels]:
    """A space of all values that were tried, and the configurations as its levels."""
    columns = []
    for name in configurations[0]:
        values = sorted({one[name] for one in configurations}, key=lambda value: (str(type(value)), value))
        number = isinstance(values[0], int) and not isinstance(values[0], bool)
        kind, scale = ("ordinal", "log2") if number else ("categorical", "linear")
        if len(values) > 1:
            columns.append(Column(name=name, kind=kind, scale=scale, values=values))
    levels = np.array([[column.values.index(one[column.name]) for column in columns] for one in configurations])
    schema = Schema(name=NAME, objective=ObjectiveColumn(direction="minimize", unit="s"), parameter=columns)
    none = np.empty((len(levels), 0), dtype=np.int64)
    table = Table(schema, levels, none, np.zeros(len(levels), dtype=np.int64), np.ones(len(levels)))
    return Landscape.of(table).space, levels


def learned(space: Space, rows: Levels, values: Floats, asked: Levels) -> Floats:
    """Expected logarithm of the time of other configurations."""
    trials = tuple(
        Trial(n, space.configuration(row), runs=(Run(n, n, Phase.SEARCH, State.FINISHED, float(v), started=float(n)),))
        for n, (row, v) in enumerate(zip(rows, values, strict=True))
    )
    belief = believe(space, History(Objective("time", "minimize", "s"), trials), None, trust=0.5, most=400)
    assert belief is not None
    return np.asarray(belief.mean(asked))


def learn(options: argparse.Namespace) -> None:
    """Print what the ways to learn make of the sweeps."""
    found = {key: runs for key, runs in sweeps(options.store).items() if len(runs) >= options.sweeps}
    parts = np.array([runs[: options.sweeps] for runs in found.values()])
    whole = parts.sum(axis=2)
    truth = np.log(np.median(whole, axis=1))
    shares = ", ".join(f"{n} {s:.1%}" for n, s in zip(PARTS, parts.sum(axis=(0, 1)) / parts.sum(), strict=True))
    print(f"{len(found)} configurations; of their time: {shares}")
    scatter = np.log(whole).std(axis=1, ddof=1).mean()
    print(f"runs of a configuration scatter by {scatter:.0%}, configurations by {truth.std():.0%}")
    space, levels = space_of([dict(key) for key in found])
    rng = np.random.default_rng(0)
    for count in (8, 16, 32):
        scores = []
        for _ in range(options.draws):
            known = rng.choice(len(levels), count, replace=False)
            run = rng.integers(options.sweeps, size=count)
            rest = np.setdiff1d(np.arange(len(levels)), known)
            each = [learned(space, levels[known], parts[known, run, p], levels[rest]) for p in range(len(PARTS))]
            touched = whole[known, run] - parts[known, run, 0] + np.median(parts[known, run, 0])
            ways = [
                learned(space, levels[known], whole[known, run], levels[rest]),
                np.log(np.exp(each).sum(axis=0)),
                learned(space, levels[known], touched, levels[rest]),
            ]
            scores.append([_scores(way, truth[rest]) for way in ways])
        mean = np.mean(scores, axis=0)
        apart = np.array(scores) - np.array(scores)[:, :1]
        error = apart.std(axis=0, ddof=1) / np.sqrt(options.draws)
        for way, label in enumerate(("whole", "sum of parts", "without the part that no hint touches")):
            told = [
                f"{m:.3f} ({d:+.3f}, {e:.3f})"
                for m, d, e in zip(mean[way], apart.mean(0)[way], error[way], strict=True)
            ]
            print(f"{count} runs, {label}: error, rank correlation, regret {', '.join(told)}", flush=True)


def _scores(predicted: Floats, truth: Floats) -> tuple[float, float, float]:
    error = float(np.sqrt(np.mean((predicted - truth) ** 2)))
    return error, float(spearmanr(predicted, truth)[0]), float(truth[np.argmin(predicted)] - truth.min())


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "learn"])
    parser.add_argument("--store", required=True)
    parser.add_argument("--program", default="./checkpoint")
    parser.add_argument("--file", default="/dev/shm/sweep.dat")
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    {"record": record, "learn": learn}[options.what](options)


if __name__ == "__main__":
    main()
