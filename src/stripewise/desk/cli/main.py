"""Entry point: the commands, and how errors end a command."""

from __future__ import annotations

import importlib
import io
import logging
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from stripewise import __version__
from stripewise.desk.cli import hints
from stripewise.desk.cli.output import Notes, UsageProblem, print_error, print_usage
from stripewise.errors import StripewiseError, UserError, long_name


class LazyGroup(TyperGroup):
    """A group of commands that knows no more of them than their names and summaries.

    Each command's module has ``register(app)``, which adds it to an
    application under the same name.
    """

    modules: ClassVar[dict[str, tuple[str, str]]] = {
        "tune": ("desk.cli.tune", "Find better settings for a program, prove the gain, and say how to apply them."),
        "resume": ("desk.cli.tune", "Continue an interrupted experiment, as if it had never stopped."),
        "list": ("desk.cli.manage", "List experiments."),
        "show": ("desk.cli.manage", "Show the result of an experiment, or of several side by side."),
        "annotate": ("desk.cli.manage", "Give an experiment tags and a remark, to find it again."),
        "stop": ("desk.cli.manage", "Ask a running experiment to stop; it can be resumed."),
        "delete": ("desk.cli.manage", "Delete an experiment with all its runs."),
        "run": (
            "desk.cli.apply",
            "Run a program with the settings found, as in: stripewise run ID -- mpiexec -n 4 ./my_app.",
        ),
        "record": (
            "desk.cli.record",
            "Record what a program does in MPI-IO and HDF5, as in: stripewise record -- mpiexec -n 4 ./my_app.",
        ),
        "replay": (
            "desk.cli.replay",
            "Carry out what a program did in MPI-IO, by its record, and say how faithful that is.",
        ),
        "export": (
            "desk.cli.apply",
            "Write the settings found for another tool, with their undo and what it cannot express.",
        ),
        "race": ("desk.cli.race", "Race samplers over measured tables, to see how few runs each of them needs."),
        "profile": ("desk.cli.profile", "Measure a site: run a campaign of benchmarks and write its table."),
        "prescribe": (
            "desk.cli.prescribe",
            "Choose settings without a run, from a model, from other systems or by a rule of thumb.",
        ),
        "filters": (
            "desk.cli.filters",
            "Say which filter of HDF5 pays for a dataset, from a sample of its data and the bandwidth of the storage.",
        ),
        "calibrate": (
            "desk.cli.calibrate",
            "Learn how long reads and writes take here from memory, cache and storage, to derive causes from "
            "time alone.",
        ),
        "evaluate": (
            "desk.cli.evaluate",
            "Compare default test cases with their prescribed settings, measured, beside an oracle.",
        ),
        "diagnose": ("desk.cli.diagnose", "Say why I/O is slow, and how to fix it, from logs of past runs."),
        "knobs": (
            "desk.cli.knobs",
            "Find settings in a job script that do nothing, and say why; or say what one setting does.",
        ),
        "bundle": (
            "desk.cli.knobs",
            "Write a ZIP file of an experiment for the helpdesk, with names of people and hosts and secrets removed.",
        ),
        "simulate": ("desk.cli.simulate", "The simulated cluster: run workloads on it, or calibrate it."),
        "train": ("desk.cli.train", "Train a performance model on a table."),
        "validate": ("desk.cli.validate", "Say how well a model predicts and prescribes for what it has not seen."),
        "summarize": (
            "desk.cli.summarize",
            "Say what a site's measurements show: clusters, settings that stay good under load, the best defaults.",
        ),
        "table": ("desk.cli.table", "Measured tables."),
        "serve": ("desk.server.commands", "Serve experiments to many: REST, live events and pages."),
        "worker": (
            "desk.server.commands",
            "Carry out the experiments and campaigns of the service, on any number of hosts.",
        ),
        "mcp": (
            "desk.server.assistant",
            "Let an assistant tune, diagnose and prescribe, by the Model Context Protocol.",
        ),
        "token": ("desk.server.commands", "The tokens with which people and programs use the service."),
        "demo": (
            "desk.cli.demo",
            "Tune the bundled benchmark on this machine in under three minutes, and write demo-report.html.",
        ),
        "doctor": ("desk.cli.doctor", "Check what this machine has for tuning, what is missing, and how to get it."),
        "native": ("desk.cli.native", "The native parts: the preloaded runtime and the benchmark program."),
    }
    """Name of the command to its module and its summary, which is the first sentence of its help."""

    @property
    def commands(self) -> Any:
        """All commands, loaded."""
        return {name: self.load(name) for name in self.modules}

    @commands.setter
    def commands(self, given: Any) -> None:
        self._loaded = dict(given)

    def load(self, name: str) -> Any:
        """Give a command, with its module loaded."""
        if name not in self._loaded:
            app = typer.Typer()
            importlib.import_module(f"stripewise.{self.modules[name][0]}").register(app)
            loaded = typer.main.get_group(app).commands
            for command in loaded.values():
                _plain_help(command)
            self._loaded |= loaded
        return self._loaded[name]

    def list_commands(self, ctx: Any) -> list[str]:
        """Give the names, for the help."""
        return list(self.modules)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Give a command as far as it is known: loaded, or its name and summary for the help."""
        if cmd_name in self._loaded:
            return self._loaded[cmd_name]
        if cmd_name not in self.modules:
            return None
        return TyperCommand(cmd_name, callback=None, help=self.modules[cmd_name][1])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is called, and load it."""
        if args and args[0] in self.modules:
            self.load(args[0])
        return super().resolve_command(ctx, args)


def _plain_help(command: Any) -> None:
    """Let help texts print as written, whatever the version of Typer.

    Some versions break the lines of later paragraphs where the source does, and later ones read what stands in brackets
    as markup.
    """
    if command.help:
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in command.help.split("\n\n"))
    marked = getattr(command, "rich_markup_mode", None) == "rich"
    for parameter in command.params:
        if marked and getattr(parameter, "help", None):
            parameter.help = escape(parameter.help)
    for inner in getattr(command, "commands", {}).values():
        _plain_help(inner)


app = typer.Typer(
    name="stripewise",
    cls=LazyGroup,
    help="Find, prove and apply better settings for the parallel I/O of MPI programs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stripewise {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Find, prove and apply better settings for the parallel I/O of MPI programs."""


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate our own arguments from the user's command, which follows the first ``--``."""
    words = list(arguments)
    if "--" in words:
        place = words.index("--")
        return words[:place], words[place + 1 :]
    return words, []


def _forgotten(own: Sequence[str], command: Sequence[str]) -> str:
    """Say where the two dashes before the user's program are missing; empty if nothing looks like it."""
    if command or not own or own[0] not in ("tune", "run"):
        return ""
    for place, word in enumerate(own[1:], 1):
        program = not word.startswith("-") and not word.endswith(".toml") and shutil.which(word)
        if program and not own[place - 1].startswith("--"):
            line = shlex.join(["stripewise", *own[:place]]) + " -- " + shlex.join(own[place:])
            return f"the program follows two dashes: {line}"
    return ""


def _hear_of_long_work() -> None:
    """Show on standard error what the stages below say of work that keeps a user waiting, as a first build."""
    log = logging.getLogger("stripewise")
    if not any(isinstance(handler, Notes) for handler in log.handlers):
        log.addHandler(Notes())
        log.setLevel(logging.INFO)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code: 0 done, 1 failed, 2 wrong use, 3 findings, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names may have letters that the terminal's encoding does not: shown as escapes they end no command.
            stream.reconfigure(errors="backslashreplace")
    _hear_of_long_work()
    hints.forget()
    own, command = split_command(sys.argv[1:] if arguments is None else arguments)
    try:
        outcome = typer.main.get_command(app).main(
            args=own, prog_name="stripewise", standalone_mode=False, obj={"command": command}
        )
        code = outcome if isinstance(outcome, int) else 0
    except StripewiseError as error:
        forgotten = _forgotten(own, command) if isinstance(error, UserError) else ""
        print_error(f"{error.what}; {forgotten}" if forgotten else error)
        code = error.exit_code
    except typer.Abort:
        code = 130
    except UsageProblem as error:
        print_usage(error, _forgotten(own, command))
        code = 2
    except KeyboardInterrupt:
        print_error("interrupted; nothing is lost: stripewise list shows what can be resumed")
        code = 130
    except BrokenPipeError:
        # The reader of our output (head, less) is gone: there is nobody to tell, and Python must not try at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:
        explained = long_name(error)
        if os.environ.get("STRIPEWISE_DEBUG"):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        print_error(
            explained
            or f"unexpected {type(error).__name__}: {' '.join(str(error).split())} ({Path(place.filename).name}:"
            f"{place.lineno}); this is a fault of stripewise: report it with what STRIPEWISE_DEBUG=1 shows"
        )
        code = explained.exit_code if explained else 1
    if arguments is None:
        sys.exit(code)
    return code
