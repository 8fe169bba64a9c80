"""What the module of the carrier ``python``, or ``stripewise run``, adds to a short program, in pairs.

``python -m benchmarks.python_start --pairs 200`` prints medians, and the 95% interval of the difference, of the wall
time and of the processor time, which other programs on the machine hardly change. With ``--before "stripewise run
my.plan --" -- COMMAND`` it compares a command with the same one behind these words.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

import stripewise.runners.in_python as hook
from stripewise.catalogue.stack import load_stack


def _start(environment: dict[str, str], words: Sequence[str] = (sys.executable, "-c", "pass")) -> tuple[float, float]:
    """Give milliseconds of wall and processor time."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1e3 * (time.perf_counter() - start), 1e3 * used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--before", default="", help="words that stand before the command in one of each pair")
    parser.add_argument("command", nargs="*")
    given = parser.parse_args()
    pairs = given.pairs
    asked = {parameter.setting: "4" for parameter in load_stack("torch").parameters}
    added = {
        "PYTHONPATH": str(Path(hook.__file__).parent),
        "STRIPEWISE_PYTHON": json.dumps({"set": asked, "watch": ["torch.utils.data.DataLoader."], "report": "/tmp"}),
    }
    here = dict(os.environ)
    ways: list[Callable[[], tuple[float, float]]] = [partial(_start, here), partial(_start, {**here, **added})]
    if given.before:
        ways = [partial(_start, here, [*words, *given.command]) for words in ([], shlex.split(given.before))]
    for start in ways:
        start()
    taken = np.array([[ways[(at + turn) % 2]() for turn in range(2)][:: 1 - 2 * (at % 2)] for at in range(pairs)])
    rng = np.random.default_rng(0)
    for at, name in enumerate(("wall", "processor")):
        without, with_it = taken[:, 0, at], taken[:, 1, at]
        difference = with_it - without
        medians = np.median(rng.choice(difference, (2000, pairs)), axis=1)
        print(
            f"{name}: without {np.median(without):.2f} ms, with {np.median(with_it):.2f} ms; difference "
            f"{np.median(difference):.2f} ms (95% interval {np.quantile(medians, 0.025):.2f} to "
            f"{np.quantile(medians, 0.975):.2f}, {pairs} pairs)"
        )


if __name__ == "__main__":
    main()
