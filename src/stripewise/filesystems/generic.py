"""Any other file system: its files have no layout that Stripewise can choose."""

from __future__ import annotations

from stripewise.filesystems.base import FileSystem


class Generic(FileSystem):
    """Stands for what no other module knows."""

    name = label = "generic"
    others = ("gpfs", "nfs", "ext4", "xfs", "tmpfs")
    """Types that people meet, for pages that let them choose one."""
