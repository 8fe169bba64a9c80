"""Sessions of a campaign: every planned run has exactly one result, whatever happens in between."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stripewise.desk.cli.main import main
from stripewise.engine.campaign.book import INSTEAD, collect, open_book
from stripewise.engine.campaign.checks import check_limits, check_room, cost_of
from stripewise.engine.campaign.outcome import table_of
from stripewise.engine.campaign.plan import AGAIN, CampaignPlan, value_of
from stripewise.engine.campaign.session import CampaignSession, Clock
from stripewise.engine.ledger import Ledger
from stripewise.errors import NothingWorks, UserError
from stripewise.models.table import ObjectiveColumn, Schema, make_table, read_table, write_table
from stripewise.requests.campaign import Campaign, parse_campaign
from stripewise.requests.campaign_points import Points
from stripewise.requests.objective import Objective
from stripewise.runners.native.benchmark import Bench
from stripewise.trial import Phase, Run, State
from tests.fixtures.shell_campaign import arguments

OBJECTIVE = Objective("bandwidth", "maximize", "MiB/s")

FACTORS = """
[[workload]]
name = "nodes"
values = [1, 2]

[[tunable]]
name = "cb_nodes"
role = "aggregators"
values = [1, 2, 4, 8]

[[tunable]]
name = "transfer_size"
values = ["1 MiB", "4 MiB", "16 MiB"]
"""


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A complete table of both operations, three repeats."""
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {"operation": ["write", "read"], "nodes": [1, 2]}
    columns |= {"cb_nodes": [1, 2, 4, 8], "transfer_size": [2**20, 2**22, 2**24]}
    schema = Schema.model_validate(
        {
            "name": "site",
            "objective": ObjectiveColumn(column="bandwidth", direction="maximize", unit="MiB/s"),
            "context": [
                {"name": "operation", "kind": "categorical", "role": "operation", "values": columns["operation"]},
                {"name": "nodes", "kind": "ordinal", "role": "nodes", "values": columns["nodes"]},
            ],
            "parameter": [
                {"name": name, "kind": "ordinal", "scale": "log2", "values": columns[name]}
                for name in ("cb_nodes", "transfer_size")
            ],
        }
    )
    rows = [
        {"operation": o, "nodes": n, "cb_nodes": c, "transfer_size": t, "repeat": r,
         "bandwidth": 100 * n * c ** (0.5 if o == "write" else -0.3) * (t / 2**20) ** 0.1 * rng.lognormal(0, 0.05)}
        for o in columns["operation"] for n in [1, 2] for c in [1, 2, 4, 8] for t in [2**20, 2**22, 2**24]
        for r in range(3)
    ]  # fmt: skip
    write_table(make_table(schema, rows), tmp_path / "site")
    return tmp_path / "site.csv"


def campaign(runner: str, extra: str = "") -> Campaign:
    return parse_campaign(f'name = "mine"\nrunner = "{runner}"\nrepeats = 2\n{extra}\n{FACTORS}', "mine.toml")


def made(
    asked: Campaign, folder: Path, book: Ledger | None = None, shard: tuple[int, int] = (1, 1), **more: Any
) -> Ledger:
    points = Points(asked)
    book = book or open_book(asked, shard, None)
    CampaignSession(points, Bench(asked, points, folder, os.environ), book, shard, folder, **more).run()
    return book


def test_a_replayed_campaign_becomes_a_table_with_roles(measured: Path, tmp_path: Path) -> None:
    asked = campaign(f"replay:{measured}")
    book = made(asked, tmp_path)
    points = Points(asked)
    plan = CampaignPlan(points).known(book.runs)
    assert plan.complete and len(plan.runs) == len(book.runs) == 2 * 2 * 24
    table = table_of(points, plan.runs, book.runs, OBJECTIVE, "Replayed.", True)
    assert table.schema.complete and len(table) == 96
    assert {c.name: c.role for c in table.schema.columns} == {
        "operation": "operation", "nodes": "nodes", "cb_nodes": "aggregators", "transfer_size": "transfer_size"
    }  # fmt: skip
    source = read_table(measured)
    assert set(table.values) <= set(source.values)


def test_the_same_seed_gives_the_same_figures_and_another_others(measured: Path, tmp_path: Path) -> None:
    values = [
        [run.value for _, run in sorted(made(campaign(f"replay:{measured}", f"seed = {seed}"), tmp_path).runs.items())]
        for seed in (1, 1, 2)
    ]
    assert values[0] == values[1] != values[2]


def test_a_sequential_design_grows_by_batches_and_resumes_alike(measured: Path, tmp_path: Path) -> None:
    design = '[design]\nkind = "sequential"\nsize = 12\ninitial = 6\nbatch = 2\n'
    asked = campaign(f"replay:{measured}", "").model_copy(
        update={"design": parse_campaign(f'name = "x"\n{design}\n{FACTORS}', "x").design}
    )
    book = made(asked, tmp_path)
    points = Points(asked)
    runs = CampaignPlan(points).known(book.runs).runs
    assert len({run.trial for run in runs}) == 24 and len(book.runs) == 48
    assert len({(run.point.operation, run.point.values) for run in runs}) == 24
    # From half of the results the plan is the same as far as it is known.
    first = {run.number for run in runs[:24]}
    again = CampaignPlan(Points(asked)).known({n: run for n, run in book.runs.items() if n in first}).runs
    assert again == runs[: len(again)] and len(again) == 24 + 2 * 2 * 2
    with pytest.raises(UserError, match="cannot be cut into shards"):
        made(asked, tmp_path, shard=(1, 2))


def test_shards_with_journals_of_their_own_merge(measured: Path, tmp_path: Path) -> None:
    asked = campaign(f"replay:{measured}")
    whole = made(asked, tmp_path)
    folders = []
    for index in (1, 2, 3):
        folders.append(tmp_path / f"journal-{index}")
        book = open_book(asked, (index, 3), folders[-1])
        made(asked, tmp_path, book, (index, 3)).release()
    found = collect(folders)
    assert found.seen == (1, 2, 3)
    assert {n: run.value for n, run in found.runs.items()} == {n: run.value for n, run in whole.runs.items()}
    partly = collect(folders[:2])
    assert len(partly.runs) == 64 and partly.seen == (1, 2)
    with pytest.raises(UserError, match="no journal"):
        collect([tmp_path / "nothing"])


def test_a_journal_belongs_to_one_state_of_the_file(measured: Path, tmp_path: Path) -> None:
    asked = campaign(f"replay:{measured}")
    open_book(asked, (1, 1), tmp_path / "journal").release()
    with pytest.raises(UserError, match="another campaign"):
        open_book(asked.model_copy(update={"seed": 5}), (1, 1), tmp_path / "journal")
    with pytest.raises(UserError, match="shards of 1"):
        open_book(asked, (1, 2), tmp_path / "journal")


def test_another_program_is_never_pooled(measured: Path, tmp_path: Path) -> None:
    asked = campaign(f"replay:{measured}")
    with_it = open_book(asked, (1, 1), tmp_path / "journal")
    with_it.check_fingerprint({"the program": "a"}, INSTEAD)
    with_it.check_fingerprint({"the program": "a"}, INSTEAD)
    with pytest.raises(UserError, match="never pooled"):
        with_it.check_fingerprint({"the program": "b"}, INSTEAD)
    with_it.release()


# -- real processes ------------------------------------------------------------------------------------------------


def test_failed_runs_are_counted_and_can_be_retried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = arguments(tmp_path, "[1, 3]")
    assert main([*given, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["runs"] == {"planned": 6, "finished": 3, "failed": 3, "left": 0}
    assert (
        document["failures"][0]["configuration"] == {"cb_nodes": 3}
        and "exit code 1" in document["failures"][0]["reason"]
    )
    assert list(read_table(tmp_path / "out").values) == [1.0, 1.0, 1.0]
    assert main([*given, "--retry", "--json"]) == 0
    capsys.readouterr()
    numbers = collect([tmp_path / "journal"]).runs
    assert len(numbers) == 9 and sum(number >= AGAIN for number in numbers) == 3


def test_a_program_that_never_works_records_nothing(tmp_path: Path) -> None:
    given = arguments(tmp_path, "[3, 4]")
    asked = parse_campaign(Path(given[2]).read_text("utf-8").replace("!= 3", "= 9"), "x")
    points = Points(asked)
    book = open_book(asked, (1, 1), tmp_path / "journal")
    with pytest.raises(NothingWorks, match="the write does not work"):
        CampaignSession(
            points, Bench(asked, points, tmp_path / "runs", os.environ), book, (1, 1), tmp_path / "runs"
        ).run()
    assert not book.runs
    book.release()


# -- cost and time -------------------------------------------------------------------------------------------------


def test_cost_limits_and_room_are_checked_before(tmp_path: Path) -> None:
    text = (
        f'name = "big"\nrepeats = 2\n[files]\nfolder = "{tmp_path}"\n[limits]\nLIMIT\n'
        '[[workload]]\nname = "file_size"\n'
        'values = ["4 MiB", "2048 PiB"]\n[[tunable]]\nname = "transfer_size"\nvalues = ["1 MiB"]\n'
    )
    asked = parse_campaign(text.replace("LIMIT", ""), "x")
    runs = CampaignPlan(Points(asked)).known({}).runs
    cost = cost_of(asked, runs)
    assert (cost.runs, cost.launches, cost.largest) == (8, 12, 2**61)
    assert cost.moved == 2 * 3 * (2**22 + 2**61)
    with pytest.raises(UserError, match="too little for the benchmark's file"):
        check_room(asked, cost, tmp_path)
    with pytest.raises(UserError, match=r"more than the 7 of limits\.runs"):
        check_limits(parse_campaign(text.replace("LIMIT", "runs = 7"), "x"), cost)
    with pytest.raises(UserError, match=r"more than the 1 GiB of limits\.bytes"):
        check_limits(parse_campaign(text.replace("LIMIT", 'bytes = "1 GiB"'), "x"), cost)


def test_the_estimate_is_honest() -> None:
    """Nine of ten intervals hold the truth, within what 200 campaigns can tell, and nothing is said too early."""
    clock = Clock()
    clock.add((0,), 1.0, 1.0)
    assert clock.remaining([((0,), 1.0)]).seconds is None
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        clock = Clock()
        kinds = rng.integers(0, 6, 120)
        base = rng.uniform(0.2, 0.6)
        seconds = (base + 0.5 * kinds) * rng.lognormal(0, 0.25, 120)
        for kind, took in zip(kinds[:20], seconds[:20], strict=True):
            clock.add((int(kind),), float(kind), float(took))
        left = clock.remaining(((int(kind),), float(kind)) for kind in kinds[20:])
        assert left.seconds is not None
        inside += left.low <= float(np.sum(seconds[20:])) <= left.high
    assert 0.8 <= inside / 200 <= 1.0


def test_the_estimate_is_never_absurd() -> None:
    """A line through few long runs and many short ones once gave an upper bound of 10^12 hours."""
    steep = Clock()
    for moved, took in ((1.0, 0.1), (2.0, 0.1), (3.0, 5.0), (3.0, 5.0)):
        steep.add((moved,), moved, took)
    unlike = steep.remaining([((4.0,), 4.0)] * 10)
    assert unlike.seconds is None, "nothing that was seen is like what is left"
    known = steep.remaining([((3.0,), 3.0)] * 10)
    assert known.seconds == pytest.approx(50.0) and known.high < 200
    rng = np.random.default_rng(2)
    for _ in range(100):
        clock = Clock()
        sizes = 2.0 ** rng.integers(0, 12, 5)
        for moved in sizes:
            clock.add((moved,), float(moved), float(rng.lognormal(0, 3)))
        left = clock.remaining((((kind, "other")), float(kind)) for kind in sizes)
        if left.seconds is not None:
            assert 0 <= left.low <= left.seconds <= left.high <= 20 * left.seconds


def test_the_finished_of_several_attempts_counts() -> None:
    failed = Run(3, 0, Phase.SEARCH, State.FAILED, reason="x")
    finished = Run(3 + AGAIN, 0, Phase.SEARCH, State.FINISHED, 2.0)
    assert value_of({3: failed}, 3) is failed
    assert value_of({3: failed, 3 + AGAIN: finished}, 3) is finished
    assert value_of({3: Run(3, 0, Phase.SEARCH)}, 3) is None


def test_nothing_else_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = arguments(tmp_path)
    file = Path(given[2])
    before = file.read_text("utf-8")
    assert main([*given[:-1], str(file.with_suffix(""))]) == 2
    assert "describes no table" in capsys.readouterr().err
    assert file.read_text("utf-8") == before and not (tmp_path / "journal").exists()
    os.mkfifo(tmp_path / "pipe.toml")  # nobody writes to it
    assert main([*given[:-1], str(tmp_path / "pipe")]) == 2


def test_ior_is_run_and_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script stands for IOR: it checks that what it is to read was written, and prints as IOR does."""
    ior = tmp_path / "ior"
    ior.write_text(
        """#!/bin/sh
words="$*"
while [ $# -gt 0 ]; do case $1 in -o) file=$2;; -t) transfer=$2;; esac; shift; done
case " $words " in
    *" -w "*) echo data > "$file"; echo "Max Write: $((transfer / 1048576)).50 MiB/sec (1.00 MB/sec)";;
    *" -r "*) test -f "$file" || exit 3; echo "Max Read:  $((transfer / 1048576)).25 MiB/sec (1.00 MB/sec)";;
esac
""",
        "utf-8",
    )
    ior.chmod(0o755)
    file = tmp_path / "ior.toml"
    file.write_text(
        f"""
name = "by-ior"
program = "ior"
executable = "{ior}"
launcher = ["env", "RANKS={{processes}}"]
repeats = 1
[files]
folder = "{tmp_path}"
[[workload]]
name = "file_size"
values = ["16 MiB"]
[[tunable]]
name = "transfer_size"
values = ["1 MiB", "4 MiB"]
""",
        "utf-8",
    )
    words = [
        "site",
        "profile",
        str(file),
        "--journal",
        str(tmp_path / "journal"),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"]["finished"] == 4
    table = read_table(tmp_path / "out")
    assert sorted(table.values) == [1.25, 1.5, 4.25, 4.5]
    assert {c.name: c.role for c in table.schema.parameter} == {"transfer_size": "transfer_size"}
    assert not list(tmp_path.glob("stripewise-profile.dat*"))


def test_a_folder_that_everyone_can_write_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Others could put a link there, when the benchmark's file has just been deleted."""
    words = arguments(tmp_path)
    tmp_path.chmod(0o1777)
    assert main(words) == 2
    assert "make a folder of your own in it" in " ".join(capsys.readouterr().err.split())
    tmp_path.chmod(0o700)
    assert main(words) == 0


def test_campaigns_in_one_folder_have_files_of_their_own_unless_these_are_named(tmp_path: Path) -> None:
    text = Path(arguments(tmp_path)[2]).read_text("utf-8")

    def command(journal: str, text: str) -> str:
        points = Points(parse_campaign(text, "x"))
        bench = Bench(points.campaign, points, tmp_path / journal, os.environ)
        bench.prepare()
        lines = bench.launch(points.all[0], 0).after
        bench.close()
        return lines[0]

    first, second, again = (command(journal, text) for journal in ("a", "b", "a"))
    assert first == again != second and f"{tmp_path}/stripewise-profile.dat." in first
    named = text.replace("[files]", '[files]\nname = "x.h5"')
    assert command("a", named) == command("b", named)
