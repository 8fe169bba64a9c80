"""The file that a job script's ``ROMIO_HINTS`` names, looked up where the job would look."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from stripewise.catalogue.carriers import HINTS_LIMIT
from stripewise.diagnose.script import ScriptSetting, parse_script
from stripewise.runners.schedulers.registry import submission_folders

_HERE = re.compile(r"\$\(pwd\)|`pwd`")


@dataclass(frozen=True)
class HintsFile:
    """What was found.

    Attributes
    ----------
    line : int
        Of the script, which names the file.
    path : str
        As it was looked for; as the script names it where that says no place.
    said : str
        What was found there, or why nothing was.
    knobs : tuple of ScriptSetting
        Its hints, with their lines in it.
    """

    line: int
    path: str
    said: str
    knobs: tuple[ScriptSetting, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Give the plain values, but for the hints."""
        return {"line": self.line, "path": self.path, "said": self.said}


def named_hints(text: str, folder: Path, environment: Mapping[str, str]) -> HintsFile | None:
    """Read the hints file that a job script names.

    Parameters
    ----------
    text : str
        The script.
    folder : Path
        From which the job is submitted: what ``$PWD`` and the scheduler's variables stand for, and where relative
        names begin.
    environment : mapping
        Of other variables in the name.

    Returns
    -------
    HintsFile or None
        None where no line names one.
    """
    script = next((one for one in parse_script(text).all() if one.hints_path), None)
    if script is None or script.hints_file is None:
        return None
    line, named = script.hints_file, script.hints_path
    if Path(named).name in {Path(target).name for target in script.written}:
        return HintsFile(line, named, "the script itself writes it")
    known = {**environment, **dict.fromkeys(["PWD", *submission_folders()], str(folder))}
    path = Template(_HERE.sub("$PWD", named)).safe_substitute(known)
    if "$" in path or "`" in path:
        return HintsFile(line, named, "not looked at: only the job knows the name")
    place = folder / Path(path).expanduser()
    try:
        if not place.is_file():
            return HintsFile(line, str(place), "this file does not exist here")
        with place.open("rb") as stream:
            data = stream.read(HINTS_LIMIT)
    except OSError as error:
        return HintsFile(line, str(place), f"it cannot be read: {error.strerror}")
    if len(data) >= HINTS_LIMIT:
        return HintsFile(line, str(place), f"ROMIO ignores files of {HINTS_LIMIT} bytes and more")
    return _read(line, place, data.decode("utf-8", errors="replace"))


def _read(line: int, place: Path, text: str) -> HintsFile:
    knobs, other = [], 0
    for number, raw in enumerate(text.splitlines(), start=1):
        words = raw.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) == 2:
            knobs.append(ScriptSetting(number, words[0], words[1], "romio_file", file=str(place)))
        else:
            other += 1
    said = f"{len(knobs)} hint{'s' if len(knobs) != 1 else ''}"
    if other:
        said += f"; lines without a name and a value, which ROMIO ignores: {other}"
    return HintsFile(line, str(place), said, tuple(knobs))
