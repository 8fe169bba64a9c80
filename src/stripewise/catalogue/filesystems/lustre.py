"""Lustre: stripes over OSTs, chosen when a file is created."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from stripewise.catalogue.filesystems.base import Ask, FileSystem, Key, LayoutFound
from stripewise.shell import quote

_STEP = 65536
_SIZE = re.compile(r"\s*\+?(0[xX][0-9a-fA-F]+|[0-9]+)(?:\.([0-9]*))?(?:([bckmgtpeBCKMGTPE])(?:[iIbB].*)?)?", re.DOTALL)
_END = re.compile(r"-E.*|(?:--component-end|--comp-end)(?:=.*)?")
"""Where a component of a composite layout ends."""
_COUNT = re.compile(r"\s*[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)")
_UNITS = {"": 1, "c": 1, "b": 512, **{letter: 1 << 10 * power for power, letter in enumerate("kmgtpe", start=1)}}
_MOST_STRIPES = 2000
_AS_KIB = 4096
"""A size below this is taken as KiB."""
_LONGEST = 100
_OLD = {
    "-s": "-S",
    "--size": "--stripe-size",
    "--count": "--stripe-count",
    "--index": "--stripe-index",
    "--offset": "--stripe-index",
}
"""Options of lfs setstripe of old that the table in lfs.c of Lustre 2.17 does not have, with what stands for each."""
_OLD_PLACES = ("stripe_size", "start_ost", "stripe_count")
"""What the words behind the file were, before there were options."""
HEAD_STRIPES = 4
"""Stripes of a head's last component."""
_HEAD_SHARE = 16
_SIZES = {
    "stripe_size": (_STEP, "64 KiB, as Lustre's stripes are"),
    "mdt_size": (_STEP, "64 KiB, as Lustre's components are"),
    "extension_size": (_STEP, "64 KiB, as Lustre's components are"),
    "head_size": (_STEP * _HEAD_SHARE, "1 MiB: a sixteenth of it is a component of its own"),
}


def _parse_number(text: str) -> int | None:
    """Give a number as strtoul(3) with base 0 reads it: a leading 0 means octal."""
    digits = text.strip().lstrip("+-")
    octal = digits.startswith("0") and digits[1:2] not in ("x", "X", "")
    try:
        number = int(digits, 8 if octal else 0)
    except ValueError:
        return None
    return -number if text.strip().startswith("-") else number


def _renew(word: str) -> str:
    """Write an option of an old lfs as today's; other words stay."""
    option, equal, value = word.partition("=")
    if option in _OLD:
        return f"{_OLD[option]}{equal}{value}"
    return f"-S{word[2:]}" if re.fullmatch(r"-s[0-9]+[kKmMgG]?", word) else word


def _old_places(words: Sequence[str]) -> Sequence[str] | None:
    """Give size, index and count where a command writes them behind the file, as Lustre 1.8 took them."""
    place = next((i for i in range(len(words) - 1) if tuple(words[i : i + 2]) == ("lfs", "setstripe")), None)
    rest = words[place + 2 :] if place is not None else ()
    if len(rest) != 1 + len(_OLD_PLACES) or rest[0].startswith("-"):
        return None
    return rest[1:] if all(re.fullmatch(r"-?[0-9]+[kKmMgG]?", word) for word in rest[1:]) else None


class Lustre(FileSystem):
    """Layouts by ``lfs setstripe``, by the runtime, or by the hints of ROMIO's Lustre driver.

    A composite file begins with a head of one form: ``mdt_size`` bytes on the metadata server, then one stripe up to a
    sixteenth of ``head_size``, then four up to ``head_size``. All other keys are of the component behind it.
    ``native/core/layout_lustre.c`` builds the same.
    """

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
        Key("mdt_size"),
        Key("head_size"),
        Key("extension_size", "other", ("-z", "--extension-size", "--ext-size")),
        Key("pool", "pool", ("-p", "--pool")),
        # The second name is the one before MPICH 4.2.
        Key("start_ost", "other", ("-i", "--stripe-index"), ("start_iodevice", "romio_lustre_start_iodevice")),
        Key("template", "other", ("--yaml",)),
    )
    in_program = True
    tool = "lfs"
    command = ("lfs", "setstripe")
    darshan_module = "LUSTRE"
    # setstripe_args_init_inherit in lfs.c
    inherited = frozenset({"stripe_size", "stripe_count", "pool"})
    reads = "lfs reads units as powers of 1024, and a size below 4096 as KiB"
    client_settings = MappingProxyType(
        {
            "large": "more and larger RPCs (osc.*.max_rpcs_in_flight, osc.*.max_pages_per_rpc), with "
            "osc.*.max_dirty_mb above their product; from Lustre 2.17 on llite.*.hybrid_io, which makes large buffered "
            "calls direct",
            "small writes": "room to gather them into whole RPCs (osc.*.max_dirty_mb), and more RPCs in flight "
            "(osc.*.max_rpcs_in_flight) where osc.*.rpc_stats shows that they are all in use",
            "small reads in sequence": "more read-ahead (llite.*.max_read_ahead_mb, max_read_ahead_per_file_mb)",
            "reads at random": "less read-ahead (llite.*.max_read_ahead_per_file_mb), if more is read than asked for",
            "unaligned": "llite.*.unaligned_dio, if the program opens its files with O_DIRECT",
        }
    )

    def number(self, name: str, text: str) -> float | None:
        """Read a size as ``llapi_parse_size``, and a count or an index as ``strtoul``, both with base 0.

        As ``lfs.c`` and ``liblustreapi.c`` of Lustre 2.17.57 do it. Before 2.16, a unit is one letter: ``4MiB`` and
        ``4MB``, which are the same, were refused.
        """
        if name in ("stripe_count", "overstripe_count", "start_ost"):
            least = -32 if name == "overstripe_count" else -1
            count = _parse_number(text) if len(text) <= _LONGEST and _COUNT.fullmatch(text) else None
            return count if count is not None and least <= count <= _MOST_STRIPES else None
        found = _SIZE.fullmatch(text) if len(text) <= _LONGEST else None
        whole = None if found is None else _parse_number(found[1])
        if found is None or whole is None:
            return None
        unit, fraction = _UNITS[(found[3] or "").lower()], found[2] or "0"
        size = whole * unit + int(fraction) * unit // 10 ** len(fraction)
        if size < _AS_KIB and name != "extension_size":
            size *= 1024
        return size if size % _STEP == 0 and size < 1 << 64 else None

    def refused(self, name: str, value: str, others: Mapping[str, str]) -> str:
        """Refuse what Lustre would misread, and keys that exclude one another."""
        if self.key(name) is None:
            return "is not an option of lfs setstripe"
        if name != "template" and "template" in others:
            return "excludes template, which was kept"
        if name == "stripe_count" and "overstripe_count" in others:
            return "excludes overstripe_count, which was kept"
        step, words = _SIZES.get(name, (0, ""))
        if step and (not value.isdigit() or int(value) % step):
            # lfs reads sizes below 4096 as KiB.
            return f"is not a multiple of {words}"
        mdt = others.get("mdt_size", "0")
        # A bad mdt_size is refused by itself.
        if name == "head_size" and int(value) and mdt.isdigit() and int(value) // _HEAD_SHARE <= int(mdt):
            return f"is not more than {_HEAD_SHARE} times mdt_size"
        if name == "head_size" and int(value) and not {"stripe_count", "overstripe_count"} & others.keys():
            return "needs stripe_count or overstripe_count, for the rest of the file"
        return ""

    def options(self, layout: Mapping[str, str], joint: str = " ") -> list[str]:
        """Write one group of options for each component, from the start of the file on."""
        mdt, head = (int(layout.get(name, "0")) for name in ("mdt_size", "head_size"))
        last = super().options({name: value for name, value in layout.items() if name not in ("mdt_size", "head_size")})
        if not (mdt or head or int(layout.get("extension_size", "0"))):
            return last
        shared = super().options({name: layout[name] for name in ("stripe_size", "pool") if name in layout})
        words = ["-E", str(mdt), "-L", "mdt"] if mdt else []
        if head:
            words += ["-E", str(head // _HEAD_SHARE), "-c", "1", *shared]
            words += ["-E", str(head), "-c", str(HEAD_STRIPES), *shared]
        return [*words, "-E", "eof", *last]

    def in_script(self, words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        """Give the keys of each component of a composite layout; one on the metadata server is its ``mdt_size``."""
        words = [_renew(word) for word in words]
        if (old := _old_places(words)) is not None:
            yield from ((0, name, value) for name, value in zip(_OLD_PLACES, old, strict=False))
            return
        edges = [place for place, word in enumerate(words) if _END.fullmatch(word)]
        if not edges or self._command_in(words[: edges[0]]) is None:
            yield from super().in_script(words)
            return
        for number, (edge, behind) in enumerate(zip(edges, [*edges[1:], len(words)], strict=True), start=1):
            options, _, end = words[edge].partition("=")
            size = end or (words[edge][2:] if options.startswith("-E") else "")
            begin = edge + 1 + (not size)
            # The option stands on either side of the component's end.
            before = tuple(words[max(edge - 2, 0) : edge]) if number == 1 else ()
            around = (tuple(words[begin : begin + 2]), before)
            if {("-L", "mdt"), ("--layout", "mdt")}.intersection(around):
                yield number, "mdt_size", size or "".join(words[edge + 1 : edge + 2])
            yield from ((number, name, value) for name, value in self._options_in(words[begin:behind]))

    def refused_words(self, words: Sequence[str]) -> tuple[str, str] | None:
        """Refuse options of old versions, and numbers behind the file."""
        start = self._command_in(words)
        if start is None:
            return None
        for word in words[start:]:
            if (new := _renew(word)) != word:
                option, meant = word.partition("=")[0][: 2 if word[1:2] != "-" else None], new.partition("=")[0]
                return (
                    f"lfs of today refuses {option}, and with it the whole command",
                    f"write {meant[:2] if option == '-s' else meant}",
                )
        if _old_places(words) is not None:
            what = "lfs of today takes the numbers behind the folder for names of files"
            return what, "write -S SIZE -i INDEX -c COUNT"
        return None

    def not_as_hint(self, name: str, value: str, others: Mapping[str, str]) -> str:
        """Refuse what ROMIO's driver takes for something else."""
        if name == "stripe_size" and not others.get("stripe_count"):
            return "alone would make ROMIO ask for all OSTs"
        if name == "stripe_count" and value == "-1" and "stripe_size" not in others:
            return "alone is ignored by ROMIO"
        return ""

    def for_directory(self, layout: Mapping[str, str], place: str) -> tuple[list[str], list[str]]:
        """``lfs setstripe`` on the directory, and back to the default that it had, composite or not.

        As test_65p in ``lustre/tests/sanity.sh`` of Lustre 2.17.57 copies a default: a client before 2.15.51 takes ends
        of components from 2 GiB on for others.
        """
        name = "NAME" if place == "DIRECTORY" else hashlib.sha256(place.encode()).hexdigest()[:8]
        before = f"stripewise-before-{name}.yaml"
        # Half a file, or none on a full disk, would be all that is left of the old layout.
        part = f"{before}.$$"
        note = f"rm -f {part}; (set -C; lfs getstripe --yaml -d {place} > {part}) && mv -f {part} {before}"
        return [
            "# keep this file, to undo it; it stays as it is if these lines run again:",
            # One that another user put there holds another layout.
            f"{{ test -s {before} && test -O {before} && test ! -L {before}; }} || {{ {note}; }} &&",
            " ".join(["   ", *self.command, *self.options(layout), place]),
        ], [
            f"lfs setstripe --yaml {before} {place}",
            f"# or, if the directory had no layout of its own: lfs setstripe -d {place}",
        ]

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
