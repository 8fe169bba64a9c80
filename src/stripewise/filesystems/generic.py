"""Any other file system: its files have no layout that Stripewise can choose."""

from __future__ import annotations

from stripewise.filesystems.base import FileSystem


class Generic(FileSystem):
    """Every file system that no other module knows."""

    name = label = "generic"
    others = ("gpfs", "nfs", "ext4", "xfs", "tmpfs")
    """Common types of mounts, for pages that let people choose one."""
