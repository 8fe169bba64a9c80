"""Draws the figure of a page in docs/benchmarks from the table of that page, so that both always agree.

    python -m benchmarks.page_figures               # draws the figures anew; a test compares them

A page asks for a figure by a comment: ``<!-- figure: NAME.svg | TITLE | COLUMN | COLUMN -->``. The first cells of the
table's rows are the names; the first number in each cell of a column is a bar. Rows without a number have no bar.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.studies import figures

PAGES = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
ASKED = re.compile(r"<!-- figure: (?P<file>[\w-]+\.svg) \| (?P<title>[^|]+?) \| (?P<columns>.+?) -->")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def read_table(text: str) -> list[list[str]]:
    """Give the cells of the first table, the heads first, without marks of Markdown."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("|"):
            rows.append([re.sub(r"[`*]", "", cell).strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return [row for row in rows if not re.fullmatch(r":?-+:?", row[0])]


def draw(text: str) -> dict[str, str]:
    """Draw the figures that a page asks for, by file name."""
    found = {}
    for asked in ASKED.finditer(text):
        heads, *rows = read_table(text)
        groups = {}
        for column in asked["columns"].split(" | "):
            place = heads.index(column)
            numbers = [(row[0], NUMBER.search(row[place])) for row in rows]
            groups[column] = [(name, float(number[0].replace(",", ""))) for name, number in numbers if number]
        found[asked["file"]] = figures.bars(asked["title"], groups)
    return found


def main() -> None:
    """Write the figures of all pages."""
    for page in sorted(PAGES.glob("*.md")):
        for name, picture in draw(page.read_text("utf-8")).items():
            (PAGES / name).write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
