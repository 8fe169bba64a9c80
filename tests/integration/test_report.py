"""The report: complete, self-contained, accessible, and safe whatever a program printed."""

import base64
import dataclasses
import hashlib
import json
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.errors import StripewiseError, UserError
from stripewise.output.experiment_view import ExperimentView
from stripewise.output.html import render_report, save_text, write_report
from stripewise.output.plots.proof import chart_control, explain_control
from stripewise.output.plots.style import ON_DARK
from stripewise.output.sections import sections
from stripewise.trial import Phase, Role, Run, State, Trial
from tests.unit.finished_experiment import changed, finished

VOID = {"meta", "link", "br", "img", "input", "hr"}
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class Page(HTMLParser):
    """A strict view of a page: elements with attributes, text by element, and every tag closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text, self.scripts, self.wrong = [], [], [], [], []
        self.feed(text)
        self.close()
        self.wrong += [f"{name} stays open" for name in self.open]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(self.open)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> where {self.open} is open")

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.text.append(data)

    def of(self, tag):
        return [attributes for name, attributes, _ in self.elements if name == tag]

    @property
    def words(self):
        return re.sub(r"\s+", " ", " ".join(self.text))


@pytest.fixture(scope="module")
def source():
    return render_report(*finished())


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


def without_scripts(source):
    return re.sub(r"<script.*?</script>", "", source, flags=re.S)


def test_headline_comes_first_in_words(page):
    words = page.words
    assert words.index("Proven: 2.95 times the default") < words.index("The best settings")
    for part in ("220.6 MiB/s", "621.1 MiB/s", "2.95×", "95% interval 2.71 to 3.16", "8 pairs"):
        assert part in words


def test_all_sections_are_there_and_reachable(page):
    ids = [attributes["id"] for _, attributes, _ in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for name in (
        "settings", "proof", "effects", "apply", "trajectory", "parameters", "machine", "validity", "cost", "runs",
        "provenance",
    ):  # fmt: skip
        assert name in ids
    targets = {a["href"][1:] for a in page.of("a") if a["href"].startswith("#")}
    assert targets <= set(ids)
    labels = {a["aria-labelledby"] for a in page.of("section")}
    assert labels <= set(ids)


def test_effect_ledger_names_who_asked_and_who_won(page):
    words = page.words
    assert "Setting Layer Value Asked by Overridden by Echoed Verdict Evidence" in words
    assert (
        "cb_nodes romio 4 the plan nobody 4 ✓ effective the writes during collective calls came from 4 ranks" in words
    )
    assert "romio_ds_write romio automatic the program the program's own hints disable ✕ refused" in words
    assert "romio_no_indep_rw romio true the plan nobody true ? unprovable nothing that can be observed" in words


def test_runs_table_has_every_run_and_reason(page):
    _, trials = finished()
    runs = [run for trial in trials for run in trial.runs]
    rows = [place for name, _, place in page.elements if name == "tr" and "tbody" in place]
    assert len(rows) >= len(runs)
    assert page.words.count("MPI_File_write_all: Invalid argument") == 2
    assert "it could not come near the best any more" in page.words


def test_changes_of_the_machine_are_said_and_shown_for_each_run():
    changes = [{"before": 2, "after": 3, "started": None, "slower": 1.8}]
    runs = [{"run": number, "slower": 0.75 if number < 3 else 1.35, "default": 90.0} for number in range(1, 6)]
    moved = render_report(*finished(level={"changes": changes, "runs": runs}))
    assert "The machine became 1.8 times slower at run 3;" in moved
    assert "times slower than on average" in moved
    quiet = render_report(*finished())
    assert "The machine became" not in quiet
    assert "times slower than on average" not in quiet


def test_apply_shows_every_export_with_its_undo(page):
    words = page.words
    for part in (
        "stripewise run a1b4555a -- mpiexec -n 4 ./writer --file '/dev/shm/out file.dat'",
        "cb_config_list *:4", "ROMIO_HINTS", "unset ROMIO_HINTS", "MPICH_MPIIO_HINTS", "I_MPI_FILESYSTEM_CB_NODES",
        "srun --export=ALL", "What this form cannot express", "Who wins:", "[parameters.cb_nodes]",
    ):  # fmt: skip
        assert part in words


def test_forms_that_cannot_say_anything_are_named_not_shown(page):
    named = "Open MPI, File-system layout of a directory, Chunks of HDF5 files, Chunks of netCDF-4 files."
    assert f"These targets cannot express any of the settings: {named}" in page.words


def test_cost_validity_protocol_and_provenance(page):
    words = page.words
    for part in (
        "The tuning time is recovered after 275 runs", "Node-hours",
        "MPICH Version: 5.0.1", "Ranks 4", "confirm again after any of them",
        "Limits of this proof", "The files lay in memory",
        "Pairs in random order", "gcc/12.2, mpich/5.0.1", "66 distinct configurations",
        "Probably not: 9 runs of the default",
    ):  # fmt: skip
        assert part in words


def test_page_is_well_formed_and_accessible(page):
    assert page.wrong == []
    assert page.of("html")[0]["lang"] == "en"
    levels = [int(name[1]) for name, _, _ in page.elements if re.fullmatch(r"h[1-6]", name)]
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(levels, levels[1:], strict=False))
    assert len(page.of("table")) == len(page.of("caption")) > 4
    assert all(a["scope"] in ("row", "col") for a in page.of("th"))
    plots = [a for a in page.of("div") if a.get("class") == "plot"]
    assert len(plots) == 7
    assert all(a["role"] == "group" and len(a["aria-label"]) > 20 for a in plots)
    assert len(page.of("figcaption")) == 7
    assert all(a.get("aria-label") for a in page.of("button"))


def test_nothing_is_loaded_from_anywhere(page):
    for name, attributes, _ in page.elements:
        for key in ("src", "href", "action", "data", "poster", "srcset"):
            assert attributes.get(key, "#").startswith(("#", "data:")), (name, attributes)
    style = without_scripts(render_report(*finished()))
    assert "@import" not in style
    assert "url(" not in style


def test_policy_lets_only_the_reports_own_scripts_run(source, page):
    policy = next(a["content"] for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]
    scripts = re.findall(r"<script>(.*?)</script>", source, flags=re.S)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_plotly_is_there_once(source):
    assert source.count("* plotly.js v") == 1
    assert len(source) < 1_500_000


def test_figures_are_json_for_every_place(source, page):
    text = re.search(r'<script type="application/json" id="figures">(.*?)</script>', source, flags=re.S).group(1)
    document = json.loads(text)
    assert set(document["looks"]) == {"light", "dark"}
    # Plotly takes away what a template has there, so the next figure would not find it.
    assert all("meta" not in look["template"]["layout"] for look in document["looks"].values())
    assert document["looks"]["dark"]["colours"] == ON_DARK
    places = {a["data-figure"] for a in page.of("div") if "data-figure" in a}
    assert places == set(document["figures"])
    assert all("template" not in figure["layout"] for figure in document["figures"].values())


def test_hostile_text_is_shown_and_never_run():
    record, trials = finished(
        verdict=EVIL, reason=EVIL, left_out={"x": EVIL},
        failures=[{"run": 8, "reason": EVIL, "count": 1}], environment={"mpi": EVIL, "modules": [EVIL]},
        workload={"driver": EVIL}, validity__warning=EVIL, objective__name=f"regex:({EVIL})", confirmation__kept=[EVIL],
        effects=[{"name": EVIL, "evidence": EVIL, "echoed": EVIL, "layer": EVIL, "status": EVIL}],
    )  # fmt: skip
    experiment = record.experiment.model_copy(update={"name": EVIL, "command": [EVIL]})
    record = dataclasses.replace(record, experiment=experiment, owner=EVIL)
    broken = dataclasses.replace(trials[3].runs[0], state=State.FAILED, reason=EVIL)
    trials = (*trials[:3], dataclasses.replace(trials[3], runs=(broken,)), *trials[4:])
    source = render_report(record, trials)
    clean = Page(source)
    assert clean.wrong == []
    assert len(clean.of("script")) == 3
    assert clean.of("img") == []
    assert clean.words.count("alert(2)") >= 12
    assert "<script>alert" not in source


def test_a_gain_not_proven_is_not_sold():
    record, trials = finished()
    result = record.result.as_json()
    candidate = {**result["best"], "speedup": 1.04, "speedup_ci95": [0.97, 1.12]}
    kept = {"value": 220.6, "ci95": None, "runs": 8}
    changes = {
        "confirmed": False, "speedup": 1.0, "speedup_ci95": None, "candidate": candidate, "cheapest": None,
        "verdict": "Not proven, so the default is kept.", "plan": "stripewise-plan 1\noverride no\nfile *\n",
        "best": {"configuration": result["default"]["configuration"], **kept, "trial": 0, "is": "default"},
    }  # fmt: skip
    more = "With 24 pairs a gain of 1.04 could be shown."
    record = changed(record, **changes, confirmation__more_budget=more)
    page = Page(render_report(record, trials))
    words = page.words
    assert "Default kept" in words
    assert "Gain proven" not in words
    assert "Best found, not proven" in words
    assert "With 24 pairs a gain of 1.04 could be shown." in words
    assert "there is nothing to apply" in words
    assert next(a for a in page.of("div") if a.get("class") == "headline")["data-proven"] == "false"


def test_simulated_results_say_so_at_the_top(source):
    record, trials = finished(simulated=True)
    page = Page(render_report(record, trials))
    assert page.words.index("Simulated: these runs were computed, not measured") < page.words.index("Proven")
    assert "Simulated: these runs" not in source
    held = sections(ExperimentView(record, trials), (), ["validity"])["validity"]
    assert "Simulated</" in held and "Measured</" not in held


def test_a_bare_result_makes_a_report():
    """As little as an experiment can have: one run, no report, no pairs, no shares."""
    record, _ = finished(
        confirmed=False, candidate=None, reference=None, effects=[], shares=[], failures=[],
        cheapest=None, environment={}, workload={}, left_out={}, speedup=1.0, speedup_ci95=None,
        plan="stripewise-plan 1\noverride no\nfile *\n", validity={"date": None, "warning": ""},
        confirmation={"pairs": [], "decision": "none", "kept": [], "limits": []},
        best={"configuration": {}, "value": None, "ci95": None, "runs": 0, "trial": 0, "is": "default"},
        default={"configuration": {}, "value": None, "ci95": None, "runs": 0}, space={}, cost=None, reason="stopped",
    )  # fmt: skip
    run = Run(0, 0, Phase.SEARCH, State.FAILED, reason="no value")
    page = Page(render_report(record, (Trial(0, Configuration({}), Role.DEFAULT, (run,)),)))
    assert page.wrong == []
    assert "No confirmation was run: stopped." in page.words
    assert "Cannot be told" in page.words


def test_unfinished_experiment_is_refused(tmp_path):
    record, trials = finished()
    record = dataclasses.replace(record, result=None)
    with pytest.raises(UserError, match="stripewise resume"):
        write_report(record, trials, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_writing_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(StripewiseError, match="cannot write"):
        save_text(tmp_path / "missing" / "report.html", "text")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StripewiseError, match="No space left"):
        save_text(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    save_text(path, "new")
    assert path.read_text() == "new"


# -- view -------------------------------------------------------------------------------------------------


def test_incumbent_is_the_best_median_of_the_search_only():
    def trial(number, role, *values, phase=Phase.SEARCH, first=0):
        runs = tuple(Run(first + i, number, phase, State.FINISHED, v) for i, v in enumerate(values))
        return Trial(number, Configuration({"x": number}), role, runs)

    record, _ = finished()
    trials = (
        trial(0, Role.DEFAULT, 100.0, first=0),
        trial(1, Role.CANDIDATE, 300.0, 100.0, first=1),
        trial(2, Role.REFERENCE, 900.0, first=3),
        trial(3, Role.CANDIDATE, 250.0, first=4),
        trial(4, Role.CANDIDATE, 800.0, phase=Phase.CONFIRMATION, first=5),
    )
    assert ExperimentView(record, trials).incumbent() == [(0, 100.0), (1, 300.0), (2, 200.0), (4, 250.0)]


def test_two_parameters_together_are_those_of_the_answer():
    record, trials = finished()
    view = ExperimentView(record, trials)
    (across, up), grid = view.contour()
    measured = [share.name for share in record.result.shares if share.slowdown is not None]
    assert [across.name, up.name] == measured
    best = max(line.value for line in view.lines()[1])
    assert max(value for row in grid for value in row if value is not None) == best
    assert any(value is None for row in grid for value in row)
    times = view.times()
    assert len(times) == sum(1 for run, _ in view.runs if run.elapsed) and times[0].start == 0.0


def test_spending_adds_up_to_the_whole_time():
    view = ExperimentView(*finished())
    seconds, launches = view.spending()
    assert sum(seconds.values()) == pytest.approx(view.result.seconds)
    assert sum(launches.values()) == view.result.runs
    assert launches["failed"] == launches["cut"] == launches["warm-up"] == 1


# -- was it the machine? -------------------------------------------------------------------------------------


def test_a_steady_machine_is_rarely_accused():
    rng = np.random.default_rng(1)
    accused = sum(bool(chart_control(list(np.exp(0.2 * rng.normal(size=13)))).broken) for _ in range(400))
    assert accused / 400 < 0.10


@pytest.mark.parametrize(
    "values, index, rule",
    [
        ([100, 101, 99, 100, 102, 99, 100, 101, 50, 100], 8, "beyond the limits"),
        ([100, 103, 98, 102, 97, 103, *[109, 110] * 5], 14, "9 in a row on one side"),
        ([100, 130, 95, 125, 100, 102, 104, 106, 108, 111, 90, 120], 9, "6 in a row rising"),
        (
            [100, 101, 100, 99, 100, 101, 100, 99, 100, 101, 100, 103.5, 103.6, 100],
            12,
            "two of three near the same limit",
        ),
    ],
)
def test_a_changed_machine_is_named_with_its_rule(values, index, rule):
    chart = chart_control([float(v) for v in values])
    assert rule in chart.rules[index], chart
    assert f"run {index}" in explain_control(chart, range(len(values)), "5 min") or len(chart.broken) > 4


def test_too_few_runs_of_the_default_tell_nothing():
    chart = chart_control([1.0, 2.0, 3.0])
    assert (chart.centre, chart.broken) == (None, [])
    assert "Cannot be told" in explain_control(chart, [1, 2, 3], "5 s")


def test_equal_and_negative_values_are_taken():
    assert chart_control([5.0] * 12).broken == []
    assert chart_control([-1.0, 0.0, 1.0, 0.5, -0.5, 0.2, -0.2, 0.1]).broken == []


def test_the_command_that_applies_names_the_store_that_was_given():
    record, trials = finished()
    page = render_report(record, trials, lambda text: f"{text} --store journal:/shared/runs")
    assert f"stripewise run {record.result.experiment} --store journal:/shared/runs -- " in without_scripts(page)
