"""Every mode of ``tune`` honours an option or refuses it: one table says which, and no option is ignored in silence."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from stripewise.desk.cli import tune as command
from stripewise.desk.cli.commands import app
from stripewise.desk.cli.main import main
from stripewise.desk.cli.tune_options import MODES, TITLES, Mode, options_of, word_for
from stripewise.desk.desk import SmallCase
from stripewise.engine.definition import with_options
from stripewise.engine.reconfirmation import USUAL_PAIRS, confirm_again
from stripewise.errors import UserError
from stripewise.requests.experiment import Experiment
from tests.unit.finished_experiment import finished

ROOT = Path(__file__).resolve().parents[2]
STEPS = str(ROOT / "tests" / "fixtures" / "records" / "steps.record")
TUNE = next(one for one in typer.main.get_command(app).commands.items() if one[0] == "tune")[1]  # type: ignore[attr-defined]


@dataclass
class Observed:
    """What a command began or showed."""

    experiment: Experiment | None = None
    folder: str | None = None
    report: Path | None = None
    json: bool = False
    yes: bool = False
    small: SmallCase | None = None
    dry: bool = False
    store: str | None = None
    server: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def asked(self) -> Experiment:
        assert self.experiment is not None, "nothing was begun"
        return self.experiment


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Observed]:
    """Take note of what would begin, in place of beginning it."""
    found = Observed()
    record, _ = finished()
    record = replace(record, facts=record.facts.with_(folder=str(tmp_path), user=""), owner="")

    class Watched:
        """A desk that takes note of what it is asked."""

        def __init__(self, store: str | None, server: str | None, json_output: bool, yes: bool) -> None:
            found.store, found.server, found.json, found.yes = store, server, json_output, yes

        @contextlib.contextmanager
        def experiments(self) -> Iterator[Any]:
            yield SimpleNamespace(record=lambda _identifier: record)

        def check_trust(self, _record: Any) -> None:
            pass

        def dry_run(self, experiment: Experiment, folder: str | None, small: SmallCase | None = None) -> dict[str, Any]:
            found.experiment, found.folder, found.dry, found.small = experiment, folder, True, small
            return {"notes": []}

        def begin(self, experiment: Experiment, folder: str | None, small: SmallCase | None = None) -> tuple[str, None]:
            found.experiment, found.folder, found.small = experiment, folder, small
            return "51e11ec7", None

    def shown(document: dict[str, Any], as_json: bool) -> None:
        found.notes, found.json = tuple(document["notes"]), as_json

    def delivered(_opened: Any, _identifier: str, _result: Any, report: Any, as_json: bool) -> None:
        found.report, found.json = report, as_json

    for name, value in {
        "desk_of": Watched,
        "print_dry_run": shown,
        "deliver": delivered,
        "proposals": lambda _path: ["hint romio_cb_write disable"],
        "with_options": functools.partial(with_options, read_model=lambda _path: None),
    }.items():
        monkeypatch.setattr(command, name, value)
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path / "home"))
    for name in ("STRIPEWISE_STORE", "STRIPEWISE_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text('command = ["mpiexec", "-n", "4", "true"]\n')
    yield found


PROGRAM = ["--", "mpiexec", "-n", "4", "true"]
BASES: dict[str, tuple[Mode, list[str], list[str]]] = {
    "a search": (Mode.LAUNCHES, [], PROGRAM),
    "an experiment file": (Mode.LAUNCHES, ["e.toml"], []),
    "--within": (Mode.WITHIN, ["--within"], PROGRAM),
    "--replay": (Mode.LAUNCHES | Mode.REPLAYS, ["--replay", STEPS], PROGRAM),
    "--small": (Mode.LAUNCHES | Mode.SMALL, ["--small", "mpiexec -n 2 true"], PROGRAM),
    "sim": (Mode.SIMULATED, ["--runner", "sim:kay"], []),
    "replay": (Mode.RECORDED, ["--runner", "replay:table.csv"], []),
    "--confirm": (Mode.CONFIRM, ["--confirm", "51e1"], []),
}
"""A command in each mode: the mode, its options, and what follows them."""
FACES = {"here": Mode(0), "dry": Mode.DRY, "there": Mode(0), "dry there": Mode.DRY}
THERE = ["--server", "unix:socket"]
SWITCHES = {
    "within": Mode.WITHIN,
    "replay": Mode.REPLAYS,
    "small": Mode.SMALL,
    "confirm": Mode.CONFIRM,
    "dry_run_only": Mode.DRY,
}
RUNNERS = {"--within": "within", "sim": "sim:vulcan-like", "replay": "replay:other.csv"}
PARTS = {
    "max_loss": Mode.WITHIN,
    "families": Mode.WITHIN,
    "settle": Mode.WITHIN,
    "replay_folder": Mode.REPLAYS,
    "small_budget": Mode.SMALL,
}
"""Options that need another one."""


def example(name: str, base: str) -> tuple[list[str], Callable[[Observed], bool]]:
    """Give the value of an option in a mode, and how one sees that it was honoured."""
    best = "maximize" if base == "--within" else "minimize"
    metric = "phase_bandwidth:read" if base == "--within" else "io_time"
    runner = RUNNERS.get(base, "steps")
    measured = ["--objective", "io_time"] if Mode.LAUNCHES in BASES[base][0] else []
    return {
        "budget": (["31"], lambda o: o.asked.budget.runs == 31),
        "time": (["77"], lambda o: o.asked.budget.seconds == 77.0),
        "node_hours": (["2.5"], lambda o: o.asked.budget.node_hours == 2.5),
        "objective": ([metric], lambda o: o.asked.objective.name == metric),
        "direction": ([best], lambda o: o.asked.objective.direction == best),
        "subject_to": (["io_time <= 9"], lambda o: o.asked.objective.subject_to == ["io_time <= 9"]),
        "program": (["app", *measured], lambda o: o.asked.objective.program == "app"),
        "stack": (["hdf5"], lambda o: o.asked.stacks == ["hdf5"]),
        "parameter": (["env:T=1,2"], lambda o: "T" in o.asked.parameters),
        "delete": (["x.dat"], lambda o: o.asked.hooks.delete == ["x.dat"]),
        "name": (["mine"], lambda o: o.asked.name == "mine"),
        "report": (["r.html"], lambda o: str(o.report) == "r.html" or "--report" in "".join(o.notes)),
        "yes": ([], lambda o: o.yes or "--yes" in "".join(o.notes)),
        "dry_run_only": ([], lambda o: o.dry),
        "json_output": ([], lambda o: o.json),
        "runner": ([runner], lambda o: o.asked.runner.replace(f"{Path.cwd()}/", "") == runner),
        "setup": (["module load x"], lambda o: o.asked.setup == ["module load x"]),
        "timeout": (["9"], lambda o: o.asked.timeout == 9.0),
        "scratch": (["s"], lambda o: o.asked.scratch == str(Path("s").absolute())),
        "override": ([], lambda o: o.asked.override),
        "ceiling": (["c.csv"], lambda o: o.asked.ceiling == str(Path("c.csv").absolute())),
        "no_ceiling": ([], lambda o: not o.asked.ceiling),
        "sampler": (["surrogate"], lambda o: o.asked.sampler == "surrogate"),
        "sampler_option": (["initial=5"], lambda o: str(o.asked.sampler_options.get("initial")) == "5"),
        "model": (["m.model"], lambda o: o.asked.model == str(Path("m.model").absolute())),
        "warm_start": (["abc"], lambda o: o.asked.warm_start == ["abc"]),
        "diagnosis": (["d.json"], lambda o: o.asked.try_first == ["hint romio_cb_write disable"]),
        "spend_all": ([], lambda o: o.asked.budget.spend_all),
        "seed": (["5"], lambda o: o.asked.seed == 5),
        "pairs": (["7"], lambda o: o.asked.confirmation.pairs == 7),
        "minimum_effect": (["1.2"], lambda o: o.asked.confirmation.minimum_effect == 1.2),
        "confirm": (["51e1"], lambda o: bool(o.asked.confirmation.again)),
        "within": ([], lambda o: o.asked.runner == "within"),
        "max_loss": (["3"], lambda o: o.asked.within.max_loss == 0.03),
        "families": (["sum"], lambda o: o.asked.within.families == "sum"),
        "settle": ([], lambda o: o.asked.within.settle),
        "replay": ([STEPS], lambda o: o.asked.replay is not None),
        "replay_folder": (["f"], lambda o: o.asked.replay is not None and o.asked.replay.folder.endswith("/f")),
        "small": (["mpiexec -n 2 true"], lambda o: o.small is not None),
        "small_budget": (["9"], lambda o: o.small is not None and o.small.runs == 9),
        "store": (["sqlite:///x.db"], lambda o: o.store == "sqlite:///x.db" or "--store" in "".join(o.notes)),
        "server": (["unix:socket"], lambda o: o.server == "unix:socket"),
    }[name]  # fmt: skip


def modes_of(base: str, face: str, name: str) -> Mode:
    """Give all modes of a command with an option."""
    modes = BASES[base][0] | FACES[face] | SWITCHES.get(name, Mode(0))
    if name == "within":
        modes &= ~Mode.LAUNCHES
    return Mode.CONFIRM | (modes & Mode.DRY) if Mode.CONFIRM in modes else modes


def call(base: str, face: str, words: list[str]) -> int:
    _, options, program = BASES[base]
    more = ["--dry-run"] if Mode.DRY in FACES[face] else []
    more += THERE if "there" in face else []
    return main(["tune", *options, *more, *words, *program])


def test_the_table_holds_every_option() -> None:
    options = {one.name: one for one in TUNE.params if one.param_type_name == "option" and one.name != "help"}
    assert options.keys() == MODES.keys() - {"file", "command"}
    assert {name: word_for(name) for name in options} == {name: one.opts[0] for name, one in options.items()}


@pytest.mark.parametrize("name", sorted(MODES.keys() - {"file", "command"}))
def test_every_mode_honours_an_option_or_refuses_it(
    name: str, observed: Observed, capsys: pytest.CaptureFixture[str]
) -> None:
    for base, (mode, options, program) in BASES.items():
        for face, where in FACES.items():
            switched = SWITCHES.get(name, Mode(0))
            if switched and switched in mode | where:
                continue  # it is given already
            if name == "server" and "there" in face:
                continue  # it is given already
            if name == "store" and "there" in face:
                continue  # a service has its own store, which is refused elsewhere
            words, honoured = example(name, base)
            modes = modes_of(base, face, name)
            given = {name, *(option for option in MODES if word_for(option) in options)}
            given |= {"file"} if base == "an experiment file" else {"command"} if program else set()
            given |= {"server"} if "there" in face else set()
            refused = [option for option in given if any(one not in MODES[option] for one in modes)]
            refused += [name] if name in PARTS and PARTS[name] not in modes else []
            vars(observed).update(vars(Observed()))
            code = call(base, face, [word_for(name), *words])
            said = " ".join(capsys.readouterr().err.split())
            where_it_was = f"{word_for(name)} with {base}, {face}: {said}"
            if refused:
                assert code == 2 and observed.experiment is None, where_it_was
                assert any(word_for(option) in said for option in refused), where_it_was
                assert "leave" in said or "add --" in said or "submit" in said, where_it_was
            else:
                assert code == 0, where_it_was
                assert honoured(observed), where_it_was


def test_a_confirmation_is_dry_where_it_is_asked_to_be(observed: Observed) -> None:
    for words in ([], ["--server", "unix:socket"]):
        vars(observed).update(vars(Observed()))
        assert main(["tune", "--confirm", "51e1", "--dry-run", *words]) == 0
        assert observed.dry and observed.asked.confirmation.again


def test_a_confirmation_of_a_service_starts_in_the_folder_of_its_experiment(observed: Observed, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    assert main(["tune", "--confirm", "51e1", "--server", "unix:socket"]) == 0
    assert observed.folder == str(tmp_path)


def test_the_budget_of_a_confirmation_holds_all_its_runs() -> None:
    record, _ = finished()
    before = record.experiment.warmup + 2
    assert confirm_again(record).confirmation.pairs == USUAL_PAIRS
    for runs, pairs in ((before + 8, 4), (before + 11, 4), (before + 13, 6), (before + 100, 50), (10_000, 1000)):
        again = confirm_again(record, budget={"runs": runs, "seconds": 60.0, "node_hours": None})
        assert (again.budget.runs, again.confirmation.pairs, again.budget.seconds) == (runs, pairs, 60.0)
        assert before + 2 * pairs <= runs
    assert confirm_again(record, 3, budget={"runs": before + 6}).confirmation.pairs == 3
    assert confirm_again(record, 50, budget={"runs": before + 13}).confirmation.pairs == 6
    with pytest.raises(UserError, match=f"holds too few pairs.*allow {before + 8} launches or more"):
        confirm_again(record, budget={"runs": before + 7})
    with pytest.raises(UserError, match="minimum_effect"):
        confirm_again(record, minimum_effect=0.5)


def helped(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["tune", *words, "--help"]) == 0
    return capsys.readouterr().out


def test_the_help_and_the_reference_say_what_a_mode_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    takes = options_of(Mode.CONFIRM)
    assert f"--confirm takes only {', '.join(takes)}." in " ".join(helped(["--confirm"], capsys).split())
    row = next(
        line
        for line in (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8").splitlines()
        if line.startswith("- `--confirm`")
    )
    assert set(re.findall(r"`(--[a-z-]+)`", row)) == set(takes)
    for name, mode in (("within", Mode.WITHIN), ("replay", Mode.REPLAYS), ("small", Mode.SMALL)):
        refused = [
            word_for(option) for option in MODES if option not in ("file", "command") and mode not in MODES[option]
        ]
        said = " ".join(helped([f"--{name}"], capsys).split())
        assert f"{TITLES[mode]} takes all options of stripewise tune --help but {', '.join(refused)}." in said


def test_plain_help_fits_two_screens_and_leaves_out_what_belongs_to_one_mode(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = helped([], capsys).splitlines()
    assert len(lines) <= 80 and max(map(len, lines)) <= 80
    for mode, own in (("within", ("max-loss", "families", "settle")), ("replay", ("replay-folder",))):
        page = helped([f"--{mode}"], capsys)
        for option in own:
            assert f"  --{option}" in page
            assert not any(line.startswith(f"  --{option}") for line in lines)


def test_what_an_experiment_file_says_wrong_is_said_with_its_name(
    observed: Observed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = 'command = ["true"]\nsampler = "genetic"\n[sampler_options]\npopulatoin = 3\n'
    (tmp_path / "wrong.toml").write_text(wrong)
    told = "sampler genetic has no option 'populatoin'"
    assert main(["tune", "wrong.toml", "--seed", "3"]) == 2
    assert f"wrong.toml: {told}" in " ".join(capsys.readouterr().err.split())
    assert main(["tune", "e.toml", "--sampler", "genetic", "--sampler-option", "populatoin=3"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert told in said and "e.toml" not in said, "the command line is wrong here, not the file"
    assert observed.experiment is None
