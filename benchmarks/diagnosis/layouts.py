"""Score the findings on striping, on jobs that are constructed: no Lustre is at hand to run them.

    python benchmarks/diagnosis/layouts.py --seed 2 [--json FILE]

Sizes, ranks, stripes and loads are drawn; nothing is measured. So this checks the rules, not what real logs look like.
The example logs of PyDarshan hold a real slow target and a file on one stripe, which the unit tests look for.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

from stripewise.diagnose.site import diagnose
from stripewise.observe.activity import Activity, ActivityJob, Calls, FileActivity, FileLayout, Level, OstLoad

sys.path.insert(0, str(Path(__file__).parent))
from score import score, show

MIB = 1 << 20
EACH = 40


def file(
    path: str, extent: int, size: int, ranks: int, stripes: int, stripe: int, seconds: float = 1.0
) -> FileActivity:
    write = Calls(
        count=max(1, extent // size),
        bytes=extent,
        extent=extent,
        seconds=seconds,
        common=[(size, max(1, extent // size))],
    )
    layout = FileLayout(file_system="lustre", stripe_count=stripes, stripe_size=stripe, osts=list(range(stripes)))
    return FileActivity(path=path, ranks=ranks, posix=Level(write=write), layout=layout)


def job(files: list[FileActivity], ranks: int, osts: dict[int, OstLoad] | None = None) -> Activity:
    spent = sum(one.seconds for one in files)
    return Activity(
        source="constructed", kind="darshan", job=ActivityJob(ranks=ranks, elapsed=10.0),
        io_seconds=5.0, summed_seconds=spent, files=files, osts=osts or {},
    )  # fmt: skip


def one_stripe(draw: random.Random, fault: bool) -> Activity:
    ranks, extent = draw.choice([16, 64, 512, 4096]), draw.choice([1, 4, 64]) << 30
    if fault:
        return job([file("/l/f", extent, MIB, ranks, 1, MIB)], ranks)
    near = draw.choice(["striped", "small", "few"])
    stripes = draw.choice([2, 4, 16]) if near == "striped" else 1
    extent = draw.choice([1, 16, 100]) * MIB if near == "small" else extent
    ranks = draw.choice([1, 2]) if near == "few" else ranks
    return job([file("/l/f", extent, MIB, ranks, stripes, MIB)], ranks)


def wide_stripes(draw: random.Random, fault: bool) -> Activity:
    stripes, count = draw.choice([4, 8, 32]), draw.randint(10, 100)
    extent = draw.randint(1, MIB) if fault else draw.choice([stripes * 4, stripes * 16]) * MIB
    if not fault and draw.random() < 0.5:
        stripes, extent = 1, draw.randint(1, MIB)
    return job([file(f"/l/{i}", extent, min(extent, MIB), 1, stripes, MIB) for i in range(count)], 4)


def stripe_unaligned(draw: random.Random, fault: bool) -> Activity:
    stripe = draw.choice([1, 2, 4]) * MIB
    size = (
        stripe * draw.choice([3, 5, 7]) // 4 if fault else draw.choice([stripe // 4, stripe // 2, stripe, stripe * 3])
    )
    return job([file("/l/f", size * 1000, size, 64, 8, stripe)], 64)


def ost_imbalance(draw: random.Random, fault: bool) -> Activity:
    count, base = draw.choice([4, 8, 24, 100]), draw.choice([64, 1024])
    loads = [base * MIB * draw.uniform(0.9, 1.1) for _ in range(count)]
    loads[draw.randrange(count)] *= draw.uniform(3, 8) if fault else draw.uniform(1.0, 1.25)
    osts = {i: OstLoad(bytes=int(load)) for i, load in enumerate(loads)}
    return job([file("/l/f", int(sum(loads)), MIB, 64, count, MIB)], 64, osts)


def slow_ost(draw: random.Random, fault: bool) -> Activity:
    count = draw.choice([6, 8, 24, 100])
    seconds = [draw.lognormvariate(0, 0.12) for _ in range(count)]
    seconds[draw.randrange(count)] *= draw.uniform(3, 20) if fault else draw.uniform(1, 1.3)
    osts = {i: OstLoad(bytes=256 * MIB, seconds=time) for i, time in enumerate(seconds)}
    return job([file("/l/f", 256 * MIB * count, MIB, 64, count, MIB)], 64, osts)


def random_striped(draw: random.Random, fault: bool) -> Activity:
    """Samples at random over several stripes; near misses are on one stripe, in order, or larger than a stripe."""
    count, stripe, stripes = draw.randint(300, 5000), draw.choice([1, 4]) << 20, draw.randint(2, 16)
    size = draw.choice([4, 64, 256]) << 10
    how = "" if fault else draw.choice(["one stripe", "in order", "large"])
    size = 4 * stripe if how == "large" else size
    stripes = 1 if how == "one stripe" else stripes
    scattered = round(count * (draw.uniform(0, 0.2) if how == "in order" else draw.uniform(0.7, 1)))
    read = Calls(count=count, bytes=count * size, extent=count * size, seconds=1.0, random=scattered)
    layout = FileLayout(file_system="lustre", stripe_count=stripes, stripe_size=stripe, osts=list(range(stripes)))
    return job([FileActivity(path="/lustre/data", ranks=4, posix=Level(read=read), layout=layout)], 4)


KINDS: dict[str, Callable[[random.Random, bool], Activity]] = {
    "one-stripe": one_stripe, "wide-stripes": wide_stripes, "stripe-unaligned": stripe_unaligned,
    "ost-imbalance": ost_imbalance, "slow-ost": slow_ost, "random-striped": random_striped,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    truth, found = {}, {}
    for code, make in KINDS.items():
        for number in range(2 * EACH):
            name, fault = f"{code}-{number}", number % 2 == 0
            truth[name] = {code: fault}
            activity = make(random.Random(f"{given.seed}/{name}"), fault)
            found[name] = {finding.code for finding in diagnose(activity).findings}
    table = score(truth, found, ())
    show("striping, constructed", table)
    if given.json:
        given.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
