"""Any other file system: its files have no layout that Stripewise can choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stripewise.catalogue.filesystems.base import FileSystem


class Generic(FileSystem):
    """Every file system that no other module knows."""

    name = label = "generic"
    others = ("nfs", "ext4", "xfs", "tmpfs")
    """Common types of mounts, for pages that let people choose one."""
    drivers = ("UFS",)
    network: ClassVar[Mapping[int, str]] = {
        0x6969: "NFS",
        0x517B: "SMB",
        0xFF534D42: "CIFS",
        0xFE534D42: "SMB",
        0x5346414F: "AFS",
        0x6B414653: "AFS",
        0x73757245: "Coda",
        0xAAD7AAEA: "PanFS",
        0x20030528: "OrangeFS",
        0x7461636F: "OCFS2",
        0x01161970: "GFS2",
        0x013111A8: "IBRIX",
        0xA501FCF5: "VxFS cluster",
        0x7C7C6673: "PRL_FS",
    }
    """File systems over a network, by what statfs(2) gives as the type."""
