"""Score the findings, and Drishti's, on a labelled set.

    python benchmarks/diagnosis/score.py FOLDER [--drishti] [--json FILE]

For each code: precision and recall over the cases that its label decides, with the lower bound of Wilson's 95%
interval; from the runtime's reports and from Darshan's logs apart, since they see different things.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from stripewise.diagnose.finding import RULES
from stripewise.diagnose.site import diagnose
from stripewise.observe.sources import open_all

# Codes that a report cannot decide: it has no offsets, no single ranks, nothing outside of MPI-IO.
NOT_IN_REPORTS = {
    "unaligned-file", "unaligned-memory", "random-reads", "random-writes", "sequential-reads", "sequential-writes",
    "redundant-reads", "redundant-writes", "rank-imbalance", "rank-funnel", "stragglers", "stdio",
    "shared-without-mpiio", "metadata-storm", "small-files", "flushes", "reopens", "file-per-process",
}  # fmt: skip
# What Darshan does not record: hints and the nodes of the job.
NOT_IN_LOGS = {"dead-settings", "aggregators"}


def wilson(right: int, of: int) -> float:
    """Lower bound of the 95% interval of a proportion."""
    if not of:
        return math.nan
    z, p = 1.959964, right / of
    return (p + z * z / (2 * of) - z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))) / (1 + z * z / of)


def labels(folder: Path) -> dict[str, dict[str, bool]]:
    return {path.stem: json.loads(path.read_text())["labels"] for path in sorted(folder.glob("*.labels"))}


def ours(folder: Path, suffix: str, limits: Mapping[str, float] | None = None) -> dict[str, set[str]]:
    found = {}
    paths = [path for path in sorted(folder.glob(f"*{suffix}")) if path.with_suffix(".labels").exists()]
    for result in open_all(paths):
        if result.activity is None:
            raise SystemExit(str(result.error))
        if not result.activity.files:
            continue  # a report of a program without MPI-IO decides nothing
        found[result.path.stem] = {finding.code for finding in diagnose(result.activity, limits).findings}
    return found


def drishti(folder: Path) -> dict[str, set[str]]:
    """Codes of Drishti's insights of each log, translated to ours where a kind of ours names them."""
    ours_by_theirs = defaultdict(set)
    for code, (kind, _) in RULES.items():
        for theirs in kind.drishti:
            ours_by_theirs[theirs].add(code)

    paths = [path for path in sorted(folder.glob("*.darshan")) if path.with_suffix(".labels").exists()]
    command = [sys.executable, str(Path(__file__).with_name("drishti_codes.py")), *map(str, paths)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = {}
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        if failed := answer.pop("failed"):
            print(f"Drishti failed: {answer}: {failed}")
        ((log, codes),) = answer.items()
        found[Path(log).stem] = {code for theirs in codes for code in ours_by_theirs[theirs]}
    return found


def score(
    truth: Mapping[str, Mapping[str, bool]], found: Mapping[str, set[str]], skip: Iterable[str]
) -> dict[str, dict[str, float]]:
    """Counts, precision and recall of each code."""
    result = {}
    for code in RULES:
        if code in skip:
            continue
        judged = [(truth[case][code], code in found[case]) for case in found if code in truth.get(case, {})]
        positive = sum(label for label, _ in judged)
        if not judged or not positive:
            continue
        hit = sum(label and flag for label, flag in judged)
        flagged = sum(flag for _, flag in judged)
        result[code] = {
            "positives": positive,
            "near_misses": len(judged) - positive,
            "precision": hit / flagged if flagged else math.nan,
            "precision_low": wilson(hit, flagged),
            "recall": hit / positive,
            "recall_low": wilson(hit, positive),
        }
    return result


def show(title: str, table: Mapping[str, Mapping[str, float]]) -> None:
    print(f"\n{title}\n\n| code | positives | near misses | precision (low) | recall (low) |\n|---|---|---|---|---|")
    for code, row in table.items():
        print(
            f"| `{code}` | {row['positives']} | {row['near_misses']} | {row['precision']:.2f} "
            f"({row['precision_low']:.2f}) | {row['recall']:.2f} ({row['recall_low']:.2f}) |"
        )
    low = [code for code, row in table.items() if not min(row["precision_low"], row["recall_low"]) >= 0.85]
    print(f"\nbelow 0.85: {', '.join(low) or 'none'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--drishti", action="store_true")
    parser.add_argument("--mistakes", action="store_true", help="name the cases that are judged wrongly")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    truth = labels(given.folder)
    tables = {}
    sources = [("runtime reports", ours(given.folder, ".json"), NOT_IN_REPORTS)]
    sources.append(("Darshan logs", ours(given.folder, ".darshan"), NOT_IN_LOGS))
    if given.drishti:
        theirs = {theirs for kind, _ in RULES.values() for theirs in kind.drishti}
        without = {code for code, (kind, _) in RULES.items() if not set(kind.drishti) & theirs}
        sources.append(("Drishti, same logs", drishti(given.folder), without))
    for title, found, skip in sources:
        tables[title] = score(truth, found, skip)
        show(title, tables[title])
        if given.mistakes:
            for case, codes in found.items():
                if case not in truth:
                    continue
                wrong = [c for c, label in truth[case].items() if c not in skip and (c in codes) != label]
                if wrong:
                    print(" ", case, wrong)
    if given.json:
        given.json.write_text(json.dumps(tables, indent=1))


if __name__ == "__main__":
    main()
