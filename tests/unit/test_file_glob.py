"""Globs of files match in Python what fnmatch of the C library, which the runtime uses, matches."""

import ctypes
import random

import pytest

from stripewise.file_glob import names_file

PATTERNS = [
    "*", "", "a", "?", "*.h5", "/a/*", "a*b*c", "[abc]*", "[!a]b", "[a-c]?", "\\*", "a\\b", "[", "[]a]b", "*[0-9]",
    "**a**b", "*a*a*a*", "[^a]*b", "a[\\]]b", "x[a-]y", "[c-a]",
]  # fmt: skip
TEXTS = ["", "a", "b", "ab", "abc", "b.h5", "*", "a\\", "[", "]b", "run7", "aab", "aaa", "cb", "x-y", "a]b", "a.b.c"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_same_as_in_the_c_library(pattern: str) -> None:
    fnmatch = ctypes.CDLL(None).fnmatch
    for text in TEXTS:
        assert names_file(pattern, text) == (fnmatch(pattern.encode(), text.encode(), 0) == 0), (pattern, text)


def test_random_patterns_are_as_in_the_c_library() -> None:
    fnmatch, chosen = ctypes.CDLL(None).fnmatch, random.Random(1)
    for _ in range(3000):
        pattern = "".join(chosen.choices("ab*?c*", k=chosen.randrange(8)))
        text = "".join(chosen.choices("abc", k=chosen.randrange(12)))
        assert names_file(pattern, text) == (fnmatch(pattern.encode(), text.encode(), 0) == 0), (pattern, text)


def test_a_path_is_named_by_its_whole_or_its_last_part() -> None:
    assert names_file("*.h5", "/data/out.h5") and names_file("[^a]ut*", "/data/out.h5")
    assert names_file("/data/*", "/data/new/out.h5") and not names_file("data", "/data/out.h5")


def test_many_stars_take_no_longer_than_the_text() -> None:
    assert not names_file("*a" * 50 + "b", "a" * 4000)
