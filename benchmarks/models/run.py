# ruff: noqa: PLC0415  what a part alone needs is imported there
"""How well models predict, prescribe and scale, beside stock ones.

    python benchmarks/models/run.py accuracy --out accuracy.jsonl      # all tables: random 5-fold, workloads left out
    python benchmarks/models/run.py simulated --out simulated.jsonl    # a simulated campaign, 30,720 configurations
    python benchmarks/models/run.py measured --out measured.jsonl      # our campaign of real MPI-IO, against medians
    python benchmarks/models/run.py public --checkouts FOLDER --out public.jsonl   # public tables, half held back
    python benchmarks/models/run.py members --out members.jsonl        # how much each member of auto counts
    python benchmarks/models/run.py scale --out scale.jsonl            # time and memory to learn 30,720 rows
    python benchmarks/models/run.py screen --out screen.jsonl          # 10,000 workloads x 160 configurations
    python benchmarks/models/run.py report FILE...                     # tables, and whether the aims were reached

Stock LightGBM and the stock forest of scikit-learn are used as their documentation shows: defaults, the columns as
numbers, the objective as it is (stock-forest-log: 300 trees on its logarithm). Results are appended as they come; what
FILE holds already is not done again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.models.auto import AutoModel
from stripewise.models.cells import Data
from stripewise.models.domain import Domain
from stripewise.models.prescription_quality import judge_choices
from stripewise.models.registry import make_model
from stripewise.models.table import Table, read_table
from stripewise.models.validation import score_oracle, score_predictions

HERE = Path(__file__).resolve().parent
TABLES = HERE.parent / "data" / "tables"
sys.path.insert(0, str(HERE))
MODELS = ("auto", "stock-lightgbm", "stock-forest", "stock-forest-log", "ann", "linear", "boosting", "forest")
MOST_ROWS = 1500
GROUPS = 10
"""Workloads are held out one by one up to this number, in so many groups beyond it."""


def stock(name: str, train: Table, test: Table) -> np.ndarray:
    """A stock model on the columns as they are."""
    domain = Domain.of(train)
    x, new = domain.table_points(train), domain.table_points(test)
    if name == "stock-lightgbm":
        import lightgbm

        regressor: Any = lightgbm.LGBMRegressor(verbosity=-1, random_state=0)
    else:
        from sklearn.ensemble import RandomForestRegressor

        if name == "stock-forest-log":
            forest = RandomForestRegressor(n_estimators=300, random_state=0)
            return np.exp(forest.fit(x, np.log(train.values)).predict(new))
        regressor = RandomForestRegressor(random_state=0)
    predicted = regressor.fit(x, train.values).predict(new)
    # Neither knows that bandwidths are positive; a hundredth of the least is kinder than a logarithm of nothing.
    return np.maximum(predicted, 0.01 * train.values.min())


def predictor(name: str) -> Callable[[Table, Table], np.ndarray]:
    if name.startswith("stock"):
        return lambda train, test: stock(name, train, test)
    return lambda train, test: make_model(name).fit(train).predict_table(test).value


def held_out(table: Table, how: str, groups: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if how == "rows":
        return rng.permutation(len(table)) % 5
    works = Data.of(Domain.of(table), table).workloads
    number = int(works.max()) + 1
    return works if number <= groups else (rng.permutation(number) % groups)[works]


def judge(table: Table, how: str, model: str, groups: int = GROUPS) -> dict[str, Any]:
    fold = held_out(table, how, groups)
    predicted = np.empty(len(table))
    start = time.perf_counter()
    for number in np.unique(fold):
        test = fold == number
        predicted[test] = predictor(model)(table.take(~test), table.take(test))
    seconds = time.perf_counter() - start
    found = score_predictions(table.values, predicted, maximize=table.objective.maximize)
    oracle = score_oracle(table)
    result: dict[str, Any] = {"table": table.name, "how": how, "model": model, **found.as_json(), "seconds": seconds}
    result["oracle_accuracy"] = None if oracle is None else oracle.prediction_accuracy
    if how == "workloads":
        judged = judge_choices(table, fold, predicted)
        result |= {"prescription": judged.quality.as_json()}
        result["oracle"] = None if judged.oracle is None else judged.oracle.as_json()
        if judged.static:
            result["best_static"] = judged.static[0].quality.as_json()
    return result


def accuracy(options: argparse.Namespace) -> None:
    out = Out(options.out)
    for path in options.tables or sorted(TABLES.glob("*.toml")):
        table = read_table(path)
        for how in ("rows", "workloads"):
            if how == "workloads" and len(table.contexts()) < 2:
                continue
            for model in options.models:
                key = {"table": table.name, "how": how, "model": model}
                out.add(key, lambda t=table, h=how, m=model: judge(t, h, m))


def public(options: argparse.Namespace) -> None:
    """Random 5-fold of tables that nobody here tuned to, and prescriptions for workloads left out."""
    from public import TABLES as PUBLIC

    out = Out(options.out)
    for entry in PUBLIC:
        if (options.part == "development") == entry.held_back or (options.only and entry.name not in options.only):
            continue
        table = entry.table(options.checkouts)
        for model in options.models:
            key = {
                "table": table.name,
                "how": "workloads" if entry.whole else "rows",
                "held_back": entry.held_back,
                "model": model,
            }
            if entry.whole:
                out.add(key, lambda t=table, m=model: judge(t, "workloads", m))
            else:
                out.add(key, lambda t=table, m=model: row_by_row(t, m))


def members(options: argparse.Namespace) -> None:
    """Weights of the members of ``auto``, for measured and for new workloads, on at most 1,500 rows of each table."""
    out = Out(options.out)
    for path in options.tables or sorted(TABLES.glob("*.toml")):
        table = read_table(path)
        if len(table) > MOST_ROWS:
            table = table.take(np.random.default_rng(0).permutation(len(table)) < MOST_ROWS)
        out.add({"table": table.name, "how": "members"}, lambda t=table: weights(t))


def weights(table: Table) -> dict[str, Any]:
    model = AutoModel().fit(table)
    pairs = zip(model.known.weights.tolist(), model.new.weights.tolist(), strict=True)
    return {"weights": dict(zip(model.blended, pairs, strict=True))}


def row_by_row(table: Table, model: str) -> dict[str, Any]:
    """Scores of a random 5-fold, with the relative error of each row: differences of models have standard errors."""
    fold, predicted = held_out(table, "rows", GROUPS), np.empty(len(table))
    start = time.process_time()
    for number in range(5):
        test = fold == number
        predicted[test] = predictor(model)(table.take(~test), table.take(test))
    seconds = time.process_time() - start
    found = score_predictions(table.values, predicted, maximize=table.objective.maximize).as_json()
    each = np.abs(table.values - predicted) / table.values
    return {**found, "cpu_seconds": seconds, "errors": [round(float(error), 5) for error in each]}


def simulated(options: argparse.Namespace) -> None:
    from simulated import tables

    measured, _ = tables(repeats=options.repeats + 1)
    out = Out(options.out)
    single = measured.take(measured.repeats == options.repeats)
    others = measured.values[measured.repeats < options.repeats].reshape(options.repeats, -1)
    median = np.median(others, axis=0)
    half = np.random.default_rng(0).permutation(len(single))
    for model in options.models:
        key = {"table": single.name, "how": "80:20, single noisy runs", "model": model}

        def split(model: str = model) -> dict[str, Any]:
            train, test = half[len(half) // 5 :], half[: len(half) // 5]
            start = time.perf_counter()
            predicted = predictor(model)(single.take(train), single.take(test))
            result = {"seconds": time.perf_counter() - start}
            for place, operation in enumerate(("read", "write")):
                rows = single.context_levels[test, 0] == place
                actual, run, value = median[test][rows], single.values[test][rows], predicted[rows]
                result[operation] = {
                    "against_medians": score_predictions(actual, value, maximize=True).as_json(),
                    "against_runs": score_predictions(run, value, maximize=True).as_json(),
                    "oracle_against_runs": score_predictions(run, actual, maximize=True).as_json(),
                }
            return result

        out.add(key, split)
    for model in options.models:
        key = {"table": single.name, "how": "workloads", "model": model}
        truth = measured.take(measured.repeats < options.repeats)
        out.add(key, lambda m=model, t=truth: judge_against(single, median, t, m))


def measured(options: argparse.Namespace) -> None:
    """Hold out a fifth of the configurations of a real campaign, and judge by the medians of all their runs."""
    out = Out(options.out)
    for path in options.tables or [TABLES / "romio_workloads.toml"]:
        table = read_table(path)
        for model in options.models:
            for once in (True, False):
                how = f"80:20 of configurations, {'one run of each' if once else 'all runs'}"
                key = {"table": table.name, "how": how, "model": model}
                out.add(key, lambda t=table, m=model, o=once: against_own_medians(t, m, once=o))


def against_own_medians(table: Table, model: str, *, once: bool) -> dict[str, Any]:
    """Learn one run of each configuration, or all, of four fifths of them, and predict the others."""
    _, first, cell = np.unique(Data.of(Domain.of(table), table).cells, return_index=True, return_inverse=True)
    cell = cell.reshape(-1)
    held = np.random.default_rng(0).permutation(len(first)) < len(first) // 5
    test, train = table.take(first[held]), table.take(first[~held] if once else ~held[cell])
    start = time.perf_counter()
    predicted = predictor(model)(train, test)
    found: dict[str, Any] = {"seconds": time.perf_counter() - start}
    median = np.array([np.median(table.values[cell == number]) for number in np.flatnonzero(held)])
    column = next(place for place, c in enumerate(table.schema.context) if c.name == "operation")
    for place, operation in enumerate(table.schema.context[column].values):
        rows = test.context_levels[:, column] == place
        found[str(operation)] = score_predictions(median[rows], predicted[rows], maximize=True).as_json()
    return found


def judge_against(single: Table, median: np.ndarray, others: Table, model: str) -> dict[str, Any]:
    """Learn single runs, prescribe for workloads left out, and judge by other runs, repeat after repeat."""
    fold = held_out(single, "workloads", GROUPS)
    predicted = np.empty(len(single))
    for number in np.unique(fold):
        test = fold == number
        predicted[test] = predictor(model)(single.take(~test), single.take(test))
    times = len(others) // len(single)
    judged = judge_choices(others, np.tile(fold, times), np.tile(predicted, times))
    result: dict[str, Any] = score_predictions(median, predicted, maximize=True).as_json() | {
        "prescription": judged.quality.as_json(),
        "oracle": None if judged.oracle is None else judged.oracle.as_json(),
    }
    if judged.static:
        result["best_static"] = judged.static[0].quality.as_json()
    return result


def scale(options: argparse.Namespace) -> None:
    out = Out(options.out)
    for model in options.models:
        if model.startswith("stock"):
            continue
        key = {"table": "mpi-io-ann, 30,720 rows", "how": "learn", "model": model}

        def alone(model: str = model) -> dict[str, Any]:
            # A process of its own, so that its peak of memory is its own.
            command = [sys.executable, str(HERE / "run.py"), "one", "--models", model]
            return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

        out.add(key, alone)


def one(options: argparse.Namespace) -> None:
    from simulated import tables

    table = tables(repeats=1)[0]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start, cpu = time.perf_counter(), time.process_time()
    make_model(options.models[0]).fit(table)
    found = {
        "rows": len(table),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "peak_before_mib": before,
    }
    print(json.dumps(found))


def screen(options: argparse.Namespace) -> None:
    """10,000 made-up workloads x 160 configurations of the campaign: screened, and the best five of each predicted."""
    from simulated import tables

    table = tables(repeats=1)[0]
    write = table.take(table.context_levels[:, 0] == 1)
    rng = np.random.default_rng(0)
    n = 10_000
    workloads = {
        "operation": ["write"] * n,
        "nodes": rng.integers(2, 17, n),
        "processes_per_node": rng.integers(1, 9, n),
        "file_size": np.exp2(rng.uniform(30, 35, n)),
    }
    _, first = np.unique(write.levels, axis=0, return_index=True)
    configurations = {
        column.name: [column.values[int(level)] for level in write.levels[first, index]]
        for index, column in enumerate(write.schema.parameter)
    }
    out = Out(options.out)
    for model in options.models:
        if model.startswith("stock"):
            continue

        def timed(model: str = model) -> dict[str, Any]:
            fitted = make_model(model).fit(table)
            fitted.predict_table(table.take(np.arange(10)))
            best = []
            for _ in range(3):
                start = time.perf_counter()
                points = fitted.domain.cross(workloads, configurations)
                rough = fitted.screening() if model == "auto" else None
                if rough is not None:
                    features = fitted.encoder.encode(fitted.domain.folded(points))
                    value = rough.predict(features).reshape(n, -1)
                    top = np.argpartition(-value, 5, axis=1)[:, :5]
                    chosen = points.reshape(n, value.shape[1], -1)[np.arange(n)[:, None], top].reshape(5 * n, -1)
                    fitted.predict_points(chosen)
                else:
                    fitted.predict_points(points)
                best.append(time.perf_counter() - start)
            return {"workloads": n, "configurations": len(first), "seconds": sorted(best)[1], "repeats": 3}

        out.add({"table": "mpi-io-ann", "how": "10,000 x 160", "model": model}, timed)


class Out:
    """A file of results, one JSON document a line; what it holds is not computed again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        self.have = [json.loads(line) for line in lines]

    def add(self, key: dict[str, str], compute: Callable[[], dict[str, Any]]) -> None:
        if any(all(entry.get(k) == v for k, v in key.items()) for entry in self.have):
            return
        entry = key | compute()
        self.have.append(entry)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry) + "\n")
        print(json.dumps(entry), flush=True)


def report(options: argparse.Namespace) -> None:
    entries = [json.loads(line) for path in options.files for line in Path(path).read_text("utf-8").splitlines()]
    kept = [e for e in entries if "prediction_accuracy" in e]
    lines = [
        "| table | held out | model | accuracy % | oracle % | log R2 | arithmetic | harmonic | worst |",
        "|" + "---|" * 9,
    ]
    for e in kept:
        p = e.get("prescription") or {}
        picked = [f"{p[k]:.1f}" if p else "" for k in ("arithmetic", "harmonic", "worst")]
        oracle = e.get("oracle_accuracy")
        shown = "" if oracle is None else f"{oracle:.2f}"
        r2 = "" if e["r2_log"] is None else f"{e['r2_log']:.4f}"
        cells = [e["table"], e["how"], e["model"], f"{e['prediction_accuracy']:.2f}", shown, r2, *picked]
        lines.append("| " + " | ".join(cells) + " |")
    print("\n".join(lines))
    against_stock(kept)
    for how in ("rows", "workloads"):
        won = {"prediction_accuracy": 0, "r2_log": 0}
        behind, tables = 0.0, sorted({e["table"] for e in kept if e["how"] == how})
        for table in tables:
            own = {e["model"]: e for e in kept if (e["table"], e["how"]) == (table, how)}
            rivals = [own[m] for m in ("stock-lightgbm", "stock-forest", "ann") if m in own]
            if "auto" not in own or not rivals:
                continue
            for metric in won:
                won[metric] += own["auto"][metric] > max(rival[metric] for rival in rivals)
            behind = max(behind, max(r["prediction_accuracy"] for r in rivals) - own["auto"]["prediction_accuracy"])
        print(f"\n{how}: auto beats stock models and ann on {won} of {len(tables)} tables")
        print(f"{how}: at most {behind:.2f} points of accuracy behind the best of them")


def against_stock(entries: list[dict[str, Any]]) -> None:
    """How far ``auto`` is from the best other model on public tables, in points, with the standard error of it."""
    judged = [e for e in entries if "errors" in e]
    for table in dict.fromkeys(e["table"] for e in judged):
        own = {e["model"]: 100 * np.array(e["errors"]) for e in judged if e["table"] == table}
        held_back = next(e["held_back"] for e in judged if e["table"] == table)
        auto = own.pop("auto")
        best = min(own, key=lambda name: own[name].mean())
        apart = own[best] - auto
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        label = f"{table} ({'held back' if held_back else 'development'})"
        print(f"{label}: auto {100 - auto.mean():.2f}, {best} {100 - own[best].mean():.2f}, "
              f"{apart.mean():+.2f} with standard error {error:.2f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", choices=["accuracy", "simulated", "measured", "public", "members", "scale", "screen", "one", "report"]
    )
    parser.add_argument("files", nargs="*")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--tables", type=lambda text: text.split(","))
    parser.add_argument("--checkouts", type=Path, default=Path(), help="folder of the public repositories")
    parser.add_argument("--part", choices=["development", "held-back"], default="development")
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of public tables")
    parser.add_argument("--repeats", type=int, default=15, help="runs behind each true value of the simulated campaign")
    parser.add_argument("--out", type=Path, default=Path("models.jsonl"))
    options = parser.parse_args()
    globals()[options.what](options)


if __name__ == "__main__":
    main()
