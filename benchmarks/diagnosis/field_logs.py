"""Score each finding on public Darshan logs whose truth is in field_logs.toml.

    python benchmarks/diagnosis/field_logs.py --io500 FOLDER --darshan-logs FOLDER --aiio FOLDER --pytokio FOLDER
        --dxt-explorer FOLDER --drishti FOLDER --bbthemis FOLDER [--json FILE]

The folders are checkouts of the repositories that ``field_logs.toml`` names.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from score import wilson

from stripewise.diagnose.site import diagnose
from stripewise.observe.darshan_logs import SUFFIXES, read_logs

TRUTH = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
DAMAGED = "damaged"


def truth_of(path: Path, known: Mapping[str, Any]) -> Any:
    """What is written of the first key that the path contains; None where nothing is."""
    return next((known[key] for key in known if key in path.as_posix()), None)


def compared(folder: Path, known: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The truth of each log, and what is found in it."""
    paths = [path for path in sorted(folder.rglob("*")) if path.name.endswith(SUFFIXES) and path.is_file()]
    rows = {}
    for result in read_logs(paths):
        truth = truth_of(result.path, known)
        if truth is None:
            raise SystemExit(f"nothing is written of {result.path}")
        found: Any = DAMAGED
        if result.activity is not None:
            found = sorted({finding.code for finding in diagnose(result.activity).problems})
        rows[result.path.name] = {"truth": truth, "found": found}
    return rows


def counted(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """True, false and missed findings of each code."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: {"true": 0, "false": 0, "missed": 0})
    for row in rows:
        if DAMAGED in (row["truth"], row["found"]):
            continue
        truth, found = set(row["truth"]), set(row["found"])
        for word, codes in (("true", truth & found), ("false", found - truth), ("missed", truth - found)):
            for code in codes:
                counts[code][word] += 1
    return dict(sorted(counts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in TRUTH:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    given = vars(parser.parse_args())
    logs = {name: compared(given[name.replace("-", "_")], known) for name, known in TRUTH.items()}
    rows = [row for each in logs.values() for row in each.values()]
    damaged = sum(row["truth"] == DAMAGED for row in rows)
    right = sum(row["truth"] == row["found"] == DAMAGED for row in rows)
    counts = counted(rows)
    for code, one in counts.items():
        precision, recall = (one["true"] / max(1, one["true"] + one[word]) for word in ("false", "missed"))
        print(f"{code}: {one}, precision {precision:.2f}, recall {recall:.2f}")
    total = {word: sum(one[word] for one in counts.values()) for word in ("true", "false", "missed")}
    print(f"{len(rows)} logs, {damaged} damaged, of which {right} were recognised; all findings: {total}")
    print(f"lower bound of the precision of all: {wilson(total['true'], total['true'] + total['false']):.3f}")
    for name, each in logs.items():
        for log, row in each.items():
            if row["truth"] != DAMAGED and set(row["truth"]) != set(row["found"]):
                print(
                    name,
                    log,
                    "false:",
                    set(row["found"]) - set(row["truth"]),
                    "missed:",
                    set(row["truth"]) - set(row["found"]),
                )
    if given["json"]:
        found = {"logs": len(rows), "damaged": damaged, "recognised": right, "codes": counts, "all": total}
        given["json"].write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
