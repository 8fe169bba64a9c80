"""``stripewise site table import`` and ``table observe``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from stripewise.desk.cli.help import Commands
from stripewise.desk.cli.options import JsonOption, pairs
from stripewise.desk.cli.output import notes, overwritten, print_json, remark, say
from stripewise.documents import explain_validation, read_document, toml_document
from stripewise.engine.campaign.importing import read_sources, table_from, with_names
from stripewise.engine.campaign.observing import with_profiles
from stripewise.engine.campaign.outcome import save
from stripewise.errors import UserError
from stripewise.models.table import Schema, Table, make_table, read_table


def register(app: Commands) -> None:
    """Add the commands."""
    group = Commands(help="Measured tables.")
    # A group of one command would become that command.
    group.callback()(_root)
    group.command("import")(import_table)
    group.command("observe")(observe_table)
    app.add_typer(group, name="table")


def _root() -> None:
    """Measured tables."""


def import_table(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="IOR output, Darshan logs, traces, reports, journals, folders of them, or CSV.", metavar="FILE"
        ),
    ],
    out: Annotated[Path, typer.Option(help="The table to write (NAME.csv and NAME.toml).", metavar="TABLE")],
    schema: Annotated[
        Path | None,
        typer.Option(help="What the columns of CSV files mean, as a table's TOML file.", metavar="FILE.toml"),
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(help="A column that can be tuned, in addition to layout and hints; repeatable.")
    ] = None,
    from_name: Annotated[
        str | None,
        typer.Option(help="Columns from the files' paths: a regular expression with named groups.", metavar="REGEX"),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", help="A column with the same value for all; repeatable.", metavar="NAME=VALUE"),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that read Darshan logs.", min=1)] = None,
    json_output: JsonOption = False,
) -> None:
    """Make a table of measurements that exist: IOR, Darshan, reports, or any CSV with a schema."""
    kinds, said, unreadable = {"CSV": len(files)}, list[str](), list[str]()
    if schema is not None:
        table = _with_schema(files, schema)
    else:
        table, kinds, said, unreadable = _observed(files, out, parameter or [], from_name, given or [], workers)
    path = save(table, out)
    if json_output:
        print_json(
            {
                "table": str(path),
                "rows": len(table),
                "files": kinds,
                "parameters": [column.name for column in table.schema.parameter],
                "context": [column.name for column in table.schema.context],
                "notes": said,
                "unreadable": unreadable,
            }
        )
        return
    for line in said:
        remark(f"note: {line}")
    if unreadable:
        remark(f"note: {len(unreadable)} files could not be read, the first: {unreadable[0]}")
    shown = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    say(f"{len(table):,} rows of {shown}: {path}")
    say(f"tunable   {', '.join(column.name for column in table.schema.parameter)}")
    say(f"workload  {', '.join(column.name for column in table.schema.context)}")


def observe_table(
    table: Annotated[str, typer.Argument(help="Measurements of several programs.", metavar="TABLE")],
    column: Annotated[str, typer.Option(help="The column that names the programs.", metavar="NAME")],
    profiles: Annotated[
        Path,
        typer.Option(
            "--from",
            help="A folder with a Darshan log or a report of each program: NAME.darshan or NAME.json.",
            metavar="FOLDER",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The table to write (NAME.csv and NAME.toml).", metavar="TABLE")],
    json_output: JsonOption = False,
) -> None:
    """Put what a profile shows of each program in place of its name, so that a model answers for other programs."""
    made, missing = with_profiles(read_table(table), column, profiles)
    path = save(made, out)
    columns = [entry.name for entry in made.schema.context]
    if json_output:
        print_json({"table": str(path), "rows": len(made), "context": columns, "missing": missing})
        return
    if missing:
        remark(f"note: not all profiles show {', '.join(missing)}: left out")
    say(f"{len(made):,} rows: {path}")
    say(f"workload  {', '.join(columns)}")


def _observed(
    files: list[Path], out: Path, parameters: list[str], from_name: str | None, given: list[str], workers: int | None
) -> tuple[Table, dict[str, int], list[str], list[str]]:
    def progress(done: int) -> None:
        if notes.is_terminal and done % 50 == 0:
            overwritten(f"{done:,} files read")

    constants = pairs("--set", given, "stripe_count=4")
    if wrong := [name for name in constants if not name.isidentifier()]:
        raise UserError(f"--set: '{wrong[0]}' cannot be a column's name", "write stripe_count=4 for instance")
    found = read_sources(files, workers=workers, on_file=progress)
    rows = with_names(found.rows, from_name, constants)
    listed = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items())
    table, said = table_from(rows, out.with_suffix("").name, f"Imported from {listed}.", parameters)
    return table, dict(found.kinds), said, found.unreadable


def _with_schema(files: list[Path], path: Path) -> Table:
    try:
        schema = Schema.model_validate(toml_document(read_document(path, "schema"), str(path)))
    except ValidationError as error:
        raise explain_validation(error, str(path)) from error
    rows: list[dict[str, Any]] = []
    for file in files:
        try:
            with file.open(encoding="utf-8-sig", newline="") as stream:
                for number, row in enumerate(csv.DictReader(stream, strict=True), start=2):
                    if None in row or None in row.values():
                        raise UserError(f"{file}: line {number} has more or fewer cells than the header", "fix it")
                    rows.append(row)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"cannot read {file}: {error}", "is it CSV with a header?") from error
    return make_table(schema, rows, ", ".join(map(str, files[:3])))
