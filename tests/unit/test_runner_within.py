"""Runs that are phases of one launch: which phases, what trying costs, which order comes when."""

from __future__ import annotations

import itertools
import math
import random
import time
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, LAYOUT, Setting
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.engine.conclusion import so_far
from stripewise.engine.protocol import carry_over
from stripewise.facts import RunFacts
from stripewise.file_glob import names_file
from stripewise.launch import Launch, Outcome
from stripewise.observe.journal import JournalPhase, fields_of, parse_journal
from stripewise.observe.objectives import objective_of
from stripewise.observe.orders import Given, Order, append_orders, read_orders, site_of
from stripewise.requests.experiment import Budget, Experiment, ObjectiveEntry
from stripewise.runners.base import Preflight
from stripewise.runners.within.families import choose_kinds, family_of, leave_out_alike, pattern_of, rounds_of
from stripewise.runners.within.launched import Launched
from stripewise.runners.within.runner import Loss, WithinRunner
from stripewise.trial import Phase, Role, Run, State, Trial

FEW = (Setting(HINT, "cb_nodes", "2"),)


def phase(seconds: float = 1.0, site: str = "/a#", operation: str = "write", **more: object) -> JournalPhase:
    return JournalPhase(site, operation, True, True, 4, 1, 1e6, seconds, **more)  # type: ignore[arg-type]


def test_the_costliest_phases_that_repeat_are_tuned() -> None:
    a, b, once = phase(1.0), phase(5.0, "/b#"), phase(99.0, "/c")
    assert choose_kinds([]) == () and choose_kinds([once, a, b, a, b]) == ()
    assert choose_kinds([once, a, b, a, b, a]) == (b.kind,)
    assert choose_kinds([once, a, b, a, a]) == (a.kind,)
    read = phase(operation="read")
    assert choose_kinds([a, read, a, read, a, read], "read") == (read.kind,)
    assert choose_kinds([once, a, b, a, b, a], together=True) == (b.kind, a.kind)


def test_only_families_of_the_files_that_are_named_are_tuned() -> None:
    a, b = phase(1.0, "/x/a.#"), phase(5.0, "/x/b[1].#")
    assert choose_kinds([a, b] * 3, files="a.*") == (a.kind,)
    assert choose_kinds([a, b] * 3, files=pattern_of(b.site)) == (b.kind,) and pattern_of(a.site) == "/x/a.[0-9]*"
    read = phase(operation="read", site="/x/a.#")
    other = replace(a, collective=False)
    assert leave_out_alike([a.kind, read.kind, other.kind, b.kind]) == (a.kind, read.kind, b.kind)


@pytest.mark.parametrize("name", ["chk.7", "a\\b.7", "what?[1].7", "*.7"])
def test_the_pattern_of_a_family_names_its_files_alone(name: str) -> None:
    pattern = pattern_of(site_of(f"/scratch/{name}"))
    assert names_file(pattern, f"/scratch/{name}") and not names_file(pattern, "/scratch/another.7")


def test_a_round_is_one_phase_of_each_family() -> None:
    few = {"cb_nodes": "2"}
    a, b = phase(1.0, settings=few, order=1), phase(5.0, "/b#", "read", settings=few, order=2)
    late = phase(5.0, "/b#", "read")
    assert rounds_of([a, b, a], [a.kind]) == [a, a]
    assert [one.moved for one in rounds_of([a, a, b, a, b], [a.kind, b.kind])] == [3e6, 2e6]
    first, second = rounds_of([b, a, phase(9.0, "/c"), a, late, a], [a.kind, b.kind])
    assert (first.moved, first.seconds, first.order, first.settings) == (2e6, 6.0, 2, few)
    assert family_of(first) == "writing /a#, reading /b#"
    assert second.settings not in (few, {})  # it is a run of neither


def two_families(stage: tuple[WithinRunner, Program]) -> tuple[WithinRunner, Program]:
    """A program that writes two files in turns, both tuned, of whose runs the first is ordered."""
    runner, program = stage
    runner.experiment = Experiment(runner="within", objective="phase_bandwidth", within={"families": "sum"})  # type: ignore[arg-type]
    for _ in range(9):
        program.write()
        program.write(2.0, site="/b#")
    ask(runner, 4, *FEW)
    assert runner.poll(0) == []
    return runner, program


def test_several_families_are_ordered_together(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = two_families(stage)
    program.write(0.5, site="/b#")
    assert runner.poll(0) == []
    program.write(0.25)
    (tried,) = runner.poll(0)
    assert tried.elapsed == 0.75 and tried.facts.file_family == "writing /b#, writing /a#"
    assert tried.metrics == {"phase_bandwidth": pytest.approx(2e6 / 0.75 / 2**20)}
    # A run of the proof follows a round with the same settings.
    ask(runner, 5, *FEW, role=Phase.CONFIRMATION)
    assert runner.poll(0) == []
    program.write(0.5, site="/b#")
    program.write(1.0, late=True)
    assert runner.poll(0) == []
    proven: list[Outcome] = []
    for _ in range(5):
        program.write(0.5, site="/b#")
        program.write(0.25)
        proven += runner.poll(0)
    assert [one.elapsed for one in proven] == [0.75]


def test_a_family_that_comes_more_often_takes_more_orders_a_round(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = stage
    runner.experiment = Experiment(runner="within", objective="phase_bandwidth", within={"families": "sum"})  # type: ignore[arg-type]
    for _ in range(5):
        program.write(2.0, site="/b#")
        program.write()
    ask(runner, 4, *FEW)
    assert runner.poll(0) == []
    # From now on, twice as often: the first round is short of an order, and is repeated.
    found: list[Outcome] = []
    for _ in range(6):
        program.write(0.5, site="/b#")
        program.write(0.5, site="/b#")
        program.write(0.25)
        found += runner.poll(0)
    assert [one.elapsed for one in found] == [1.25]
    assert found[0].metrics == {"phase_bandwidth": pytest.approx(3e6 / 1.25 / 2**20)}
    # And once again as often as the other: no family is ahead for longer than a round or two.
    ask(runner, 5, *FEW)
    assert runner.poll(0) == []
    for _ in range(6):
        program.write(0.5, site="/b#")
        program.write(0.25)
        found += runner.poll(0)
    assert [one.elapsed for one in found] == [1.25, 0.75]


def test_a_round_of_mixed_settings_is_no_run_of_the_search(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = two_families(stage)
    program.write(8.0, late=True)
    program.write(0.5, site="/b#")
    tried: list[Outcome] = runner.poll(0)
    for _ in range(5):
        program.write(0.25)
        program.write(0.5, site="/b#")
        tried += runner.poll(0)
    assert [one.elapsed for one in tried] == [0.75]


def test_the_loss_is_that_of_phases_with_settings_for_their_bytes() -> None:
    assert Loss.of([]) is None and Loss.of([phase(9.0)]) is None  # the first one stands apart
    tried = phase(1.5, settings={"cb_nodes": "2"})
    loss = Loss.of([phase(9.0), phase(1.0), tried, phase(1.0)])
    assert loss is not None and (loss.lost, loss.default) == pytest.approx((0.5, 4.0))
    assert loss.wait(0.25, 0.05) and not loss.wait(0.0, 0.05) and not loss.wait(0.25, 0.2)
    long = Loss.of([phase(), *[phase()] * 8, tried])
    assert long is not None and long.wait(0.25, 0.05) and not long.wait(0.25, 0.1)


def test_what_disturbs_phases_of_any_settings_is_no_loss() -> None:
    """Where one phase in five takes a hundred times as long, those with settings are not to blame for their share."""
    tried = {"k": "v"}
    usual = [phase(100.0 if n % 5 == 4 else 1.0) for n in range(50)]
    own = [phase(100.0 if n % 5 == 4 else 1.0, settings=tried) for n in range(50)]
    loss = Loss.of([phase(), *usual, *own])
    assert loss is not None and loss.lost == pytest.approx(0.0, abs=1e-9)
    assert loss.wait(0.0, 0.05) == 0


def test_of_a_slow_phase_only_what_chance_does_not_explain_holds_up_the_search() -> None:
    slow = phase(15.0, settings={"k": "v"})
    calm = Loss.of([phase(), *[phase()] * 10, slow])
    busy = Loss.of([phase(), *[phase(10.0 if n % 4 == 3 else 1.0) for n in range(40)], slow])
    assert calm is not None and calm.doubt == 0.0 and calm.wait(0.25, 0.05) > 200
    assert busy is not None and busy.lost > 10.0 > busy.lost - busy.doubt
    assert 0 < busy.wait(0.25, 0.05) < 30
    assert Loss.of([phase(), phase(1.0), phase(2.0), *[slow] * 4]).doubt == pytest.approx(2.0 * 0.5**0.5)


def test_a_slower_machine_is_no_loss_of_what_is_tried_on_it() -> None:
    """What is tried is charged against the default beside it, not against that of before the change."""
    tried = {"k": "v"}
    slower = [phase(3.0), phase(3.0), phase(3.0, settings=tried)] * 16
    loss = Loss.of([phase(), *[phase(1.0 + 0.1 * (n % 3)) for n in range(20)], *slower])
    assert loss is not None and loss.lost == pytest.approx(0.0, abs=1e-9)
    assert loss.typical == pytest.approx(3.0) and loss.default > 3.0 * 48
    lossy = Loss.of([phase(), *[phase()] * 20, *([phase(3.0), phase(3.0), phase(4.0, settings=tried)] * 16)])
    # The phase after each pays for what it left; it took as long as the default.
    assert lossy is not None and lossy.lost == pytest.approx(16.0)


def test_what_may_be_lost_grows_with_the_launch() -> None:
    slow = phase(200.0, settings={"cb_nodes": "2"})
    loss = Loss.of([phase(), *[phase()] * 8, slow])
    # 199 s are lost and a quarter may follow: 5% of 3985 phases, of which 10 have run.
    assert loss is not None and loss.wait(0.25, 0.05) == 3975 and loss.wait(0.0, 0.05) == 0
    later = Loss.of([phase(), *[phase()] * 8, slow, *[phase()] * 100])
    assert later is not None and later.wait(0.25, 0.05) == 3875


def test_carry_over_is_told_apart_from_what_the_settings_do() -> None:
    assert carry_over([(0.0, False)] * 3, [(1.0, True)] * 9) is None  # nothing tells the two apart
    wobble = [0.001 * (number * 7 % 5) for number in range(12)]
    plain = [(x, number % 2 == 0) for number, x in enumerate(wobble)]
    same = carry_over(plain, [(x - 1.0, after) for x, after in plain])
    assert same is not None and not same.seen and same.ratio == pytest.approx(1, abs=0.01) and same.phases == 24
    slowed = [(x + 0.3 * after, after) for x, after in plain]
    found = carry_over(slowed, [(x - 1.0, after) for x, after in slowed])
    assert found is not None and found.seen and found.ratio == pytest.approx(1.35, abs=0.02)


def test_an_order_is_written_as_the_runtime_reads_it(tmp_path: Path) -> None:
    order = Order(7, site_of("/run1/a b\t%.0003"), "write", FEW, run=3)
    fields = fields_of(order.line().rstrip("\n"))
    assert fields == {
        "site": "/run#/a b%09%25.#",
        "operation": "write",
        "settings": "hint cb_nodes 2",
        "order": "7",
        "run": "3",
    }
    for wrong in (
        Order(0, "/a", "write"),
        Order(65536, "/a", "write"),
        Order(1, "/a", "write", (Setting(ENVIRONMENT, "X", "1"),)),
        Order(1, "/a", "write", (Setting(HINT, "x", "1;2"),)),
        Order(1, "/a", "write", (Setting(HINT, "x", "1" * 64),)),
    ):
        with pytest.raises(ValueError, match="cannot be carried out"):
            wrong.line()
    path = tmp_path / "orders"
    append_orders(path, [order])
    path.write_bytes(path.read_bytes() + b"half a line")
    append_orders(path, [Order(8, "/a", "write", run=3), Order(9, "/a", "write")])
    assert path.read_text().startswith("stripewise-orders 1\n")
    assert read_orders(path.read_text()) == [
        Given(7, "/run#/a b\t%.#", "write", 3),
        Given(8, "/a", "write", 3),
        Given(9, "/a", "write"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        "order=x",
        "order=",
        "order=-1",
        "order=70000",
        "order=" + "9" * 5000,
        "order=4\trun=x",
        "order=4\trun=-3",
        "run=3",
    ],
)
def test_lines_that_nobody_wrote_so_are_passed_over(tmp_path: Path, fields: str) -> None:
    body = f"\tsite=/a\toperation=write\t{fields}"
    found = read_orders(f"{zlib.crc32(body.encode()):08x}{body}\n" + Order(9, "/a", "write", run=3).line())
    assert found[-1] == Given(9, "/a", "write", 3) and all(one.run is None for one in found[:-1])


def test_folders_of_launches_that_nobody_made_so_are_passed_over(tmp_path: Path, monkeypatch) -> None:
    found = SimpleNamespace(library_for=bool, target=1, preflight=Preflight(), io="")
    monkeypatch.setattr("stripewise.runners.program_runner.find", lambda *_: found)
    for name in ("launch-x", "launch-7", "launch-0", "launch-1"):
        (tmp_path / name).mkdir()
    (tmp_path / "launch-0" / "job.json").write_text("[" * 100_000)
    (tmp_path / "launch-1" / "job.json").write_text('{"pid": []}')
    (tmp_path / "launch-1" / "orders").write_bytes(b"\xff\0 order=x\n")
    (tmp_path / "launch-1" / "answers").write_bytes(b"\xff\0\n")
    runner = WithinRunner(Experiment(runner="within", objective="phase_bandwidth"), tmp_path)  # type: ignore[arg-type]
    runner.prepare()
    assert [one.folder.name for one in runner._launches] == ["launch-0", "launch-1"]


class Program:
    """Stands for a program with the runtime: carries out orders when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.carried_out, self.alive = folder, 0, True
        self.done: set[int] = set()
        self.clock = itertools.count(1_700_000_000)
        append_orders(folder / "orders", ())
        (folder / "answers").write_text("stripewise-journal 1\n")

    def poll(self) -> int | None:
        return None if self.alive else 0

    returncode = 0

    def write(
        self, seconds: float = 1.0, missed: int = 0, pattern: str = "C", late: bool = False, site: str = "/a#"
    ) -> None:
        """Do one phase; ``late``: its order comes after it has begun."""
        lines = [fields_of(line) for line in (self.folder / "orders").read_text().split("\n")]
        own = [fields for fields in lines if fields and fields["site"] == site and not late]
        waiting = [fields for fields in own if int(fields["order"]) not in self.done]
        order = waiting[0] if waiting else {"order": "0", "settings": ""}
        self.done.add(int(order["order"]))
        self.carried_out = max(self.carried_out, int(order["order"]))
        fields = {"site": site, "operation": "write", "pattern": pattern, "ranks": 4, "nodes": 1, "bytes": 1e6}
        fields |= {"seconds": seconds, "time": next(self.clock), "settings": order["settings"]}
        fields |= {
            "workload": "operation=write nodes=1 processes=4 layout=strided",
            "driver": "UFS",
            "layout": "stripe_count=2",
        }
        body = "".join(f"\t{k}={v}" for k, v in (fields | {"order": order["order"], "missed": missed}).items())
        with (self.folder / "answers").open("a") as file:
            file.write(f"{zlib.crc32(body.encode()):08x}{body}\n")


@pytest.fixture
def stage(tmp_path: Path) -> tuple[WithinRunner, Program]:
    runner = WithinRunner(Experiment(runner="within", objective="phase_bandwidth"), tmp_path)  # type: ignore[arg-type]
    launched = Launched(tmp_path)
    program = Program(tmp_path)
    launched.process = program  # type: ignore[assignment]
    runner._launches.append(launched)
    runner._joined = True
    return runner, program


def ask(runner: WithinRunner, number: int, *settings: Setting, role: Phase = Phase.SEARCH) -> None:
    runner.start(Launch("x", number, Configuration({}), Plan(settings), role))


def test_each_phase_is_a_run_and_the_first_one_stands_apart(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = stage
    ask(runner, 0, role=Phase.WARMUP)
    program.write(3.0)
    assert runner.poll(0) == []  # it may come once only
    program.write()
    program.write()
    (first,) = runner.poll(0)
    assert first.state is State.FINISHED and first.elapsed == 3.0
    assert first.metrics == {"phase_bandwidth": pytest.approx(1e6 / 3.0 / 2**20)}
    assert first.facts.file_family == "writing /a#"
    assert runner.seen is not None and runner.seen[0].layout == "strided" and runner.seen[0].driver == "UFS"
    assert runner.seen[1] == {"stripe_count": 2}
    ask(runner, 1)
    assert runner.poll(0) == []
    program.write(2.0)
    (default,) = runner.poll(0)
    assert default.number == 1 and default.elapsed == 2.0
    # Four phases of the default do not pay for one that may take a quarter longer; five do.
    ask(runner, 2, *FEW)
    runner.poll(0)
    program.write()
    assert runner.poll(0) == [] and program.carried_out == 1
    program.write(0.5)
    (tried,) = runner.poll(0)
    assert tried.elapsed == 0.5 and program.carried_out == 2 and tried.facts.lost is not None and tried.facts.lost < 0
    # It is known to be faster: it costs nothing.
    ask(runner, 3, *FEW)
    runner.poll(0)
    program.write(0.5)
    assert [one.number for one in runner.poll(0)] == [3]


def test_a_run_of_the_proof_does_not_pay_for_what_the_other_settings_left(
    stage: tuple[WithinRunner, Program],
) -> None:
    runner, program = stage
    for _ in range(8):
        program.write()
    ask(runner, 4, *FEW, role=Phase.CONFIRMATION)
    runner.poll(0)
    program.write(0.2)  # it puts off what it has to write: the next phase pays
    assert runner.poll(0) == []
    program.write(0.6)
    (tried,) = runner.poll(0)
    assert tried.elapsed == 0.6 and tried.facts.switched == pytest.approx(1e6 / 0.2 / 2**20)
    ask(runner, 5, *FEW, role=Phase.CONFIRMATION)
    runner.poll(0)
    program.write(0.7)  # the settings are the same: no phase is spent on the change
    (again,) = runner.poll(0)
    assert again.elapsed == 0.7 and again.facts.switched is None
    # The order came late, and a phase of the default between.
    program.write(1.0)
    ask(runner, 6, *FEW, role=Phase.CONFIRMATION)
    runner.poll(0)
    program.write(0.2)
    program.write(0.65)
    assert [one.elapsed for one in runner.poll(0)] == [0.65]


def test_a_run_of_several_phases_follows_one_with_the_same_settings(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = stage
    for _ in range(8):
        program.write()

    def pair_up(number: int, *settings: Setting) -> None:
        runner.start(Launch("x", number, Configuration({}), Plan(settings), Phase.CONFIRMATION, block=2))
        assert runner.poll(0) == []

    pair_up(4, *FEW)
    for seconds in (0.2, 0.6):
        program.write(seconds)
        assert runner.poll(0) == []
    program.write(0.8)
    (tried,) = runner.poll(0)
    # Time per byte of both phases that count.
    assert tried.elapsed == pytest.approx(1.4) and tried.facts.switched == pytest.approx(1e6 / 0.2 / 2**20)
    assert tried.metrics == {"phase_bandwidth": pytest.approx(2e6 / 1.4 / 2**20)}
    assert tried.facts.with_(block=2).phases_spent == 3
    pair_up(5, *FEW)
    program.write(0.7)
    assert runner.poll(0) == []
    program.write(0.9)
    (again,) = runner.poll(0)
    assert again.elapsed == pytest.approx(1.6) and again.facts.switched is None
    # A phase of the default comes between: all phases are repeated.
    pair_up(6, *FEW)
    program.write(0.7)
    program.write(1.0, late=True)
    for seconds in (0.2, 0.3):
        program.write(seconds)
        assert runner.poll(0) == []
    program.write(0.6)
    (repeated,) = runner.poll(0)
    assert repeated.elapsed == pytest.approx(0.9)


def test_what_a_phase_leaves_to_the_next_one_counts_as_lost() -> None:
    tried = phase(0.5, settings={"cb_nodes": "2"})
    loss = Loss.of([phase(), phase(), phase(), tried, phase(1.7)])
    assert loss is not None and loss.lost == pytest.approx(0.2)


def test_after_a_large_loss_only_what_is_not_expected_to_lose_goes_on(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = stage
    for _ in range(8):
        program.write()
    ask(runner, 4, *FEW)
    runner.poll(0)
    program.write(200.0)
    (slow,) = runner.poll(0)
    assert slow.facts.lost == pytest.approx(199 / 9) and slow.facts.waits == 3976
    fast = (Setting(HINT, "cb_nodes", "4"),)
    ask(runner, 5, *fast)
    assert runner.poll(0) == [] and runner.held == {5: 3976}
    runner.cancel(5)
    # What the search saw to be fast is proven all the same.
    ask(runner, 6, *fast, role=Phase.CONFIRMATION)
    runner.poll(0)
    assert runner.held == {}
    program.write(0.5)
    program.write(0.5)
    assert [one.number for one in runner.poll(0)] == [6]
    # The slow one is not, even there.
    ask(runner, 7, *FEW, role=Phase.CONFIRMATION)
    assert runner.poll(0) == [] and set(runner.held) == {7}


def test_what_waits_is_weighed_again_only_when_something_has_come(
    stage: tuple[WithinRunner, Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tuner may share a node with the program, and all phases are weighed."""
    runner, program = stage
    for _ in range(8):
        program.write()
    ask(runner, 4, *FEW)
    served, pauses, serve = itertools.count(), itertools.count(1), runner._serve

    def weigh(current: Launched, running: bool) -> None:
        next(served)
        serve(current, running)

    monkeypatch.setattr(runner, "_serve", weigh)

    def pause() -> None:
        if next(pauses) == 20:
            program.write()

    monkeypatch.setattr(runner, "_pause", pause)
    (outcome,) = runner.poll(60)
    assert outcome.number == 4 and next(served) == 2


def test_settings_that_did_not_act_prove_nothing(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = stage
    for _ in range(8):
        program.write()
    ask(runner, 4, *FEW)
    runner.poll(0)
    program.write(missed=1)
    (missed,) = runner.poll(0)
    assert missed.state is State.FAILED and "1 of its settings did not act" in missed.reason


def test_a_file_that_was_there_already_keeps_its_layout(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = stage
    for _ in range(8):
        program.write()
    found = []
    for number, stripes in ((4, "2"), (5, "8")):
        ask(runner, number, Setting(LAYOUT, "lustre stripe_count", stripes))
        runner.poll(0)
        program.write(missed=int(stripes != "2"))
        found += runner.poll(0)
    assert [one.facts.kept_layout for one in found] == [False, True]
    assert found[1].reason == "1 of its settings did not act: the file was there already, and keeps its layout"


def test_a_phase_that_did_something_else_is_asked_for_again(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = stage
    for _ in range(3):
        program.write()
    ask(runner, 4)
    runner.poll(0)
    program.write(pattern="i")
    assert runner.poll(0) == []
    program.write(2.0)
    assert [one.elapsed for one in runner.poll(0)] == [2.0]


def test_the_end_of_the_program_ends_the_session(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = stage
    ask(runner, 0, role=Phase.WARMUP)
    program.write()
    program.alive = False
    (failed,) = runner.poll(0)
    assert failed.state is State.FAILED and "before phases of I/O were repeated 3 times" in failed.reason
    program.alive = True
    for _ in range(3):
        program.write()
    runner._asked.clear()
    ask(runner, 1)
    runner.poll(0)
    program.alive = False
    assert runner.poll(0) == [] and "after 4 phases" in runner.over


@pytest.mark.slow
def test_the_rest_of_the_program_has_what_is_proven(stage: tuple[WithinRunner, Program]) -> None:
    runner, program = stage
    for _ in range(3):
        program.write()
    runner.poll(0)
    ask(runner, 1)
    runner.poll(0)
    program.write()
    runner.poll(0)

    class Ending(Program):
        def poll(self) -> int | None:
            program.write()
            return None if program.carried_out < 40 else 13

        returncode = 13

    ending = object.__new__(Ending)
    runner._launches[-1].process = ending  # type: ignore[assignment]
    begun = time.monotonic()
    failed = runner.conclude(Plan(FEW))
    assert failed == f"the program then ended with exit code 13 (its output is in {program.folder})"
    assert time.monotonic() - begun < 10
    phases = parse_journal((program.folder / "answers").read_text()).phases
    assert [one.settings for one in phases if one.order > 1] == [{"cb_nodes": "2"}] * 39


def test_a_program_that_ends_too_early_says_what_is_still_needed() -> None:
    rng = random.Random(3)
    runs: dict[str, list[Run]] = {"default": [Run(0, 0, Phase.SEARCH, State.FINISHED, value=100.0)], "candidate": []}
    objective = objective_of(ObjectiveEntry(name="phase_bandwidth"))

    def trials() -> list[Trial]:
        roles = {"default": Role.DEFAULT, "candidate": Role.CANDIDATE}
        return [Trial(number, Configuration({}), roles[arm], tuple(runs[arm])) for number, arm in enumerate(roles)]

    experiment = Experiment(runner="within", budget=Budget(runs=120))
    assert so_far(objective, experiment, trials()) == ("1 phase of the search, and no pair yet", True)
    for pair in range(10):
        for number, (arm, value) in enumerate((("default", 100.0), ("candidate", 104.0)), 1 + 2 * pair):
            noisy = value * math.exp(rng.gauss(0, 0.1))
            planned = Run(number, arm == "candidate", Phase.CONFIRMATION, State.FINISHED, value=noisy, pair=pair)
            runs[arm].append(replace(planned, arm=arm, facts=RunFacts(against=1)))
    said, hopeful = so_far(objective, experiment, trials())
    assert said.startswith("after 10 pairs, the best found looks 1.") and said.endswith("more phases may decide"), said
    assert hopeful
    for place, arm in enumerate(("default", "candidate")):
        ahead = Run(21 + place, place, Phase.CONFIRMATION, State.RUNNING, pair=10)
        runs[arm].append(replace(ahead, arm=arm, facts=RunFacts(against=1)))
    assert so_far(objective, experiment, trials()) == (said, hopeful), "orders were ahead of the program"
    runs["candidate"] = [replace(run, value=0.9 * run.value) for run in runs["candidate"] if run.value]
    said, hopeful = so_far(objective, experiment, trials())
    assert said.endswith("no number of pairs would prove that, so the default stays") and not hopeful
