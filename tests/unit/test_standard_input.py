"""The standard input of a program to be tuned: what is read, what is refused, and that every launch gets the same."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from stripewise.desk.cli import main, standard_input
from stripewise.desk.cli.standard_input import read_piped, refuse_input, refuse_pipes, remark_on_input, with_input
from stripewise.engine.definition import check
from stripewise.errors import UserError
from stripewise.requests.experiment import LARGEST_INPUT, Experiment
from stripewise.runners.allow_list import check_application
from stripewise.runners.batch.script import Work, job_script
from stripewise.runners.local.scratch import kept_input
from stripewise.runners.setup_lines import write_script
from stripewise.runners.within import launched
from tests.fixtures.shell_campaign import arguments

DECK = "units metal\nrun 10\n"


def experiment(**fields: object) -> Experiment:
    return Experiment.model_validate({"command": ["./app"], **fields})


@pytest.fixture
def from_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Standard input is a file, of which a shell has read the first line."""
    path = tmp_path / "deck"
    path.write_text("read before\n" + DECK)
    with path.open() as stream:
        os.lseek(stream.fileno(), len("read before\n"), os.SEEK_SET)
        monkeypatch.setattr("sys.stdin", stream)
        yield path


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Standard input is a pipe; its other end."""
    read, write = os.pipe()
    monkeypatch.setattr(standard_input, "_SAID_AFTER", 0.05)
    monkeypatch.setattr(standard_input, "_SILENT", 0.2)
    monkeypatch.setattr(standard_input, "_STALLED", 0.2)
    with os.fdopen(read) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        yield write


def test_a_file_is_read_from_where_the_shell_left_it_and_stays_there(from_file: Path) -> None:
    for _ in range(2):
        found = with_input(experiment()).stdin
        assert found is not None and found.text == DECK and found.data == DECK.encode()
    assert "19 bytes" in found.describe()


def test_a_pipe_is_read_to_its_end_however_slow(pipe: int, capfd: pytest.CaptureFixture[str]) -> None:
    def write() -> None:
        for line in DECK.splitlines(keepends=True):
            time.sleep(0.12)
            os.write(pipe, line.encode())
        os.close(pipe)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_piped() == DECK.encode()
    writer.join()
    assert "still open" in capfd.readouterr().err


def test_a_pipe_that_sends_nothing_is_no_input_and_one_without_end_is_refused(
    pipe: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert read_piped() == b""
    said = " ".join(capfd.readouterr().err.split())
    assert "reading the program's input" in said and "the program gets no input" in said and "< FILE" in said
    os.write(pipe, b"half")
    with pytest.raises(UserError, match=r"sent 4 bytes, then nothing .* was not closed"):
        read_piped()
    os.close(pipe)


def test_terminals_nothing_and_closed_streams_give_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, terminal = os.openpty()
    for descriptor in (terminal, os.open(os.devnull, os.O_RDONLY)):
        with os.fdopen(descriptor) as stream:
            monkeypatch.setattr("sys.stdin", stream)
            assert read_piped() == b""
            assert with_input(experiment()).stdin is None
        assert read_piped() == b""  # closed by now
    os.close(leader)
    monkeypatch.setattr("sys.stdin", None)
    assert read_piped() == b""


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"x" * (LARGEST_INPUT + 1), "more than 512 KiB"), (b"a\xff", "byte 1 is not UTF-8"), (b"a\0", "zero")],
)
def test_what_cannot_be_kept_is_refused_with_what_to_write(
    data: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deck"
    path.write_bytes(data)
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(UserError, match=said) as refused:
            with_input(experiment())
        assert "bash -c './app < FILE'" in refused.value.fix
        with pytest.raises(UserError, match="a campaign gives its program no standard input"):
            refuse_input("a campaign")


def test_an_endless_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/zero") as stream:  # noqa: PTH123
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(UserError, match="more than 512 KiB"):
            with_input(experiment())


def test_an_experiment_may_name_the_file_and_keeps_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    path = tmp_path / "deck"
    path.write_text(DECK)
    kept = with_input(experiment(stdin=str(path)))
    path.write_text("changed later")
    assert with_input(kept) == kept and kept.stdin is not None and kept.stdin.text == DECK
    check(kept)
    with pytest.raises(UserError, match="stdin names the file"):
        check(experiment(stdin=str(path)))
    with pytest.raises(UserError, match="cannot read"):
        with_input(experiment(stdin=str(tmp_path / "none")))
    with pytest.raises(UserError, match="starts no program"):
        check(kept.model_copy(update={"runner": "sim:small", "command": []}))


def test_what_is_piped_in_wins_over_the_file(from_file: Path) -> None:
    found = with_input(experiment(stdin="elsewhere")).stdin
    assert found is not None and found.text == DECK and not found.file


def test_input_of_an_experiment_that_has_its_own_is_remarked_on_and_left(
    from_file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    remark_on_input("51e1")
    assert "the program gets that of experiment 51e1" in " ".join(capfd.readouterr().err.split())
    assert read_piped() == DECK.encode()
    ends = os.pipe()
    os.write(ends[1], b"deck")
    for given, remarked in (("/dev/null", False), (ends[0], True)):
        with os.fdopen(os.open(given, os.O_RDONLY) if isinstance(given, str) else given) as stream:
            monkeypatch.setattr("sys.stdin", stream)
            remark_on_input("51e1")
            assert ("is not read" in capfd.readouterr().err) == remarked
    os.close(ends[1])
    for stream in (None, SimpleNamespace()):
        monkeypatch.setattr("sys.stdin", stream)
        remark_on_input("51e1")
    assert capfd.readouterr().err == ""


def test_the_kept_input_is_written_again_where_it_is_lost(tmp_path: Path) -> None:
    kept = experiment(stdin={"text": DECK})
    path = kept_input(kept, tmp_path / "runs")
    assert path is not None and path.read_text() == DECK
    path.write_text("damaged")
    kept_input(kept, tmp_path / "runs")
    assert path.read_text() == DECK
    assert kept_input(experiment(), tmp_path) is None


def test_setup_lines_leave_the_input_to_the_program(tmp_path: Path) -> None:
    path = tmp_path / "the deck"
    path.write_text(DECK)
    text = write_script(["cat > setup"], {}, ["sh", "-c", "cat > got"], 1, path)
    subprocess.run(["bash", "-c", text], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    assert (tmp_path / "got").read_text() == DECK and (tmp_path / "setup").read_text() == ""


@pytest.mark.parametrize("seconds", [None, 20.0])
def test_a_job_gives_its_program_the_input_and_its_hooks_none(seconds: float | None, tmp_path: Path) -> None:
    path = tmp_path / "the deck"
    path.write_text(DECK)
    command = ("sh", "-c", "cat > got")
    work = Work(tmp_path, tmp_path, command, before=("cat > hook",), stdin=path, seconds=seconds)
    subprocess.run(["bash", "-c", job_script(work)], stdin=subprocess.DEVNULL, check=True)
    assert (tmp_path / "got").read_text() == DECK and (tmp_path / "hook").read_text() == ""


def test_the_one_launch_within_which_settings_are_tried_gets_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = SimpleNamespace(words=["sh", "-c", "cat > got"])
    monkeypatch.setattr(launched, "prepare", lambda *given, **named: ready)
    found = SimpleNamespace(target=None, library_for=lambda target: None, environment=dict(os.environ), watched=())
    begun = launched.Launched.started(
        tmp_path / "launch",
        experiment(stdin={"text": DECK}, runner="within"),
        found,
        tmp_path,  # type: ignore[arg-type]
    )
    assert begun.process is not None and begun.process.wait(20) == 0
    assert (tmp_path / "got").read_text() == DECK


def test_input_of_a_campaigns_command_is_refused(
    from_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path)) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "a campaign gives its program no standard input" in said and "bash -c './app < FILE'" in said
    assert not (tmp_path / "journal").exists()


def test_a_list_of_applications_admits_no_input_for_programs_that_start_others() -> None:
    patterns, place = ["/bin/bash", "/bin/cat"], Path("/")
    for command in (["/bin/bash"], ["/bin/cat"]):
        check_application(patterns, command, Path(command[0]), place, os.environ)
    check_application(patterns, ["/bin/cat"], Path("/bin/cat"), place, os.environ, reads=True)
    with pytest.raises(UserError, match="does not allow standard input for /bin/bash"):
        check_application(patterns, ["/bin/bash"], Path("/bin/bash"), place, os.environ, reads=True)
    check_application(None, ["/bin/bash"], Path("/bin/bash"), place, os.environ, reads=True)


def test_a_pipe_of_the_shell_is_no_argument_of_a_command_that_runs_often(tmp_path: Path) -> None:
    pipes, file = os.pipe(), os.open(tmp_path / "deck", os.O_CREAT)
    refuse_pipes(["./app", "/dev/fd/0", f"/dev/fd/{file}", "/dev/fd/999", str(pipes[0])])
    for word in (f"/dev/fd/{pipes[0]}", f"--in=/proc/self/fd/{pipes[0]}"):
        with pytest.raises(UserError, match="is a pipe of your shell"):
            refuse_pipes(["./app", word])
    for descriptor in (*pipes, file):
        os.close(descriptor)
