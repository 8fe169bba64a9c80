"""What Stripewise knows of one file system: how to recognise it, how it lays out files, and what says the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal

from stripewise.shell import quote
from stripewise.sizes import parse_number

Ask = Callable[[list[str]], str]
"""Runs a command and gives what it prints; empty if it fails."""


@dataclass(frozen=True)
class Key:
    """A field of a file's layout.

    Attributes
    ----------
    name : str
        As plans, reports and stacks spell it.
    role : str
        The field's word for it: ``stripe_count``, ``stripe_size``, ``pool`` or ``other``.
    options : tuple of str
        Of the command that lays out files; the first is the one that Stripewise writes.
    hints : tuple of str
        MPI-IO hints by which ROMIO's driver sets the same at creation, with older names.
    mca : str
        The parameter of Open MPI that sets the same.
    """

    name: str
    role: str = "other"
    options: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    mca: str = ""


@dataclass(frozen=True)
class LayoutFound:
    """The layout of a file or directory, for people.

    Attributes
    ----------
    status : {"ok", "missing", "note"}
        As in a finding of ``stripewise doctor``.
    fix : str
        What to do about it; empty where nothing is to be done.
    """

    status: Literal["ok", "missing", "note"]
    text: str
    fix: str = ""


class FileSystem:
    """One file system. A subclass in a module of this package is found by itself.

    Attributes
    ----------
    name : str
        In plans (``layout NAME KEY VALUE``), and of the stack that has its parameters.
    label : str
        For people.
    types : tuple of str
        Types of its mounts, as prefixes; ``fuse.`` before them is left out.
    magic : int
        What statfs(2) gives as the type; 0 if that says too little.
    drivers : tuple of str
        Prefixes of ROMIO's ``romio_filesystem_type``.
    keys : tuple of Key
        Fields of a layout, in the order in which commands take them. Empty: files have no layout to choose.
    in_program : bool
        Whether the runtime can lay out a file when the program creates it; otherwise only commands can.
    tool : str
        The program that lays out files.
    command : tuple of str
        Words of the command that takes the keys' options; empty where there is none.
    darshan_module : str
        The module of Darshan's logs that records layouts; empty where there is none.
    inherited : frozenset of str
        Keys that a component of a file takes from the one before it, where it does not say them itself.
    reads : str
        How the command reads numbers, in a sentence; said where a number is not what its writer means.
    client_settings : mapping
        For requests of one sort (``large``, ``small writes``, ``small reads in sequence``, ``reads at random``,
        ``unaligned``) the settings of the client that only its operators can change, and how.
    """

    name = ""
    label = ""
    types: tuple[str, ...] = ()
    magic = 0
    drivers: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    in_program = False
    tool = ""
    command: tuple[str, ...] = ()
    darshan_module = ""
    inherited: frozenset[str] = frozenset()
    reads = "the command reads it otherwise"
    client_settings: Mapping[str, str] = MappingProxyType({})

    # -- keys ----------------------------------------------------------------------------------------------

    def key(self, name: str) -> Key | None:
        """The key of a name; also of an MPI-IO hint or a parameter of Open MPI that sets the same."""
        return next((key for key in self.keys if name in (key.name, key.mca, *key.hints)), None)

    def number(self, name: str, text: str) -> float | None:
        """Give the number that the command takes a key's text for; None where it refuses the text."""
        return parse_number(text)

    def refused(self, name: str, value: str, others: Mapping[str, str]) -> str:
        """Say why a key cannot have a value in a layout; empty if it can.

        Parameters
        ----------
        others : mapping
            The whole layout.
        """
        return "" if self.key(name) else f"is not a layout field of {self.label}"

    def not_as_hint(self, name: str, value: str, others: Mapping[str, str]) -> str:
        """Say why a key's hints would not have the effect of the key; empty if they have, or there are none."""
        return ""

    # -- commands ------------------------------------------------------------------------------------------

    def for_directory(self, layout: Mapping[str, str], place: str) -> tuple[list[str], list[str]]:
        """Give shell lines that lay out the new files of a directory, and lines that undo it.

        Parameters
        ----------
        layout : mapping
            Key to value; none of them is :meth:`refused`.
        place : str
            The directory, quoted.
        """
        return [], []

    def for_file(self, layout: Mapping[str, str], path: str) -> list[str]:
        """Give shell lines that create an empty file with a layout."""
        return []

    def options(self, layout: Mapping[str, str], joint: str = " ") -> list[str]:
        """Give the command's options for a layout."""
        words = []
        for key in self.keys:
            if key.name in layout:
                option, value = key.options[0], quote(layout[key.name])
                words += [option, value] if joint == " " else [f"{option}{joint}{value}"]
        return words

    def in_script(self, words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        """Give what a command of a shell script sets, of its words: the component of the file, the key and its value.

        Components count from 1; a layout that holds for the whole file is component 0.
        """
        start = self._command_in(words)
        if start is not None:
            yield from ((0, name, value) for name, value in self._options_in(words[start:]))

    def _options_in(self, words: Sequence[str]) -> Iterator[tuple[str, str]]:
        names = {option: key.name for key in self.keys for option in key.options}
        for place, word in enumerate(words):
            option, equal, value = word.partition("=")
            if option in names:
                yield names[option], value if equal else "".join(words[place + 1 : place + 2])
            elif word[:2] in names and len(word) > 2 and not word.startswith("--"):
                yield names[word[:2]], word[2:]

    def _command_in(self, words: Sequence[str]) -> int | None:
        """Give the place behind the words of the command, by their base names; None where they are not there."""
        size = len(self.command)
        names = [word.rpartition("/")[2] if word.startswith("/") else word for word in words]
        found = next((i for i in range(len(names)) if tuple(names[i : i + size]) == self.command), None)
        return None if found is None or not size else found + size

    def refused_words(self, words: Sequence[str]) -> tuple[str, str] | None:
        """Say why the command of the words is refused today, and what to write instead; None if it is not."""
        return None

    def look(self, path: Path, tool: str | None, ask: Ask) -> LayoutFound | None:
        """Look at the layout of a file or directory; None where there is none to look at.

        Parameters
        ----------
        tool : str or None
            Where :attr:`tool` is, if it is installed.
        """
        return None


class Generic(FileSystem):
    """Every file system that no other module knows."""

    name = label = "generic"
    others = ("nfs", "ext4", "xfs", "tmpfs")
    """Common types of mounts, for pages that let people choose one."""
    local = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "ramfs", "overlay")
    """Types of mounts whose files are on the node itself, in its memory or behind its page cache."""
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


_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def mount_type(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Give the type of the mount that a path lies on, as ``ext4``, ``lustre``, ``fuse.sshfs``; empty if unknown.

    The path itself need not exist.
    """
    return _mount(path, mounts)[0]


def may_be_mounted(types: tuple[str, ...], mounts: Path = Path("/proc/self/mountinfo")) -> bool:
    """Say whether a file system of some types is mounted here, or may be once a path in it is used."""
    kinds = [line.partition(" - ")[2].partition(" ")[0].removeprefix("fuse.") for line in _list_mounts(mounts)]
    return not kinds or any(kind == "autofs" or kind.startswith(types) for kind in kinds)


def mount_source(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Give what is mounted where a path lies, as ``/dev/sda1`` or ``gpfs0``; empty if unknown."""
    return _mount(path, mounts)[1]


def _list_mounts(mounts: Path) -> list[str]:
    try:
        return mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _mount(path: Path, mounts: Path) -> tuple[str, str]:
    """Type and source of the mount that a path lies on; empty if unknown."""
    wanted = path.resolve()
    best, found = -1, ("", "")
    for line in _list_mounts(mounts):
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        mount = fields[4]
        for escape, character in _ESCAPES.items():
            mount = mount.replace(escape, character)
        # Of two mounts on one point the later one covers the earlier.
        if wanted.is_relative_to(mount) and len(mount) >= best:
            kind, source, *_ = [*right.split(), ""]
            best, found = len(mount), (kind, source)
    return found
