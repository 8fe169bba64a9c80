"""Run test suites of others plain and under Stripewise, and compare them test by test.

``python -m benchmarks.suites --checkouts FOLDER [--suite NAME] [--program NAME] [--mode NAME] [--python PYTHON]
[--model FILE]``
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stripewise.catalogue.carriers import HINT, Setting
from stripewise.observe.orders import Order, append_orders, site_of

HERE = Path(__file__).parent
PLANS: Mapping[str, str] = {
    "plan": "hint romio_cb_write disable\nhint romio_cb_read disable\nhint romio_ds_write disable\n"
    "hint romio_ds_read disable\nhint cb_nodes 1\nhint cb_buffer_size 1048576\nhint ind_rd_buffer_size 65536\n"
    "hint ind_wr_buffer_size 65536\nhdf5 alignment 65536\nhdf5 alignment_threshold 1024\nhdf5 chunk_cache 4194304\n"
    "hdf5 meta_block_size 65536\nhdf5 sieve_buf_size 131072\nhdf5 chunk_size 65536\n",
    "accelerator": "posix advice sequential\nposix readahead 4194304\nposix stream_buffer 1048576\n",
    "direct": "posix direct 4194304\n",
}
MODES = ("observe", "online", "predict", "orders", "record", *PLANS)
OF_MPI = ("online", "predict", "orders", "plan")
"""These mean nothing to a program without MPI-IO; the plans of posix mean nothing to one with it."""


def orders(suite: Mapping[str, Any], folder: Path) -> list[Order]:
    """Order each hint of the plan, and the default before them, three times for each file family of a suite."""
    hints = [line.split()[1:] for line in PLANS["plan"].splitlines() if line.startswith("hint ")]
    settings = [(), *((Setting(HINT, key, value),) for key, value in hints)]
    sites = [site_of(folder / suite["checkout"] / name) for name in suite["families"]]
    wanted = itertools.product(sites, ("write", "read"), settings * 3)
    return [Order(number, *each) for number, each in enumerate(wanted, start=1)]


def carried_out(folder: Path) -> int:
    """Count the orders that the journal answers."""
    journal = folder / "suites.journal"
    return len(re.findall(r"\torder=[1-9]", journal.read_text("utf-8"))) if journal.exists() else 0


def words_of(mode: str, folder: Path, suite: Mapping[str, Any], model: Path | None = None) -> list[str]:
    """Give the words before the suite's own command."""
    stripewise = [sys.executable, "-m", "stripewise"]
    if mode == "plain":
        return []
    if mode == "record":
        return [*stripewise, "lab", "record", "-q", "--output", str(folder / "suites.record"), "--"]
    if mode == "orders":
        (folder / "suites.orders").unlink(missing_ok=True)
        append_orders(folder / "suites.orders", orders(suite, folder))
    plan = folder / f"{mode}.plan"
    plan.write_text("stripewise-plan 1\n" + PLANS.get(mode, PLANS["plan"]))
    chosen = {
        "observe": ["--mode", "observe"],
        "online": ["--mode", "online", str(plan)],
        "predict": ["--mode", "predict", "--model", str(model)],
        "orders": ["--mode", "orders", "--orders", f"{folder}/suites.orders", "--journal", f"{folder}/suites.journal"],
    }
    return [*stripewise, "run", "-q", *chosen.get(mode, [str(plan)]), "--"]


def outcomes(suite: Mapping[str, Any], output: str) -> dict[str, list[str]]:
    """Give what each test came to, in each rank."""
    found: dict[str, list[str]] = {}
    which = suite.get("outcome", 2)
    for match in re.finditer(suite["test"], output):
        found.setdefault(match[3 - which], []).append(match[which])
    return {name: sorted(each) for name, each in found.items()}


def finish(command: Sequence[str], where: Path, limit: float) -> tuple[str, int | None]:
    """Give a command's output and code; at the limit its whole session ends, and the code is None."""
    with tempfile.TemporaryFile() as output:
        # Launchers start ranks in groups of their own, so that the session is what they have in common.
        process = subprocess.Popen(
            command,
            cwd=where,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            end_session(process.pid)
            process.wait()
        output.seek(0)
        return output.read().decode("utf-8", "replace"), code


def end_session(session: int) -> None:
    """Kill what is left of a session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                os.kill(int(stat.parent.name), signal.SIGKILL)


def run(
    suite: Mapping[str, Any],
    mode: str,
    folder: Path,
    fill: Mapping[str, str],
    limit: float,
    model: Path | None = None,
) -> dict[str, Any]:
    """Run a suite in one mode; one of many programs is a test for each of them."""
    if suite.get("programs"):
        parts = {
            name: run(
                {**suite, "programs": ()},
                mode,
                folder,
                {**fill, "program": name},
                limit,
                model,
            )
            for name in suite["programs"]
        }
        tests = {name: [f"code {part['code']}", *(part["tests"] and ["no errors"])] for name, part in parts.items()}
        return {"code": 0, "seconds": sum(part["seconds"] for part in parts.values()), "tests": tests}
    command = shlex.split(re.sub(r"\{(program|python|mpiexec)\}", lambda word: fill[word[1]], suite["command"]))
    begun = time.monotonic()
    where = folder / suite["checkout"] if "checkout" in suite else folder
    output, code = finish([*words_of(mode, folder, suite, model), *command], where, limit)
    for file in sorted(where.glob(suite.get("ranks", "no file of a rank"))):
        output += file.read_text("utf-8", "replace")
        file.unlink()
    return {"code": code, "seconds": time.monotonic() - begun, "tests": outcomes(suite, output)}


def compare(plain: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Name what differs from the plain run."""
    names = sorted(plain["tests"].keys() | other["tests"].keys())
    found = [
        f"{name}: {plain['tests'].get(name)}, {other['tests'].get(name)}"
        for name in names
        if plain["tests"].get(name) != other["tests"].get(name)
    ]
    return found + ([f"exit code: {plain['code']}, {other['code']}"] if plain["code"] != other["code"] else [])


def main() -> int:
    """Print one line for each suite and mode, and what differs."""
    suites = tomllib.loads((HERE / "suites.toml").read_text("utf-8"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkouts", type=Path, required=True, help="holds the checkouts; tests write below it")
    parser.add_argument("--suite", action="append", choices=suites, help="by default all that are there")
    parser.add_argument("--program", action="append", help="of suites of many programs, only these")
    parser.add_argument("--mode", action="append", choices=MODES)
    parser.add_argument("--python", default=sys.executable, help="has what the suites of Python need")
    parser.add_argument("--mpiexec", default="mpiexec", help="of the MPI that the programs are built with")
    parser.add_argument("--model", type=Path, help="an artifact; without it, predict is left out")
    parser.add_argument("--limit", type=float, default=3600, help="seconds of one run")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    folder, results, wrong = given.checkouts.absolute(), {}, 0
    fill = {"python": given.python, "mpiexec": given.mpiexec}
    for name in given.suite or suites:
        suite = suites[name]
        if not (folder / suite.get("checkout", ".")).is_dir():
            print(f"{name}: no checkout {folder / suite['checkout']}")
            continue
        if given.program and "programs" in suite:
            suite = {**suite, "programs": given.program}
        plain = run(suite, "plain", folder, fill, given.limit)
        # What differs between two plain runs is no one's fault but the suite's.
        unsteady = {line.partition(":")[0] for line in compare(plain, run(suite, "plain", folder, fill, given.limit))}
        results[name] = {"plain": plain}
        for mode in given.mode or MODES:
            if (mode in OF_MPI) > suite.get("mpi", False) or (mode in ("accelerator", "direct") and suite.get("mpi")):
                continue
            if (mode == "predict" and not given.model) or (mode == "orders" and "families" not in suite):
                continue
            (folder / "suites.journal").unlink(missing_ok=True)
            other = results[name][mode] = run(suite, mode, folder, fill, given.limit, given.model)
            differs = [line for line in compare(plain, other) if line.partition(":")[0] not in unsteady]
            wrong += bool(differs)
            counts = dict(Counter(word for each in other["tests"].values() for word in each))
            note = f", {carried_out(folder)} orders carried out" if mode == "orders" else ""
            print(
                f"{name} {mode}: {len(other['tests'])} tests {counts}, {len(differs)} differ, "
                f"{len(unsteady)} unsteady{note}"
            )
            for line in differs:
                print(f"  {line}")
            sys.stdout.flush()
    if given.out:
        given.out.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
