"""Files whose stripes lie on different OSDs.

Ceph places an object by a hash of its name, and a file's objects are named by its inode. With few objects two of them
often share an OSD, so that a file of four stripes would not be four times as fast. Inodes are drawn until the stripes
are spread as evenly as they can be; a site would pin a pool instead.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.system.testbed.ceph import Ceph
from tests.system.testbed.processes import BedError, wait_until

OBJECT_SIZE = 1 << 30
"""Large enough that a stripe never ends: layouts are then like Lustre's."""
_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for first, second, third in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = ((a - b - c) & _MASK) ^ (c >> first)
        b = ((b - c - a) & _MASK) ^ ((a << second) & _MASK)
        c = ((c - a - b) & _MASK) ^ (b >> third)
    return a, b, c


def object_hash(name: bytes) -> int:
    """Ceph's hash of an object's name: Bob Jenkins' evahash of 1996 over 12-byte blocks, seed 0.

    Returns
    -------
    int
        Unsigned, 32 bits.
    """
    a, b, c = _GOLDEN, _GOLDEN, 0
    whole = len(name) - len(name) % 12
    for start in range(0, whole, 12):
        words = [int.from_bytes(name[start + at : start + at + 4], "little") for at in (0, 4, 8)]
        a, b, c = _mix((a + words[0]) & _MASK, (b + words[1]) & _MASK, (c + words[2]) & _MASK)
    rest = name[whole:].ljust(12, b"\0")
    # The lowest byte of the last word holds the length.
    last = (int.from_bytes(rest[8:11], "little") << 8) + len(name)
    a = (a + int.from_bytes(rest[0:4], "little")) & _MASK
    b = (b + int.from_bytes(rest[4:8], "little")) & _MASK
    return _mix(a, b, (c + last) & _MASK)[2]


def osds_of(inode: int, stripes: int, primaries: Mapping[int, int]) -> list[int]:
    """The OSD of each of a file's first objects.

    Parameters
    ----------
    inode : int
    stripes : int
        How many objects.
    primaries : mapping of int to int
        OSD by placement group, as :meth:`Ceph.primaries` gives it; a power of two of them.
    """
    return [primaries[object_hash(b"%x.%08x" % (inode, number)) % len(primaries)] for number in range(stripes)]


def settled(ceph: Ceph) -> dict[int, int]:
    """Placement groups once all of them have an OSD: the manager needs seconds after a start."""
    found: dict[int, int] = {}

    def complete() -> bool:
        found.update(ceph.primaries())
        return len(found) >= 64

    wait_until(complete, 30, "every placement group has an OSD")
    return found


def spread_file(path: Path, stripe_count: int, stripe_unit: int, primaries: Mapping[int, int]) -> list[int]:
    """Create an empty file with a layout whose stripes lie on as many OSDs as there can be.

    Returns
    -------
    list of int
        The OSD of each stripe.

    Raises
    ------
    BedError
        If no such inode was found.
    """
    most = -(-stripe_count // len(set(primaries.values())))
    for attempt in range(2000):
        draft = path.with_name(f"{path.name}.{attempt}")
        draft.touch(exist_ok=False)
        osds = osds_of(draft.stat().st_ino, stripe_count, primaries)
        if max(Counter(osds).values()) <= most:
            for key, value in (
                ("object_size", OBJECT_SIZE),
                ("stripe_unit", stripe_unit),
                ("stripe_count", stripe_count),
            ):
                os.setxattr(draft, f"ceph.file.layout.{key}", str(value).encode())
            draft.rename(path)
            return osds
        draft.unlink()
    raise BedError(f"no file of {stripe_count} stripes on different OSDs in 2,000 tries")
