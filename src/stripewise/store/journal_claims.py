"""Claims of an experiment in a shared folder: small files that only one host can be the first to create."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stripewise.store import journal_files as files
from stripewise.store.holder import Holder

# A claim whose owner crashed before it could say who it was, where the file system has no links.
_UNSIGNED_SECONDS = 60.0


@dataclass(frozen=True)
class Holding:
    """The newest claim, as others see it.

    Attributes
    ----------
    token : int
        0 where there never was one.
    owner : str
    holder : Holder or None
        The process behind it, if known.
    expires : float
        Epoch seconds; 0 once it is given back.
    """

    token: int
    owner: str = ""
    holder: Holder | None = None
    expires: float = 0.0

    def alive(self, now: float) -> bool:
        """Whether it still holds."""
        return self.expires > now and not (self.holder is not None and self.holder.proven_dead())


def _name(token: int, ending: str = "json") -> str:
    return f"{token:08d}.{ending}"


def journal_path(folder: Path, token: int) -> Path:
    """Give the journal of a claim."""
    return folder / "events" / _name(token, "jsonl")


def tokens(folder: Path) -> list[int]:
    """List the claims ever made, oldest first.

    Raises
    ------
    OSError
        FileNotFoundError where the experiment does not exist.
    """
    return sorted(int(path.stem) for path in (folder / "claims").iterdir() if path.stem.isdigit())


def newest(folder: Path, *, certain: bool = False) -> int:
    """Give the fencing number of the newest claim.

    Parameters
    ----------
    folder : Path
        The experiment's.
    certain : bool
        Do not believe what a network file system's client remembers.
    """
    if certain:
        files.refresh(folder / "claims")
    return max(tokens(folder), default=0)


def holding(folder: Path, *, certain: bool = False) -> Holding:
    """Read the newest claim; ``certain`` as in :func:`newest`."""
    if certain:
        files.refresh(folder / "leases")
    token = newest(folder, certain=certain)
    if token == 0:
        return Holding(0)
    claim = folder / "claims" / _name(token)
    data = files.read_file(claim)
    if data is None:
        return Holding(token, "an unknown owner", None, claim.stat().st_mtime + _UNSIGNED_SECONDS)
    try:
        lease = files.read_file(folder / "leases" / _name(token)) or data
    except FileNotFoundError:
        lease = data
    expires = lease.get("expires")
    return Holding(
        token,
        str(data.get("owner", "")),
        Holder.read(data.get("holder")),
        float(expires) if isinstance(expires, int | float) else 0.0,
    )


def take(folder: Path, token: int, owner: str, holder: Holder, expires: float) -> bool:
    """Try to be the one who makes a claim."""
    data = {"owner": owner, "holder": holder.as_json(), "expires": expires}
    return files.create_file(folder / "claims" / _name(token), data)


def prolong(folder: Path, token: int, expires: float) -> None:
    """Set until when a claim of our own holds; 0 gives it back."""
    files.replace_file(folder / "leases" / _name(token), {"expires": expires})


def ask_to_stop(folder: Path, token: int) -> None:
    """Leave a note for the owner of a claim."""
    files.create_file(folder / "stops" / _name(token), {})


def asked_to_stop(folder: Path, token: int) -> bool:
    """Whether there is a note for the owner of a claim."""
    return (folder / "stops" / _name(token)).exists()
