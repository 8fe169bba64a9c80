"""How Sphinx makes web pages of these documents: `make docs`. The documents themselves are plain Markdown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

project = "Stripewise"
package = (HERE.parent / "src" / "stripewise" / "__init__.py").read_text("utf-8")
release = version = re.findall(r'^__version__ = "(.+)"$', package, re.MULTILINE)[0]
author = "The Stripewise developers"
project_copyright = author
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
# Cards of the start page.
myst_enable_extensions = ["colon_fence"]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Stripewise"
html_static_path = ["_static"]
html_copy_source = False
html_css_files = ["custom.css"]
pygments_dark_style = "github-dark"
# No page loads anything from another host.
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6b5e", "color-brand-content": "#0b6b5e"},
    "dark_css_variables": {"color-brand-primary": "#4fd1bd", "color-brand-content": "#4fd1bd"},
}
# Links to headings, as hosting sites resolve them.
myst_heading_anchors = 4
# Fences without a language show output and files of many kinds.
highlight_language = "none"

SECTIONS = (
    "for-scientists.md",
    "for-administrators.md",
    "for-contributors.md",
    "tutorial.md",
    "troubleshooting.md",
    "how-to",
    "reference",
    "explanation",
    "benchmarks",
    "README.md",
)

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")


def _contents() -> str:
    """The navigation: all pages by folder, which a reader of the plain Markdown has in the index."""
    blocks = []
    for section in SECTIONS:
        place = HERE / section
        # What contributors need follows what users need.
        found = sorted(place.glob("*.md"), key=lambda page: (page.name.startswith("add-"), page.name))
        pages = found if place.is_dir() else [place]
        names = "\n".join(str(page.relative_to(HERE).with_suffix("")) for page in pages)
        caption = f":caption: {section.replace('-', ' ').capitalize()}\n" if place.is_dir() else ""
        blocks.append(f"```{{toctree}}\n:hidden:\n{caption}\n{names}\n```\n")
    return "\n" + "\n".join(blocks)


def _prepared(app: Any, name: str, text: list[str]) -> None:
    """Add the navigation to the index; name folders and documents of the repository that are not web pages."""
    folder = (HERE / name).parent

    def named(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        inside = target.is_relative_to(HERE)
        # A single file is given to download; of a folder, or of a page outside, only the name is left.
        return link[0] if inside or (target.is_file() and target.suffix != ".md") else f"{link[1]} (`{link[2]}`)"

    text[0] = LINK.sub(named, text[0])
    if name == root_doc:
        text[0] += _contents()


def setup(app: Any) -> None:
    """See what is read before it is."""
    app.connect("source-read", _prepared)
