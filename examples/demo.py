"""Tune the bundled benchmark's collective strided write on this machine; `make demo` runs it."""

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

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
BUDGET = 40
SECONDS = 140
RANKS = 4
NOISY = 0.25
SLOW = 1.0
NEEDED = 1 << 30


def probe(folder: Path) -> tuple[float, float]:
    """Seconds of a durable 16 MiB write, and the share by which one differs from the one before (medians).

    The first is left out.
    """
    block = os.urandom(1 << 20)
    seconds = []
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


def choose_folder() -> tuple[Path, str]:
    """A folder of the disk if it can prove anything, of memory otherwise."""
    (ROOT / "build").mkdir(exist_ok=True)
    disk = Path(tempfile.mkdtemp(prefix="demo-", dir=ROOT / "build"))
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


def main() -> int:
    """Build, tune, and leave demo-report.html."""
    begin = time.monotonic()
    stripewise = str(BIN / "stripewise")
    built = subprocess.run(
        [stripewise, "native", "build", "--mpicc", str(BIN / "mpicc"), "--json"], stdout=subprocess.PIPE, check=False
    )
    if built.returncode:
        return built.returncode
    kernel = json.loads(built.stdout)["kernel"]
    folder, where = choose_folder()
    print(f"storage: {where}", flush=True)
    program = [
        *(str(BIN / "mpiexec"), "-n", str(RANKS), kernel, "--api", "mpiio", "--write", "--collective"),
        *("--layout", "strided", "--piece", "1k", "--size", "32m", "--fsync", "--file", str(folder / "checkpoint")),
    ]
    tune = [
        *(stripewise, "tune", "--budget", str(BUDGET), "--time", str(SECONDS), "--name", "demo", "--stack", "romio"),
        *("--objective", "write_bandwidth", "--delete", str(folder / "checkpoint")),
        *("--report", str(ROOT / "demo-report.html")),
    ]
    try:
        code = subprocess.run([*tune, "--", *program], check=False).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if code == 0:
        print(f"\nthe whole demo took {time.monotonic() - begin:.0f} s; open demo-report.html in a browser.")
        print(f"the command is {BIN / 'stripewise'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
