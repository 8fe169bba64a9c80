"""Shapes of HDF5's chunks that follow what ranks write and what is read, from what a run did to its datasets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stripewise.catalogue.configuration import Value
from stripewise.formats import MAX_VALUE
from stripewise.observe.activity import Dataset, FileActivity

OWN = "own"
WORDS = ("writers", "readers", "balanced")
_LARGEST = 1 << 20
"""Bytes of a chunk at most: HDF5's cache of the chunks of a dataset before 2.0, where a larger one is read in parts."""
_SMALLEST = 1 << 16
"""Bytes of a chunk at least: below, finding a chunk costs as much as moving it."""
_UNNAMED = re.compile(r"[^\w./ -]|^\s|\s$")
_DIGITS = re.compile(r"\d+")


def propose_shapes(files: Iterable[FileActivity], *, contiguous: bool = False) -> dict[str, str]:
    """Propose values of the setting ``chunk_shape``, by what they follow.

    Parameters
    ----------
    files : iterable of FileActivity
        Of a run with the program's own chunks.
    contiguous : bool
        Whether datasets without chunks may get some.

    Returns
    -------
    dict
        Word (``writers``, ``readers``, ``balanced``) to value. Dimensions that are whole, or that the ranks divide
        among them, are written as such, so that the value holds for datasets of another size. Nothing that would leave
        all datasets as they are, and no shape twice.
    """
    used = [(file, one) for file in files for one in file.datasets if _can_be_shaped(one, contiguous=contiguous)]
    used.sort(key=lambda pair: -sum(calls.bytes for calls in (pair[1].write, pair[1].read) if calls is not None))
    found: dict[str, str] = {}
    for word in WORDS:
        shaped = [(file, one, shape) for file, one in used if (shape := _shape(one, word))]
        if all(shape == one.chunk for _, one, shape in shaped):
            continue
        text = _write([(one.name, _spell(one, shape, _grows(file))) for file, one, shape in shaped])
        if text and text not in found.values():
            found[word] = text
    return {word: f"{word}:{text}" for word, text in found.items()}


def _can_be_shaped(one: Dataset, *, contiguous: bool) -> bool:
    known = bool(one.size) and one.element_size > 0 and math.prod(one.size) > 1
    return known and one.write is not None and (bool(one.chunk) or contiguous)


def _grows(file: FileActivity) -> bool:
    """Whether datasets had another size when they were created: a part of "all" is not known then."""
    return bool(file.hdf5_calls.get("dataset_extend"))


def _shape(one: Dataset, word: str) -> list[int]:
    """The chunk, in elements, that a word asks for; empty where the run does not show it."""
    boxes = [[] if calls is None else calls.box for calls in (one.write, one.read)]
    written, read = (box if len(box) == len(one.size) and all(box) else [] for box in boxes)
    if word == "balanced":
        if not written or not read or written == read:
            return []
        # Of whole dimensions halved again and again, so that no chunk lies mostly outside of the dataset.
        halvings = [
            round(math.log2(full / math.sqrt(a * b))) for full, a, b in zip(one.size, written, read, strict=True)
        ]
        box = [math.ceil(full / 2 ** max(0, times)) for full, times in zip(one.size, halvings, strict=True)]
    else:
        box = written if word == "writers" else read
    # What a rank writes next is often in the slowest dimension, and what is read next in the fastest.
    return _fit(box, one, written if word == "balanced" else [], fastest=word != "writers") if box else []


def _fit(box: Sequence[int], one: Dataset, written: Sequence[int], *, fastest: bool) -> list[int]:
    """Halve the slowest dimensions of what is too large; double dimensions of what is too small."""
    shape = [max(1, min(a, b)) for a, b in zip(box, one.size, strict=True)]
    for place in range(len(shape)):
        while shape[place] > 1 and math.prod(shape) * one.element_size > _LARGEST:
            shape[place] = math.ceil(shape[place] / 2)
    for place, part in enumerate(written):
        while shape[place] > part and _waiting(shape, one, written) > _LARGEST:
            shape[place] = max(part, math.ceil(shape[place] / 2))
    for place in reversed(range(len(shape))) if fastest else range(len(shape)):
        while shape[place] < one.size[place] and math.prod(shape) * one.element_size < _SMALLEST:
            longer = [*shape[:place], min(one.size[place], 2 * shape[place]), *shape[place + 1 :]]
            if _waiting(longer, one, written) > max(_LARGEST, _waiting(shape, one, written)):
                break
            shape = longer
    return shape


def _waiting(shape: Sequence[int], one: Dataset, written: Sequence[int]) -> int:
    """Bytes of the chunks that a write leaves for the next one to fill: until then they stay in the cache."""
    known = list(zip(shape, written, one.size, strict=False))
    whole = all(part % count == 0 or part == full for count, part, full in known)
    return 0 if whole else one.element_size * math.prod(math.ceil(part / count) * count for count, part, _ in known)


def _spell(one: Dataset, shape: Sequence[int], grows: bool) -> str:
    """Write a chunk with ``*`` for whole dimensions, and ``*/N`` for those that the ranks divide."""
    written = one.write.box if one.write is not None else []
    return "x".join(
        _spell_dimension(count, size, part, one.ranks) if not grows else str(count)
        for count, size, part in zip(shape, one.size, written or one.size, strict=True)
    )


def _spell_dimension(count: int, size: int, part: int, ranks: int) -> str:
    if count == size > 1:
        return "*"
    parts = math.ceil(size / part)
    if count == part > 1 and 1 < parts <= ranks and math.ceil(size / parts) == part:
        return f"*/{parts}"
    return str(count)


def _write(shapes: Sequence[tuple[str, str]]) -> str:
    """Write shapes of datasets as one value: without names where all of as many dimensions have the same."""
    ranks: dict[int, dict[str, str]] = {}
    for name, text in shapes:
        if not _UNNAMED.search(name):
            ranks.setdefault(text.count("x"), {}).setdefault(_DIGITS.sub("*", name.strip("/")), text)
    entries: list[str] = []
    for named in ranks.values():
        texts = set(named.values())
        entries += texts if len(texts) == 1 else [f"{name}={text}" for name, text in named.items()]
    value = ""
    for entry in entries:
        longer = f"{value},{entry}".lstrip(",")
        value = longer if len(longer) <= MAX_VALUE - max(map(len, WORDS)) - 1 else value
    return value


def entries_of(value: str) -> Iterator[tuple[str, list[str]]]:
    """Give the pattern (empty for all) and the dimensions of each entry of a value."""
    word, _, rest = value.partition(":")
    for entry in (rest if word in WORDS else value).split(","):
        pattern, _, text = entry.rpartition("=")
        yield pattern, text.split("x")


def resolve(values: Sequence[Value], shapes: Mapping[str, str]) -> tuple[Value, ...]:
    """Replace words by what they stand for in this program; leave out those that it does not show."""
    return tuple(shapes.get(str(value), value) for value in values if value not in WORDS or value in shapes)
