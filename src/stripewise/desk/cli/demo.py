"""``stripewise demo``: tune the bundled benchmark's collective strided write on this machine."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from stripewise.errors import UserError
from stripewise.interpreter import python

BUDGET = 40
SECONDS = 140
RANKS = 4
NOISY = 0.25
SLOW = 1.0
NEEDED = 1 << 30
REPORT = "demo-report.html"


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where the benchmark writes, if the disk there can prove anything.", metavar="FOLDER")
    ] = Path(),
) -> None:
    """Tune the bundled benchmark on this machine in under three minutes, and write demo-report.html."""
    begin = time.monotonic()
    stripewise = python("-m", "stripewise")
    typer.echo("1. The runtime and the benchmark are built, unless they are there.", err=True)
    built = subprocess.run([*stripewise, "site", "native", "build", "--json"], stdout=subprocess.PIPE, check=False)
    if built.returncode:
        raise typer.Exit(built.returncode)
    told = json.loads(built.stdout)
    # The launcher that came with the compiler; elsewhere the one that is found.
    beside = Path(told["mpi"]["mpicc"]).with_name("mpiexec")
    launcher = str(beside) if beside.exists() else "mpiexec"
    typer.echo("2. The disk is tried: can its writes prove anything?", err=True)
    place, where = choose_folder(folder)
    typer.echo(f"storage: {where}")
    sys.stdout.flush()
    typer.echo(f"3. The benchmark is tuned: at most {BUDGET} launches and {SECONDS} seconds.", err=True)
    program = [
        *(launcher, "-n", str(RANKS), told["kernel"], "--api", "mpiio", "--write", "--collective"),
        *("--layout", "strided", "--piece", "1k", "--size", "32m", "--fsync", "--file", str(place / "checkpoint")),
    ]
    tune = [
        *(*stripewise, "tune", "--budget", str(BUDGET), "--time", str(SECONDS), "--name", "demo", "--stack", "romio"),
        *("--objective", "write_bandwidth", "--delete", str(place / "checkpoint"), "--report", REPORT),
    ]
    try:
        code = subprocess.run([*tune, "--", *program], stdin=subprocess.DEVNULL, check=False).returncode
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if code:
        raise typer.Exit(code)
    typer.echo(f"\nthe whole demo took {time.monotonic() - begin:.0f} s; open {REPORT} in a browser.")
    typer.echo(f"the command is {Path(sys.executable).parent / 'stripewise'}")


def choose_folder(parent: Path) -> tuple[Path, str]:
    """Give a folder of the disk if it can prove anything, of memory otherwise; and what to say of it."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        disk = Path(tempfile.mkdtemp(prefix="stripewise-demo-", dir=parent.absolute()))
    except OSError as error:
        raise UserError(f"cannot write to {parent}: {error.strerror}", "name another place with --folder") from error
    seconds, noise = probe(disk)
    memory = Path("/dev/shm")
    if (noise > NOISY or seconds > SLOW) and memory.is_dir() and shutil.disk_usage(memory).free > NEEDED:
        shutil.rmtree(disk)
        why = f"take {seconds:.1f} s for 16 MiB, too slow for a demo"
        if seconds <= SLOW:
            why = f"differ by {noise:.0%} from one to the next, too noisy for a proof"
        where = f"memory (/dev/shm): the disk's writes {why}"
        return Path(tempfile.mkdtemp(prefix="stripewise-demo-", dir=memory)), where
    return disk, f"the local disk (writes differ by {noise:.0%} from one to the next)"


def probe(folder: Path) -> tuple[float, float]:
    """Seconds of a durable 16 MiB write, and the share by which one differs from the one before (medians).

    The first is left out.
    """
    block = os.urandom(1 << 20)
    seconds: list[float] = []
    path = folder / "probe"
    for _ in range(11):
        if sum(seconds) > 10 * SLOW:
            break
        begin = time.perf_counter()
        with path.open("wb") as file:
            for _ in range(16):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        seconds.append(time.perf_counter() - begin)
        path.unlink()
    ratios = [later / earlier for earlier, later in zip(seconds[1:], seconds[2:], strict=False)]
    noise = statistics.median(abs(ratio - 1) for ratio in ratios) if ratios else 0.0
    return statistics.median(seconds[1:] or seconds), noise
