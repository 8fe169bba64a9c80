"""A process beside a program and the command that attends it: it does for both what the command cannot do.

Nothing tells a process that it is stopped or killed, so this one looks. It needs the standard library alone.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

_SECONDS = 0.1


def watch(attendant: int, program: int) -> None:
    """Stop, continue and kill a program together with the process that attends it, until one of them is gone.

    Parameters
    ----------
    attendant, program : int
        Process numbers; the first is that of this process's parent.
    """
    known = began = _state(program)[1]
    together = False
    while known == began:
        state, began = _state(program)
        if os.getppid() != attendant:
            if known == began:
                os.kill(program, signal.SIGKILL)
            return
        above, below = _state(attendant)[0] == "T", state == "T"
        if above and not below:
            # The one that has changed since both were stopped goes before.
            os.kill(attendant if together else program, signal.SIGCONT if together else signal.SIGSTOP)
        together = above and below
        time.sleep(_SECONDS)


def _state(pid: int) -> tuple[str, str]:
    """Give a process's state (a traced one is not stopped) and when it began; empty if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]


if __name__ == "__main__":
    watch(int(sys.argv[1]), int(sys.argv[2]))
