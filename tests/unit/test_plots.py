"""Figures: what is drawn is what was given, readable in any light."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from stripewise.output import plots
from stripewise.output.compare import progress
from stripewise.output.figures import FIGURES
from stripewise.output.markup import capitalised
from stripewise.output.plots import job_io
from stripewise.output.plots.parameters import (
    WORST_TO_BEST,
    Axis,
    Line,
    contour,
    importance,
    parallel_coordinates,
)
from stripewise.output.plots.proof import Control, chart_control, confirmation, control_chart, cost
from stripewise.output.plots.style import ON_DARK, PALETTE, number, scaled, template
from stripewise.output.plots.trajectory import GuideLines, RunPoint, confirmation_start, timeline, trajectory
from stripewise.result import Interval, PairOfRuns
from stripewise.sizes import format_value
from stripewise.trial import Phase, Run, State

ROOT = Path(plots.__file__).parents[1]
SCALE = {"quantity": "write_bandwidth", "unit": "MiB/s", "maximize": True}
POINTS = [
    RunPoint(0, 150.0, "warmup"),
    RunPoint(1, 200.0, "default", "default"),
    RunPoint(2, 300.0, "search", "cb_nodes=2\nsecond line"),
    RunPoint(3, None, "failed", "crashed: <b>exit code 1</b>"),
    RunPoint(4, 90.0, "pruned", "stopped"),
    RunPoint(5, 310.0, "confirmation"),
    RunPoint(6, 180.0, "reference"),
]


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def traces(figure):
    return {trace.name: trace for trace in figure.data if trace.name}


@pytest.mark.parametrize("colour", [*PALETTE, *(colour for _, colour in WORST_TO_BEST)])
@pytest.mark.parametrize("page", ["#ffffff", "#14181d"])
def test_marks_stand_out_on_light_and_dark_pages(colour, page):
    assert contrast(colour, page) >= 3.0


@pytest.mark.parametrize("colour", PALETTE)
def test_marks_on_a_dark_page_are_bright_enough_to_be_drawn_half_transparent(colour):
    assert contrast(ON_DARK.get(colour, colour), "#14181d") >= 4.0


def test_legend_names_failures_where_no_run_succeeded():
    assert trajectory([RunPoint(0, None, "failed", "exit code 1")], **SCALE).layout.showlegend


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable(dark):
    look = template(dark).layout
    assert contrast(look.font.color, "#14181d" if dark else "#ffffff") >= 7.0
    assert look.paper_bgcolor == "rgba(0,0,0,0)"


def test_trajectory_marks_every_kind_of_run():
    figure = trajectory(POINTS, **SCALE, guides=GuideLines([(1, 200.0), (2, 300.0)], 205.0, 180.0))
    by_name = traces(figure)
    marks = {name for name, trace in by_name.items() if trace.mode == "markers"}
    assert marks == {
        "warm-up (not counted)", "search", "default", "without the component", "candidate, confirmation",
        "cut (bound)", "failed",
    }  # fmt: skip
    assert len({by_name[name].marker.symbol for name in marks}) == len(marks)
    assert list(by_name["search"].y) == [300.0]
    assert list(by_name["best so far (search)"].y) == [200.0, 300.0, 300.0]
    assert list(by_name["default, median: 205 MiB/s"].y) == [205.0, 205.0]
    assert "without the component, median: 180 MiB/s" in by_name
    assert figure.layout.yaxis.title.text == "write bandwidth (MiB/s)"
    assert figure.layout.xaxis.title.text == "run"


def test_failures_lie_on_the_worse_edge():
    high = traces(trajectory(POINTS, **SCALE))["failed"]
    low = traces(trajectory(POINTS, **{**SCALE, "maximize": False}))["failed"]
    assert high.yaxis == low.yaxis == "y2"
    assert high.y[0] < 0.1
    assert low.y[0] > 0.9


def test_text_of_users_is_shown_not_read():
    figure = trajectory(POINTS, quantity="regex:<i>(x)</i>", unit="<u>", maximize=True)
    assert "&lt;b&gt;exit code 1&lt;/b&gt;" in traces(figure)["failed"].text[0]
    assert "cb_nodes=2<br>second line" in traces(figure)["search"].text[0]
    assert figure.layout.yaxis.title.text == "regex:&lt;i&gt;(x)&lt;/i&gt; (&lt;u&gt;)"


def test_an_experiment_without_a_run_has_no_trajectory():
    there, _ = FIGURES["trajectory"]
    assert there(SimpleNamespace(points=lambda: POINTS))
    assert not there(SimpleNamespace(points=list))


def test_sizes_are_written_as_sizes_also_where_evidence_has_them_as_text():
    assert format_value("131072", "B") == format_value(131072, "B") == "128K"
    assert format_value("131072") == "131072" and format_value("automatic", "B") == "automatic"


def test_wide_spreads_get_a_logarithmic_axis():
    narrow = trajectory(POINTS, **SCALE)
    wide = trajectory([*POINTS, RunPoint(7, 9000.0, "search")], **SCALE)
    assert narrow.layout.yaxis.type != "log"
    assert wide.layout.yaxis.type == "log"
    assert wide.layout.yaxis2.type != "log"


def test_labels_of_a_logarithmic_axis_are_whole_numbers_with_room_between():
    axis = scaled([90.0, 1900.0])
    assert axis["ticktext"][:6] == ["10", "20", "50", "100", "200", "500"]
    assert {"100", "200", "500", "1,000", "2,000"} <= set(axis["ticktext"])
    assert scaled([1.0, 1e7])["tickvals"] == [10.0**power for power in range(8)]
    assert scaled([1.0, 2.0]) == {"type": "linear"}


def test_parallel_coordinates_label_all_values_and_stress_the_best():
    axes = [Axis("cb_write", ["automatic", "enable"]), Axis("buffer", ["64 KiB", "1 MiB", "16 MiB"])]
    lines = [Line([0, 2], 100.0, "a"), Line([1, 0], 300.0, "b", best=True), Line([1, 1], 200.0, "c")]
    figure = parallel_coordinates(axes, lines, **SCALE)
    texts = {annotation.text for annotation in figure.layout.annotations}
    assert {"automatic", "enable", "64 KiB", "1 MiB", "16 MiB", "<b>cb_write</b>", "<b>buffer</b>"} == texts
    drawn = [trace for trace in figure.data if "lines" in trace.mode]
    assert [trace.line.width > 3 for trace in drawn] == [False, False, True]
    assert drawn[0].line.color == WORST_TO_BEST[0][1]
    assert drawn[-1].line.color == WORST_TO_BEST[-1][1]
    assert drawn[-1].y[0] == pytest.approx(1.0, abs=0.02)
    assert drawn[-1].y[1] == pytest.approx(0.0, abs=0.02)


def test_parallel_coordinates_colour_by_goodness_when_minimising():
    axes = [Axis("a", ["0", "1"]), Axis("b", ["0", "1"])]
    lines = [Line([0, 0], 1.0, "fast"), Line([1, 1], 5.0, "slow")]
    figure = parallel_coordinates(axes, lines, quantity="elapsed", unit="s", maximize=False)
    colours = {trace.text[0].split("<br>")[1]: trace.line.color for trace in figure.data if trace.text}
    assert colours == {"fast": WORST_TO_BEST[-1][1], "slow": WORST_TO_BEST[0][1]}


@pytest.mark.slow
def test_parallel_coordinates_keep_the_best_of_very_many():
    axes = [Axis("a", [str(i) for i in range(1000)]), Axis("b", ["0", "1"])]
    lines = [Line([i, i % 2], float(i + 1), str(i)) for i in range(1000)]
    figure = parallel_coordinates(axes, lines, **SCALE)
    drawn = [trace for trace in figure.data if trace.text]
    assert len(drawn) == 200
    assert "best 200 of 1000" in figure.layout.title.text
    assert all(float(trace.text[0].split("<br>")[1]) >= 800 for trace in drawn)
    assert len(figure.layout.annotations) < 20


def test_parallel_coordinates_show_the_whole_range_where_an_even_sample_is_asked_for():
    axes = [Axis("b", ["0", "1"])]
    lines = [Line([i % 2], float(i + 1), str(i)) for i in range(401)]
    figure = parallel_coordinates(axes, lines, **SCALE, even=True)
    drawn = [trace.text[0].split("<br>")[1] for trace in figure.data if trace.text]
    assert len(drawn) == len(set(drawn)) == 200
    assert {"0", "400"} <= set(drawn) and "best" not in figure.layout.title.text


def test_importance_says_where_nothing_was_measurable():
    figure = importance({"cb_nodes": 0.7, "ds_write": 0.0, "nodes": 0.0}, single=["nodes"])
    bars = dict(zip(figure.data[0].y, figure.data[0].text, strict=True))
    assert bars == {"cb_nodes": "70%", "ds_write": "no measurable influence", "nodes": "only one value measured"}


@pytest.mark.parametrize(("kinds", "start"), [
    (["search", "confirmation", "default"], 0.5),
    (["search", "default", "confirmation"], 0.5),
    (["default", "search"], None),
])  # fmt: skip
def test_the_confirmation_begins_with_the_first_pair_whichever_arm_is_first(kinds, start):
    points = [RunPoint(run, 1.0, kind) for run, kind in enumerate(kinds)]
    assert confirmation_start(points) == start


def test_confirmation_shows_pairs_failures_and_interval():
    pairs = [
        PairOfRuns(pair=0, default=100.0, candidate=200.0, order="default-first"),
        PairOfRuns(pair=1, candidate=210.0),
        PairOfRuns(pair=2, default=110.0, candidate=190.0),
    ]
    figure = confirmation(pairs, **SCALE, estimate=1.9, interval=Interval(1.6, 2.1), minimum_effect=1.1)
    by_name = traces(figure)
    assert list(by_name["default"].x) == [1, 3]
    assert "ran first" in by_name["default"].text[0]
    assert [annotation.text for annotation in figure.layout.annotations] == ["failed"]
    assert list(by_name["speed-up of a pair"].x) == [2.0, pytest.approx(190 / 110)]
    speedup = by_name["speed-up with its 95% interval"]
    assert speedup.error_x.array[0] == pytest.approx(0.2)
    assert speedup.error_x.arrayminus[0] == pytest.approx(0.3)
    assert "the required 1.1" in figure.layout.xaxis2.title.text


def test_speedup_of_a_time_is_default_over_candidate():
    assert PairOfRuns(pair=0, default=10.0, candidate=5.0).speedup(maximize=False) == 2.0
    assert PairOfRuns(pair=0, default=10.0).speedup(maximize=False) is None


def test_control_chart_flags_in_words_and_chooses_the_clock():
    runs = [Run(i, 0, Phase.SEARCH, State.FINISHED, 50.0 if i == 4 else 100.0) for i in range(10)]
    rules = tuple(("beyond the limits",) if i == 4 else () for i in range(10))
    moments = [60.0 * i for i in range(10)]
    figure = control_chart(runs, moments, Control(100, 90, 110, rules), quantity="elapsed", unit="s")
    flagged = traces(figure)["out of the ordinary"]
    assert list(flagged.x) == [4.0]
    assert "beyond the limits" in flagged.text[0]
    assert figure.layout.xaxis.title.text == "minutes since the first run"
    assert {"centre 100", "limits 90 and 110"} <= traces(figure).keys()
    bare = control_chart(runs[:3], moments[:3], Control(None, None, None, rules[:3]), quantity="elapsed", unit="s")
    assert bare.layout.xaxis.title.text == "seconds since the first run"
    assert not any("limits" in name for name in traces(bare))


def test_cost_counts_launches():
    figure = cost({"search": 12.5, "failed": 0.0, "between runs": 2.0}, {"search": 3, "failed": 1})
    bars = dict(zip(figure.data[0].y, figure.data[0].text, strict=True))
    assert bars == {"search": "12.5 s<br>3 launches", "failed": "0 s<br>1 launch", "between runs": "2 s"}


def test_empty_input_draws_an_empty_figure():
    for figure in (
        trajectory([], **SCALE),
        parallel_coordinates([], [], **SCALE),
        importance({}),
        confirmation([], **SCALE),
        control_chart([], [], chart_control([]), quantity="elapsed", unit="s"),
        cost({}, {}),
    ):
        assert json.loads(figure.to_json())["layout"]["height"] > 0


@pytest.mark.parametrize(
    "value, text", [(None, "–"), (float("inf"), "–"), (0.0, "0"), (12345.6, "12,346"), (1.23456, "1.235")]
)
def test_numbers(value, text):
    assert number(value) == text
    assert re.fullmatch(r".* s", number(1.0, "s"))


def test_every_trace_that_figures_use_is_in_the_bundle_of_the_pages():
    sources = [file.read_text() for file in ROOT.rglob("*.py")]
    annotations = {"annotation", "shape", "hline", "vline", "vrect", "hrect"}
    used = {name for text in sources for name in re.findall(r"\.add_([a-z]+)\(", text)} - annotations
    assert used == {"scatter", "bar", "heatmap"}, "add the trace to packaging/plotly/entry.cjs and build it again"


def test_targets_of_equal_bytes_show_their_unequal_times():
    figure = job_io.ost_balance({0: 1 << 30, 1: 1 << 30}, {0: 1.0, 1: 41.0})
    loads, times = figure.data
    assert loads.y == (1024.0, 1024.0)
    assert times.y == (1.0, 41.0)
    assert times.yaxis == "y2"
    assert len(job_io.ost_balance({0: 1, 1: 1}).data) == 1


def test_names_keep_their_small_letters():
    assert capitalised("romio_cb_write is unknown") == "romio_cb_write is unknown"
    assert capitalised("x=1 failed") == "x=1 failed"
    assert capitalised("the run failed") == "The run failed"
    assert capitalised("") == ""


def test_few_runs_get_a_tick_each_from_zero():
    figure = progress({"a": [(0, 1.0), (1, 1.5)]}, {"a": 1})
    assert (figure.layout.xaxis.dtick, figure.layout.xaxis.tick0) == (1, 0)
    assert progress({"a": [(0, 1.0), (40, 1.5)]}, {"a": 40}).layout.xaxis.dtick is None


def test_pairs_of_values_show_the_best_and_leave_the_untried_empty():
    pair = (Axis("cb_write", ["enable", "<b>"]), Axis("cb_nodes", ["1", "2"]))
    figure = contour(pair, [[200.0, None], [300.0, 250.0]], **SCALE)
    (cells,) = figure.data
    assert list(cells.z[0]) == [200.0, None] and list(cells.text[0]) == ["200", ""] and cells.x[1] == "&lt;b&gt;"
    wide = contour(pair, [[1.0, None], [100.0, None]], **SCALE).data[0]
    assert wide.z[1][0] == 2.0 and wide.text[1][0] == "100" and not wide.showscale


def test_runs_are_drawn_when_they_were_made():
    figure = timeline(
        [
            RunPoint(0, 1.0, "search", "<b>", 0.0, 60.0),
            RunPoint(1, None, "failed", "", 7200.0, 1800.0),
            RunPoint(2, 1.0, "search"),
        ]
    )
    assert [(bar.y[0], bar.base[0], bar.x[0]) for bar in figure.data] == [
        ("search", 0.0, 1 / 60), ("failed", 2.0, 0.5),
    ]  # fmt: skip
    assert "&lt;b&gt;" in figure.data[0].text[0]
