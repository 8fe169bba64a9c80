"""Why a run failed, in one line that a person can act on."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from stripewise.runner.local.output import last_line, tail

_SHELL_SIGNAL = 128
_SAID_SIGNAL = re.compile(r"\bsignal:?\s+(\d{1,2})\b", re.IGNORECASE)
_MEANING = {
    "SIGKILL": "out of memory, or ended by somebody",
    "SIGXCPU": "the limit of CPU time",
    "SIGXFSZ": "the limit of file size",
    "SIGBUS": "often a full memory-backed file system",
}


def signal_name(number: int) -> str:
    """Give a signal's name, as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_reason(exit_code: int, stdout: Path, stderr: Path) -> str:
    """Explain an exit code other than 0.

    Parameters
    ----------
    exit_code : int
        Negative for the signal that ended the command itself.
    stdout, stderr : Path
        What it printed: launchers say there which signal ended a rank.
    """
    errors, prints = tail(stderr), tail(stdout)
    said = last_line(errors) or last_line(prints)
    if exit_code < 0:
        what = _killed(-exit_code)
    else:
        number = _signal_of_rank(exit_code, errors, prints)
        what = f"exit code {exit_code}" + (f" ({_killed(number)})" if number else "")
    return f"{what}: {said}" if said else what


def _killed(number: int) -> str:
    name = signal_name(number)
    meaning = f", {_MEANING[name]}" if name in _MEANING else ""
    return f"ended by {name}{meaning}"


def _signal_of_rank(exit_code: int, *texts: str) -> int:
    """Find the signal that a launcher speaks of; it must agree with the exit code, where that holds one."""
    numbers = [int(match) for text in texts for match in _SAID_SIGNAL.findall(text)]
    for number in reversed(numbers):
        if exit_code in (number, _SHELL_SIGNAL + number):
            return number
    if _SHELL_SIGNAL < exit_code <= _SHELL_SIGNAL + 64:
        return exit_code - _SHELL_SIGNAL
    return 0
