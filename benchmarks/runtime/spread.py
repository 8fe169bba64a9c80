"""Before a run on the test bed: an empty file whose first objects lie on OSD 0, 1, 2 and 3, with the folder's layout.

    python -m benchmarks.runtime.spread FILE GROUPS.json

Ceph names a file's objects by its inode and places them by a hash, so inodes are drawn until the hash puts them there.
A site would pin a pool instead. GROUPS.json holds the OSD of each placement group, as `bed.py` writes it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.system.testbed.placement import osds_of

TRIES = 20000


def spread(path: Path, primaries: dict[int, int]) -> int:
    """Make the file and give the number of tries."""
    wanted = sorted(set(primaries.values()))
    for attempt in range(TRIES):
        draft = path.with_name(f".{path.name}.{attempt}")
        draft.unlink(missing_ok=True)
        draft.touch()
        if osds_of(draft.stat().st_ino, len(wanted), primaries) == wanted:
            draft.rename(path)
            return attempt + 1
        draft.unlink()
    raise SystemExit(f"no file with its objects on OSDs {wanted} in {TRIES} tries")


if __name__ == "__main__":
    groups = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    spread(Path(sys.argv[1]), {int(group): osd for group, osd in groups.items()})
