"""Spectrum Scale (GPFS): every file lies on all disks, in blocks whose size the site chose."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from stripewise.catalogue.filesystems.base import Ask, FileSystem, LayoutFound, mount_source

_ROW = re.compile(r"\s*-([A-Za-z])\s+(\S+)\s")


class Gpfs(FileSystem):
    """Facts from ``mmlsfs``, which lies outside the usual ``PATH`` on many sites; there is no layout to choose."""

    name = "gpfs"
    label = "Spectrum Scale (GPFS)"
    types = ("gpfs",)
    magic = 0x47504653
    drivers = ("GPFS",)
    tool = "mmlsfs"
    facts: ClassVar = {"B": "block size", "f": "subblock size", "r": "copies of data"}

    def look(self, path: Path, tool: str | None, ask: Ask) -> LayoutFound:
        """Ask ``mmlsfs`` for the sizes that collective buffers and alignments should be multiples of."""
        if tool is None:
            fix = "add /usr/lpp/mmfs/bin to PATH: it tells the block size, of which buffers should be multiples"
            return LayoutFound("note", "no layout to choose; mmlsfs is not in PATH", fix)
        device = mount_source(path).removeprefix("/dev/")
        rows = [_ROW.match(line) for line in ask([tool, device, *(f"-{flag}" for flag in self.facts)]).splitlines()]
        told = [f"{self.facts[row[1]]} {row[2]}" for row in rows if row and row[1] in self.facts]
        if not told:
            return LayoutFound("note", f"no layout to choose; mmlsfs {device} failed")
        return LayoutFound("ok", f"no layout to choose; {', '.join(told)}")
