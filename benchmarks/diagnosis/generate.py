"""Run the labelled set and keep what the runtime and, where its library is given, Darshan saw.

    python benchmarks/diagnosis/generate.py --seed 1 --out FOLDER --scratch FOLDER [--libdarshan FILE] [--disk FOLDER]

Darshan records no paths below /dev: the scratch folder may be a link elsewhere to a folder in /dev/shm. What is there
already is not run again, so an interrupted generation goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cases import Case, cases

HERE = Path(__file__).parent
SECONDS = 300


def native(printed: Path | None) -> dict[str, str]:
    """The runtime's library, the kernel and mpicc."""
    command = [sys.executable, "-m", "stripewise", "site", "native", "build", "--json"]
    text = (
        printed.read_text() if printed else subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    built = json.loads(text)
    return {"library": built["library"], "kernel": built["kernel"], "mpicc": built["mpi"]["mpicc"]}


def compile_patterns(mpicc: str, folder: Path) -> Path:
    program = folder / "patterns"
    subprocess.run([mpicc, "-O1", "-o", str(program), str(HERE / "patterns.c")], check=True)
    return program


def run(case: Case, out: Path, scratch: Path, disk: Path, parts: dict[str, str], libdarshan: str | None) -> None:
    """Run one case; its report is NAME.json, its log NAME.darshan."""
    here, there = scratch / case.name, disk / case.name
    for folder in (here, there):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    if case.before:
        (here / "f").write_bytes(os.urandom(1 << 16) * (-(-case.before // (1 << 16))))
    names = {"f": str(here / "f"), "disk": str(there / "f"), "hints": str(here / "hints")}
    (here / "hints").write_text(case.hints)
    report, log = out / f"{case.name}.json", out / f"{case.name}.darshan"
    log.unlink(missing_ok=True)
    variables = {"STRIPEWISE_MODE": "observe", "STRIPEWISE_REPORT": str(report)}
    if case.plan:
        (here / "plan").write_text("stripewise-plan 1\n" + case.plan)
        variables |= {"STRIPEWISE_MODE": "apply", "STRIPEWISE_PLAN": str(here / "plan")}
    variables["LD_PRELOAD"] = ":".join([parts["library"], *([libdarshan] if libdarshan else [])])
    if libdarshan:
        variables["DARSHAN_LOGFILE"] = str(log)
    arguments = [word.format(**names) for word in case.arguments]
    mpiexec = str(Path(parts["mpicc"]).with_name("mpiexec"))
    command = [
        mpiexec,
        "-n",
        str(case.ranks),
        "env",
        *(f"{k}={v}" for k, v in variables.items()),
        parts[case.program],
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise SystemExit(f"{case.name} failed: {' '.join(command)}\n{done.stdout}\n{done.stderr}")
    for folder in (here, there):
        shutil.rmtree(folder, ignore_errors=True)
    (out / f"{case.name}.labels").write_text(
        json.dumps({"labels": case.labels, "ranks": case.ranks, "command": arguments})
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--disk", type=Path, help="a folder on a real disk, for ranks that wait for it")
    parser.add_argument("--libdarshan")
    parser.add_argument("--only", help="a family")
    parser.add_argument(
        "--native", type=Path, help="what 'stripewise site native build --json' printed, where it is built already"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    parts = native(given.native)
    parts["patterns"] = str(compile_patterns(parts["mpicc"], given.out))
    began, ran = time.monotonic(), 0
    for case in cases(given.seed):
        if (given.out / f"{case.name}.labels").exists() or (given.only and not case.name.startswith(given.only + "-")):
            continue
        run(
            case,
            given.out.absolute(),
            given.scratch.absolute(),
            (given.disk or given.scratch).absolute(),
            parts,
            given.libdarshan,
        )
        ran += 1
        if ran % 20 == 0:
            print(f"{ran} runs, {(time.monotonic() - began) / ran:.2f} s a run, last {case.name}", flush=True)
    print(f"{ran} runs in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
