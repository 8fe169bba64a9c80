"""Before a run on the test bed: an empty file with the folder's layout, whose first objects lie on different OSDs.

    python -m benchmarks.runtime.spread FILE GROUPS.json [LAST]

Ceph names a file's objects by its inode and places them by a hash, so inodes are drawn until the hash puts them there.
A site would pin a pool instead. GROUPS.json holds the OSD of each placement group, as `bed.py` writes it. With LAST,
the last of the objects lies on that OSD.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.system.testbed.placement import osds_of

TRIES = 20000


def spread(path: Path, primaries: dict[int, int], last: int | None = None) -> int:
    """Make the file and give the number of tries."""
    count = len(set(primaries.values()))
    for attempt in range(TRIES):
        draft = path.with_name(f".{path.name}.{attempt}")
        draft.unlink(missing_ok=True)
        draft.touch()
        osds = osds_of(draft.stat().st_ino, count, primaries)
        if len(set(osds)) == count and last in (None, osds[-1]):
            draft.rename(path)
            return attempt + 1
        draft.unlink()
    raise SystemExit(f"no file with its objects on {count} OSDs in {TRIES} tries")


if __name__ == "__main__":
    groups = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    spread(
        Path(sys.argv[1]),
        {int(group): osd for group, osd in groups.items()},
        int(sys.argv[3]) if len(sys.argv) > 3 else None,
    )
