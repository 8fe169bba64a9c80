"""Which file system a path lies on, as the kernel's table of mounts says."""

from __future__ import annotations

from pathlib import Path

_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def mount_type(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Give the type of the mount that a path lies on, as ``ext4``, ``lustre``, ``fuse.sshfs``; empty if unknown.

    The path itself need not exist.
    """
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    wanted = path.resolve()
    best, kind = -1, ""
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
            best, kind = len(mount), right.split()[0]
    return kind
