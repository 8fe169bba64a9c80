"""The labelled set: runs whose faults are known because they were put there.

A case has a command and labels: code to True (the fault is there), False (a near miss: like it, but harmless). A
code that is absent is not judged, because the case does not decide it. Sizes and counts come from a seeded generator.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

KIB, MIB = 1024, 1 << 20
EACH = 24


@dataclass(frozen=True)
class Case:
    """One run.

    Attributes
    ----------
    name : str
    program : {"kernel", "patterns"}
    ranks : int
    arguments : tuple of str
        ``{f}`` stands for the case's file.
    labels : dict
    before : int
        Bytes of a file to be made before the run, outside of what is observed.
    hints, plan : str
        Text of a hints file for the kernel, and lines of a plan.
    """

    name: str
    program: str
    ranks: int
    arguments: tuple[str, ...]
    labels: dict[str, bool] = field(default_factory=dict)
    before: int = 0
    hints: str = ""
    plan: str = ""


def cases(seed: int) -> Iterator[Case]:
    """Give all cases of a seed; half of each family has the fault, half is a near miss.

    Families and both halves take turns, so that a part of the set is a small set.
    """
    for number in range(2 * EACH):
        fault, place = number % 2 == 0, number // 2
        for family in FAMILIES:
            draw = random.Random(f"{seed}/{family.__name__}/{number}")
            yield replace(family(draw, fault, place), name=f"{family.__name__}-{number:03}")


def independent(draw: random.Random, fault: bool, number: int) -> Case:
    """Independent calls on a shared file, small or large, written and read back."""
    if fault:
        transfer = draw.choice([512, 1 * KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB])
        calls = draw.randint(130, 300)
    else:
        transfer, calls = draw.choice([1.25, 1.5, 2, 3]), draw.randint(4, 8)
        transfer = int(transfer * MIB)
    back = number % 2 == 0
    ranks = draw.choice([2, 2, 3])
    block = transfer * calls
    arguments = (
        "--api",
        "mpiio",
        "-t",
        str(transfer),
        "-b",
        str(block),
        "-w",
        *(["-r"] if back else []),
        "--no-verify",
        "-o",
        "{f}",
    )
    labels = {
        "small-writes": fault, "independent-writes": fault, "blocking-writes": fault, "collective-writes": False,
        "cached-reads": back and block * ranks > MIB // 4, "sequential-writes": fault, "write-heavy": not back,
    }  # fmt: skip
    if back and block * ranks <= MIB // 4:
        del labels["cached-reads"]
    if not fault:
        del labels["sequential-writes"]
    if back:
        labels |= {"small-reads": fault, "independent-reads": fault, "blocking-reads": fault, "collective-reads": False}
    return Case("", "kernel", ranks, arguments, labels)


def reading(draw: random.Random, fault: bool, number: int) -> Case:
    """Reads of a file that was there before."""
    if fault:
        transfer, calls = draw.choice([512, 1 * KIB, 2 * KIB, 4 * KIB, 8 * KIB, 24 * KIB]), draw.randint(130, 300)
    else:
        transfer, calls = int(draw.choice([1.25, 1.5, 2, 3]) * MIB), draw.randint(4, 8)
    ranks = 2
    block = transfer * calls
    arguments = ("--api", "mpiio", "-t", str(transfer), "-b", str(block), "-r", "--no-verify", "-o", "{f}")
    labels = {
        "small-reads": fault, "independent-reads": fault, "blocking-reads": fault, "cached-reads": False,
        "read-heavy": True, "redundant-reads": False, "write-heavy": False,
    }  # fmt: skip
    if fault:
        labels["sequential-reads"] = True
    return Case("", "kernel", ranks, arguments, labels, before=block * ranks)


def buffering(draw: random.Random, fault: bool, number: int) -> Case:
    """Collective calls over pieces, with collective buffering switched off or left alone."""
    piece = draw.choice([512, KIB, 2 * KIB, 4 * KIB, 8 * KIB])
    pieces = draw.choice([16, 32, 64])
    transfer = piece * pieces
    calls = draw.randint(8, 12)
    way = "write" if number % 2 else "read"
    block = transfer * calls
    switched = "disable" if fault else draw.choice(["enable", "automatic"])
    hints = f"romio_cb_{way} {switched}\nromio_ds_{way} disable\n"
    operation = ["-w"] if way == "write" else ["-r"]
    arguments = (
        "--api", "mpiio", "-c", "--layout", "strided", "--piece", str(piece), "-t", str(transfer), "-b", str(block),
        *operation, "--no-verify", "-U", "{hints}", "-o", "{f}",
    )  # fmt: skip
    # Collective calls are good where aggregators can merge them.
    labels = {"strided-without-buffering": fault, f"collective-{way}s": not fault, f"independent-{way}s": False}
    labels["collective-costs"] = False
    if way == "write":
        labels["read-modify-write"] = False
    return Case("", "kernel", 2, arguments, labels, before=block * 2 if way == "read" else 0, hints=hints)


def sieving(draw: random.Random, fault: bool, number: int) -> Case:
    """Independent writes of pieces, with data sieving or without."""
    piece = draw.choice([512, KIB, 2 * KIB, 4 * KIB])
    pieces = draw.choice([16, 32, 64])
    transfer = piece * pieces
    block = transfer * draw.randint(30, 40)
    hints = "" if fault else "romio_ds_write disable\n"
    arguments = (
        "--api", "mpiio", "--layout", "strided", "--piece", str(piece), "-t", str(transfer), "-b", str(block), "-w",
        *(["-U", "{hints}"] if hints else []), "-o", "{f}",
    )  # fmt: skip
    labels = {"read-modify-write": fault, "independent-writes": True, "collective-costs": False, "cached-reads": False}
    return Case("", "kernel", 2, arguments, labels, hints=hints)


def exchange(draw: random.Random, fault: bool, number: int) -> Case:
    """Large contiguous collective writes, sent through aggregators or not; aggregators; settings without effect."""
    transfer = draw.choice([2, 3, 4]) * MIB if fault or number % 2 else draw.choice([16, 64, 128]) * KIB
    calls = draw.randint(3, 6)
    switched = "enable" if fault else ("automatic" if number % 2 else "enable")
    several = number // 2 % 2 == 0
    aggregators = draw.choice([2, 3]) if several else 1
    hints = f"romio_cb_write {switched}\ncb_nodes {aggregators}\ncb_config_list *:{aggregators}\n"
    arguments = (
        "--api", "mpiio", "-c", "-t", str(transfer), "-b", str(transfer * calls), "-w", "-U", "{hints}", "-o", "{f}",
    )  # fmt: skip
    ranks = 4 if several else 2
    labels = {"collective-costs": fault, "aggregators": several, "collective-writes": True, "blocking-writes": False}
    labels["write-heavy"] = True
    return Case("", "kernel", ranks, arguments, labels, hints=hints)


def useless(draw: random.Random, fault: bool, number: int) -> Case:
    """A plan with settings that do nothing, or with good ones."""
    collective = draw.random() < 0.5
    bad = [
        "hint romio_cb_write enabled",
        "hint romio_ds_read on",
        "hint romio_lustre_co_ratio 2",
        "hint striping_unit 1048576",
    ]
    if not collective:
        bad.append("hint romio_cb_write enable")
    good = ["hint cb_buffer_size 4194304", "hint ind_wr_buffer_size 1048576", "hint romio_ds_write disable"]
    if collective:
        good.append("hint romio_cb_write enable")
    lines = draw.sample(bad, draw.randint(1, 2)) if fault else []
    lines += draw.sample(good, draw.randint(1, 3))
    piece = draw.choice([KIB, 4 * KIB])
    arguments = (
        "--api", "mpiio", *(["-c"] if collective else []), "--layout", "strided", "--piece", str(piece),
        "-t", str(16 * piece), "-b", str(160 * piece), "-w", "-o", "{f}",
    )  # fmt: skip
    # The buffer of aggregators is without effect where no call is collective.
    dead = fault or (not collective and any("cb_buffer_size" in line for line in lines))
    return Case("", "kernel", 2, arguments, {"dead-settings": dead}, plan="\n".join(lines) + "\n")


def order(draw: random.Random, fault: bool, number: int) -> Case:
    """POSIX requests in random order or forwards, aligned or not; one file or one a rank."""
    off = number % 2 == 0
    transfer = draw.choice([64, 96, 128, 160]) * KIB + (draw.choice([512, 1000, 2048]) if off else 0)
    calls = draw.randint(100, 140)
    own = number // 2 % 2 == 0
    layout = "random" if fault else draw.choice(["segmented", "strided"])
    if own and layout == "strided":
        layout = "segmented"
    arguments = (
        "--api", "posix", "--layout", layout, "-t", str(transfer), "-b", str(transfer * calls), "-w",
        "-r", *(["-F"] if own else []), "--no-verify", "-o", "{f}",
    )  # fmt: skip
    labels = {
        "random-writes": fault, "sequential-writes": not fault, "unaligned-file": off, "shared-without-mpiio": not own,
        "file-per-process": False, "redundant-writes": False, "stdio": False, "rank-funnel": False,
        "rank-imbalance": False, "metadata-storm": False, "small-files": False, "flushes": False, "reopens": False,
    }  # fmt: skip
    labels |= {"random-reads": fault, "sequential-reads": not fault, "redundant-reads": False, "cached-reads": True}
    labels |= {"read-heavy": False, "write-heavy": False}
    return Case("", "kernel", 2, arguments, labels)


def flushing(draw: random.Random, fault: bool, number: int) -> Case:
    """Flushes, opens again and buffers off the alignment, each on its own dice."""
    size, count = draw.choice([4, 8, 16]) * KIB, draw.choice([64, 96, 128])
    flush = draw.choice([1, 2, 4]) if fault else draw.choice([0, 32, count])
    again = number % 2 == 0
    reopen = draw.choice([4, 8]) if again else draw.choice([0, count])
    shifted = number // 2 % 2 == 0
    shift = draw.choice([1, 3]) if shifted else 0
    step = f"file={{f}},size={size},count={count},flush={flush},reopen={reopen},shift={shift}"
    labels = {
        "flushes": fault,
        "reopens": again,
        "unaligned-memory": shifted,
        "shared-without-mpiio": True,
        "small-writes": True,
    }
    return Case("", "patterns", 2, (step,), labels)


def repeated(draw: random.Random, fault: bool, number: int) -> Case:
    """Data read or written once, or again and again; either on dice of its own."""
    ranks = 2
    steps, labels, before = [], {}, 0
    for way, again in (("write", fault), ("read", number % 2 == 0)):
        size, count = draw.choice([64, 128, 256]) * KIB, draw.choice([16, 24, 32])
        same, passes = draw.choice([(1, 1), (0, 2), (0, 3), (1, 2)]) if again else (0, 1)
        path = "{f}" if way == "read" else "{f}.new"
        steps.append(f"do={way},file={path},size={size},count={count},same={same},passes={passes}")
        if not again and draw.random() < 0.5:
            # A tenth again: a header, a halo.
            steps.append(f"do={way},file={path},size={size},count={max(1, count // 10)}")
        labels[f"redundant-{way}s"] = again
        before = size * count * ranks
    return Case("", "patterns", ranks, tuple(steps), labels | {"cached-reads": False}, before=before)


def unequal(draw: random.Random, fault: bool, number: int) -> Case:
    """Ranks with more data than others, or about the same."""
    heavy = draw.choice([2.0, 2.5, 3.0, 5.0]) if fault else draw.choice([1.0, 1.1, 1.25])
    size, count = draw.choice([64, 128, 256]) * KIB, draw.choice([20, 40])
    own = draw.random() < 0.5
    step = f"do=write,file={{f}}{'.%r' if own else ''},size={size},count={count},heavy={heavy}"
    labels = {"rank-imbalance": fault, "rank-funnel": False, "shared-without-mpiio": not own, "small-files": False}
    return Case("", "patterns", 4, (step,), labels)


def funnel(draw: random.Random, fault: bool, number: int) -> Case:
    """One rank writes all, or two or more share the work."""
    size, count = draw.choice([64, 128, 256]) * KIB, draw.choice([20, 40])
    writers = [draw.randrange(3)] if fault else draw.choice([[0, 1], [0, 1, 2], [1, 2]])
    steps = tuple(f"do=write,file={{f}},size={size},count={count},who={rank}" for rank in writers)
    return Case("", "patterns", 3, steps, {"rank-funnel": fault, "file-per-process": False})


def streams(draw: random.Random, fault: bool, number: int) -> Case:
    """Data through streams or only a log; many small files or few; opens or data."""
    size = draw.choice([200, 1000, 4096])
    through = draw.choice([2, 3, 4]) * MIB if fault else draw.choice([20, 60, 100]) * KIB
    steps = [f"do=fwrite,file={{f}}.log.%r,size={size},count={through // size}"]
    steps.append(f"do=write,file={{f}}.data,size={MIB},count={draw.choice([4, 6])}")
    crowd = number % 2 == 0
    files = draw.randint(40, 60) if crowd else draw.randint(4, 20)
    steps.append(f"do=opens,file={{f}}.many.%r,size={draw.choice([100, 2000])},count={files}")
    labels = {"stdio": fault, "small-files": crowd, "reopens": False, "random-writes": False, "rank-imbalance": False}
    return Case("", "patterns", 2, tuple(steps), labels)


def metadata(draw: random.Random, fault: bool, number: int) -> Case:
    """Time in opens and stats, or in data."""
    if fault:
        steps = [f"do=opens,file={{f}}.many.%r,size={draw.choice([0, 10, 100])},count={draw.randint(150, 300)}"]
        if draw.random() < 0.5:
            steps.append("do=stats,file={f}.many.0.0,count=200,passes=5")
    else:
        steps = [f"do=write,file={{f}},size={MIB},count={draw.randint(24, 40)}"]
        steps.append(f"do=opens,file={{f}}.many.%r,size=4096,count={draw.randint(5, 12)}")
    return Case("", "patterns", 2, tuple(steps), {"metadata-storm": fault, "stdio": False, "redundant-writes": False})


def slow(draw: random.Random, fault: bool, number: int) -> Case:
    """A rank that writes through to the disk while the others do not, or none.

    So many times that it is late by some tenths of a second even on a fast disk with nothing else to do.
    """
    size, count = draw.choice([64, 128]) * KIB, draw.choice([1200, 1600])
    who = draw.randrange(3) if fault else -1
    step = f"do=write,file={{disk}},size={size},count={count},slow={who}"
    return Case("", "patterns", 3, (step,), {"stragglers": fault, "rank-imbalance": False})


def own_files(draw: random.Random, fault: bool, number: int) -> Case:
    """A file for each of many ranks, or of few."""
    ranks = draw.choice([16, 17, 18]) if fault else draw.choice([3, 4, 6, 8])
    step = f"do=write,file={{f}}.%r,size={draw.choice([64, 128]) * KIB},count={draw.choice([10, 20])}"
    return Case("", "patterns", ranks, (step,), {"file-per-process": fault, "shared-without-mpiio": False})


FAMILIES = (
    independent, reading, buffering, sieving, exchange, useless, order, flushing, repeated, unequal, funnel, streams,
    metadata, slow, own_files,
)  # fmt: skip
