"""A site is calibrated to a campaign: its bandwidths are found again, and the error is that of unseen rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.simulate import fit_site
from stripewise.errors import UserError
from stripewise.lab.batch import RunBatch
from stripewise.lab.engine import simulate
from stripewise.lab.fit import BANDWIDTHS, Fit, fit, read_measured, site_toml
from stripewise.lab.noise import WRITE, slowdowns
from stripewise.lab.site import Site, load_site, parse_site
from stripewise.models.table import Schema, Table, make_table, write_table

MIB = float(1 << 20)
TRUTH = """
name = "truth"
nodes = 64
cores = 32
[network]
node_write_bandwidth = "1.5 GB/s"
node_read_bandwidth = "2.5 GB/s"
[oss]
count = 8
bandwidth = "100 GB/s"
[ost]
count = 16
write_bandwidth = "700 MB/s"
read_bandwidth = "1.1 GB/s"
"""
NODES, STRIPES = [1, 8, 32], [1, 4, 16]
SCHEMA: dict[str, Any] = {
    "name": "campaign",
    "objective": {"column": "bandwidth", "direction": "maximize", "unit": "MiB/s"},
    "parameter": [{"name": "stripes", "kind": "ordinal", "role": "stripe_count", "values": STRIPES, "default": 1}],
    "context": [
        {"name": "n", "kind": "ordinal", "role": "nodes", "values": NODES},
        {"name": "ppn", "kind": "ordinal", "role": "processes_per_node", "values": [8]},
        {"name": "size", "kind": "ordinal", "role": "file_size", "unit": "B", "values": [32 << 30]},
        {"name": "way", "kind": "categorical", "role": "operation", "values": ["read", "write"]},
    ],
}
REST = Workload(transfer_size=4 << 20, layout="segmented", collective=False)


def truth() -> Site:
    return parse_site(TRUTH, "truth")


def campaign(noise: float = 1.0, unit: str = "MiB/s", **schema: Any) -> Table:
    """Three noisy repeats of every configuration on the site that is to be found."""
    rows = []
    for way in ("read", "write"):
        for nodes in NODES:
            for stripes in STRIPES:
                workload = REST.model_copy(update={"nodes": nodes, "processes_per_node": 8, "file_size": 32 << 30})
                outcome = simulate(truth(), RunBatch.make(workload, way, {"stripe_count": stripes}))
                for repeat in range(3):
                    slow = slowdowns(truth().noise.write, [len(rows)], 3, WRITE)[0] ** noise
                    seconds = float(outcome.seconds[0] * slow)
                    value = float(outcome.bytes[0]) / MIB / seconds if unit == "MiB/s" else seconds
                    rows.append(
                        {"n": nodes, "ppn": 8, "size": 32 << 30, "way": way, "stripes": stripes, "repeat": repeat}
                        | {"bandwidth": value}
                    )
    direction = "maximize" if unit == "MiB/s" else "minimize"
    objective = {"column": "bandwidth", "direction": direction, "unit": unit}
    return make_table(Schema.model_validate({**SCHEMA, "objective": objective, **schema}), rows)


def start() -> Site:
    """The site as its users would guess it: all bandwidths wrong by a factor of three."""
    site = truth()
    return site.model_copy(
        update={
            "network": site.network.model_copy(
                update={
                    "node_write_bandwidth": 3 * site.network.node_write_bandwidth,
                    "node_read_bandwidth": site.network.node_read_bandwidth / 3,
                }
            ),
            "ost": site.ost.model_copy(
                update={"write_bandwidth": 3 * site.ost.write_bandwidth, "read_bandwidth": site.ost.read_bandwidth / 3}
            ),
        }
    )


@pytest.fixture(scope="module")
def made() -> Fit:
    return fit(read_measured(campaign(), REST), start(), folds=3)


def test_the_bandwidths_are_found_again(made: Fit) -> None:
    assert set(made.values) == set(BANDWIDTHS)
    for key, value in made.values.items():
        table, name = key.split(".")
        assert value == pytest.approx(getattr(getattr(truth(), table), name), rel=0.15), key
    assert made.unseen == ()


def test_the_error_is_that_of_rows_not_seen(made: Fit) -> None:
    assert made.before.typical_factor > 2
    assert made.after.typical_factor < 1.1
    assert made.held_out.configurations == 18
    assert made.after.typical_factor <= made.held_out.typical_factor * 1.02
    assert made.held_out.typical_factor < 1.2
    assert made.held_out.within > 0.8
    assert made.held_out.r2_log is not None
    assert made.held_out.r2_log > 0.8


def test_times_calibrate_as_bandwidths_do() -> None:
    by_time, by_bandwidth = read_measured(campaign(0, "s"), REST), read_measured(campaign(0), REST)
    assert by_time.values == pytest.approx(by_bandwidth.values)


def test_what_the_rows_say_nothing_of_is_left_and_named() -> None:
    table = campaign(0)
    writes = read_measured(table.take(table.of({"way": "write"})), REST)
    found = fit(writes, start(), folds=2)
    assert set(found.unseen) == {"network.node_read_bandwidth", "ost.read_bandwidth"}
    assert found.site.ost.read_bandwidth == start().ost.read_bandwidth


def test_the_site_s_file_reads_back(made: Fit) -> None:
    text = site_toml(made.site, ["two", "comments"])
    assert text.startswith("# two\n# comments\n")
    assert parse_site(text, "again") == made.site
    kay = load_site("kay")
    assert parse_site(site_toml(kay), "again") == kay


@pytest.mark.parametrize(
    ("free", "folds", "message"),
    [
        (["ost.speed"], 3, "'ost.speed' is not a positive number"),
        (["name"], 3, "'name' is not a positive number"),
        (["ost"], 3, "'ost' is not a positive number"),
        (["ost.flash"], 3, "'ost.flash' is not a positive number"),
        (list(BANDWIDTHS), 30, "has 18 configurations, too few"),
    ],
)
def test_what_cannot_be_fitted_is_refused(free: list[str], folds: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        fit(read_measured(campaign(0), REST), start(), free=free, folds=folds)


def test_tables_that_say_too_little_are_refused() -> None:
    table = campaign(0)
    renamed = [{**column, "role": "other"} for column in SCHEMA["context"]]
    silent = Table(
        Schema.model_validate({**SCHEMA, "context": renamed}),
        *(table.levels, table.context_levels, table.repeats, table.values),
    )
    with pytest.raises(UserError, match="does not say nodes, processes_per_node, file_size"):
        read_measured(silent, REST)
    known = Workload(nodes=4, processes_per_node=8, file_size=32 << 30)
    with pytest.raises(UserError, match="operation unknown is neither read nor write"):
        read_measured(silent, known)
    odd = Table(
        Schema.model_validate({**SCHEMA, "objective": {"column": "b", "direction": "maximize", "unit": "op/s"}}),
        *(table.levels, table.context_levels, table.repeats, table.values),
    )
    with pytest.raises(UserError, match="neither a bandwidth nor a time"):
        read_measured(odd, REST)


def test_hints_and_roles_become_settings_of_their_direction() -> None:
    schema = {
        "name": "hints",
        "objective": {"column": "b", "direction": "maximize", "unit": "GiB/s"},
        "parameter": [
            {"name": "cb", "kind": "categorical", "role": "collective_buffering", "values": ["enable", "disable"]},
            {"name": "cb_nodes", "kind": "ordinal", "values": [1, 4]},
        ],
        "context": [{"name": "op", "kind": "categorical", "role": "operation", "values": ["read", "write"]}],
    }
    rows = [
        {"cb": cb, "cb_nodes": nodes, "op": op, "b": 1.0}
        for cb in ("enable", "disable")
        for nodes in (1, 4)
        for op in ("read", "write")
    ]
    known = Workload(nodes=4, processes_per_node=8, file_size=32 << 30, collective=True)
    data = read_measured(make_table(Schema.model_validate(schema), rows), known)
    assert [bool(batch.write[0]) for _, batch in data.batches] == [True, False]
    for _, batch in data.batches:
        assert sorted(batch.collective_buffering.tolist()) == [1, 1, 2, 2]
        assert sorted(batch.aggregators.tolist()) == [1, 1, 4, 4]


# -- the command ------------------------------------------------------------------------------------------


@pytest.fixture
def app() -> typer.Typer:
    group = typer.Typer()
    simulate = typer.Typer()
    simulate.command("fit")(fit_site)
    group.add_typer(simulate, name="simulate")

    @group.callback()
    def root() -> None:
        """A group, as in the command line."""

    return group


def test_the_command_calibrates_and_writes_a_site(tmp_path: Path, app: typer.Typer) -> None:
    write_table(campaign(0), tmp_path / "campaign")
    (tmp_path / "start.toml").write_text(site_toml(start()))
    (tmp_path / "rest.toml").write_text('[workload]\ntransfer_size = "4 MiB"\nlayout = "segmented"\n')
    words = [
        "simulate",
        "fit",
        str(tmp_path / "campaign.csv"),
        "--site",
        str(tmp_path / "start.toml"),
        "--folds",
        "2",
    ]
    words += ["--workload", str(tmp_path / "rest.toml"), "--out", str(tmp_path / "mine.toml")]
    words += ["--free", "ost.write_bandwidth", "--free", "network.node_write_bandwidth"]
    shown = CliRunner().invoke(app, [*words, "--json"])
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert document["simulated"] is True
    assert document["fitted"]["ost.write_bandwidth"] == pytest.approx(700e6, rel=0.1)
    written = (tmp_path / "mine.toml").read_text()
    assert "Simulated site" in written
    assert load_site(str(tmp_path / "mine.toml")).ost.write_bandwidth == pytest.approx(700e6, rel=0.1)
    told = CliRunner().invoke(app, words[:-4])  # with the reads' bandwidths as well
    assert "held-out rows, 2 folds" in told.stdout
    assert "simulated site" in told.stdout
    assert np.isfinite(document["held_out"]["typical_factor"])
    assert sum(document["bounds"].values()) == pytest.approx(1.0)
    assert "use it: stripewise tune" in told.stdout


def test_a_site_that_predicts_poorly_is_not_recommended(tmp_path: Path, app: typer.Typer) -> None:
    """The table's reads stay unexplained where only a bandwidth of writes is fitted."""
    write_table(campaign(0), tmp_path / "campaign")
    (tmp_path / "start.toml").write_text(site_toml(start()))
    (tmp_path / "rest.toml").write_text('[workload]\ntransfer_size = "4 MiB"\nlayout = "segmented"\n')
    words = [
        "simulate",
        "fit",
        str(tmp_path / "campaign.csv"),
        "--site",
        str(tmp_path / "start.toml"),
        "--folds",
        "2",
    ]
    words += ["--workload", str(tmp_path / "rest.toml"), "--free", "ost.write_bandwidth"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    assert "it predicts poorly" in told.stdout and "use it" not in told.stdout
    assert "what holds the configurations back" in told.stdout and "--free" in told.stdout
