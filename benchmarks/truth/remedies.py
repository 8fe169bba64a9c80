"""Findings whose remedy is a change of the program: does the remedied program lack the finding, and is it faster?

::

    python -m benchmarks.truth.remedies --darshan libdarshan.so [--only NAME,...] [--folder FOLDER] [--json FILE]

``remedies.toml`` has the programs. Each runs with the fault and without it under Darshan, in turn; how many times as
fast the remedy is comes from the time in calls that the logs tell.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stripewise.diagnose.site import diagnose
from stripewise.observe.sources import open_one

from .checks import FALSE, OPEN, TRUE, WRONG_WAY, Verdict, compare, describe, judge_speed
from .programs import HERE, ROOT, TIMEOUT
from .statements import Statement

PROMISED = 1.0 + 1e-9
"""A finding promises no factor, but that its remedy is not slower."""
CONDITION = "can cost more than it saves"
"""Words of a fix that promises not even that."""


def check_remedy(name: str, row: Mapping[str, str], options: argparse.Namespace) -> dict[str, Any]:
    """Run a program with its fault and without it, and judge what its finding says of them."""
    described = tomllib.loads((HERE / "programs.toml").read_text("utf-8"))["mpi"]["mpich"]
    code = row.get("finding", name)
    seconds: dict[str, list[float]] = {"command": [], "remedied": []}
    seen: dict[str, str] = {}
    fixes: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        words = {"program": f"{place}/program", "folder": folder, "root": str(ROOT)}
        words |= {"python": sys.executable, "venv": sys.prefix}
        words |= {key: described[key].format_map(words) for key in ("mpicc", "mpiexec")}
        words["darshan"] = f"env LD_PRELOAD={options.darshan}"
        log = Path(place, "log.darshan")
        variables = {**os.environ, **described["environment"], "DARSHAN_LOGFILE": str(log)}

        def shell(line: str) -> None:
            text = line.format_map(words)
            subprocess.run(["bash", "-c", text], env=variables, check=True, capture_output=True, timeout=TIMEOUT)

        shell(row["build"])
        for number in range(options.rounds):
            for arm in sorted(seconds, reverse=bool(number % 2)):
                shell(row["between"])
                shell(row[arm])
                activity = open_one(log)
                log.unlink()
                seconds[arm].append(activity.io_time or 0.0)
                said = [(one.says, one.fix or one.kind.fix) for one in diagnose(activity).problems if one.code == code]
                seen[arm], fixes[arm] = said[0] if said else ("", "")
    pairs = compare(seconds["remedied"], seconds["command"], maximize=False)
    assert pairs is not None
    says = f"{code}: {seen['command'] or 'not found'}"
    verdict = judge_speed(Statement("finding", says, (), (), PROMISED, math.inf), pairs)
    if verdict.word == WRONG_WAY and CONDITION in fixes["command"]:
        verdict = Verdict(OPEN, f"{verdict.found}; the finding says that this may be")
    if not seen["command"] or seen["remedied"]:
        verdict = Verdict(FALSE, f"not told apart by the finding; {describe(pairs)}")
    sys.stderr.write(f"{name}: {verdict.word}: {says}; {verdict.found}\n")
    told = {"kind": "finding", "says": says, "word": verdict.word, "found": f"the remedy: {verdict.found}"}
    return {"program": name, "mpi": "mpich", "about": row["about"], "statements": [told]}


def main() -> int:
    """Check all, and end with code 1 where one is not true."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--darshan", required=True, metavar="FILE", help="Darshan's library for the MPI of this Python")
    parser.add_argument("--only", default="", metavar="NAME,...")
    parser.add_argument("--folder", default=".", help="on a disk, where the programs write; Darshan leaves out /dev")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    described = tomllib.loads((HERE / "remedies.toml").read_text("utf-8"))["remedy"]
    names = options.only.split(",") if options.only else list(described)
    rows = [check_remedy(name, described[name], options) for name in names]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    return 0 if all(row["statements"][0]["word"] in (TRUE, OPEN) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
