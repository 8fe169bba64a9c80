"""Are cached and uncached reads told apart by their time alone?

    python benchmarks/diagnosis/residency.py --folder FOLDER_ON_A_DISK [--json FILE] [--keep FOLDER]

Calibrates on sequential and random reads of some sizes, then classifies reads of other sizes in other patterns. The
truth is mincore's, asked just before each read, which alone decides it; an undecided read counts as wrong; reads with
O_DIRECT are uncached for certain. A neural network answers the same question, reads of both origins are divided, and
reads into the same and into other memory are compared. --keep leaves calibration.json and timings.csv there, for
``stripewise site causes timings.csv --calibration calibration.json --report causes.html``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stripewise.diagnose.causes import probe
from stripewise.diagnose.causes.models import Calibration, fit, overlap
from stripewise.diagnose.causes.probe import Prober, Series, measure_series

Samples = Sequence[tuple[Series, float]]
FILE = ("cached", "uncached")

SEEN_PATTERNS = ("sequential", "random")
SIZES = (2 << 10, 12 << 10, 24 << 10, 48 << 10, 96 << 10, 160 << 10, 384 << 10, 768 << 10, 3 << 20)
EXTENT = 48 << 20


def places(pattern: str, size: int, count: int, draw: random.Random) -> list[int]:
    """Patterns that the calibration never saw."""
    room = EXTENT // size
    if pattern == "reverse":
        return [(room - 1 - i) % room * size for i in range(count)]
    if pattern == "strided":
        return [i * 3 % room * size for i in range(count)]
    if pattern == "zigzag":
        return [(i // 2 if i % 2 else room - 1 - i // 2) % room * size for i in range(count)]
    return [draw.randrange(room // 4) * size for _ in range(count)]


def fitted(samples: Samples, named: Callable[[Series], str | None]) -> Calibration:
    """A model for each name that series of reads get."""
    own: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for series, seconds in samples:
        if series.operation == "read" and (name := named(series)):
            own[name].append((series.size, seconds))
    return Calibration({"read": {name: fit(*zip(*of, strict=True)) for name, of in own.items()}})


def judge_network(samples: Samples, judged: Sequence[tuple[str, int, float]]) -> dict[str, float]:
    """Does a neural network, which learns from the same series, tell cached reads from uncached ones better?"""
    known = [(s.size, t, s.condition) for s, t in samples if s.operation == "read" and s.condition in FILE]
    network = make_pipeline(StandardScaler(), MLPClassifier((32, 32), max_iter=3000, random_state=0))
    network.fit([[math.log(size), math.log(t)] for size, t, _ in known], [name for _, _, name in known])
    told = network.predict([[math.log(size), math.log(t)] for _, size, t in judged])
    right = {name: [t == n for (t, _, _), n in zip(judged, told, strict=True) if t == name] for name in FILE}
    recall = {name: statistics.fmean(own) for name, own in right.items()}
    return {**recall, "balanced_accuracy": statistics.fmean(recall.values())}


def cached_part(calibration: Calibration, size: int, seconds: float) -> float:
    """The part in memory for which the models' sum is the time: cached(part * size) + uncached((1 - part) * size)."""
    cached, uncached = (calibration.models["read"][name] for name in FILE)
    part = (cached.constant + uncached.time(size) - seconds) / ((uncached.slope - cached.slope) * size)
    return float(min(max(part, 0.0), 1.0)) if seconds > cached.time(size) else 1.0


def judge_shares(prober: Prober, calibration: Calibration, count: int, draw: random.Random) -> dict[str, float]:
    """How near is the part in memory, as a sum of two models has it, to mincore's, for reads of both origins?"""
    away, even = [], []
    for size in (size for size in SIZES if size >= 64 << 10):
        parts = [draw.choice((0.25, 0.5, 0.75)) for _ in range(count)]
        for truth, seconds in prober.partly(size, places("random", size, count, draw), parts):
            if 0 < truth < 1:
                away.append(abs(cached_part(calibration, size, seconds) - truth))
                even.append(abs(0.5 - truth))
    return {
        "reads": len(away),
        "median_error": statistics.median(away),
        "median_error_of_a_half": statistics.median(even),
    }


def judge_locations(prober: Prober, samples: Samples, count: int) -> dict[str, float]:
    """Do cached reads into the same memory each time differ from those into other memory, by their time alone?"""
    models = fitted(samples, lambda series: str(series.moving) if series.condition == "cached" else None)
    right: dict[bool, list[bool]] = {False: [], True: []}
    for moving, size in itertools.product(right, SIZES):
        for seconds in prober.times(Series("read", "cached", "reverse", moving, size), count, 1):
            right[moving].append(models.classify("read", [size], [seconds])[0] == str(moving))
    apart = [overlap(models.models["read"]["False"], models.models["read"]["True"], size) for size in SIZES]
    return {
        "balanced_accuracy": statistics.fmean(statistics.fmean(of) for of in right.values()),
        "least_overlap": min(apart),
    }


def measure(folder: Path, count: int, seed: int, keep: Path | None) -> dict[str, Any]:
    """Answer all questions once."""
    draw = random.Random(seed)
    table: Counter[tuple[str, str]] = Counter()
    judged: list[tuple[str, int, float]] = []
    times: list[tuple[int, float]] = []
    prober = Prober(folder, EXTENT)
    try:
        measured = measure_series(prober, count // 2, seed)
        samples = [(series, seconds) for series, own in measured.items() for seconds in own]
        calibration = fitted(samples, lambda series: series.condition if series.condition in FILE else None)
        for size in SIZES:
            for pattern in ("reverse", "strided", "zigzag", "hot"):
                for start in ("cold", "warm"):
                    if start == "cold":
                        prober.forget()
                    for truth, seconds in prober.natural(size, places(pattern, size, count, draw)):
                        times.append((size, seconds))
                        if truth != "mixed":
                            judged.append((truth, size, seconds))
                            table[truth, calibration.classify("read", [size], [seconds])[0]] += 1
            if size % 4096 == 0:
                for seconds in prober.direct(size, places("random", size, count, draw)):
                    table["direct", calibration.classify("read", [size], [seconds])[0]] += 1
        shares = judge_shares(prober, calibration, count, draw)
        locations = judge_locations(prober, samples, count)
    finally:
        prober.close()
    result: dict[str, Any] = {
        "operations": sum(table.values()),
        "table": {f"{t}->{c}": n for (t, c), n in sorted(table.items())},
    }
    for truth in ("cached", "uncached", "direct"):
        own = {name: n for (of, name), n in table.items() if of == truth}
        total = sum(own.values())
        result[truth] = {
            "reads": total,
            "recall": own.get("uncached" if truth == "direct" else truth, 0) / total if total else None,
        }
    result["balanced_accuracy"] = (result["cached"]["recall"] + result["uncached"]["recall"]) / 2
    result |= {"network": judge_network(samples, judged), "shares": shares, "locations": locations}
    if keep:
        (keep / "calibration.json").write_text(calibration.text())
        rows = [f"read,{size},{seconds}" for size, seconds in times]
        (keep / "timings.csv").write_text("\n".join(["operation,size,seconds", *rows, ""]))
    return result


def main() -> None:
    """Measure so many times, and keep the run in the middle with the figures of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=24, help="reads of each series")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5, help="runs, an odd number")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for the calibration and the times")
    given = parser.parse_args()
    probe.PATTERNS = SEEN_PATTERNS  # type: ignore[assignment]
    runs = [measure(given.folder, given.count, given.seed + i, given.keep) for i in range(given.runs)]
    figures = {
        "balanced_accuracy": [run["balanced_accuracy"] for run in runs],
        "network": [run["network"]["balanced_accuracy"] for run in runs],
        "share_error": [run["shares"]["median_error"] for run in runs],
        "least_overlap": [run["locations"]["least_overlap"] for run in runs],
    }
    result = {**sorted(runs, key=lambda run: float(run["balanced_accuracy"]))[len(runs) // 2], "runs": figures}
    text = json.dumps(result, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text)


if __name__ == "__main__":
    main()
