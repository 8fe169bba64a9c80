"""Before a run on the test bed: empty files whose objects lie on different OSDs.

    python -m benchmarks.studies.placed GROUPS.json FILE...

Ceph places objects by a hash, so that of a file with four stripes on four OSDs two nearly always share one, and two
stripes are then as good as four. A site would pin a pool. Here inodes are drawn until the hash is kind. A file that is
there and empty keeps its layout; one that holds something is left alone.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.runtime.spread import spread

FIELDS = ("object_size", "stripe_unit", "stripe_count")


def place(path: Path, primaries: dict[int, int]) -> None:
    """Make one file, or make it anew."""
    layout = {}
    if path.exists():
        if path.stat().st_size:
            return
        layout = {field: os.getxattr(path, f"ceph.file.layout.{field}") for field in FIELDS}
    spread(path, primaries)
    for field, value in layout.items():
        os.setxattr(path, f"ceph.file.layout.{field}", value)


def main(groups: str, *files: str) -> None:
    """Place every file by the OSD of each placement group."""
    primaries = {int(group): osd for group, osd in json.loads(Path(groups).read_text("utf-8")).items()}
    for file in files:
        place(Path(file), primaries)


if __name__ == "__main__":
    main(*sys.argv[1:])
