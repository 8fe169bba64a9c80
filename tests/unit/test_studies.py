"""The repeated studies: their page is that of their results, and what they compute is what they say."""

from __future__ import annotations

import ast
import csv
import dataclasses
import json
import math
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.studies import (  # noqa: E402
    accelerated,
    ai_for_io,
    ann,
    chain,
    class_errors,
    hard_patterns,
    hdf5_online,
    hdf5_settings,
    holes,
    interfaces,
    io_search,
    page,
    published,
    shaman,
    sieved,
    wide,
)
from benchmarks.studies.oracle import GIB, MIB, Oracle  # noqa: E402
from benchmarks.studies.sections import online  # noqa: E402
from benchmarks.studies.sections.writing import Aim, Section, middle  # noqa: E402
from benchmarks.studies.steps import OutOfTime, Study, StudyError, stripewise, write_toml  # noqa: E402

from stripewise.engine.space import Circumstances, bind_space  # noqa: E402
from stripewise.models.cases import _find_point  # noqa: E402
from stripewise.models.table import Schema, Table  # noqa: E402
from stripewise.requests.campaign import load_campaign  # noqa: E402
from stripewise.requests.campaign_points import Points  # noqa: E402
from stripewise.requests.experiment import Experiment  # noqa: E402


def test_pages_and_tables_are_those_of_the_results() -> None:
    studies = page.load()
    texts = page.render(studies)
    texts |= {page.RESULTS / f"{name}.md": text for name, text in page.tables(studies).items()}
    for file, text in texts.items():
        assert file.read_text("utf-8") == text, f"{file.name}: python -m benchmarks.studies page"


def test_a_page_of_a_study_is_short() -> None:
    for one in page.PAGES:
        assert len((page.NOTES / one.file).read_text("utf-8").split()) <= 800, one.file


def test_each_published_figure_has_a_measured_value_or_says_that_it_was_never_measured() -> None:
    figures = published.listed(page.load())
    assert len(figures) == 20
    assert {one.study for one in figures} == {"000", "001", "002", "003", "004"}
    kinds = {f"{word}, {kind}" for word in ("reached", "not reached") for kind in ("measured", "simulated")}
    for one in figures:
        assert one.measured == published.NEVER or re.search(r"\d", one.measured), one
        assert one.verdict in kinds | {published.NOT_COMPARABLE}, one
        assert "measured" not in one.verdict or one.measured != published.NEVER, one
        assert len(one.why.split()) <= 25, one


def test_readme_and_paper_say_what_the_page_says() -> None:
    sentence = published.count_verdicts(published.listed(page.load()))
    for file in (page.PAGE, ROOT / "README.md", ROOT / "paper" / "paper.md"):
        assert sentence in file.read_text("utf-8"), file.name


def test_a_figure_is_judged_by_all_of_its_numbers() -> None:
    assert published.judge("simulated", [71.0], [63.0]) == "reached, simulated"
    assert published.judge("measured", [1.53, 1.53], [1.59, 1.34], least=False) == "not reached, measured"


def test_the_pictures_are_those_of_the_results() -> None:
    for name, picture in page.pictures(page.load()).items():
        assert (page.NOTES / name).read_text("utf-8") == picture, "python -m benchmarks.studies page"
        assert name != page.SHOWN or (page.DOCS / name).read_text("utf-8") == picture


def test_results_are_of_whole_studies() -> None:
    files = sorted(page.RESULTS.glob("*.json"))
    assert files
    for file in files:
        kept = json.loads(file.read_text("utf-8"))
        assert kept["quick"] is False, file.name
        assert {step["kind"] for step in kept["steps"].values()} <= {"simulated", "measured", "computed"}


def test_simulated_steps_take_less_than_an_hour_of_one_core() -> None:
    steps = [step for study in page.load().values() for step in study.values() if step["kind"] != "measured"]
    assert sum(step["processor_seconds"] for step in steps) < 3600


def test_a_step_is_done_once_and_again_when_its_inputs_or_earlier_files_change(tmp_path: Path) -> None:
    calls = []

    def play(value: int) -> list[int]:
        study = Study("small", tmp_path / "results", tmp_path / "work")
        made = tmp_path / "made"

        def make() -> int:
            calls.append("make")
            made.write_text("x")
            return value

        first = study.step("make", make, "computed", (made,), value=value)
        return [first, study.step("use", lambda: calls.append("use") or 7, "computed")]

    assert play(1) == [1, 7]
    assert play(1) == [1, 7]
    assert calls == ["make", "use"]
    (tmp_path / "made").unlink()
    play(1)
    play(2)
    assert calls == ["make", "use"] * 3


def test_no_step_begins_when_time_is_over(tmp_path: Path) -> None:
    study = Study("small", tmp_path / "results", tmp_path / "work")
    assert study.step("first", lambda: 1, "computed") == 1
    later = Study("small", tmp_path / "results", tmp_path / "work", until=0.0)
    assert later.step("first", lambda: 2, "computed") == 1
    with pytest.raises(OutOfTime, match="before second"):
        later.step("second", lambda: 2, "computed")


def test_a_section_says_what_is_open_reached_and_missing() -> None:
    section = Section("About.", ("system", "theirs", "ours", "simulated"))
    says, kind = ("ours", "+1", "0", False), "simulated"
    section.aims(
        Aim("half", True, *says, kind, 1, 2), Aim("all", True, *says, kind, 2, 2), Aim("none", False, *says, kind)
    )
    section.missing({"done": {}}, {"done": "this", "left": "that"})
    rest = "Aim: ours. Headroom: +1. Random choices: 0."
    assert section.text().split("\n\n")[2:] == [
        f"- Open, 1 of 2 done (simulated): half. {rest}\n- Reached (simulated): all. {rest}\n"
        f"- Not reached (simulated): none. {rest}",
        "Not done yet: that.\n",
    ]


def test_an_aim_that_random_choices_reach_is_refused() -> None:
    with pytest.raises(ValueError, match="random choices reach this aim too"):
        Section("About.").aims(Aim("easy", True, "ours", "+9", "all of them", random_reaches=True, kind="measured"))


def test_no_aim_says_by_a_constant_that_random_choices_miss_it() -> None:
    places = [field.name for field in dataclasses.fields(Aim)]
    found = 0
    for file in sorted((ROOT / "benchmarks" / "studies" / "sections").glob("*.py")):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Aim":
                given = dict(zip(places, call.args, strict=False)) | {word.arg: word.value for word in call.keywords}
                assert not isinstance(given["random_reaches"], ast.Constant), f"{file.name}, line {call.lineno}"
                found += 1
    assert found


def test_random_choices_reach_none_of_the_aims_in_the_tables() -> None:
    lines = [line for text in page.tables(page.load()).values() for line in page.verdicts(text)]
    assert lines
    for line in lines:
        assert re.search(r"\. Aim: \S.*\. Headroom: \S.*\. Random choices: \S", line), line


def test_aims_are_counted_by_the_kind_of_their_figures() -> None:
    says = ("ours", "+1", "0", False)
    section = Section("About.")
    section.aims(
        Aim("one", True, *says, "measured"), Aim("two", False, *says, "measured"), Aim("three", True, *says, "fitted")
    )
    assert page.count_aims(page.verdicts(section.text())) == "1 of 2 measured; 1 of 1 fitted"
    assert page.count_aims([]) == "no aims"


def test_headings_of_a_page_differ() -> None:
    for name in page.render(page.load()):
        found = [line for line in name.read_text("utf-8").splitlines() if line.startswith("#")]
        assert len(found) == len(set(found)), name.name


def test_the_middle_of_numbers_of_runs_may_not_be_reached() -> None:
    assert [middle([3, 1, 2]), middle([4, None]), middle([4, None, None])] == ["2", "4", "not reached"]


@pytest.mark.slow
def test_a_command_that_fails_ends_the_study(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StudyError, match="profile nothing"):
        stripewise("site", "profile", "nothing")
    assert "nothing" in capsys.readouterr().err


def test_the_printed_space_of_the_accelerator_is_explained() -> None:
    assert shaman.grids() == {
        "as printed, top values included": 182_520,
        "sequence in steps of 5, top values included": 707_265,
        "sequence in steps of 5, top values left out": 606_480,
        "as printed, top values left out": 14 * 38 * 8 * 38,
    }


def test_the_collective_cases_of_the_neural_networks_are_not_contiguous(tmp_path: Path) -> None:
    asked = ann.cases_campaign(quick=True)
    campaign = load_campaign(str(write_toml(tmp_path / "cases.toml", asked)))
    points = Points(campaign)
    patterns = {(point.values["layout"], point.values["collective"]) for point in points.all}
    assert patterns == {("segmented", False), ("strided", True)}
    for point in points.of("read"):
        # A model that chooses the call alone: the pattern follows it.
        tuned = {**point.values, "collective": not point.values["collective"]}
        assert points.point("read", tuned) is None
        followed = _find_point(points, "read", tuned, {"layout"})
        assert followed is not None and followed.values == {**tuned, "layout": followed.values["layout"]}
        assert _find_point(points, "read", tuned, set()) is None
    whole = ann.cases_campaign(quick=False)["tunable"]
    assert 27 * math.prod(len(t["values"]) for t in whole if t["name"] not in ("layout",)) == 1458


def test_what_an_oracle_cannot_gain_has_no_share(tmp_path: Path) -> None:
    oracle = Oracle("kay", tmp_path)
    at = {"nodes": 4, "processes_per_node": 1, "file_size": 64 * GIB, "stripe_count": 4, "stripe_size": MIB}
    one, other = ({**at, "transfer_size": 2 * GIB, "collective": collective} for collective in (False, True))
    same = oracle.judge([{"operation": "read", "default_settings": one, "tuned_settings": one}])
    assert same["improvable"] == 0 and same["share_of_oracle_gain"] is None
    gained = oracle.judge([{"operation": "read", "default_settings": other, "tuned_settings": one}])
    assert gained["share_of_oracle_gain"] == pytest.approx(1.0, abs=0.01)
    assert gained["random_share"] < 0.9


def test_the_tree_of_the_hard_patterns_counts_every_pattern_once() -> None:
    form = ai_for_io.schema("hard", ["write"], [512, 1024], [512])
    form["parameter"] = form["parameter"][2:]
    small, large, on, off = 0, 1, 0, 1
    levels = np.array([[on], [off], [on], [off]])
    contexts = np.array([[0, small, 0], [0, small, 0], [0, large, 0], [0, large, 0]])
    table = Table(Schema.model_validate(form), levels, contexts, np.zeros(4, int), np.array([100.0, 1.0, 1.0, 100.0]))
    leaves = [node for node in hard_patterns.tree(table, 4) if "chosen" in node]
    assert [(leaf["if"], leaf["chosen"]["sieving"], leaf["patterns"]) for leaf in leaves] == [
        ("piece size at most 512 B", "enable", 1), ("above", "disable", 1),
    ]  # fmt: skip


def test_campaigns_of_data_sieving_have_408_patterns_and_configurations(tmp_path: Path) -> None:
    assert len(ai_for_io.BLOCKS) * len(ai_for_io.FEW_HOLES) * 8 == 408
    assert 2 * len(ai_for_io.BLOCKS) * len(ai_for_io.HOLES) == 408
    assert 2 * len(holes.BLOCKS) * len(holes.HOLES) == 408
    file = write_toml(tmp_path / "one.toml", ai_for_io.campaign(4096, ["read", "write"], ai_for_io.BLOCKS, 3))
    assert [t.name for t in load_campaign(str(file)).tunable][2:] == ["romio_ds_read", "romio_ds_write"]


def test_printed_speed_ups_are_those_of_the_printed_bandwidths() -> None:
    for case in io_search.CASES:
        assert case.speedup == pytest.approx(case.tuned / case.default, abs=0.01), case.name


@pytest.mark.slow
def test_the_space_of_the_genetic_search_fits_the_printed_hours() -> None:
    from benchmarks.studies.searches import space_of

    space, _ = space_of(io_search.experiment(io_search.CASES[0], "auto", 1, 0))
    assert set(space.names) == set(io_search.KEPT)
    # 40 hours for all, 2.5 for the 300 or so of a genetic search: within a quarter.
    assert 16 * 16 * 5 < space.count()[0] <= 16 * 16 * 5 * 3
    assert 0.75 < (16 * 16 * 5 * 3 / 300) / (40 / 2.5) < 1.25
    # With the I/O pattern twice as many, in which individual calls need no aggregators.
    patterned, _ = space_of(io_search.with_pattern(io_search.experiment(io_search.CASES[0], "auto", 1, 0)))
    assert (patterned.cardinality, space.cardinality) == (7_680, 3_840)
    assert space.count()[0] < patterned.count()[0] < 7_680


def test_toml_is_what_was_meant(tmp_path: Path) -> None:
    document = {"name": 'a "b"', "list": [1, 2], "empty": [], "inner": {"x": True}, "tables": [{"y": 1.5}, {"y": 2}]}
    assert tomllib.loads(write_toml(tmp_path / "x.toml", document).read_text("utf-8")) == document


def test_what_the_test_bed_is_asked_can_be_read(tmp_path: Path) -> None:
    site = SimpleNamespace(folder=Path("/shared"), placing=lambda *names: f"place {' '.join(names)}")
    for quick in (True, False):
        asked = chain.campaign("/bin/kernel", site, quick=quick)
        campaign = load_campaign(str(write_toml(tmp_path / "chain.toml", asked)))
        assert [factor.name for factor in campaign.tunable] == list(chain.TUNABLES)
    asked = ann.bed_campaign("/bin/kernel", site, 32)
    assert load_campaign(str(write_toml(tmp_path / "ann.toml", asked))).design.size == 32
    for model in (None, tmp_path / "bed.model"):
        asked = chain.experiment(Path("/bin/program"), site, 6, model)
        file = write_toml(tmp_path / "experiment.toml", asked)
        experiment = Experiment.model_validate(tomllib.loads(file.read_text("utf-8")))
        assert list(experiment.command)[-7:-4] == ["/bin/program", "mpiio", "write"]
        assert experiment.workload.file_size == chain.SIZE
        space = bind_space(experiment, Circumstances(experiment.workload, "romio")).space
        assert set(space.names) == set(chain.TUNABLES)


def test_settings_become_lines_of_plans() -> None:
    assert len(interfaces.statics()) == 8
    assert interfaces.statics()["default"] == []
    told = chain.plan_of({"cephfs_stripe_count": 4, "romio_cb_write": "disable"})
    assert told.splitlines()[-2:] == ["layout cephfs stripe_count 4", "hint romio_cb_write disable"]


def test_a_setting_at_random_takes_the_mean_over_the_sweep() -> None:
    assert hdf5_online.at_random([({}, [9.0, 11.0, 10.0]), ({}, [2.0, 2.0, 50.0])]) == pytest.approx(3.0)
    for _, names in hdf5_online.STORAGES.values():
        assert set(names) <= set(hdf5_online.programs())


def test_an_online_tuner_that_is_slower_than_allowed_misses_its_aim() -> None:
    entry = {"default": 100.0, "best": 10.0, "online": 12.0, "predict": 10.0, "observed": 10.5}
    told = {"rounds": [entry] * 3, "phases": 60, "best": ["hdf5 chunk_cache 4"], "kept_over_best": [1.0] * 3}
    steps = {"hdf5 online, memory, tables-2x24576": {"result": {**told, "at_random": 7.0}}}
    section = Section("About.")
    online.say(section, steps)
    text = section.text()
    assert "- Not reached (measured): all phases under `online` take at most 1.15" in text
    assert "- Reached (measured): with the settings from one observed run" in text
    assert (
        "| 2 tables, rows of 24 KiB | hdf5 chunk_cache 4 | 10.00 | 10.00 | 1.20 | 1.00 | 1.00 | 1.05 | 7.00 |" in text
    )
    steps["hdf5 online, memory, tables-2x24576"]["result"]["at_random"] = 1.1
    with pytest.raises(ValueError, match="random choices reach"):
        online.say(Section("About."), steps)


def test_without_root_the_slow_disk_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(accelerated.simulation, "build", lambda folder: folder)
    accelerated.measured(Study("shaman", tmp_path / "results", tmp_path / "work"), 1, 24)
    assert "needs root" in capsys.readouterr().err
    assert not (tmp_path / "results" / "shaman.json").exists()


def test_checkpoints_are_read_from_what_the_program_prints() -> None:
    told = {
        "medians": {"default": 10.0},
        "phases": {"default": [8.0], "online": chain._bandwidths("phase 0 3.2\nphase 1 0.5\nphase 2 0.25\nwrite ...")},
    }
    assert told["phases"]["online"] == [20.0, 128.0, 256.0]
    assert chain.stages(told) == [("default", 10.0, 10.0), ("online, after it has settled", 192.0, 8.0)]


def test_the_wide_space_has_each_configuration_of_romio_once() -> None:
    space = wide.space(quick=False)
    assert len(space) == len({tuple(one.items()) for one in space}) == 360
    assert {parameter["name"]: parameter["default"] for parameter in wide.PARAMETERS} in space
    for one in space:
        if not one["collective"] or one["romio_cb_write"] == "disable":
            assert one["cb_nodes"] == 1 and one["cb_buffer_size"] == 16 * MIB
        assert wide.TOTAL % wide.run_of(one).call == 0
    line = wide.run_of({**space[0], "cb_nodes": 3}).line(7).split()
    assert line[:8] == ["7", "write", "mpiio", "1", "4096", "0", str(MIB), "32768"]
    assert {"cb_nodes=3", "cb_config_list=*:3"} <= set(line) and "collective=True" not in line


def test_every_combination_of_hdf5_is_measured_with_reads_and_writes() -> None:
    runs = hdf5_settings.runs()
    assert len(runs) == 2 * 2 * 2**4
    assert runs["write", "few large", (1, 1, 0, 0)].settings == {
        "hdf5_alignment": 1, "hdf5_chunk": 0, "hdf5_collective_metadata": 0,
    }  # fmt: skip
    assert runs["read", "many small", (4, 1, 0, 0)].settings["ceph_stripe_count"] == 4
    # What doubles with four stripes alone, and gains nothing by anything else.
    values = {
        key: [10.0 * (4.0 if key[2][0] > 1 else 1.0) * (1.1 if turn else 1.0) for turn in range(2)] for key in runs
    }
    told = hdf5_settings._split(values, "write", "few large")
    assert told["default"] == pytest.approx(10.5) and told["pairs"] == 16
    assert told["effects"]["striping"] == pytest.approx({"ratio": 4.0, "low": 4.0, "high": 4.0})
    assert told["effects"]["metadata"] == pytest.approx({"ratio": 1.0, "low": 1.0, "high": 1.0})


def test_tables_that_took_long_are_kept_with_the_results() -> None:
    kept = page.RESULTS / "tables"
    studies = page.load()
    with (kept / "wide.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == studies["io-search"]["wide space on real ROMIO"]["result"]["runs"]
    values = hdf5_settings.read(kept / "hdf5-settings")
    assert sum(map(len, values.values())) == studies["sctuner"]["bed hdf5 runs"]["result"]["runs"]
    split = studies["sctuner"]["bed hdf5 settings"]["result"]["workloads"][0]
    again = hdf5_settings._split(values, split["operation"], split["workload"])
    assert again["effects"]["striping"] == pytest.approx(split["effects"]["striping"])


def test_distances_of_neighbours_and_the_scatter_of_runs_are_in_classes(tmp_path: Path) -> None:
    table, medians = tmp_path / "runs", tmp_path / "medians"
    rows = [(size, repeat, 100.0 if size == 4 else 10.0) for size in (2, 4) for repeat in range(3)]
    text = "".join(f"{size},{repeat},{value}\n" for size, repeat, value in rows)
    table.with_suffix(".csv").write_text("piece_size,repeat,bandwidth\n" + text, "utf-8")
    medians.with_suffix(".csv").write_text("piece_size,bandwidth\n2,10.0\n4,100.0\n8,99.9\n", "utf-8")
    assert class_errors.scatter(table) == {"class_error": 0.0, "spread": 0.0, "runs": 6}
    assert class_errors.of_medians(table, 2) == {"class_error": 0.0, "draws": 2}
    loud = [(size, repeat, 100.0 * 2.0**repeat) for size in (2, 4) for repeat in range(3)]
    text = "".join(f"{size},{repeat},{value}\n" for size, repeat, value in loud)
    table.with_suffix(".csv").write_text("piece_size,repeat,bandwidth\n" + text, "utf-8")
    assert 0.0 < class_errors.of_medians(table)["class_error"] < class_errors.scatter(table)["class_error"]
    found = class_errors.neighbours(medians)
    assert found["pairs"] == 2 and found["most"] > 5 and found["mean"] >= found["most"] / 2


def test_a_pattern_is_clear_where_no_runs_overlap(tmp_path: Path) -> None:
    lines = ["operation,piece_size,hole_size,sieving,repeat,bandwidth"]
    for hole, on, off in ((1, (5, 6), (1, 2)), (2, (1, 2), (5, 6)), (3, (1, 6), (2, 5))):
        for name, values in (("enable", on), ("disable", off)):
            lines += [f"read,4,{hole},{name},{repeat},{value}" for repeat, value in enumerate(values)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", "utf-8")
    assert sieved.clear(tmp_path / "t") == {"read": {"of": 3, "enable": 1, "disable": 1}}
