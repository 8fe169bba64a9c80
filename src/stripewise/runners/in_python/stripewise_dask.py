"""The threads of ``dask``, where neither the program nor its configuration chose any: as many as there are processors.

A thread that waits for storage leaves its processor idle. Graphs, and so sums, stay the same.
"""

from __future__ import annotations

import functools
import sys
import threading


def patch(call, target, job) -> None:
    """Patch ``dask.threaded.get``, before others import it."""
    one = target.settings.get("num_workers")

    @functools.wraps(call)
    def get(dsk, keys, *args, **kwargs):
        try:
            target.calls += 1
            if one is not None and not args:
                kwargs.update(_threads(kwargs, one, job))
            job.write(soon=True)
        except Exception:
            pass
        return call(dsk, keys, *args, **kwargs)

    get._stripewise = target
    sys.modules[call.__module__].get = get


def _threads(own: dict, one, job) -> dict:
    """Give the number of threads for a call, and count it."""
    config = sys.modules["dask.config"]
    value = own.get("num_workers") or config.get("num_workers", None)
    usual = sys.modules["dask.system"].CPU_COUNT
    if own.get("pool") or config.get("pool", None) or (value is not None and not job.override):
        one.got(value or "a pool", acted=False)
    elif threading.current_thread() is not threading.main_thread():
        one.missed += 1  # each thread that calls would get as many threads of its own
    elif usual == 1 and value is None:
        one.refuse("with one processor, dask runs one task after another, and the program may rely on that")
    elif one.value in (0, value or usual):
        one.missed += 1
    else:
        one.got(one.value, acted=True)
        one.echoed = str(one.value)
        return {"num_workers": one.value}
    return {}
