"""Check each statement of answers by switching the one thing that it speaks of.

::

    python -m benchmarks.truth [--only NAME,...] [--kinds KIND,...] [--programs FILE.toml] [--json FILE]
    python -m benchmarks.truth --table FILE...

Each program is tuned on each of its MPIs, and the default run is diagnosed. Every statement that is checked names two
sets of settings. Of what is called effective, or without effect, strace and a counter of messages tell whether the
program makes other calls with the setting than without it. How many times as fast something is comes from rounds in
which each set of settings runs once, in random order. Nothing of the product judges: neither its evidence nor its
proof. ``--programs`` takes a file of your own programs, written as ``programs.toml`` of this package.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stripewise.diagnose.site import diagnose
from stripewise.engine.events import Event
from stripewise.engine.session import Session
from stripewise.errors import StripewiseError
from stripewise.observe.objectives import objective_of
from stripewise.runners.registry import make_runner
from stripewise.store.opening import open_store
from stripewise.trial import Role

from .checks import FALSE, OPEN, TRUE, WRONG_WAY, Verdict, compare, is_decided, judge_calls, judge_speed
from .programs import HERE, Arm, Bench, Program, read_programs
from .statements import Statement, list_statements

WANTED = 0.98
KINDS = ("effective", "no effect", "answer", "speed-up", "share", "preferred", "predicted", "finding")


def tune(bench: Bench) -> list[Statement]:
    """Tune the program as ``stripewise tune`` does, and list what is said of it."""
    seen: dict[str, Any] = {}

    def listen(event: Event) -> None:
        if event.kind == "space":
            seen["bound"] = event.data["bound"]

    store = open_store(f"sqlite:///{bench.place}/store.db")
    try:
        identifier = store.create(bench.experiment)
        runner = make_runner(bench.experiment, bench.place / identifier)
        result = Session(store, identifier, runner, "benchmark", listen).run()
        trials = store.trials(identifier)
    finally:
        store.close()
    default = next(trial for trial in trials if trial.role is Role.DEFAULT)
    activity = next((run.activity for run in default.runs if run.activity is not None), None)
    sys.stderr.write(f"  {result.verdict}\n")
    return list_statements(result, seen["bound"], trials, None if activity is None else diagnose(activity))


def check(bench: Bench, statements: list[Statement], rounds: int) -> list[tuple[Statement, Verdict]]:
    """Check each statement: first by calls, then by time what calls do not decide."""
    of_calls = [one for one in statements if one.of_calls]
    traces = bench.trace_arms(_list_arms(of_calls)) if of_calls else {}
    found: dict[Statement, Verdict] = {}
    for one in statements:
        if one.of_calls:
            found[one] = judge_calls(one, traces[one.arm], traces[one.other], None)
    timed = [one for one in statements if one not in found or not is_decided(one, found[one], traces[one.arm])]
    taken = bench.time_arms(_list_arms(timed), rounds) if timed else {}
    maximize = objective_of(bench.experiment.objective).maximize
    for one in timed:
        of_io = one.kind == "predicted"
        values = {arm: [run[of_io] for run in taken[arm]] for arm in one.arms}
        pairs = compare(values[one.arm], values[one.other], maximize and not of_io)
        if one.of_calls:
            found[one] = judge_calls(one, traces[one.arm], traces[one.other], pairs)
        else:
            found[one] = Verdict(OPEN, "no run without failure") if pairs is None else judge_speed(one, pairs)
    return [(one, found[one]) for one in statements]


def _list_arms(statements: list[Statement]) -> list[Arm]:
    return list(dict.fromkeys(arm for one in statements for arm in one.arms))


def measure(program: Program, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Tune one program and check what is said; what went wrong is said instead."""
    start = time.monotonic()
    sys.stderr.write(f"{program.name} on {program.mpi.name}\n")
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory(dir=folder) as files:
        row: dict[str, Any] = {"program": program.name, "mpi": program.mpi.name, "about": program.about}
        try:
            bench = Bench(program, Path(place), Path(files), options.budget)
            said = [one for one in tune(bench) if one.kind in options.kinds.split(",")]
            checked = check(bench, said, options.rounds)
        except (RuntimeError, StripewiseError) as error:
            sys.stderr.write(f"  {error}\n")
            return {**row, "error": str(error), "statements": []}
    for one, verdict in checked:
        sys.stderr.write(f"  {verdict.word}: {one.kind}: {one.says}: {verdict.found}\n")
    told = [
        {
            "kind": one.kind,
            "says": one.says,
            "with": [setting.line() for setting in one.arm],
            "without": [setting.line() for setting in one.other],
            **asdict(verdict),
        }
        for one, verdict in checked
    ]
    return {**row, "seconds": round(time.monotonic() - start), "statements": told}


def show_table(rows: list[dict[str, Any]]) -> str:
    """Count the statements of each kind, as Markdown."""
    words = (TRUE, FALSE, WRONG_WAY, OPEN)
    counts = {
        kind: Counter(s["word"] for row in rows for s in row["statements"] if s["kind"] == kind) for kind in KINDS
    }
    counts["all"] = sum(counts.values(), Counter())
    lines = ["| kind | " + " | ".join(words) + " | true, of those decided |", "|---|" + "--:|" * 5]
    for kind, count in counts.items():
        decided = count.total() - count[OPEN]
        share = f"{count[TRUE] / decided:.0%}" if decided else ""
        lines.append(f"| {kind} | " + " | ".join(str(count[word]) for word in words) + f" | {share} |")
    return "\n".join(lines)


def main() -> int:
    """Check, print a table, and end with code 1 where too few statements are true or one errs about the direction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=HERE / "programs.toml", metavar="FILE")
    parser.add_argument("--only", default="", metavar="NAME,...", help="programs, or program:mpi")
    parser.add_argument("--kinds", default=",".join(KINDS), metavar="KIND,...", help="the statements to check")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="where the programs write")
    parser.add_argument("--budget", type=int, default=20, help="launches of a search with its proof")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each set of settings")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all statements there")
    parser.add_argument("--table", type=Path, nargs="+", metavar="FILE", help="only count what these files hold")
    options = parser.parse_args()
    if options.table:
        rows = [row for path in options.table for row in json.loads(path.read_text("utf-8"))]
    else:
        names = set(options.only.split(",")) if options.only else set()
        rows = []
        for program in read_programs(options.programs):
            if not names or {program.name, f"{program.name}:{program.mpi.name}"} & names:
                rows.append(measure(program, options.folder, options))
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    print(show_table(rows))
    words = Counter(s["word"] for row in rows for s in row["statements"])
    decided = words.total() - words[OPEN]
    return 0 if decided and words[TRUE] >= WANTED * decided and not words[WRONG_WAY] else 1


if __name__ == "__main__":
    sys.exit(main())
