"""DAOS through a dfuse mount: a file takes the object class and the chunk size of its directory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from stripewise.catalogue.filesystems.base import Ask, FileSystem, Key, LayoutFound
from stripewise.shell import quote


class Dfuse(FileSystem):
    """Layouts by ``daos fs set-attr``: of a directory for its new files; a path that does not exist it creates."""

    name = "dfuse"
    label = "DAOS"
    types = ("daos",)
    drivers = ("DAOS",)
    keys = (
        Key("object_class", "other", ("--oclass",), ("romio_daos_obj_class",)),
        Key("chunk_size", "stripe_size", ("--chunk-size",), ("romio_daos_chunk_size",)),
    )
    tool = "daos"
    command = ("daos", "fs", "set-attr")

    def refused(self, name: str, value: str, others: Mapping[str, str]) -> str:
        """Refuse what is not a name of a class, and sizes that are not whole numbers of bytes."""
        if self.key(name) is None:
            return "is not an option of daos fs set-attr"
        if name == "object_class":
            return (
                "" if re.fullmatch(r"[A-Z][A-Z0-9_]*", value) else "is not the name of an object class, as SX or RP_2GX"
            )
        return "" if value.isdigit() and int(value) > 0 else "is not a whole number above 0"

    def for_directory(self, layout: Mapping[str, str], place: str) -> tuple[list[str], list[str]]:
        """Set the attributes; undoing gives the directory those of its container."""
        return [
            f"daos fs get-attr --path={place}  # keep this: undoing sets the container's own",
            " ".join([*self.command, *self.options(layout, joint="="), f"--path={place}"]),
        ], [f"daos fs reset-attr --path={place}  # then set-attr, if get-attr printed others than the container's"]

    def for_file(self, layout: Mapping[str, str], path: str) -> list[str]:
        """Create the file with the attributes."""
        return self.for_directory(layout, quote(path))[0][1:]

    def look(self, path: Path, tool: str | None, ask: Ask) -> LayoutFound:
        """Ask ``daos fs get-attr``."""
        if tool is None:
            return LayoutFound("missing", "daos is not in PATH", "install daos-client: layouts need it")
        lines = [line.strip() for line in ask([tool, "fs", "get-attr", f"--path={path}"]).splitlines()]
        told = [line for line in lines if line.startswith("Object ")]
        return LayoutFound("ok", ", ".join(told)) if told else LayoutFound("note", "daos fs get-attr failed")
