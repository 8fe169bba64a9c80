"""Storage with few requests a second: ext4 on a loop device that a control group limits (root, blkio of version 1)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup/blkio")
READ_AHEAD = 128
"""KiB: what Linux has where the device does not ask for more."""


@contextmanager
def slow_storage(image_folder: Path, *, requests: int, megabytes: int, size: int = 2 << 30) -> Iterator[Path]:
    """Give a folder on slow storage, and put this process and what it starts under the limits.

    Parameters
    ----------
    image_folder : Path
        Where the device's image lies.
    requests, megabytes : int
        Reads, and writes, a second.
    size : int
        Bytes of the device.

    Notes
    -----
    The file system is mounted ``sync``: each write call waits for the storage, as on many network file systems. In
    version 1 of control groups, the kernel's own write-back would not be limited.
    """
    home = Path(tempfile.mkdtemp(prefix="slow-", dir=image_folder))
    group, image, folder = GROUPS / home.name, home / "image", home / "mounted"
    folder.mkdir()
    device = ""
    try:
        with image.open("wb") as file:
            file.truncate(size)
        _do("mkfs.ext4", "-q", str(image))
        device = _do("losetup", "--find", "--show", str(image))
        Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb").write_text(str(READ_AHEAD), "utf-8")
        _do("mount", "-o", "sync", device, str(folder))
        number = Path(device).stat().st_rdev
        group.mkdir()
        for what, limit in [("iops", requests), ("bps", megabytes * 10**6)]:
            for way in ("read", "write"):
                text = f"{os.major(number)}:{os.minor(number)} {limit}"
                (group / f"blkio.throttle.{way}_{what}_device").write_text(text, "utf-8")
        yield from _under(group, folder)
    finally:
        # Lazily: after an error, a process of a run may still be about to end.
        for words in (["umount", "--lazy", str(folder)], ["losetup", "--detach", device]):
            subprocess.run(words, check=False, capture_output=True)
        with suppress(FileNotFoundError):
            group.rmdir()
        shutil.rmtree(home)


def _under(group: Path, folder: Path) -> Iterator[Path]:
    before = Path("/proc/self/cgroup").read_text("utf-8")
    own = next(line.split(":", 2)[2] for line in before.splitlines() if line.split(":")[1] == "blkio")
    (group / "cgroup.procs").write_text(str(os.getpid()), "utf-8")
    try:
        yield folder
    finally:
        (GROUPS / own.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()), "utf-8")


def _do(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
