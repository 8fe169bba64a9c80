"""Read Darshan logs and traces, one path a line on standard input, one line of JSON each on standard output.

Run as a process of its own, for a broken log can crash the C library, and with bounded memory. Records are read one by
one and summed; nothing of a log is kept but its sums. What is written is an
:class:`~stripewise.observe.activity.Activity`, or single requests where they are asked for, or ``{"error": ...}``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from stripewise.observe.traces import dxt, form_of

_MEMORY = 1 << 30


def _restrict_process() -> None:
    """Keep a hostile log from taking more than its reader: no core, no files, bounded memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _read_one(path: str, most: int) -> dict[str, Any]:
    from stripewise.observe._darshan_log import LogError, list_requests, summarise  # noqa: PLC0415  slow to load

    try:
        form = form_of(Path(path))
        if most and form not in (None, dxt):
            return {"error": "single requests are read from Darshan logs and DXT traces alone"}
        if most:
            return {"requests": list_requests(path, most) if form is None else dxt.list_requests(Path(path), most)}
        return summarise(path) if form is None else form.summarise(Path(path))
    except LogError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": f"its records need more than {_MEMORY >> 20} MiB"}
    except OSError as error:
        return {"error": f"it cannot be opened: {error.strerror}"}
    except (ValueError, OverflowError, UnicodeError, KeyError, IndexError, ArithmeticError) as error:
        return {"error": f"it is damaged ({type(error).__name__}: {' '.join(str(error).split())[:120]})"}


def serve(asked: TextIO, answers: TextIO) -> None:
    """Answer until the input ends."""
    for line in asked:
        request = json.loads(line)
        # The library may loop for ever on a damaged log: the alarm ends this process, its parent starts another.
        signal.alarm(int(request["seconds"]))
        answer = _read_one(str(request["path"]), int(request["requests"]))
        signal.alarm(0)
        answers.write(json.dumps(answer, separators=(",", ":"), allow_nan=False) + "\n")
        answers.flush()


def _delay_pandas() -> None:
    """Load pandas where PyDarshan first uses it: reading logs never does, and loading takes a second and 70 MB."""

    def load(name: str) -> Any:
        if sys.modules.get("pandas") is delayed:
            del sys.modules["pandas"]
        return getattr(importlib.import_module("pandas"), name)

    delayed = ModuleType("pandas")
    delayed.__getattr__ = load  # type: ignore[method-assign]
    sys.modules["pandas"] = delayed


def main() -> None:
    """Serve the parent; what the C library prints goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = os.dup(1)
    os.dup2(2, 1)
    _delay_pandas()
    from stripewise.observe import _darshan_log  # noqa: F401, PLC0415  loaded before memory is bounded

    _restrict_process()
    with os.fdopen(channel, "w", encoding="utf-8") as answers, contextlib.suppress(BrokenPipeError):
        serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
