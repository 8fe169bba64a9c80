"""Benchmarks of programs without MPI.

python -m benchmarks.any_program overhead --observer LIBRARY     # what observing costs
python -m benchmarks.any_program accelerator --help              # ninety programs with the accelerator
python -m benchmarks.any_program programs                        # real programs against exhaustive sweeps
python -m benchmarks.any_program programs --cases loaders.toml   # the same, of training programs that others wrote
python -m benchmarks.any_program records                         # replays beside their programs
"""

from __future__ import annotations

import importlib
import sys

PARTS = ("overhead", "accelerator", "programs", "records")


def main() -> None:
    """Run the part that is named first."""
    if len(sys.argv) < 2 or sys.argv[1] not in PARTS:
        sys.exit(f"{__doc__}\nName one of {', '.join(PARTS)}.")
    part = sys.argv.pop(1)
    sys.argv[0] += f" {part}"
    importlib.import_module(f"benchmarks.any_program.{part}").main()


if __name__ == "__main__":
    main()
