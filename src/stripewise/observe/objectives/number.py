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
