"""BeeGFS: chunks over storage targets, taken from the directory that a file is created in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stripewise.catalogue.filesystems.base import Ask, FileSystem, Key, LayoutFound
from stripewise.shell import quote

_LEAST = 65536


class BeeGFS(FileSystem):
    """Layouts by ``beegfs-ctl --setpattern`` on directories (version 7).

    A file cannot be laid out by itself. It keeps its pattern when it is renamed, so :meth:`for_file` creates it in a
    directory of its own and moves it to its place.
    """

    name = "beegfs"
    label = "BeeGFS"
    types = ("beegfs",)
    magic = 0x19830326
    keys = (
        Key("stripe_count", "stripe_count", ("--numtargets",)),
        Key("chunk_size", "stripe_size", ("--chunksize",)),
        Key("pool", "pool", ("--storagepoolid",)),
    )
    tool = "beegfs-ctl"
    command = ("beegfs-ctl", "--setpattern")

    def refused(self, name: str, value: str, others: Mapping[str, str]) -> str:
        """Refuse what the storage servers refuse."""
        if self.key(name) is None:
            return "is not an option of beegfs-ctl --setpattern"
        if not value.isdigit() or int(value) < 1:
            return "is not a whole number above 0"
        size = int(value)
        if name == "chunk_size" and (size < _LEAST or size & (size - 1)):
            return "is not a power of two of at least 64 KiB, as BeeGFS's chunks are"
        return ""

    def for_directory(self, layout: Mapping[str, str], place: str) -> tuple[list[str], list[str]]:
        """Set the pattern. No command removes one, so undoing sets the old pattern again."""
        again = " ".join([*self.command, "--numtargets=N --chunksize=SIZE --storagepoolid=ID", place])
        return [
            f"beegfs-ctl --getentryinfo {place}  # keep this: undoing needs it",
            self._set(layout, place),
        ], [f"# set what getentryinfo printed again: {again}"]

    def for_file(self, layout: Mapping[str, str], path: str) -> list[str]:
        """Create the file in a directory with the pattern, and move it to its place."""
        folder, whole = quote(f"{path}.layout"), quote(path)
        made = quote(f"{path}.layout/file")
        return [
            f"mkdir {folder}",
            self._set(layout, folder),
            f"touch {made}",
            f"mv {made} {whole}",
            f"rmdir {folder}",
        ]

    def _set(self, layout: Mapping[str, str], place: str) -> str:
        return " ".join([*self.command, *self.options(layout, joint="="), place])

    def look(self, path: Path, tool: str | None, ask: Ask) -> LayoutFound:
        """Ask ``beegfs-ctl --getentryinfo``."""
        if tool is None:
            return LayoutFound("missing", "beegfs-ctl is not in PATH", "install beegfs-utils: layouts need it")
        lines = [line.strip(" +") for line in ask([tool, "--getentryinfo", str(path)]).splitlines()]
        told = [line for line in lines if line.startswith(("Chunksize", "Number of storage targets", "Storage Pool"))]
        return LayoutFound("ok", ", ".join(told)) if told else LayoutFound("note", "beegfs-ctl --getentryinfo failed")
