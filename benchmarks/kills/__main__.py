"""Kill tuners, workers and programs at random moments, over each kind of store, and check that no result is lost.

::

    python -m benchmarks.kills [--kills 50] [--storages sqlite,journal,postgresql,nfs] [--seed 0]

makes so many kills (-9) over each storage and prints JSON: what was killed, how many results there are, and how many
launches were repeated. It ends with code 1 where a result was lost, doubled or changed. ``nfs`` needs root and
``/dev/fuse``; it is a simulation (:mod:`benchmarks.kills.delayed`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.kills.soak import PromiseError, Soak
from benchmarks.kills.storages import STORAGES


def main() -> int:
    """Kill, check, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--storages", default=",".join(STORAGES))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    broken = 0
    for name in given.storages.split(","):
        folder = Path(tempfile.mkdtemp(prefix="swk"))
        kept = False
        with STORAGES[name](folder, given.seed) as storage:
            soak = Soak(storage, folder, given.seed)
            try:
                soak.run(given.kills)
            except PromiseError as error:
                broken, kept = broken + 1, True
                print(f"{name}: {error}; see {folder}", file=sys.stderr)
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        print(json.dumps({"storage": name, **vars(soak.figures)}), flush=True)
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
