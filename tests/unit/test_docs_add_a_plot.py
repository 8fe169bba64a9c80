"""The guide to a plot of one's own works as written: it is drawn, and the report has its place and its data."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path

import pytest
from jinja2 import ChoiceLoader, DictLoader

from stripewise.output import figures as of_experiments
from stripewise.output.figures import figure_names
from stripewise.output.html import render_report
from stripewise.output.page import environment
from stripewise.output.reading import Reading
from tests.unit.finished_experiment import finished

pytestmark = pytest.mark.slow
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-plot.md"
ROOT = GUIDE.parents[2]
TEMPLATE = "src/stripewise/output/templates/sections.html"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)


@pytest.fixture
def package(monkeypatch):
    """A module made of the guide's Python; the figure and its place are there for the length of a test."""
    module = types.ModuleType("guide")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(of_experiments, "FIGURES", dict(of_experiments.FIGURES))
    for block in blocks("python"):
        exec(compile(block, str(GUIDE), "exec"), module.__dict__)
    text = (ROOT / TEMPLATE).read_text("utf-8")
    start = text.index("{% macro cost(")
    end = text.index("{% endcall %}{% endmacro %}", start)
    changed = text[:end] + blocks("html")[0] + text[end:]
    shared = environment()
    monkeypatch.setattr(shared, "loader", ChoiceLoader([DictLoader({"sections.html": changed}), shared.loader]))
    shared.cache.clear()
    yield module
    shared.cache.clear()


def test_it_draws_plain_data(package):
    drawn = package.elapsed([0, 1], [2.0, 3.0])
    assert list(drawn.data[0].y) == [2.0, 3.0]


def test_the_report_has_its_place_and_its_data(package):
    record, trials = finished()
    assert "elapsed" in figure_names(Reading(record, trials))
    page = render_report(record, trials)
    assert 'data-figure="elapsed"' in page
    document = json.loads(re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.S)[1])
    assert len(document["figures"]["elapsed"]["data"][0]["x"]) > 1


def test_the_guide_names_what_is_there():
    text = GUIDE.read_text("utf-8")
    for path in re.findall(r"`((?:src|tests)/[\w/.]+)`", text):
        assert (ROOT / path).exists() or "elapsed" in path, path
