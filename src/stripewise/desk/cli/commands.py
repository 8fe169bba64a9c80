"""The commands, and how errors end a command."""

from __future__ import annotations

import errno
import importlib
import os
import shlex
import shutil
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from stripewise import __version__
from stripewise.desk.cli.help import Commands, HelpfulGroup
from stripewise.desk.cli.output import (
    UsageProblem,
    complete_commands,
    forget_options,
    print_error,
    print_usage,
    remark,
)
from stripewise.desk.desk import Interrupted
from stripewise.errors import StripewiseError, UserError, long_name

COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "stripewise": {
        "tune": (
            "desk.cli.tune:tune",
            "Find better settings for a program, prove the gain, apply them.",
        ),
        "run": (
            "desk.cli.apply:run",
            "Run a program with the settings found, as in: stripewise run ID -- mpiexec -n 4 ./my_app.",
        ),
        "show": ("desk.cli.manage:show", "Show the result of an experiment, or of several side by side."),
        "list": ("desk.cli.manage:list_experiments", "List experiments."),
        "resume": ("desk.cli.tune:resume", "Continue an interrupted experiment, as if it had never stopped."),
        "export": (
            "desk.cli.apply:export_plan",
            "Write the settings found for another tool, with their undo and what it cannot express.",
        ),
        "diagnose": (
            "desk.cli.diagnose:run_diagnose",
            "Say why I/O is slow, and how to fix it, from logs of past runs.",
        ),
        "knobs": (
            "desk.cli.knobs:knobs",
            "Find settings in a job script that do nothing, and say why; or say what one setting does.",
        ),
        "prescribe": (
            "desk.cli.prescribe:prescribe",
            "Choose settings without a run, from a model or by a rule of thumb.",
        ),
        "serve": ("desk.server.commands:serve", "Serve experiments to many: REST, live events and pages."),
        "demo": (
            "desk.cli.demo:demo",
            "Tune the bundled benchmark on this machine in under three minutes, and write demo-report.html.",
        ),
        "doctor": (
            "desk.cli.doctor:doctor",
            "Check what this machine has for tuning, what is missing, and how to get it.",
        ),
    },
    "experiment": {
        "stop": ("desk.cli.manage:stop", "Ask a running experiment to stop; it can be resumed."),
        "annotate": ("desk.cli.manage:annotate", "Give an experiment tags and a remark, to find it again."),
        "delete": ("desk.cli.manage:delete", "Delete an experiment with all its runs."),
        "bundle": (
            "desk.cli.knobs:bundle",
            "Write a ZIP file of an experiment for the helpdesk, with names of people and hosts and secrets removed.",
        ),
    },
    "site": {
        "profile": ("desk.cli.campaigns:profile", "Measure a site: run a campaign of benchmarks and write its table."),
        "train": ("desk.cli.models:train", "Train a performance model on a table."),
        "validate": (
            "desk.cli.models:validate",
            "Say how well a model predicts and prescribes for what it has not seen.",
        ),
        "evaluate": (
            "desk.cli.campaigns:evaluate",
            "Compare default test cases with their prescribed settings, measured, beside an oracle.",
        ),
        "summarize": (
            "desk.cli.tables:summarize",
            "Say what a site's measurements show: clusters, settings that stay good under load, the best defaults.",
        ),
        "table": ("", "Measured tables."),
        "calibrate": (
            "desk.cli.calibrate:run_calibrate",
            "Learn how long reads and writes take here from memory, cache and storage, to derive causes from "
            "time alone.",
        ),
        "causes": (
            "desk.cli.causes:run_causes",
            "Say who answered reads and writes (memory, cache or storage) from the time alone that each of them took.",
        ),
        "filters": (
            "desk.cli.filters:filters",
            "Say which filter of HDF5 pays for a dataset, from a sample of its data and the bandwidth of the storage.",
        ),
        "native": ("", "The native parts: the preloaded runtime and the benchmark program."),
    },
    "lab": {
        "simulate": ("", "The simulated cluster: run workloads on it, or calibrate it."),
        "race": (
            "desk.cli.race:run_race",
            "Race samplers over measured tables, to see how few runs each of them needs.",
        ),
        "record": (
            "desk.cli.records:record",
            "Record what a program does to its files, as in: stripewise lab record -- mpiexec -n 4 ./my_app.",
        ),
        "replay": (
            "desk.cli.records:replay",
            "Carry out what a program did to its files, by its record, and say how faithful that is.",
        ),
    },
    "service": {
        "worker": (
            "desk.server.commands:worker",
            "Carry out the experiments and campaigns of the service, on any number of hosts.",
        ),
        "token": ("", "The tokens with which people and programs use the service."),
        "mcp": (
            "desk.server.assistant:serve_assistant",
            "Let an assistant tune, diagnose and prescribe, by the Model Context Protocol.",
        ),
    },
    "native": {
        "build": (
            "desk.cli.doctor:build_native",
            "Build the runtime and the benchmark program for an MPI; tune does so by itself when it must.",
        ),
    },
    "simulate": {
        "run": (
            "desk.cli.simulate:run_simulation",
            "Simulate a workload or a recorded program on a cluster, without noise; lists of values make a sweep.",
        ),
        "fit": (
            "desk.cli.simulate:fit_site",
            "Calibrate a simulated site to your own campaign, and say how well it predicts rows that it has not seen.",
        ),
    },
    "table": {
        "import": (
            "desk.cli.tables:import_table",
            "Make a table of measurements that exist: IOR, Darshan, reports, or any CSV with a schema.",
        ),
        "observe": (
            "desk.cli.tables:observe_table",
            "Put what a profile shows of each program in place of its name, so that a model answers for other "
            "programs.",
        ),
    },
    "token": {
        "create": ("desk.server.commands:create_token", "Make a token; its secret is shown once and not stored."),
        "list": ("desk.server.commands:list_tokens", "List tokens, without their secrets."),
        "revoke": ("desk.server.commands:revoke_token", "End a token and its sessions."),
    },
}
"""Commands of the program and of its groups, in the order of need: name to ``module:function`` and summary.

A group within a group has no function. The summary is the first sentence of the function's docstring.
"""
GROUPS: Mapping[str, str] = {
    "experiment": "Stop, annotate, delete or hand over an experiment.",
    "site": "Measure a site, learn models from it, and judge them.",
    "lab": "Simulated clusters, races of samplers, and records of programs with their replay.",
    "service": "What runs beside stripewise serve: workers, tokens, assistants.",
}
"""Groups and what they hold."""


class LazyGroup(HelpfulGroup):
    """A group of commands that knows no more of them than their names and summaries."""

    @property
    def modules(self) -> Mapping[str, tuple[str, str]]:
        """Name of each command to its module and its summary."""
        return COMMANDS[str(self.name)]

    @property
    def commands(self) -> Any:
        """All commands and groups, loaded."""
        return {name: self.load(name) for name in self.list_commands(None)}

    @commands.setter
    def commands(self, given: Any) -> None:
        self._loaded = dict(given)

    def load(self, name: str) -> Any:
        """Give a command, with its module loaded."""
        place = self.modules[name][0] if name in self.modules else ""
        if name not in self._loaded and place:
            module, _, function = place.partition(":")
            found = getattr(importlib.import_module(f"stripewise.{module}"), function)
            made = Commands()
            made.command(name, cls=getattr(found, "shown_as", None))(found)
            self._loaded |= typer.main.get_group(made).commands
        return self._loaded[name] if place else self.get_command(None, name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Give the names, for the help."""
        return [*self.modules, *(GROUPS if self.name == "stripewise" else ())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Give a command as far as it is known: loaded, or its name and summary for the help."""
        if cmd_name in self._loaded:
            return self._loaded[cmd_name]
        if cmd_name not in self.list_commands(ctx):
            return None
        place, summary = self.modules.get(cmd_name, ("", ""))
        if place:
            return TyperCommand(cmd_name, callback=None, help=summary)
        panel = None if summary else "Groups of commands"
        made = LazyGroup(name=cmd_name, help=summary or GROUPS[cmd_name], no_args_is_help=True, rich_help_panel=panel)
        return self._loaded.setdefault(cmd_name, made)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is called, and load it."""
        if args and args[0] in self.modules:
            self.load(args[0])
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="stripewise",
    cls=LazyGroup,
    help="Find, prove and apply better settings for the parallel I/O of MPI programs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
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


@cache
def _program() -> Any:
    return typer.main.get_command(app)


def _refuse_without_group(own: Sequence[str]) -> None:
    """Name the group where a command is called as if it had none, as in version 0.1."""
    for group in GROUPS:
        if own and own[0] in COMMANDS[group]:
            raise UserError(f"there is no command '{own[0]}'", f"write 'stripewise {group} {own[0]}'")


def _find_command(own: Sequence[str]) -> str:
    """Name the command that some words call, as far as they name one: Typer does not always say where it failed."""
    found: Any = _program()
    path = ["stripewise"]
    for word in own:
        found = found.get_command(None, word) if isinstance(found, LazyGroup) else None
        if found is None:
            break
        path.append(word)
    return " ".join(path)


def _find_forgotten_dashes(own: Sequence[str], command: Sequence[str]) -> str:
    """Say where the two dashes before the user's program are missing; empty if nothing looks like it."""
    if command or not own or own[0] not in ("tune", "run"):
        return ""
    for place, word in enumerate(own[1:], 1):
        program = not word.startswith("-") and not word.endswith(".toml") and shutil.which(word)
        if program and not own[place - 1].startswith("--"):
            line = shlex.join(["stripewise", *own[:place]]) + " -- " + shlex.join(own[place:])
            return f"the program follows two dashes: {line}"
    return ""


def carry_out(own: Sequence[str], command: Sequence[str]) -> int:
    """Carry out a command of Stripewise, ``own``, on a program of the user, ``command``, and give its exit code."""
    forget_options()
    _refuse_without_group(own)
    outcome = _program().main(args=[*own], prog_name="stripewise", standalone_mode=False, obj={"command": [*command]})
    return outcome if isinstance(outcome, int) else 0


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OUT_OF_REACH = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT)


def explain(error: Exception | KeyboardInterrupt, own: Sequence[str], command: Sequence[str]) -> int:
    """Say why a command has failed, and give its exit code."""
    match error:
        case Interrupted():
            remark(complete_commands(str(error)))
            return error.exit_code
        case StripewiseError():
            error.naming_nothing()
            forgotten = _find_forgotten_dashes(own, command) if isinstance(error, UserError) else ""
            print_error(f"{error.what}; {forgotten}" if forgotten else error)
            return error.exit_code
        case typer.Abort():
            return 130
        case UsageProblem():
            print_usage(error, _find_command(own), _find_forgotten_dashes(own, command))
            return 2
        case KeyboardInterrupt():
            print_error("interrupted; nothing is lost: stripewise list shows what can be resumed")
            return 130
        case OSError() if error.errno in _NO_ROOM:
            print_error(f"cannot write {error.filename or 'the output or a file'}: {error.strerror}; make room")
            return 1
        case OSError(filename=str()) if error.errno in _OUT_OF_REACH:
            print_error(f"cannot use {error.filename}: {error.strerror}; check who may, and that its file system works")
            return UserError.exit_code
        case RuntimeError() if "home directory" in str(error):
            print_error("the home folder of a user is not known here; name a whole path, or set HOME")
            return UserError.exit_code
    explained = long_name(error)
    if os.environ.get("STRIPEWISE_DEBUG"):
        raise error
    place = traceback.extract_tb(error.__traceback__)[-1]
    print_error(
        explained
        or f"unexpected {type(error).__name__}: {' '.join(str(error).split())} ({Path(place.filename).name}:"
        f"{place.lineno}); this is a fault of stripewise: report it with what STRIPEWISE_DEBUG=1 shows"
    )
    return explained.exit_code if explained else 1
