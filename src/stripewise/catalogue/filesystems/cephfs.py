"""CephFS: objects on OSDs, chosen by extended attributes while a file is empty."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from stripewise.catalogue.filesystems.base import Ask, FileSystem, Key, LayoutFound
from stripewise.shell import quote


class CephFS(FileSystem):
    """Layouts by the extended attributes ``ceph.file.layout`` and ``ceph.dir.layout``."""

    name = "cephfs"
    label = "CephFS"
    types = ("ceph",)
    magic = 0x00C36400
    keys = (Key("stripe_unit", "stripe_size"), Key("stripe_count", "stripe_count"), Key("object_size"))
    in_program = True
    tool = "setfattr"

    def for_directory(self, layout: Mapping[str, str], place: str) -> tuple[list[str], list[str]]:
        """Set the attribute of the directory; removing the attribute undoes it."""
        return [
            "# keep what this prints; 'no such attribute' means the parent's layout:",
            f"getfattr -n ceph.dir.layout {place}",
            f"setfattr -n ceph.dir.layout -v {quote(self._fields(layout))} {place}",
        ], ["# back to the parent's layout; if it had its own, set that again:", f"setfattr -x ceph.dir.layout {place}"]

    def for_file(self, layout: Mapping[str, str], path: str) -> list[str]:
        """Create the file, then set its attribute."""
        quoted = quote(path)
        return [f"touch {quoted}", f"setfattr -n ceph.file.layout -v {quote(self._fields(layout))} {quoted}"]

    def _fields(self, layout: Mapping[str, str]) -> str:
        """Give all fields at once, because a stripe unit must divide the object size at every moment."""
        return " ".join(f"{key.name}={layout[key.name]}" for key in self.keys if key.name in layout)

    def look(self, path: Path, tool: str | None, ask: Ask) -> LayoutFound:
        """Read the attributes."""
        kind = "dir" if path.is_dir() else "file"
        found = []
        for name in (*(key.name for key in self.keys), "pool"):
            try:
                found.append(f"{name} {os.getxattr(path, f'ceph.{kind}.layout.{name}').decode()}")
            except OSError:
                continue
        return LayoutFound("ok", ", ".join(found) or "the file system's default (none is set here)")
