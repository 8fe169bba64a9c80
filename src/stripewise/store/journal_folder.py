"""The folder of a journal: made once, known by its marker, refused where it is something else."""

from __future__ import annotations

from pathlib import Path

from stripewise.errors import StoreError
from stripewise.store import journal_files as files
from stripewise.store.faults import explained
from stripewise.store.folders import make_folder

MARKER = "stripewise-journal.json"
_FORMAT = "stripewise-journal"
_VERSION = 1


def prepare_folder(folder: Path) -> None:
    """Make the folder of a journal, or check that it is one.

    Raises
    ------
    StoreError
        If it cannot be made or read, is something else, or was made by a newer version.
    """
    where = f"journal:{folder}"
    marker = folder / MARKER
    with explained(where):
        make_folder(folder)
        if not marker.exists():
            # Somebody else may be making it just now.
            others = sorted(p.name for p in folder.iterdir() if not p.name.startswith(files.PART) and p.name != MARKER)
            if others and not marker.exists():
                raise StoreError(
                    f"store {where}: the folder holds other things ('{others[0]}') and no journal",
                    "name a new or an empty folder",
                )
            files.create_file(marker, {"format": _FORMAT, "version": _VERSION})
        _check_marker(marker, where)
        if not (folder / "experiments").is_dir():
            (folder / "experiments").mkdir(mode=0o700, exist_ok=True)


def _check_marker(marker: Path, where: str) -> None:
    data = files.read_file(marker)
    if data is None or data.get("format") != _FORMAT or not isinstance(data.get("version"), int):
        raise StoreError(f"store {where}: {marker} is not of a journal of Stripewise", "name another folder")
    if data["version"] > _VERSION:
        raise StoreError(
            f"store {where} was written by a newer Stripewise (version {data['version']}, this one knows {_VERSION})",
            "update Stripewise: pip install --upgrade stripewise",
        )
