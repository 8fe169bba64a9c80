"""The stacked bars of a simulated sweep say what acted, and by how much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stripewise.output.experiment_view import ExperimentView
from stripewise.output.figures import figures
from stripewise.output.html import render_report
from stripewise.output.plots.job_io import BoundedRun, bounds, layers
from tests.unit.finished_experiment import finished

RUN = BoundedRun("3", {"client": 2.0, "ost": 5.0, "locks": 4.0, "cache": 0.0}, 5.0, 0.5, "cb_nodes=2 <b>")


def test_layers_are_what_lifting_a_bound_saves_and_add_up_to_the_run() -> None:
    assert layers(RUN) == {"metadata": 0.5, "client": 2.0, "locks": 2.0, "ost": 1.0}
    assert sum(layers(replace(RUN, data=7.5)).values()) == pytest.approx(8.0)
    assert layers(replace(RUN, data=7.5))["other"] == pytest.approx(2.5)


def test_bars_are_stacked_one_a_configuration() -> None:
    figure = bounds([RUN, replace(RUN, name="default", bounds={"rpc": 5.0})])
    assert "Simulated" in figure.layout.title.text
    heights = {trace.name: trace.y for trace in figure.data}
    assert heights["OSTs"] == (1.0, 0.0)
    feet = {trace.name: trace.base for trace in figure.data}
    assert feet["OSTs"][0] == 4.5, "the bound that acts is on top"
    assert heights["RPC window"] == (0.0, 5.0)
    assert heights["open and close"] == (0.5, 0.5)
    assert "&lt;b&gt;" in figure.data[0].customdata[0]
    # A colour is never the only difference.
    looks = [(trace.marker.color, trace.marker.pattern.shape) for trace in figure.data]
    assert len(set(looks)) == len(looks)


def test_a_long_sweep_is_cut() -> None:
    figure = bounds([replace(RUN, name=str(i)) for i in range(80)])
    assert len(figure.data[0].x) == 60
    assert "first 60 of 80" in figure.layout.title.text


def test_bars_far_longer_than_most_are_cut_and_say_their_seconds() -> None:
    usual = [replace(RUN, name=str(i)) for i in range(7)]
    figure = bounds([*usual, replace(RUN, name="slow", data=200.0, bounds={"ost": 200.0})])
    assert figure.layout.yaxis.range[1] == pytest.approx(1.6 * 5.5)
    assert [(note.x, note.text) for note in figure.layout.annotations] == [(7, "200.5 s")]
    assert figure.layout.yaxis.title.text == "simulated seconds"
    assert bounds(usual).layout.yaxis.range is None


@pytest.mark.slow
def test_the_report_of_a_simulated_experiment_shows_them() -> None:
    record, trials = finished(simulated=True)
    facts = {
        "bounds": {"write": {"ost": 3.0, "locks": 4.0, "metadata": 0.2}},
        "phases": {"write": {"open": 0.1, "data": 4.0, "close": 0.1}},
    }
    simulated = [replace(t, runs=tuple(replace(r, facts={**r.facts, **facts}) for r in t.runs)) for t in trials]
    drawn = figures(ExperimentView(record, simulated))
    assert drawn["bounds"].data[0].x[0] == "default"
    page = render_report(record, simulated)
    assert "Simulated. The top layer of each bar" in page
    assert "bounds" not in figures(ExperimentView(*finished()))
