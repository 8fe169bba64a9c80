"""Options that several commands share."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from stripewise.desk.cli.output import remember_option
from stripewise.errors import StripewiseError, UserError
from stripewise.ownership import is_special

_COMPLETED = 200

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="STRIPEWISE_STORE",
        help="sqlite:///FILE, postgresql://... or journal:FOLDER.",
        metavar="URL",
        callback=remember_option,
    ),
]


def identifiers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete an identifier in the shell: those of the newest experiments that begin as it does."""
    from stripewise.desk.cli.terminal import desk_of  # noqa: PLC0415  opens stores, which few commands do

    store, server = (
        ctx.params.get(name) or os.environ.get(variable)
        for name, variable in (("store", "STRIPEWISE_STORE"), ("server", "STRIPEWISE_SERVER"))
    )
    try:
        with desk_of(store, server or None).experiments() as opened:
            found = opened.records(limit=_COMPLETED, on_unreadable=lambda error: None)
    except StripewiseError:
        # The shell shows no errors; the command itself says what is wrong.
        return []
    return [record.id for record in found if record.id.startswith(incomplete)]


def identifiers_and_files(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete an identifier or the path of a plan file."""
    return [*identifiers(ctx, incomplete), *glob.glob(f"{glob.escape(incomplete)}*")]  # noqa: PTH207  as it was typed


IdArgument = Annotated[
    str,
    typer.Argument(
        help="The experiment; the first characters of its identifier are enough.",
        metavar="ID",
        autocompletion=identifiers,
    ),
]
TableArgument = Annotated[str, typer.Argument(help="Measured table (NAME.csv with NAME.toml).", metavar="TABLE")]
TableStackOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stack",
        help="Your stack file that says how columns are set; tables of campaigns hold theirs already. Repeatable.",
        metavar="FILE",
    ),
]
RunnerOption = Annotated[
    str | None,
    typer.Option(
        help="local (default), batch (one job per run), steps (within a Slurm allocation), sim:NAME-or-FILE "
        "for a simulated cluster, or replay:TABLE for recorded measurements."
    ),
]
ReportOption = Annotated[Path | None, typer.Option(help="Write an HTML report.", metavar="FILE.html")]
DesignSeedOption = Annotated[int | None, typer.Option(help="Seed of the design and the order of runs.", min=0)]
KeptOption = Annotated[
    Path | None,
    typer.Option(help="Folder in which results are kept; the same command continues from it.", metavar="FOLDER"),
]
RetryOption = Annotated[bool, typer.Option("--retry", help="Repeat runs that failed.")]
YesOption = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Agree to the worst-case cost, however large, and to running what another user of the store wrote.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar="STRIPEWISE_SERVER",
        help="A service to use instead of a store: unix:PATH or https://HOST.",
        metavar="URL",
        callback=remember_option,
    ),
]


def pairs(option: str, given: Sequence[str] | None, example: str) -> dict[str, str]:
    """Read the ``NAME=VALUE`` words of an option; a word without a name or a value is refused."""
    found = {}
    for word in given or ():
        name, _, value = (part.strip() for part in word.partition("="))
        if not name or not value:
            raise UserError(f"{option} '{word}' is not NAME=VALUE", f"write {example} for instance")
        found[name] = value
    return found


def check_place(option: str, path: Path | None, *, replaced: bool = True) -> None:
    """Refuse, before any work is done, a file to be written that has no folder or is one, or cannot be replaced."""
    if path is None:
        return
    if not path.absolute().parent.is_dir():
        raise UserError(f"{option}: the folder {path.absolute().parent} does not exist", "create it first")
    if path.is_dir():
        raise UserError(f"{option}: {path} is a folder", "name a file in it")
    if replaced and is_special(path):
        raise UserError(f"{option}: {path} is not a regular file", "name a file that may be replaced")
