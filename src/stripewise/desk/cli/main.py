"""Entry point: a program that only gets a plan starts without what other commands load."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from stripewise.desk.cli.plain import Notes


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate our own arguments from the user's command, which follows the first ``--``."""
    words = list(arguments)
    if "--" in words:
        place = words.index("--")
        return words[:place], words[place + 1 :]
    return words, []


def _hear_of_long_work() -> None:
    """Show on standard error what the stages below say of work that keeps a user waiting, as a first build."""
    log = logging.getLogger("stripewise")
    if not any(isinstance(handler, Notes) for handler in log.handlers):
        log.addHandler(Notes())
        log.setLevel(logging.INFO)


def _fill_closed_streams() -> None:
    """Open nothing in place of closed standard streams: a store's file would else get their numbers.

    A program that is started in this process's place finds them closed.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  until the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  until the end


def _carry_out(own: Sequence[str], command: Sequence[str]) -> int:
    if own[:1] == ["run"]:
        from stripewise.desk.cli.plan_run import PlanRun  # noqa: PLC0415  other commands need less, or more

        if (plain := PlanRun.read(own, command)) is not None:
            return plain.start()
    from stripewise.desk.cli.commands import carry_out  # noqa: PLC0415  slow to load

    return carry_out(own, command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code: 0 done, 1 failed, 2 wrong use, 3 findings, 130 interrupted."""
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names may have letters that the terminal's encoding does not: shown as escapes they end no command.
            stream.reconfigure(errors="backslashreplace")
    own, command = split_command(sys.argv[1:] if arguments is None else arguments)
    if {"-q", "--quiet"}.isdisjoint(own):  # only the program's output is printed then
        _hear_of_long_work()
    try:
        code = _carry_out(own, command)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output (head, less) is gone: there is nobody to tell, and Python must not try at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (Exception, KeyboardInterrupt) as error:
        from stripewise.desk.cli.commands import explain  # noqa: PLC0415  slow to load

        code = explain(error, own, command)
    if arguments is None:
        sys.exit(code)
    return code
