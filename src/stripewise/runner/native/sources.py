"""Where the native sources are: in a clone, or inside an installed package."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import stripewise
from stripewise.errors import StripewiseError

RUNTIME_PARTS = ("native/include", "native/core", "native/shim", "native/vol")
KERNEL_PARTS = ("native/include", "native/kernel")


def source_folder() -> Path:
    """Give the folder that holds ``CMakeLists.txt`` and ``native/``.

    Raises
    ------
    StripewiseError
        If the installation lacks them.
    """
    package = Path(stripewise.__file__).resolve().parent
    for folder in (package / "_native", package.parent.parent):
        if (folder / "CMakeLists.txt").is_file() and (folder / "native" / "include").is_dir():
            return folder
    raise StripewiseError(
        f"the native sources are missing beside {package}", "install Stripewise again: its packages contain them"
    )


def source_hash(folder: Path, parts: Sequence[str]) -> str:
    """Digest the sources of some parts, names and content; 16 hex digits."""
    digest = hashlib.sha256()
    files = [folder / "CMakeLists.txt"]
    for part in parts:
        files += sorted(path for path in (folder / part).rglob("*") if path.is_file())
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
