"""Settings in a file of the program's own: a changed copy stands in for it."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from stripewise.catalogue.carriers.base import LOST, Carried, Carrier, Expressed, Form, LaunchSettings, Setting

LARGEST = 1 << 20
"""Bytes of a file that is still read."""


class CopiedFile(Carrier):
    """The launcher writes the copy into the run's folder; the command has ``{NAME:FILE}`` in place of the file's path.

    Attributes
    ----------
    by, wins : str
        As in :class:`~stripewise.catalogue.carriers.base.Carried`.
    file_is : str
        What the file is, in words.
    no_place : str
        Why a setting is lost for which no file has a place.
    """

    acts = ("launch",)
    needs_mpi = False
    names_files = True
    proofs = frozenset()
    by = ""
    wins = ""
    file_is = ""
    no_place = ""

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Keep the setting for the copy."""
        if not any(carrier == self.name for carrier, _ in launch.program.own_files):
            return Carried(
                setting, LOST, f"write {{{self.name}:FILE}} in the command where it has the path of {self.file_is}"
            )
        launch.pending.setdefault(self.name, {})[setting.key] = setting.value
        return Carried(setting, self.by, self.wins)

    def finish(self, launch: LaunchSettings, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Write the copies; a setting that no file has a place for is lost."""
        wanted = launch.pending.get(self.name)
        if not wanted:
            return carried
        met: set[str] = set()
        why = self.no_place
        for carrier, file in launch.program.own_files:
            if carrier == self.name:
                try:
                    text, found = self.changed(file, wanted)
                except (OSError, ValueError) as error:
                    why = f"{file} cannot be changed: {getattr(error, 'strerror', None) or error}"
                    continue
                met |= found
                copy = f"{hashlib.sha256(str(file).encode()).hexdigest()[:8]}-{file.name}"
                launch.files[copy] = text
                launch.stand_in[carrier, file] = launch.folder / copy
        return [
            Carried(c.setting, LOST, why)
            if c.setting.carrier is self and c.by != LOST and c.setting.key not in met
            else c
            for c in carried
        ]

    @abstractmethod
    def changed(self, file: Path, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
        """Give a file's text with settings changed, and the keys for which it has a place.

        Raises
        ------
        OSError
            If it cannot be read.
        ValueError
            If it is too large or of another form.
        """

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Name all as lost: only the file can hold them."""
        if form is not Form.VARIABLES:
            return None
        return Expressed(cannot=[s.but(f"belongs into {self.file_is}") for s in settings])


def text_of(file: Path) -> str:
    """Read a file of bounded size.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is not a file, too large, or not a text in UTF-8.
    """
    if not file.is_file() and file.exists():  # a pipe would keep its reader waiting
        raise ValueError("it is not a file")
    with file.open("rb") as opened:
        read = opened.read(LARGEST + 1)
    if len(read) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    try:
        return read.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not a text in UTF-8 (byte {error.start + 1})") from error
