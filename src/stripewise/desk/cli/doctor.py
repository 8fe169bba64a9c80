"""``stripewise doctor``."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from stripewise.desk.cli.help import Commands
from stripewise.desk.cli.options import JsonOption, StoreOption
from stripewise.desk.cli.output import console, print_json
from stripewise.errors import StripewiseError, UserError
from stripewise.runners.program.checkup import Check, checkup
from stripewise.store.opening import open_store

_NEXT = "stripewise tune -- mpiexec -n 4 ./my_app"
_MARKS = {"ok": "[green]ok[/]", "missing": "[red]missing[/]", "note": "[yellow]-[/]"}


def register(app: Commands) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    path: Annotated[
        Path, typer.Argument(help="Where your program writes: its file system and layout are shown.")
    ] = Path(),
    store: StoreOption = None,
    json_output: JsonOption = False,
) -> None:
    """Check what this machine has for tuning, what is missing, and how to get it."""
    if not path.exists():
        raise UserError(f"{path} does not exist", "name a folder in which your program writes")
    findings = [*checkup(path, os.environ), _store(store)]
    missing = [finding for finding in findings if finding.status == "missing"]
    if json_output:
        print_json({"ready": not missing, "findings": [asdict(finding) for finding in findings]})
    else:
        table = Table.grid(padding=(0, 2))
        for _ in range(3):
            table.add_column(overflow="fold")
        for finding in findings:
            table.add_row(_MARKS[finding.status], finding.part, escape(finding.found))
            if finding.fix:
                table.add_row("", "", f"[dim]{escape(finding.fix)}[/]")
        console.print(table)
        console.print(f"{len(missing)} missing: see above" if missing else f"ready to tune: {_NEXT}")
    if missing:
        raise typer.Exit(1)


def _store(url: str | None) -> Check:
    try:
        opened = open_store(url)
    except StripewiseError as error:
        return Check("store", "missing", error.what, error.fix)
    with opened:
        count = opened.count()
        return Check("store", "ok", f"{opened.url}, {count} experiment{'' if count == 1 else 's'}")
