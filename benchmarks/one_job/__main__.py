"""Measure what finding and proving a gain inside one launch takes.

::

    python -m benchmarks.one_job honesty [--experiments 200] [--proof] [--json FILE]
    python -m benchmarks.one_job programs [--repeats 3] [--json FILE]
    python -m benchmarks.one_job kills [--kills 50] [--json FILE]
    python -m benchmarks.one_job replay --program ior=PATH --program hacc=PATH [--json FILE]
    python -m benchmarks.one_job search [--searches 3] [--json FILE]
    python -m benchmarks.one_job scale [--ranks 1,2,4,8] [--json FILE]

``honesty`` gives the search and the proof of ``tune --within`` simulated programs of 150 phases, whose truth is known,
and counts the experiments that claim a gain: where there is nothing to gain, half of the time with a setting that puts
a part of its time on the next phase, and where one setting is truly 10% faster. ``programs`` tunes real programs that
write checkpoints in memory: is a gain proven, how near is it to the best of a sweep, what did the launch cost, are the
files the same. ``kills`` kills tuner and program at random moments. ``replay`` compares programs
with the replays of their records over some thirty configurations: are they ranked alike. ``search`` tunes a program
that computes nine tenths of its time, once by its own launches and once by replays: which settings, and in what time.
``scale`` counts what recording and orders add to an open, and compares it with an open of 10,000 clients of the
simulated cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.one_job import honesty, kills, programs, replay, scale, search


def main() -> int:
    """Measure, print, and end with code 1 where what is wanted was not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for module in (honesty, programs, kills, replay, search, scale):
        command = commands.add_parser(module.__name__.rpartition(".")[2], help=(module.__doc__ or "").splitlines()[0])
        command.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
        module.add_options(command)
        command.set_defaults(measure=module.measure)
    options = parser.parse_args()
    figures, good = options.measure(options)
    text = json.dumps(figures, indent=1)
    if options.json:
        options.json.write_text(text + "\n", "utf-8")
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
