"""What libraries and Pythons answered at an earlier launch, kept until a file changes on which the answer depends."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from stripewise import __version__
from stripewise.errors import UserError
from stripewise.ownership import check_own, make_folder, written_whole
from stripewise.requests.site import site_folder

_MOST = 200
"""Answers that are kept."""


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Folder of finished builds: ``STRIPEWISE_HOME``, the site file's, or by the XDG convention."""
    given = os.environ if environment is None else environment
    if home := given.get("STRIPEWISE_HOME"):
        return Path(home) / "native"
    sites = site_folder("cache", given)
    if sites is not None:
        return sites / "native"
    base = given.get("XDG_CACHE_HOME") or Path(given.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "stripewise" / "native"


def keep(
    question: Sequence[str],
    find: Callable[[], list[str]],
    files: Iterable[Path] = (),
    more: Callable[[Sequence[str]], Iterable[Path]] = lambda _: (),
) -> list[str]:
    """Give the answer to a question, found once for each state of the files on which it depends.

    Parameters
    ----------
    question : sequence of str
        All that it depends on besides files: another text is another question.
    find : callable
        Finds the answer, lines of text; an empty one is not kept.
    files : iterable of Path
        On which the answer depends. One that is missing counts, too: it may come.
    more : callable
        Gives the files and folders that the answer names.
    """
    given = [__version__, *question]
    place = cache_folder() / "answers" / f"{hashlib.sha256(json.dumps(given).encode()).hexdigest()[:32]}.json"
    files = list(files)
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError, UserError):
        known = json.loads(place.read_text("utf-8"))
        answer = [str(line) for line in known["answer"]]
        if known["state"] == _state_of([*files, *more(answer)]):
            for own in (place.parent, place):
                check_own(own, "the kept answer")
            return answer
    # A file that changes meanwhile must not pass for the one that was asked.
    before = _state_of(files)
    if answer := find():
        with contextlib.suppress(OSError, UserError):
            make_folder(place.parent)
            check_own(place.parent, "the folder of kept answers")
            for old in sorted(place.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-_MOST]:
                old.unlink(missing_ok=True)
            with written_whole(place) as part:
                part.write_text(json.dumps({"state": before + _state_of(more(answer)), "answer": answer}), "utf-8")
    return answer


def _state_of(files: Iterable[Path]) -> list[list[str | int]]:
    return [[str(path), *_stamp(path)] for path in files]


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        about = path.stat()
    except OSError:
        return ()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns
