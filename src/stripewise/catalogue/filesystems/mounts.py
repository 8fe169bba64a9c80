"""Which file system a path lies on, as the kernel's table of mounts says."""

from __future__ import annotations

from pathlib import Path

_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def mount_type(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Give the type of the mount that a path lies on, as ``ext4``, ``lustre``, ``fuse.sshfs``; empty if unknown.

    The path itself need not exist.
    """
    return _mount(path, mounts)[0]


def mount_source(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Give what is mounted where a path lies, as ``/dev/sda1`` or ``gpfs0``; empty if unknown."""
    return _mount(path, mounts)[1]


def _mount(path: Path, mounts: Path) -> tuple[str, str]:
    """Type and source of the mount that a path lies on; empty if unknown."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return "", ""
    wanted = path.resolve()
    best, found = -1, ("", "")
    for line in lines:
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        mount = fields[4]
        for escape, character in _ESCAPES.items():
            mount = mount.replace(escape, character)
        # Of two mounts on one point the later one covers the earlier.
        if wanted.is_relative_to(mount) and len(mount) >= best:
            kind, source, *_ = [*right.split(), ""]
            best, found = len(mount), (kind, source)
    return found
