"""Who holds a claim: a process that cannot be mistaken for a later one with the same number."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_PROC = Path("/proc")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _start(pid: int) -> int | None:
    """Clock ticks from the boot to the start of a process; None where it cannot be seen, -1 where it is a zombie."""
    text = _read_text(_PROC / str(pid) / "stat")
    # The command's name may hold spaces and parentheses: fields are counted from the last parenthesis.
    fields = text[text.rfind(")") + 2 :].split()
    if len(fields) < 20:
        return None
    return -1 if fields[0] in "ZX" else int(fields[19])


def _is_process(pid: int) -> bool:
    """Whether there is such a process, even one that ``/proc`` hides from other users (hidepid)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _namespace() -> str:
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


@functools.lru_cache(maxsize=1)
def _of_process(pid: int) -> Holder:
    """Identify this process, once in its life: a service asks for each claim that it reads."""
    return Holder(
        host=socket.gethostname(),
        machine=_read_text(Path("/etc/machine-id")),
        boot=_read_text(_PROC / "sys/kernel/random/boot_id"),
        namespace=_namespace(),
        pid=pid,
        start=_start(pid) or 0,
    )


@dataclass(frozen=True)
class Holder:
    """The process behind a claim.

    Attributes
    ----------
    host, machine, boot : str
        Name, ``/etc/machine-id`` and boot of the machine: nodes may share a name (containers) or an identifier (disk
        images), seldom both.
    namespace : str
        Process numbers mean nothing outside it.
    pid, start : int
        ``start`` counts clock ticks from the boot.
    """

    host: str
    machine: str
    boot: str
    namespace: str
    pid: int
    start: int

    @classmethod
    def current(cls) -> Holder:
        """Identify this process."""
        return _of_process(os.getpid())

    @classmethod
    def read(cls, data: Any) -> Holder | None:
        """Take a holder from JSON; None where it is not one, so that nothing can be proven about it."""
        if not isinstance(data, Mapping):
            return None
        texts = [data.get(name) for name in ("host", "machine", "boot", "namespace")]
        numbers = [data.get(name) for name in ("pid", "start")]
        if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, int) for number in numbers):
            return None
        return cls(*texts, *numbers)  # type: ignore[arg-type]  # checked above

    def as_json(self) -> dict[str, Any]:
        """Give the holder as JSON."""
        return asdict(self)

    def proven_dead(self) -> bool:
        """Whether the process certainly does not run any more; False where that cannot be known from here."""
        here = Holder.current()
        if self.host != here.host or self.machine != here.machine or not self.boot or not here.boot:
            return False
        if self.boot != here.boot:
            # Without the machine's identifier it could be another machine of that name.
            return bool(self.machine)
        if self.namespace != here.namespace or not self.start:
            return False
        start = _start(self.pid)
        return start != self.start if start is not None else not _is_process(self.pid)
