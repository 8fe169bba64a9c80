"""What a terminal shows: the display of a search at several widths, progress in a pipe, and help."""

import io
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.markup import render

from stripewise.catalogue.configuration import Configuration
from stripewise.desk.cli import output, progress
from stripewise.desk.cli.main import main
from stripewise.desk.cli.progress import Progress
from stripewise.engine.events import Event
from stripewise.engine.ledger import Spent
from stripewise.requests.experiment import Budget, Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.base import Preflight
from stripewise.sizes import parse_size, short_size
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Role, Run, State, Trial

FOUND = Configuration({"romio_cb_write": "enable", "cb_nodes": 4, "cb_buffer_size": 256 << 10})
DEFAULT = Configuration({"romio_cb_write": "automatic", "cb_nodes": 1, "cb_buffer_size": 16 << 20})
OTHER = Configuration({"romio_cb_write": "enable", "cb_nodes": 1, "cb_buffer_size": 4 << 20})
SHOWN = {
    60: """\
 1  warm-up   123.5 MiB/s         default
 2  search    150.2 MiB/s  x1.00  default
 3  search    1,250 MiB/s  x8.32  romio_cb_write=enable
                                  cb_nodes=4
                                  cb_buffer_size=256K
 4  search         failed         exit code 1: cb_nodes=1
                                  cb_buffer_size=4M
                                  romio_cb_write=enable
""",
    80: """\
 1  warm-up   123.5 MiB/s         default
 2  search    150.2 MiB/s  x1.00  default
 3  search    1,250 MiB/s  x8.32  romio_cb_write=enable cb_nodes=4
                                  cb_buffer_size=256K
 4  search         failed         exit code 1: cb_nodes=1 cb_buffer_size=4M
                                  romio_cb_write=enable
""",
    120: """\
 1  warm-up   123.5 MiB/s         default
 2  search    150.2 MiB/s  x1.00  default
 3  search    1,250 MiB/s  x8.32  romio_cb_write=enable cb_nodes=4 cb_buffer_size=256K
 4  search         failed         exit code 1: cb_nodes=1 cb_buffer_size=4M romio_cb_write=enable
""",
}
BELOW = """\
━━━━
searching  4/40 launches  10.0 s, at most about 72.0 s left
default 150.2 MiB/s  best seen 1,250 MiB/s (x8.32)
romio_cb_write=enable cb_nodes=4 cb_buffer_size=256K
"""


def shown(width, monkeypatch, *, terminal=True, seconds=None, before=0):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=terminal, color_system=None, soft_wrap=True, legacy_windows=False
    )
    display = Progress(console)
    objective = Objective("write_bandwidth", "maximize", "MiB/s")
    display(Event("prepared", {"preflight": Preflight(), "objective": objective, "trials": []}))
    names = {"romio_cb_write": "", "cb_nodes": "count", "cb_buffer_size": "B"}
    parameters = [SimpleNamespace(name=name, unit=unit) for name, unit in names.items()]
    space = SimpleNamespace(names=tuple(names), default=DEFAULT, parameters=parameters)
    about = {"bound": SimpleNamespace(space=space, left_out={}), "distinct": 9, "exact": True, "workload": None}
    display(Event("space", about))
    clock.now = 2.0
    trials = []
    runs = [
        (Phase.WARMUP, Role.DEFAULT, DEFAULT, 123.5, ""),
        (Phase.SEARCH, Role.DEFAULT, DEFAULT, 150.2, ""),
        (Phase.SEARCH, Role.CANDIDATE, FOUND, 1250.0, ""),
        (Phase.SEARCH, Role.CANDIDATE, OTHER, None, "exit code 1"),
    ]
    for number, (phase, role, settings, value, reason) in enumerate(runs, 1):
        run = Run(number, number, phase, State.FINISHED if value else State.FAILED, value, reason=reason)
        trial = Trial(number, settings, role, (run,))
        trials.append(trial)
        display(
            Event(
                "started",
                {
                    "run": run,
                    "trial": trial,
                    "spent": Spent(before + number - 1, 0, 0),
                    "budget": Budget(seconds=seconds),
                },
            )
        )
        display(Event("ended", {"run": run, "trial": trial, "trials": trials, "spent": Spent(before + number, 0, 0)}))
    clock.now = 10.0
    if terminal:
        console.print(display._view())
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize("width", SHOWN)
def test_a_search_on_a_terminal(width, monkeypatch):
    text = shown(width, monkeypatch)
    assert text.endswith(SHOWN[width] + BELOW)
    assert max(map(len, text.splitlines()[1:])) <= width


def test_the_time_that_is_left_is_bounded_by_the_budget(monkeypatch):
    assert "at most about 2.0 s left" in shown(80, monkeypatch, seconds=12.0)


def test_the_time_that_is_left_is_told_by_the_launches_of_this_command(monkeypatch):
    assert "24/40 launches  10.0 s, at most about 32.0 s left" in shown(80, monkeypatch, before=20)


def test_all_ratios_of_a_search_have_one_base(monkeypatch):
    display = Progress(Console(file=io.StringIO()))
    first = Trial(0, DEFAULT, Role.DEFAULT, (Run(0, 0, Phase.SEARCH, State.FINISHED, 100.0),))
    again = replace(first, runs=(*first.runs, Run(1, 0, Phase.SEARCH, State.FINISHED, 300.0)))
    display._follow([first])
    display._follow([again])
    assert display._default == 100.0 != again.value


def test_a_search_in_a_pipe_is_not_cut_off(monkeypatch):
    text = shown(60, monkeypatch, terminal=False)
    assert "3  search  1,250 MiB/s  x8.32  romio_cb_write=enable cb_nodes=4 cb_buffer_size=256K\n" in text
    assert "4  search  failed: exit code 1  cb_nodes=1 cb_buffer_size=4M romio_cb_write=enable\n" in text


def test_work_in_a_pipe_says_now_and_then_how_far_it_is(monkeypatch, capsys):
    now = iter([0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 12.0, 12.0, 14.0, 14.0])
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(now)))
    ticker = output.Ticker()
    for done in (1, 2, 3, 4):
        ticker.count(done, 6, "searches")
    ticker.count(6, 6, "searches")
    ticker.close()
    said = capsys.readouterr().err.splitlines()
    assert said == ["1 of 6 searches, about 0.0 s left", "4 of 6 searches, about 6.0 s left", "6 of 6 searches"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tune", "mpiexec", "-n", "2", "./app"], "stripewise tune -- mpiexec -n 2 ./app"),
        (["tune", "--budget", "9", "mpiexec", "-n", "2"], "stripewise tune --budget 9 -- mpiexec -n 2"),
        (["run", "0123abcd", "mpiexec", "./app"], "stripewise run 0123abcd -- mpiexec ./app"),
    ],
)
def test_forgotten_dashes_are_named(words, said, monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda word: word if word == "mpiexec" else None)
    assert main(words) == 2
    assert f"the program follows two dashes: {said}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["tune", "--sampler", "gentic", "--", "true"], "genetic"),
        (["tune", "--objective", "bandwith", "--", "true"], "bandwidth"),
        (["tune", "--runner", "lcal", "--", "true"], "local"),
        (["tune", "--stack", "romi", "--", "true"], "romio"),
    ],
)
def test_what_was_probably_meant_is_named(words, meant, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path))
    assert main([*words[:3], "--dry-run", *words[3:]]) == 2
    assert f"; did you mean {meant}? choose from " in capsys.readouterr().err


def test_a_number_out_of_bounds_is_refused_in_plain_words(capsys):
    assert main(["site", "calibrate", ".", "--repeats", "4"]) == 2
    assert "'--repeats': must be at least 6; " in capsys.readouterr().err
    assert main(["tune", "--budget", "x", "--", "true"]) == 2
    assert re.search("'--budget': [^,]* integer; see", capsys.readouterr().err)


def test_help_loses_nothing_and_shows_the_basic_options_of_tune_first(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["prescribe", "--help"]) == 0
    assert "A TOML file with a [workload] table." in capsys.readouterr().out
    assert main(["diagnose", "--help"]) == 0
    assert "...}..." not in capsys.readouterr().out
    assert main(["tune", "--help"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"tune \[OPTIONS\] \[?EXPERIMENT.toml\]? \[-- COMMAND\.\.\.\]", text)
    places = [text.index(word) for word in ("--budget", "--objective", "The program and its runs", "The search")]
    assert places == sorted(places)
    assert main(["run", "--help"]) == 0
    assert "online they are learned while the program runs." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("stripewise tu", ["tune"]),
        ("stripewise tune --sampler-", ["--sampler-option"]),
        ("stripewise tune --sampler gen", ["genetic"]),
    ],
)
def test_the_shell_completes_commands_options_and_values(line, offered, monkeypatch, capsys):
    monkeypatch.setenv("_STRIPEWISE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == offered


@pytest.mark.parametrize("command", ["show", "export"])
def test_the_shell_completes_identifiers_of_experiments(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STRIPEWISE_STORE", f"sqlite:///{tmp_path}/s.db")
    monkeypatch.delenv("STRIPEWISE_SERVER", raising=False)
    with open_store(f"sqlite:///{tmp_path}/s.db") as opened:
        first = opened.create(Experiment(command=["true"]))
        opened.create(Experiment(command=["true"]))
    monkeypatch.setenv("_STRIPEWISE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"stripewise {command} {first[:5]}")
    monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == [first]


def test_a_terminal_breaks_sentences_between_words_and_a_pipe_does_not(monkeypatch):
    path = "/a/path/" + "x" * 40
    for terminal, lines in ((True, ["  not kept: a pause", "    between runs of", f"    {path}"]), (False, None)):
        console = Console(file=io.StringIO(), width=22, force_terminal=terminal, color_system=None, soft_wrap=True)
        output.prose(f"  not kept: a pause between runs of {path}", on=console)
        assert console.file.getvalue().splitlines() == (lines or [f"  not kept: a pause between runs of {path}"])


def test_progress_on_a_terminal_stays_on_one_line(monkeypatch):
    notes = output._Plain(file=io.StringIO(), width=80, force_terminal=True, color_system=None, soft_wrap=True)
    monkeypatch.setattr(output, "notes", notes)
    output.overwritten("10 of 20 runs, about 9.0 s left")
    # Blanks cover what a longer line left.
    output.overwritten("20 of 20 runs                  ")
    assert notes.file.getvalue() == "10 of 20 runs, about 9.0 s left\r20 of 20 runs                  \r"


def test_tables_fold_what_does_not_fit_and_lose_nothing():
    console = Console(file=io.StringIO(), width=20)
    table = output.grid("setting", "value")
    table.add_row("romio_cb_write=disable", "ind_wr_buffer_size=1")
    console.print(table)
    assert "…" not in console.file.getvalue()


@given(st.text(r"\[]aA/b= #", max_size=9).map(lambda text: f"{text}."))
def test_texts_within_markup_stay_what_they_are(text):
    assert render(output.escape(text), emoji=False).plain == text


def test_patterns_are_printed_as_they_were_given(capsys):
    output.remark(r"regex:\[AU\] \(%\) \\")
    output.say(r"regex:\[AU\] [b]c\\")
    said = capsys.readouterr()
    assert (said.err, said.out) == ("regex:\\[AU\\] \\(%\\) \\\\\n", "regex:\\[AU\\] [b]c\\\\\n")


def test_no_line_of_a_table_ends_with_blanks(capsys):
    table = output.grid("name", "value")
    table.add_row("a", "a longer value")
    table.add_row("b", "")
    output.console.print(table)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [line.rstrip() for line in lines] == ["name  value", "a     a longer value", "b"]


def test_texts_do_not_steer_the_terminal(capsys):
    output.say("a\x1b]0;x\x1b\\b\x9b31m\u202ec\nd")
    table = output.grid("name")
    table.add_row("\x1b[2Je")
    output.console.print(table)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["a\\x1b]0;x\\x1b\\b\\x9b31m\\u202ec", "d", "name", "\\x1b"]


def test_labels_of_a_wide_table_are_lines_of_their_own(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(output, "console", Console(file=out, width=60, force_terminal=True, color_system=None))
    row = ("romio_cb_write=disable ind_wr_buffer_size=64K cb_nodes=4", ("4 of 8", "95.3%"))
    output.print_rows("good under load", ("workloads", "median"), [row])
    label, heading, first, cells = (line.rstrip() for line in out.getvalue().splitlines())
    assert (label, first) == ("good under load", row[0])
    assert (heading, cells) == ("  workloads  median", "     4 of 8   95.3%")
    out.truncate(out.seek(0))
    output.print_rows("value", ("median",), [("cb_nodes=4", ("1.34",))])
    assert [line.rstrip() for line in out.getvalue().splitlines()] == ["value       median", "cb_nodes=4    1.34"]


@pytest.mark.parametrize(
    ("size", "written"), [(0, "0"), (1000, "1000"), (262144, "256K"), (3 << 20, "3M"), (1536, "1536")]
)
def test_a_size_is_one_word_that_is_read_again(size, written):
    assert short_size(size) == written and parse_size(written) == size
