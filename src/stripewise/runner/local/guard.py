"""A watcher beside the runner: when Stripewise is killed, its runs are ended at once, not at the next resume.

What an orphaned run does to the machine would get into the figures of whatever is measured next.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading

from stripewise.interpreter import python
from stripewise.runner.local import processes


class Guard:
    """Tells a process of its own which runs are under way; it acts when it hears no more.

    Without it (no process can be started) runs are reaped by the next resume, so nothing fails for want of a guard.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def began(self, run_id: str, pid: int) -> None:
        """Take a run under guard."""
        with self._lock:
            if self._process is None:
                with contextlib.suppress(OSError):
                    self._process = subprocess.Popen(
                        python(processes.__file__, alone=True),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        text=True,
                        start_new_session=True,
                    )
            self._tell(f"began {run_id} {pid}")

    def over(self, run_id: str) -> None:
        """Release a run whose processes are gone."""
        with self._lock:
            self._tell(f"over {run_id}")

    def close(self) -> None:
        """End the guard; runs still under its guard end with it."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
