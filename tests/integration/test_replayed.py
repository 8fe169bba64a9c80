"""What is said of an experiment whose runs a table answers: nothing is launched, and its figures are the table's."""

import json

import pytest

from stripewise.desk.cli.main import main

TABLE = """name = "small"
description = "{description}"
[objective]
column = "rate"
direction = "maximize"
unit = "MiB/s"
[[context]]
name = "nodes"
kind = "ordinal"
role = "nodes"
values = [2]
[[parameter]]
name = "cb_nodes"
kind = "ordinal"
role = "aggregators"
values = [2, 4]
default = 2
[[parameter]]
name = "depth"
kind = "ordinal"
values = [1, 2]
default = 1
"""
ROWS = """nodes,cb_nodes,depth,repeat,rate
2,2,1,0,10
2,2,1,1,10.1
2,4,2,0,20
2,4,2,1,20.1
"""


@pytest.fixture(params=["measured on two nodes", "Simulated on sim:kay: computed, not measured."])
def simulated(request, tmp_path, monkeypatch):
    """Tell whether the table in the current folder is a simulated one."""
    monkeypatch.chdir(tmp_path)
    for name in ("STRIPEWISE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("STRIPEWISE_STORE", raising=False)
    (tmp_path / "small.toml").write_text(TABLE.format(description=request.param))
    (tmp_path / "small.csv").write_text(ROWS)
    return request.param.startswith("Simulated")


def test_a_replay_costs_no_hours_and_is_simulated_where_its_table_is(simulated, capfd):
    assert main(["tune", "--runner", "replay:small.csv", "--budget", "20", "--sampler", "exhaustive", "--json"]) == 0
    told = capfd.readouterr()
    result = json.loads(told.out)
    assert result["simulated"] is simulated
    assert result["confirmed"] and result["best"]["configuration"] == {"cb_nodes": 4, "depth": 2}
    assert "worst case: 20 launches\n" in told.err and "nothing is launched" in told.err
    assert main(["list", "--json"]) == 0
    (line,) = json.loads(capfd.readouterr().out)
    assert (line["objective"], line["simulated"]) == (result["objective"]["name"], simulated)
    assert main(["show", line["id"]]) == 0
    assert ("(simulated)" in (shown := capfd.readouterr().out)) is simulated
    assert ("(replayed)" in shown) is not simulated
    assert main(["export", line["id"], "--to", "plan", "--json"]) == 0
    exported = json.loads(capfd.readouterr().out)
    assert exported["simulated"] is simulated
    # What a stack knows is carried as the stack says, with what follows from it; the rest only its program knows.
    lines = ["hint cb_nodes 4", "argument depth 2", "hint cb_config_list *:2"]
    assert [line for line in exported["text"].splitlines() if line.startswith(("hint", "argument"))] == lines
