"""A disk with few requests a second: ext4 on a loop device that a control group limits (root, blkio of version 1)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup/blkio")
READ_AHEAD = 128
"""KiB: what Linux has where the device does not ask for more."""


@dataclass(frozen=True)
class SlowDisk:
    """A folder on the disk, and the control group for whose processes it is slow."""

    folder: Path
    group: Path

    def command(self, words: list[str]) -> list[str]:
        """Give a command that runs in the group."""
        return ["sh", "-c", f'echo $$ > {self.group / "cgroup.procs"}; exec "$@"', "sh", *words]

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Put this process, and what it starts, into the group."""
        before = Path("/proc/self/cgroup").read_text("utf-8")
        own = next(line.split(":", 2)[2] for line in before.splitlines() if line.split(":")[1] == "blkio")
        (self.group / "cgroup.procs").write_text(str(os.getpid()), "utf-8")
        try:
            yield
        finally:
            (GROUPS / own.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()), "utf-8")


@contextmanager
def slow_disk(work: Path, limits: Mapping[str, int], *, size: int, sync: bool = False) -> Iterator[SlowDisk]:
    """Give a slow disk, and take it down at the end.

    Parameters
    ----------
    work : Path
        Where its image lies; a folder for this alone.
    limits : mapping
        Of ``read_iops``, ``write_iops``, ``read_bps`` and ``write_bps``: requests and bytes a second.
    size : int
        Bytes of the disk.
    sync : bool
        Whether each write call waits for the storage, as on many network file systems. In version 1 of control groups,
        the kernel's own write-back is not limited.

    Raises
    ------
    PermissionError
        Where this is not root, or control groups of version 1 are missing.
    """
    if os.geteuid() or not GROUPS.is_dir():
        raise PermissionError(f"a slow disk needs root, and blkio of control groups of version 1 in {GROUPS}")
    image, folder, group = work / "slow.img", work / "slow", GROUPS / f"stripewise-{os.getpid()}-{work.name}"
    folder.mkdir(exist_ok=True)
    with ExitStack() as undo:
        undo.callback(image.unlink, missing_ok=True)
        with image.open("wb") as file:
            file.truncate(size)
        device = _do("losetup", "--direct-io=on", "--find", "--show", str(image))
        undo.callback(_do, "losetup", "--detach", device)
        Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb").write_text(str(READ_AHEAD), "utf-8")
        _do("mkfs.ext4", "-q", device)
        _do("mount", *(["-o", "sync"] if sync else []), device, str(folder))
        # Lazily: after an error, a process of a run may still be about to end.
        undo.callback(_do, "umount", "--lazy", str(folder))
        number = Path(device).stat().st_rdev
        group.mkdir()
        undo.callback(_remove, group)
        for name, limit in limits.items():
            text = f"{os.major(number)}:{os.minor(number)} {limit}\n"
            (group / f"blkio.throttle.{name}_device").write_text(text, "utf-8")
        yield SlowDisk(folder, group)


def _remove(group: Path) -> None:
    """Remove a group; the last process leaves it a moment after it has ended."""
    for _ in range(100):
        with suppress(OSError):
            return group.rmdir()
        time.sleep(0.1)
    raise TimeoutError(f"processes are left in {group}")


def _do(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
