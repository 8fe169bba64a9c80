"""Apply what is proposed to the programs of the labelled set, and measure whether it harms.

    python benchmarks/diagnosis/apply.py --seed 4 --each 6 --memory FOLDER --disk FOLDER --json FILE
    python benchmarks/diagnosis/apply.py ... --setting "hint romio_ds_write disable" --only sieving

Each case with MPI-IO runs once and is diagnosed from its report. Where a setting is proposed, runs with and without the
plan take turns, the first of each pair in turn too; the time is that in MPI-IO calls of the slowest rank. Files are
larger than in the labelled set, so that a run takes long enough. ``--setting`` measures one setting, whatever is
proposed, to check what the stacks say of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from cases import Case, cases
from generate import native

from stripewise.catalogue.plan import Plan
from stripewise.diagnose.site import diagnose
from stripewise.models.prescribe.policies import apply_policy
from stripewise.observe.from_report import activity_of
from stripewise.observe.report import Report, read_report
from stripewise.observe.sources import observe
from stripewise.search.statistics import estimate_speedup

HARM = 0.95
SECONDS = 300


def chosen(seed: int, each: int, only: str | None) -> Iterator[Case]:
    """The first cases of each family whose program calls MPI-IO."""
    counts: dict[str, int] = {}
    for case in cases(seed):
        family = case.name.partition("-")[0]
        if case.program != "kernel" or "posix" in case.arguments or (only and family != only):
            continue
        counts[family] = counts.get(family, 0) + 1
        if counts[family] <= each:
            yield case


def larger(case: Case, factor: int) -> Case:
    """The same calls, more of them."""
    words = list(case.arguments)
    place = words.index("-b") + 1
    words[place] = str(int(words[place]) * factor)
    return replace(case, arguments=tuple(words), before=case.before * factor)


def run(case: Case, folder: Path, parts: dict[str, str], plan: str) -> Report:
    """Run a case with a plan, or only observed, and give its report."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        here = Path(name)
        if case.before:
            (here / "f").write_bytes(os.urandom(1 << 16) * (-(-case.before // (1 << 16))))
        (here / "hints").write_text(case.hints)
        variables = {"LD_PRELOAD": parts["library"], "STRIPEWISE_REPORT": str(here / "report")}
        variables["STRIPEWISE_MODE"] = "apply" if plan else "observe"
        if plan:
            (here / "plan").write_text(plan)
            variables["STRIPEWISE_PLAN"] = str(here / "plan")
        names = {"f": str(here / "f"), "disk": str(here / "f"), "hints": str(here / "hints")}
        command = [str(Path(parts["mpicc"]).with_name("mpiexec")), "-n", str(case.ranks), "env"]
        command += [f"{key}={value}" for key, value in variables.items()]
        command += [parts[case.program], *(word.format(**names) for word in case.arguments)]
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
        return read_report((here / "report").read_text(), case.name)


def measured(case: Case, folder: Path, parts: dict[str, str], pairs: int, setting: str | None) -> dict[str, Any]:
    """What is proposed for a case, and the speed-up of the pairs with it."""
    own = "stripewise-plan 1\n" + case.plan if case.plan else ""
    report = run(case, folder, parts, own)
    found = diagnose(activity_of(report, case.name))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(report.model_dump_json())
        file.flush()
        prescribed = apply_policy("mpi-io-study", observe(Path(file.name)).workload)
    row: dict[str, Any] = {
        "case": case.name,
        "findings": [finding.code for finding in found.problems],
        "proposed": [one.line() for one in found.settings()],
        "expected": [finding.proposal.expected.low for finding in found.problems if finding.settings],
        "prescribed": [one.line() for one in prescribed.plan.settings],
    }
    lines = [setting] if setting else row["proposed"]
    if not lines:
        return row
    text = "stripewise-plan 1\noverride yes\n" + "\n".join(lines) + "\n"
    Plan.parse(text, "the proposal")
    times: tuple[list[float], list[float]] = ([], [])
    run(case, folder, parts, text)
    for pair in range(pairs):
        for arm in (0, 1) if pair % 2 else (1, 0):
            times[arm].append(run(case, folder, parts, text if arm else own).job.io_time)
    speedup = estimate_speedup(*times, maximize=False)
    return row | {
        "applied": lines,
        "speedup": round(speedup.estimate, 3),
        "interval": [round(speedup.interval.low, 3), round(speedup.interval.high, 3)],
        "seconds": round(sorted(times[0])[pairs // 2], 4),
        "harms": speedup.interval.high < HARM,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--each", type=int, default=6, help="cases of each family")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--larger", type=int, default=8, help="times the calls of the labelled set")
    parser.add_argument("--memory", type=Path, help="a folder in memory")
    parser.add_argument("--disk", type=Path, help="a folder on a disk")
    parser.add_argument("--only", help="a family")
    parser.add_argument("--setting", help="a line of a plan to apply instead of what is proposed")
    parser.add_argument("--native", type=Path, help="what 'stripewise site native build --json' printed")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    parts = native(given.native)
    rows = []
    for case in chosen(given.seed, given.each, given.only):
        for where in ("memory", "disk"):
            folder = getattr(given, where)
            if folder is None:
                continue
            row = {"where": where} | measured(larger(case, given.larger), folder, parts, given.pairs, given.setting)
            rows.append(row)
            told = f"{row['speedup']:.2f} {row['interval']} of {row['seconds']} s" if "speedup" in row else "-"
            print(f"{case.name} {where}: {' + '.join(row.get('applied', [])) or 'nothing'}: {told}", flush=True)
    applied = [row for row in rows if "speedup" in row]
    slower = [row for row in applied if row["speedup"] < HARM]
    print(f"{len(rows)} cases, {len(applied)} with a proposal, {len(slower)} slower by more than 5%")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(bool(slower))


if __name__ == "__main__":
    main()
