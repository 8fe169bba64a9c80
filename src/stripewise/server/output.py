"""What runs have printed, read without following links that a program may have left."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from stripewise.server.problems import Refused
from stripewise.store.base import Record
from stripewise.tuning.folders import runs_folder


def read_log(record: Record, run: dict[str, Any], stream: str, offset: int | None, limit: int) -> dict[str, Any]:
    """Give a piece of a run's output.

    Parameters
    ----------
    record : Record
    run : dict
        The run's document.
    stream : str
        ``stdout`` or ``stderr``.
    offset : int or None
        Bytes before the piece; None for the last ``limit`` bytes.
    limit : int

    Raises
    ------
    Refused
        With status 404, without output.
    """
    gone = Refused(404, f"there is no {stream} of run {run['number']}", "runs without a folder of their own keep none")
    if not run["folder"]:
        raise gone
    own = (runs_folder(record.experiment) / record.id).resolve()
    folder = Path(run["folder"]).resolve()
    if not folder.is_relative_to(own):
        raise gone
    try:
        handle = os.open(folder / stream, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise gone from None
    with os.fdopen(handle, "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise gone
        start = max(0, status.st_size - limit) if offset is None else min(offset, status.st_size)
        opened.seek(start)
        data = opened.read(limit)
    return {"stream": stream, "offset": start, "size": status.st_size, "text": data.decode("utf-8", "replace")}
