"""Fuzz the parsers of the runtime's core with libFuzzer, under ASan and UBSan, for so many seconds a target.

The inputs that reach new code are kept in build/soak, and the next run starts from them and from those in the
repository. A finding is kept there too, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "soak"


def targets() -> dict[str, Path]:
    """Name and first inputs of each target, as CMake lists them."""
    listed = (ROOT / "native" / "fuzz" / "CMakeLists.txt").read_text()
    found = re.findall(r"^stripewise_fuzz\((\w+) (\w+)", listed, re.MULTILINE)
    return {name: ROOT / "native" / "fuzz" / corpus for name, corpus in found}


def compiler() -> str | None:
    """A clang, whose libFuzzer is used."""
    return next(
        (found for name in ("clang", "clang-14", "clang-16", "clang-19") if (found := shutil.which(name))), None
    )


def build(mpicc: str, folder: Path) -> None:
    """Build the targets; the wrapper compiles with clang."""
    clang = compiler()
    if clang is None:
        sys.exit("no clang: libFuzzer is part of it (Debian: apt install clang libclang-rt-14-dev)")
    environment = {**os.environ, "MPICH_CC": clang, "OMPI_CC": clang}
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), f"-DCMAKE_C_COMPILER={Path(mpicc).absolute()}"]
    configure += ["-DSTRIPEWISE_KERNEL=OFF", "-DSTRIPEWISE_TESTS=ON", "-DSTRIPEWISE_SANITIZE=ON"]
    make = ["cmake", "--build", str(folder), "-j2", "--target", *(f"fuzz_{name}" for name in targets())]
    for command in (configure, make):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)


def fuzz(program: Path, name: str, corpus: Path, seconds: int, kept: Path) -> tuple[bool, str]:
    """Run one target; False if it found something, and what to say of it."""
    inputs = kept / name
    inputs.mkdir(parents=True, exist_ok=True)
    command = [str(program), f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=10", "-rss_limit_mb=1024"]
    command += [f"-artifact_prefix={kept}/finding-{name}-", str(inputs), str(corpus)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    good = done.returncode == 0
    said = f"{name}: {runs.group(1) if runs else 'no'} inputs in {seconds} s, {'no finding' if good else 'A FINDING'}"
    return good, said if good else f"{said}\n{done.stderr[-4000:]}"


def main() -> int:
    """Build, and fuzz the targets, one on each core."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpicc", required=True)
    parser.add_argument("--seconds", type=int, default=600, help="for each target")
    parser.add_argument("--kept", type=Path, default=KEPT, help="folder of inputs and findings")
    options = parser.parse_args()
    folder = options.kept / "native"
    options.kept.mkdir(parents=True, exist_ok=True)
    build(options.mpicc, folder)

    def one(target: tuple[str, Path]) -> tuple[bool, str]:
        name, corpus = target
        return fuzz(folder / "bin" / f"fuzz_{name}", name, corpus, options.seconds, options.kept)

    good = True
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for passed, said in pool.map(one, targets().items()):
            print(said, flush=True)
            good &= passed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
