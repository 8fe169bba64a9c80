"""Five-number summaries, clusters, dependable settings and site defaults."""

from __future__ import annotations

import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stripewise.desk.cli.main import main
from stripewise.errors import UserError
from stripewise.models.table import Schema, Table, make_table, write_table
from stripewise.output.summaries import FiveNumbers, cluster, five_numbers, rank_consistent, summarise
from stripewise.output.summaries.main_effects import effects
from stripewise.output.summary import cluster_tree, five_number_bands, silhouettes

VALUES = {"operation": ["write", "read"], "nodes": [1, 2, 4], "cb_nodes": [1, 2, 4], "mode": ["a", "b"]}


def build(value: Any, *, repeats: int = 6, maximize: bool = True, keep: Any = None) -> Table:
    """A table over VALUES; ``value`` gives the figure of a row."""
    schema = Schema.model_validate(
        {
            "name": "site",
            "objective": {"column": "y", "direction": "maximize" if maximize else "minimize", "unit": "MiB/s"},
            "context": [
                {"name": "operation", "kind": "categorical", "role": "operation", "values": VALUES["operation"]},
                {"name": "nodes", "kind": "ordinal", "role": "nodes", "values": VALUES["nodes"]},
            ],
            "parameter": [
                {
                    "name": "cb_nodes",
                    "kind": "ordinal",
                    "role": "aggregators",
                    "values": VALUES["cb_nodes"],
                    "default": 1,
                },
                {"name": "mode", "kind": "categorical", "values": VALUES["mode"], "default": "a"},
            ],
        }
    )
    rows = [
        {"operation": o, "nodes": n, "cb_nodes": c, "mode": m, "repeat": r}
        for o in VALUES["operation"] for n in VALUES["nodes"] for c in VALUES["cb_nodes"] for m in VALUES["mode"]
        for r in range(repeats)
    ]  # fmt: skip
    rows = [row for row in rows if keep is None or keep(row)]
    return make_table(schema, [{**row, "y": value(row)} for row in rows])


def steady(row: dict[str, Any]) -> float:
    """Two aggregators are best for writes, one for reads; mode b is a tenth slower; repeats differ a little."""
    factor = {"write": {1: 1.0, 2: 4.0, 4: 2.0}, "read": {1: 3.0, 2: 2.0, 4: 1.0}}[row["operation"]][row["cb_nodes"]]
    return 100 * row["nodes"] * factor * (0.9 if row["mode"] == "b" else 1.0) * (1 + 0.01 * row["repeat"])


def test_five_numbers_are_minimum_quartiles_and_maximum() -> None:
    found = five_numbers(build(steady), "operation")
    entry = next(e for e in found if e.context == {"nodes": 2} and e.configuration == {"cb_nodes": 2, "mode": "a"})
    own = [800 * (1 + 0.01 * r) for r in range(6)]
    assert entry.numbers == pytest.approx(np.quantile(own, [0, 0.25, 0.5, 0.75, 1]))
    assert entry.runs == 6
    assert entry.picked == pytest.approx(np.median(own[1::2])) and entry.scored == pytest.approx(np.median(own[0::2]))


@pytest.mark.slow
def test_reads_and_writes_are_kept_apart() -> None:
    reports = summarise(build(steady))
    assert [report.operation for report in reports] == ["write", "read"]
    assert [len(report.summaries) for report in reports] == [18, 18]
    assert reports[0].defaults[0].configuration == {"cb_nodes": 2, "mode": "a"}
    assert reports[1].defaults[0].configuration == {"cb_nodes": 1, "mode": "a"}
    assert reports[1].defaults[0].declared == pytest.approx(1.0)
    assert reports[0].defaults[0].declared == pytest.approx(0.25)


def test_times_are_better_when_smaller() -> None:
    report = summarise(build(lambda row: 1e6 / steady(row), maximize=False))[0]
    assert report.defaults[0].configuration == {"cb_nodes": 2, "mode": "a"}
    assert report.summaries[0].median == min(entry.median for entry in report.summaries)
    assert report.consistent[0].configuration == {"cb_nodes": 2, "mode": "a"}
    assert report.effects[0].value == 2 and report.effects[0].median == pytest.approx(4.0)


def test_clusters_are_those_that_were_put_in() -> None:
    rng = np.random.default_rng(0)
    base = np.repeat([1000.0, 300.0, 80.0, 20.0], 30)
    numbers = base[:, None] * np.array([0.8, 0.95, 1.0, 1.05, 1.2]) * rng.lognormal(0, 0.05, (120, 1))
    clusters, labels = cluster(numbers.tolist())
    assert clusters is not None and clusters.count == 4 and clusters.sizes == (30, 30, 30, 30)
    assert list(labels) == [1] * 30 + [2] * 30 + [3] * 30 + [4] * 30
    assert max(clusters.silhouettes, key=lambda count: clusters.silhouettes[count]) == 4
    slow_first, renumbered = cluster(numbers.tolist(), maximize=False)
    assert slow_first is not None and list(renumbered[:30]) == [4] * 30
    assert clusters.tree.shape == (119, 4)


def test_few_or_equal_configurations_make_no_clusters() -> None:
    assert cluster([[1, 2, 3, 4, 5]] * 3)[0] is None
    none, labels = cluster([[1, 2, 3, 4, 5]] * 50)
    assert none is None and set(labels) == {1}


@pytest.mark.slow
@pytest.mark.slow
def test_thousands_of_configurations_are_grouped_first() -> None:
    rng = np.random.default_rng(0)
    base = np.repeat([1000.0, 10.0], 2500)
    numbers = base[:, None] * np.array([0.8, 0.95, 1.0, 1.05, 1.2]) * rng.lognormal(0, 0.1, (5000, 1))
    clusters, labels = cluster(numbers.tolist())
    assert clusters is not None and clusters.count == 2 and clusters.leaves == 1000
    assert set(labels[:2500]) == {1} and set(labels[2500:]) == {2}


def test_a_setting_that_collapses_under_load_is_not_called_consistent() -> None:
    def loaded(row: dict[str, Any]) -> float:
        if row["cb_nodes"] == 4:
            return 1000.0 if row["repeat"] % 2 else 100.0  # the best median of all, half of the time
        return {1: 300.0, 2: 500.0}[row["cb_nodes"]]

    report = summarise(build(loaded, repeats=7))[0]
    by_aggregators = {row.configuration["cb_nodes"]: row for row in report.consistent}
    assert report.consistent[0].configuration["cb_nodes"] == 2
    assert by_aggregators[4].low < by_aggregators[2].low
    assert by_aggregators[4].spread > 0.5 > by_aggregators[2].spread == 0


def test_a_setting_is_judged_over_workloads_in_which_a_part_of_it_cannot_act() -> None:
    def summary(api: str, layout: int, alignment: int | None, value: float) -> FiveNumbers:
        configuration = {"stripe_count": layout, "hdf5_alignment": alignment}
        return FiveNumbers({"api": api}, configuration, (value,) * 5, 3, 1, value, value)

    plain = [summary("mpiio", 1, None, 100.0), summary("mpiio", 8, None, 400.0)]
    aligned = [summary("hdf5", n, a, 50.0 * n * (1 + (a > 1))) for n in (1, 8) for a in (1, 1048576)]
    found = {
        (row.configuration["stripe_count"], row.configuration["hdf5_alignment"]): row
        for row in rank_consistent(plain + aligned)
    }
    assert set(found) == {(1, 1), (1, 1048576), (8, 1), (8, 1048576)}
    assert {row.contexts for row in found.values()} == {2}
    assert next(iter(found)) == (8, 1048576) and found[8, 1048576].low == pytest.approx(1.0)
    assert found[8, 1].low == pytest.approx(0.5**0.5)


def test_the_best_setting_of_a_slow_workload_lies_in_the_best_cluster_it_can_reach() -> None:
    def scaled(row: dict[str, Any]) -> float:
        return (
            {1: 10.0, 2: 1000.0, 4: 1000.0}[row["nodes"]]
            * (30 if row["cb_nodes"] == 2 else 1)
            * (1 + row["repeat"] / 99)
        )

    report = summarise(build(scaled))[0]
    slow = [entry.cluster for entry in report.summaries if entry.context["nodes"] == 1]
    assert min(slow) > 1
    shares = {row.configuration["cb_nodes"]: row.best_cluster for row in report.consistent}
    assert shares == {1: 0.0, 2: 1.0, 4: 0.0}


@pytest.mark.slow
def test_luck_is_not_crowned() -> None:
    """Where nothing matters, the best of eighteen is worth what any is, however good its luckiest half looks."""
    crowned, honest = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        report = summarise(build(lambda row, rng=rng: 100 * rng.lognormal(0, 0.3), repeats=10))[0]
        best = max(report.summaries, key=lambda entry: entry.picked)
        typical = float(np.median([entry.median for entry in report.summaries]))
        crowned.append(best.picked / typical)
        honest.append(best.scored / typical)
    assert np.mean(crowned) > 1.2
    assert 0.85 < np.mean(honest) < 1.15


def test_a_lucky_pick_yields_to_what_its_values_bring_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two aggregators double a noisy bandwidth; the best of many medians is some other setting's luck."""
    rng = np.random.default_rng(39)

    def value(row: dict[str, Any]) -> float:
        return float((2.0 if row["cb_nodes"] == 2 else 1.0) * rng.lognormal(4, 0.6))

    table = build(value, repeats=4, keep=lambda row: row["operation"] == "write" and row["nodes"] == 1)
    (report,) = summarise(table)
    assert max(report.summaries, key=lambda one: one.picked).configuration == {"cb_nodes": 1, "mode": "b"}
    assert report.defaults[0].configuration == {"cb_nodes": 2, "mode": "a"}
    gain = report.defaults[0].gain
    assert gain is not None and gain.interval.low < gain.factor < gain.interval.high
    # One workload reaches its own best by definition: no share is printed.
    write_table(table, tmp_path / "site")
    assert main(["site", "summarize", str(tmp_path / "site")]) == 0
    shown = capsys.readouterr().out
    assert "cb_nodes=2" in shown.splitlines()[0] and "today's (" in shown
    assert "workloads: best default" not in shown


def test_no_share_of_the_best_exceeds_it() -> None:
    # Chosen by its odd repeats; its even ones are luckier than those of what looked best in each workload.
    for seed in range(8):
        rng = np.random.default_rng(seed)
        (report, _) = summarise(build(lambda row, rng=rng: 100 * rng.lognormal(0, 0.2)))
        shares = [share for d in report.defaults for share in (d.arithmetic, d.harmonic, d.worst, d.declared)]
        assert max(share for share in shares if share is not None) <= 1.0


def test_defaults_by_class_differ_where_workloads_do() -> None:
    def value(row: dict[str, Any]) -> float:
        best = {1: 1, 2: 2, 4: 4}[row["nodes"]]
        return 100.0 / (1 + abs(best - row["cb_nodes"])) * (1 + 0.001 * row["repeat"])

    report = summarise(build(value))[0]
    chosen = {d.workload.get("nodes"): d.configuration["cb_nodes"] for d in report.defaults}
    assert (chosen["1"], chosen["2"], chosen["4"]) == (1, 2, 4)
    together = next(d for d in report.defaults if not d.workload)
    assert together.worst < 0.6 < min(d.worst for d in report.defaults if d.workload)


def test_sparse_designs_are_judged_by_main_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VALUES, "nodes", [1, 2, 4, 8])
    keep = {(1, 1, "a"), (1, 2, "b"), (2, 4, "a"), (2, 2, "a"), (4, 1, "b"), (4, 4, "b")}
    keep |= {(8, 1, "a"), (8, 2, "b")}  # one configuration more than terms: factors need an interval
    report = summarise(build(steady, keep=lambda row: (row["nodes"], row["cb_nodes"], row["mode"]) in keep))[0]
    assert report.consistent == () and not [d for d in report.defaults if not d.workload]
    effects = {(e.parameter, e.value): e.median for e in report.effects}
    assert effects["cb_nodes", 2] == pytest.approx(4.0, rel=0.05) and effects["mode", "a"] == pytest.approx(
        1 / 0.9, rel=0.05
    )


def test_thousands_of_workloads_take_memory_in_proportion() -> None:
    measured = [
        FiveNumbers({"job": at // 2}, {"mode": "ab"[at % 2]}, (y, y, y, y, y), 1)
        for at in range(8000)
        for y in [(at // 2 + 1) * (1.0 + at % 2) * (1.1 if at % 7 else 1.0)]
    ]
    tracemalloc.start()
    best, other = effects(measured)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert best.value == "b" and best.median == pytest.approx(2.0, rel=0.01) and other.median == 1.0
    assert most < 20 << 20  # a column for each workload took 246 MiB


def test_one_configuration_is_compared_with_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = build(steady, keep=lambda row: (row["cb_nodes"], row["mode"]) == (1, "a"))
    for report in summarise(table):
        assert (report.consistent, report.effects, report.defaults) == ((), (), ()) and not report.compared
    write_table(table, tmp_path / "site")
    assert main(["site", "summarize", str(tmp_path / "site")]) == 0
    shown = capsys.readouterr().out.lower()
    assert "nothing to compare" in shown and "100" not in shown.replace("x", "").split("nothing to compare")[-1]


def test_a_single_run_says_nothing_of_load() -> None:
    report = summarise(build(steady, repeats=1))[0]
    assert report.consistent == () and report.defaults


def test_factors_have_intervals_and_values_that_cannot_be_told_apart_have_none() -> None:
    rng = np.random.default_rng(1)

    def value(row: dict[str, Any]) -> float:
        return 100.0 * row["nodes"] * (3.0 if row["cb_nodes"] == 2 else 1.0) * float(rng.lognormal(0, 0.1))

    report = summarise(build(value))[0]
    assert {effect.parameter for effect in report.effects} == {"cb_nodes"}
    best = report.effects[0]
    assert best.value == 2 and best.median_interval.low < 3.0 < best.median_interval.high
    assert 1 < best.low_interval.low < best.low < best.low_interval.high
    # As many terms as configurations leave no interval, and so no factor.
    keep = {(1, 1, "a"), (1, 2, "b"), (2, 4, "a"), (2, 2, "a"), (4, 1, "b"), (4, 4, "b")}
    sparse = summarise(build(steady, keep=lambda row: (row["nodes"], row["cb_nodes"], row["mode"]) in keep))[0]
    assert sparse.effects == ()


@pytest.mark.parametrize("bad", [0.0, -3.0])
def test_values_that_cannot_be_are_refused_with_their_row(bad: float) -> None:
    table = build(steady)
    table.values[5] = bad
    with pytest.raises(UserError, match=f"row 6: the objective is {bad:g}, not above zero"):
        summarise(table)


@pytest.mark.parametrize(
    "text, message",
    [
        ("nan", "y is nan"),
        ("inf", "y is inf"),
        ("fast", "is 'fast', which is not a number"),
        ("", "y is missing"),
    ],
)
def test_malformed_tables_end_in_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(build(steady), tmp_path / "site")
    data = (tmp_path / "site.csv").read_text("utf-8").splitlines()
    data[7] = data[7].rpartition(",")[0] + f",{text}"
    (tmp_path / "site.csv").write_text("\n".join(data) + "\n", "utf-8")
    assert main(["site", "summarize", str(tmp_path / "site")]) == 2
    error = capsys.readouterr().err
    assert message in error and "row 7" in error and error.count("\n") == 1


@pytest.mark.slow
def test_the_command_prints_tables_json_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(build(steady), tmp_path / "site")
    assert main(["site", "summarize", str(tmp_path / "site.csv")]) == 0
    shown = capsys.readouterr().out
    assert "good under load" in shown and "cb_nodes=2 mode=a" in shown
    assert main(["site", "summarize", str(tmp_path / "site"), "--json", "--report", str(tmp_path / "page.html")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["operations"]["write"]["consistent"][0]["configuration"] == {"cb_nodes": 2, "mode": "a"}
    assert document["operations"]["read"]["clusters"]["count"] >= 2
    page = (tmp_path / "page.html").read_text("utf-8")
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert "Best site defaults" in body and not re.search(r'(?:src|href)="https?:', body)
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    assert {"write-bands", "write-tree", "read-silhouettes"} <= set(figures["figures"])
    assert body.count('data-figure="write-parallel"') == 1
    axes = figures["figures"]["write-parallel"]["layout"]["meta"]["axes"]
    assert {"cb_nodes", "mode"} <= {axis["name"] for axis in axes}


def test_figures_hold_what_they_are_given() -> None:
    numbers = [[1.0, 2, 3, 4, 5], [10.0, 20, 30, 40, 50], [11.0, 20, 30, 40, 50], [100.0, 110, 120, 130, 140]]
    clusters, _ = cluster(numbers * 3)
    assert clusters is not None
    bands = five_number_bands(numbers, [1, 2, 2, 3], list("abcd"), title="t", quantity="y", unit="u")
    dots = [trace for trace in bands.data if trace.mode == "markers"]
    assert [list(trace.y) for trace in dots] == [[3.0], [30.0, 30.0], [120.0]]
    assert len(cluster_tree(clusters.tree, clusters.count).data) > 0
    assert len(silhouettes(clusters.silhouettes, clusters.count).data[0].x) == len(clusters.silhouettes)


@pytest.mark.parametrize(("gain", "named"), [(1.003, "a"), (1.2, "b")])
def test_a_default_names_no_setting_without_which_it_is_measured_as_no_worse(gain: float, named: str) -> None:
    def value(row: dict[str, Any]) -> float:
        noise = np.random.default_rng([row["repeat"], row["nodes"], row["cb_nodes"]]).normal(0, 0.05)
        return steady({**row, "mode": "a", "repeat": 0}) * (gain if row["mode"] == "b" else 1.0) * float(np.exp(noise))

    report = next(one for one in summarise(build(value)) if one.operation == "write")
    assert report.defaults[0].configuration == {"cb_nodes": 2, "mode": named}


def test_what_cannot_act_on_a_workload_is_inactive_there() -> None:
    table = build(steady)
    api = {"name": "api", "kind": "categorical", "role": "api", "values": ["mpiio", "posix"]}
    schema = table.schema.model_copy(update={"context": [*table.schema.context, type(table.schema.context[0])(**api)]})
    rows = [
        {"operation": operation, "nodes": 1, "cb_nodes": count, "mode": "a", "repeat": repeat, "api": one, "y": count}
        for operation in VALUES["operation"] for count in VALUES["cb_nodes"] for repeat in range(6)
        for one in api["values"]
    ]  # fmt: skip
    found = five_numbers(make_table(schema, rows), "operation")
    active = {entry.context["api"]: entry.configuration["cb_nodes"] for entry in found}
    assert active["posix"] is None and active["mpiio"] is not None
    assert sum(entry.runs for entry in found if entry.context["api"] == "posix") == 36
