"""Are cached and uncached reads told apart by their time alone?

    python benchmarks/diagnosis/residency.py --folder FOLDER_ON_A_DISK [--json FILE] [--keep FOLDER]

Calibrates on sequential and random reads of some sizes, then classifies reads of other sizes in other patterns. The
truth is mincore's, asked just before each read, which alone decides it; an
undecided read counts as wrong; reads with O_DIRECT are uncached for certain. --keep leaves calibration.json and
timings.csv there, for ``stripewise site causes timings.csv --calibration calibration.json --report causes.html``.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from pathlib import Path

from stripewise.diagnose.causes import probe
from stripewise.diagnose.causes.probe import Prober, calibrate

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=24, help="reads of each series")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for the calibration and the times")
    given = parser.parse_args()
    probe.PATTERNS = SEEN_PATTERNS
    measured = calibrate(given.folder, extent=EXTENT, seed=given.seed)
    calibration = measured.among("cached", "uncached")
    draw = random.Random(given.seed)
    table: Counter[tuple[str, str]] = Counter()
    times: list[tuple[int, float]] = []
    prober = Prober(given.folder, EXTENT)
    try:
        for size in SIZES:
            for pattern in ("reverse", "strided", "zigzag", "hot"):
                for start in ("cold", "warm"):
                    if start == "cold":
                        prober.forget()
                    for truth, seconds in prober.natural(size, places(pattern, size, given.count, draw)):
                        times.append((size, seconds))
                        if truth != "mixed":
                            table[truth, calibration.classify("read", [size], [seconds])[0]] += 1
            if size % 4096 == 0:
                for seconds in prober.direct(size, places("random", size, given.count, draw)):
                    table["direct", calibration.classify("read", [size], [seconds])[0]] += 1
    finally:
        prober.close()
    result = {"operations": sum(table.values()), "table": {f"{t}->{c}": n for (t, c), n in sorted(table.items())}}
    for truth in ("cached", "uncached", "direct"):
        own = {name: n for (of, name), n in table.items() if of == truth}
        total = sum(own.values())
        result[truth] = {
            "reads": total,
            "recall": own.get("uncached" if truth == "direct" else truth, 0) / total if total else None,
        }
    result["balanced_accuracy"] = (result["cached"]["recall"] + result["uncached"]["recall"]) / 2
    text = json.dumps(result, indent=1)
    print(text)
    if given.keep:
        (given.keep / "calibration.json").write_text(calibration.text())
        rows = [f"read,{size},{seconds}" for size, seconds in times]
        (given.keep / "timings.csv").write_text("\n".join(["operation,size,seconds", *rows, ""]))
    if given.json:
        given.json.write_text(text)


if __name__ == "__main__":
    main()
