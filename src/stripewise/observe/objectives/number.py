"""Numbers as programs print them: in Fortran's form, with separators of thousands, or found only in part by a pattern.

A pattern such as ``rate: ([0-9.]+)`` finds 0.9 of ``0.9D+01`` and 12 of ``12,345.6``. So what stands beside the found
text decides what the number is.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?:(?<![\w.)\]])[+-])?(?:[0-9]|\.(?=[0-9]))(?:[0-9]|[.,'_](?=[0-9])|\.(?![\w.]))*"
    r"(?:[eEdDqQ][+-]?[0-9]+|[xX][0-9a-fA-F]+|(?<=[0-9.])[+-][0-9]{3}(?![0-9])|\.?\#[A-Z]+|\.?\*+)?",
    re.ASCII,
)
"""All that may belong to one number."""
_PLAIN = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*|\.[0-9]+)(?:[eEdDqQ][+-]?[0-9]+)?", re.ASCII)
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:(?:,[0-9]{3})+\.[0-9]*|(?:,[0-9]{3}){2,})(?:[eEdDqQ][+-]?[0-9]+)?", re.ASCII)
"""With commas between thousands. One comma alone may also be a decimal one: ``1,234``."""
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+(?:\.[0-9]{3})*,[0-9]+(?:[eEdDqQ].*)?", re.ASCII)


def parse_printed_number(word: str) -> float:
    """Read a whole number.

    Raises
    ------
    ValueError
        If it is none, or may mean two.

    Examples
    --------
    >>> parse_printed_number("0.9D+01"), parse_printed_number("12,345.6")
    (9.0, 12345.6)
    """
    plain = word.strip()
    if _GROUPED.fullmatch(plain):
        plain = plain.replace(",", "")
    if _PLAIN.fullmatch(plain):
        plain = re.sub("[dDqQ]", "e", plain)
    elif "_" in plain:  # Python reads it, other programs do not write it
        raise ValueError(plain)
    return float(plain)


def complete_number(before: str, word: str, behind: str) -> str:
    """Give the whole number of which a word may be a part.

    Parameters
    ----------
    before, behind : str
        What stands beside the word.

    Examples
    --------
    >>> complete_number("rate = ", "0.9", "D+01 s"), complete_number("rate = 12", "3", " MB/s")
    ('0.9D+01', '123')
    >>> complete_number("write,", "812.50", ",820.1,3")
    '812.50'
    """
    digit = re.search(r"[0-9]", word, re.ASCII)
    if digit is None or not re.fullmatch(r"[\s0-9.,'_+a-zA-Z-]+", word, re.ASCII):
        return word
    place = len(before) + digit.start()
    text = f"{before}{word}{behind}"
    token = next((found for found in _TOKEN.finditer(text) if found.start() <= place < found.end()), None)
    if token is None or token.end() < len(before) + len(word.rstrip()):
        return word
    whole = token[0]
    if "," in whole and not (_GROUPED.fullmatch(whole) or _DECIMAL_COMMA.fullmatch(whole)):
        # A list: what of it the word stands in.
        first = whole.rfind(",", 0, place - token.start()) + 1
        whole = whole[first:].partition(",")[0]
    return whole


_TIMES = {
    unit: seconds
    for units, seconds in (
        ("ns nsec nsecs nanosecond nanoseconds", 1e-9),
        ("us usec usecs µs μs microsecond microseconds", 1e-6),
        ("ms msec msecs millisecond milliseconds", 1e-3),
        ("s sec secs second seconds", 1.0),
        ("min mins minute minutes", 60.0),
        ("h hr hrs hour hours", 3600.0),
    )
    for unit in units.split()
}
_SCALED = re.compile(
    r"(?P<prefix>[kKMGTP]?)(?P<binary>(?<=[kKMGTP])i)?"
    r"(?P<base>B|[Bb]ytes?|b|bits?|FLOPS?|flops?|I?OPS|iops|ops?|Hz|samples|J)(?P<rate>/s(?:ec(?:ond)?)?|ps)?"
)
_LETTERS = re.compile(r"[0-9.,'_]*(?:[eEdDqQ][+-]?[0-9]+)?([ \t]*)[\[(]?([A-Za-zµμ]+(?:/[A-Za-z]+)?)?")
"""What is left of a number, and the word behind it."""
_BRACKETED = re.compile(r".*[\[(]([A-Za-zµμ]+(?:/[A-Za-z]+)?)[\])]")


def find_unit(behind: str, before: str = "") -> str:
    """Give the unit of a number: at the beginning of what stands behind it, or in brackets before it in its line.

    It is empty where there is none that is known.

    Examples
    --------
    >>> find_unit(" GB/s, done"), find_unit("D+01 ms"), find_unit("k, bw=3"), find_unit(" k of them")
    ('GB/s', 'ms', 'k', '')
    >>> find_unit(", stdev=1", before="clat (usec): min=1, max=4, avg=")
    'usec'
    """
    found = _LETTERS.match(behind)
    unit = (found and found[2]) or ""
    known = _scale(unit) is not None and not (found and found[1] and len(unit) == 1 and unit in "kKMGT")
    if unit and known:
        return unit
    labelled = _BRACKETED.match(before[before.rfind("\n") + 1 :])
    return labelled[1] if labelled and _scale(labelled[1]) is not None else ""


def convert(number: float, unit: str, into: str) -> float:
    """Give a number with one unit in another; as it is where one has none.

    Raises
    ------
    ValueError
        If the units are not of one kind.

    Examples
    --------
    >>> convert(1.5, "GB/s", "MB/s"), convert(900.0, "ms", "s"), convert(12.5, "k", "")
    (1500.0, 0.9, 12500.0)
    """
    own, wanted = _scale(unit), _scale(into)
    if unit == into:
        return number
    if own is None or wanted is None or own[1] != wanted[1]:
        if unit and into:
            raise ValueError(f"the number is in {unit}, and that of the first run in {into}")
        return number
    return number * own[0] / wanted[0]


def _scale(unit: str) -> tuple[float, str] | None:
    """Give how large a unit is, and of which kind; None where it is not known."""
    if unit in _TIMES:
        return _TIMES[unit], "s"
    if unit in ("", "k", "K", "M", "G", "T"):
        return 1000.0 ** " kMGT".index(unit.replace("K", "k") or " "), ""
    found = _SCALED.fullmatch(unit)
    if found is None:
        return None
    power, base = " kmgtp".index(found["prefix"].lower() or " "), found["base"]
    kind = {"B": "byte", "b": "bit"}.get(base, base.lower().rstrip("s"))
    return (1024.0 if found["binary"] else 1000.0) ** power, f"{kind}{'/s' if found['rate'] else ''}"


def is_part_of_clock(before: str, word: str, behind: str) -> bool:
    """Whether a word is one part of a time such as ``1:23.4`` or ``1m23.4s``.

    Examples
    --------
    >>> is_part_of_clock("took ", "1", ":23.4"), is_part_of_clock("1m", "23.4", "s"), is_part_of_clock("", "1", "m")
    (True, True, False)
    """
    if re.match(r":[0-5][0-9](?![0-9])|m[0-9]", behind):
        return True
    return bool(re.search(r"(?<![\w.])[0-9]+m$", before) and re.match(r"[0-9]", word))
