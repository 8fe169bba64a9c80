"""The single reads and writes of processes, as a trace; ``native/observer/requests.h`` defines what they leave.

The trace is CSV in the form of Darshan's extended trace (:mod:`stripewise.observe.traces.dxt`): one request a row.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from stripewise.observe.left import parts_in, requests_in
from stripewise.observe.process_part import SECOND, decode_field, read_part
from stripewise.ownership import written_whole
from stripewise.sizes import count_of

_MAGIC = b"SWREQS1"
_MOST = 65_536
_REQUEST = np.dtype(
    [
        ("ended", "u8"),
        ("began", "u8"),
        ("bytes", "u8"),
        ("place", "i8"),
        ("pid", "i4"),
        ("writes", "u4"),
        ("hash", "u4"),
        ("unused", "u4"),
    ]
)
_HEAD = np.dtype([("magic", "S8"), ("size", "u8"), ("count", "u8")])
_COLUMNS = ("file_name", "api", "rank", "operation", "offset", "length", "start", "end")


def write_trace(folder: Path, trace: Path) -> str:
    """Write what the processes of a run left in its folder as a trace, and remove it; before the parts are merged.

    The processes are numbered as ranks, and times count from the first request.

    Returns
    -------
    str
        How many requests it has, and how many had no room.
    """
    names = {
        (part.head.pid, record.hash): decode_field(record.path)
        for part in map(read_part, parts_in(folder))
        if part is not None
        for record in part.files
    }
    rows, left_out = np.empty(0, _REQUEST), 0
    for path in requests_in(folder):
        found, more = _read(path)
        rows, left_out = np.concatenate([rows, found]), left_out + more
        path.unlink(missing_ok=True)
    rows = rows[np.argsort(rows["began"], kind="stable")]
    ranks = {int(pid): rank for rank, pid in enumerate(dict.fromkeys(rows["pid"]))}
    start = int(rows["began"][0]) if len(rows) else 0
    with (
        written_whole(trace) as part,
        part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream,
    ):
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        for row in rows:
            file = names.get((int(row["pid"]), int(row["hash"])), "other files")
            span = ((int(row[name]) - start) / SECOND for name in ("began", "ended"))
            way = "write" if row["writes"] else "read"
            numbers = (f"{seconds:.9f}" for seconds in span)
            writer.writerow((file, "POSIX", ranks[int(row["pid"])], way, row["place"], row["bytes"], *numbers))
    missing = f"; {left_out:,} later ones had no room" if left_out else ""
    return f"{trace}: {count_of(len(rows), 'request')}{missing}"


def _read(path: Path) -> tuple[np.ndarray, int]:
    """The requests of one file, and how many had no room in it."""
    content = path.read_bytes()
    if len(content) != _HEAD.itemsize + _MOST * _REQUEST.itemsize:
        return np.empty(0, _REQUEST), 0
    head = np.frombuffer(content, _HEAD, 1)[0]
    if head["magic"] != _MAGIC or head["size"] != _REQUEST.itemsize:
        return np.empty(0, _REQUEST), 0
    rows = np.frombuffer(content, _REQUEST, _MOST, _HEAD.itemsize)
    # A process that was killed amid a request left it unfinished.
    return rows[rows["ended"] > 0], max(0, int(head["count"]) - _MOST)
