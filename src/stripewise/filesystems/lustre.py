"""Lustre: stripes over OSTs, chosen when a file is created."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from stripewise.filesystems.base import Ask, FileSystem, Key, LayoutFound
from stripewise.shell import quote

_STEP = 65536


class Lustre(FileSystem):
    """Layouts by ``lfs setstripe``, by the runtime, or by the hints of ROMIO's Lustre driver."""

    name = "lustre"
    label = "Lustre"
    types = ("lustre",)
    magic = 0x0BD00BD0
    drivers = ("LUSTRE",)
    keys = (
        Key(
            "stripe_count",
            "stripe_count",
            ("-c", "--stripe-count"),
            ("striping_factor",),
            "fs_lustre_stripe_width",
        ),
        Key("overstripe_count", "other", ("-C", "--overstripe-count")),
        Key("stripe_size", "stripe_size", ("-S", "--stripe-size"), ("striping_unit",), "fs_lustre_stripe_size"),
        Key("pool", "pool", ("-p", "--pool")),
        # The second name is the one before MPICH 4.2.
        Key("start_ost", "other", ("-i", "--stripe-index"), ("start_iodevice", "romio_lustre_start_iodevice")),
    )
    in_program = True
    tool = "lfs"
    command = ("lfs", "setstripe")
    unread_hints = MappingProxyType({"cb_buffer_size": "on Lustre, collective writes use the stripe size instead"})
    darshan_module = "LUSTRE"

    def refused(self, name: str, value: str, others: Mapping[str, str]) -> str:
        """Refuse sizes that Lustre would misread, and a stripe count beside an overstripe count."""
        if self.key(name) is None:
            return "is not an option of lfs setstripe"
        if name == "stripe_count" and "overstripe_count" in others:
            return "excludes overstripe_count, which was kept"
        if name == "stripe_size" and (not value.isdigit() or int(value) % _STEP):
            # lfs reads sizes below 4096 as KiB.
            return "is not a multiple of 64 KiB, as Lustre's stripes are"
        return ""

    def not_as_hint(self, name: str, value: str, others: Mapping[str, str]) -> str:
        """Refuse what ROMIO's driver takes for something else."""
        if name == "stripe_size" and not others.get("stripe_count"):
            return "alone would make ROMIO ask for all OSTs"
        if name == "stripe_count" and value == "-1" and "stripe_size" not in others:
            return "alone is ignored by ROMIO"
        return ""

    def for_directory(self, layout: Mapping[str, str], place: str) -> tuple[list[str], list[str]]:
        """``lfs setstripe`` on the directory; ``-d`` takes it back."""
        return [
            f"lfs getstripe -d {place}  # keep this: if it shows a composite layout or a pool, leave it alone",
            " ".join([*self.command, *self.options(layout), place]),
        ], [f"lfs setstripe -d {place}  # back to the file system's default; if it had its own, set that again"]

    def for_file(self, layout: Mapping[str, str], path: str) -> list[str]:
        """``lfs setstripe`` creates the file."""
        return [" ".join([*self.command, *self.options(layout), quote(path)])]

    def look(self, path: Path, tool: str | None, ask: Ask) -> LayoutFound:
        """Ask ``lfs getstripe``."""
        if tool is None:
            return LayoutFound(
                "missing", "lfs is not in PATH", "load Lustre's client tools: striping cannot be set without"
            )
        answer = ask([tool, "getstripe", "-d", str(path)])
        return LayoutFound("ok", " ".join(answer.split())) if answer else LayoutFound("note", "lfs getstripe failed")
