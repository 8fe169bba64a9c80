"""Command line of the test bed: up, down, status, env, throttle."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from tests.system.testbed.bed import Bed
from tests.system.testbed.processes import BedError, of_bed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.system.testbed", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/stripewise-testbed"))
    parser.add_argument("--rate", type=float, default=50, help="MB/s of each OSD")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("up", help="start the cluster")
    actions.add_parser("down", help="end it, and remove its state")
    actions.add_parser("status", help="what runs")
    actions.add_parser("env", help="lines for a shell that is to use the cluster")
    throttle = actions.add_parser("throttle", help="slow one OSD")
    throttle.add_argument("osd", type=int)
    throttle.add_argument("megabytes", type=float, help="MB/s; 0 for as fast as the disk")
    options = parser.parse_args()
    bed = Bed(options.folder, rate=options.rate)
    try:
        return act(bed, options)
    except BedError as error:
        print(f"test bed: {error}", file=sys.stderr)
        return 1


def act(bed: Bed, options: argparse.Namespace) -> int:
    started = time.monotonic()
    if options.action == "up":
        bed.up()
        print(f"up in {time.monotonic() - started:.1f} s: {bed.nodes} Slurm nodes with a CephFS client each")
        print(f"in jobs the file system is at {bed.shared}, outside at {bed.ceph.mount(1)}")
        print('to use it: eval "$(python -m tests.system.testbed env)", then sbatch, srun, sinfo')
        print("make cluster-down ends it")
    elif options.action == "down":
        bed.down()
        print(f"down in {time.monotonic() - started:.1f} s: no process is left")
    elif options.action == "status":
        print(bed.slurm.ask("sinfo", "-N") + bed.ceph.ceph("-s") + f"{len(of_bed(bed.folder))} processes")
    elif options.action == "env":
        for name in ("SLURM_CONF", "CEPH_CONF", "CEPH_ARGS"):
            print(f"export {name}={shlex.quote(bed.environment[name])}")
    else:
        bed.ceph.throttle(options.osd, options.megabytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
