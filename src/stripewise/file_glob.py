"""Globs of files, as the runtime and the observer match them: fnmatch(3) without flags, in the locale C."""

from __future__ import annotations

from functools import lru_cache

_Sign = tuple[bool, tuple[tuple[str, str], ...]] | None
"""A character out of ranges, or out of none of them; None: any text."""


def names_file(glob: str, path: str) -> bool:
    """Whether a glob names a file, with its whole path or its base name.

    Parameters
    ----------
    glob : str
        ``*`` stands for any text, also one with slashes, ``?`` for a character, ``[abc]``, ``[a-z]``, ``[!a]`` and
        ``[^a]`` for one of a set; a backslash takes the next character as it is.
    path : str
    """
    signs = _read_signs(glob)
    return _match_signs(signs, path) or _match_signs(signs, path.rpartition("/")[2])


@lru_cache(maxsize=256)
def _read_signs(glob: str) -> tuple[_Sign, ...]:
    signs: list[_Sign] = []
    at = 0
    while at < len(glob):
        one = glob[at]
        if one == "[" and (found := _set(glob, at)) is not None:
            sign, at = found
            signs.append(sign)
            continue
        if one == "*":
            signs.append(None)
        elif one == "?":
            signs.append((False, ()))
        else:
            at += one == "\\" and at + 1 < len(glob)
            signs.append((True, ((glob[at], glob[at]),)))
        at += 1
    return tuple(signs)


def _set(glob: str, at: int) -> tuple[_Sign, int] | None:
    """Read the set that begins at a bracket, and say where it ends; None if it is not closed."""
    among = glob[at + 1 : at + 2] not in ("!", "^")
    at = first = at + (1 if among else 2)
    ranges = []
    while at < len(glob) and (glob[at] != "]" or at == first):
        at += glob[at] == "\\" and at + 1 < len(glob)
        least = most = glob[at]
        if glob[at + 1 : at + 2] == "-" and glob[at + 2 : at + 3] not in ("", "]"):
            at += 2
            at += glob[at] == "\\" and at + 1 < len(glob)
            most = glob[at]
        ranges.append((least, most))
        at += 1
    return ((among, tuple(ranges)), at + 1) if at < len(glob) else None


def _match_signs(signs: tuple[_Sign, ...], text: str) -> bool:
    """Match without recursion: only the last star that was met takes more text."""
    at = place = taken = 0
    star = -1
    while place < len(text):
        sign = signs[at] if at < len(signs) else (True, ())
        if sign is None:
            star, taken = at, place
            at += 1
        elif sign[0] == any(least <= text[place] <= most for least, most in sign[1]):
            at += 1
            place += 1
        elif star < 0:
            return False
        else:
            taken += 1
            at, place = star + 1, taken
    return all(sign is None for sign in signs[at:])
