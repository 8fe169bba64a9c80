"""``stripewise knobs`` and ``stripewise experiment bundle``."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.options import IdArgument, JsonOption, ServerOption, StoreOption
from stripewise.desk.cli.output import console, escape, print_json, prose, remark, say
from stripewise.desk.cli.terminal import desk_of
from stripewise.diagnose.knobs import MPI, Surroundings, explain, files_in, named_hints, review_script
from stripewise.documents import read_document
from stripewise.errors import StripewiseError, UserError
from stripewise.ownership import is_special, open_to_write, written_whole
from stripewise.result import Result
from stripewise.sizes import format_value

_MOST_VALUES = 9
_MARKS = {"dead": "[red]dead[/]", "live": "[green]live[/]"}


def knobs(
    script: Annotated[
        Path,
        typer.Argument(
            help="A job script, hints file or program text; or one setting, as romio_ds_write, to read what it does.",
            metavar="SCRIPT|NAME",
        ),
    ],
    mpi: Annotated[
        str,
        typer.Option(
            help=f"The program's MPI library: {', '.join(MPI)}. Without it, the one that the script uses, else mpich."
        ),
    ] = "",
    file_system: Annotated[
        str, typer.Option(help="The file system of its files: lustre, ceph, gpfs, nfs, ext4 ...")
    ] = "",
    mpi_version: Annotated[str, typer.Option(help="Version of the MPI library, as in 4.2.")] = "",
    operation: Annotated[str | None, typer.Option(help="What the program does: read, write or both.")] = None,
    evidence: Annotated[
        str | None, typer.Option(help="An experiment with the same program, whose evidence is used.", metavar="ID")
    ] = None,
    store: StoreOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> int:
    """Find settings in a job script that do nothing, and say why; or say what one setting does."""
    if not script.exists() and script.name == str(script):
        _print_settings(script.name, json_output)
        return 0
    text = read_document(script, "script", latin=True)
    if operation not in (None, "read", "write", "both"):
        raise UserError(f"--operation '{operation}' is unknown", "use read, write or both")
    workload, effects = Workload(), {}
    if evidence is not None:
        with desk_of(store, server).experiments() as opened:
            result = opened.record(evidence).result or Result()
        workload = result.workload
        effects = {effect.name: (effect.status, effect.evidence) for effect in result.effects}
    if operation is not None:
        workload = workload.model_copy(update={"operation": operation})
    where = Surroundings(mpi, file_system or workload.file_system or "", mpi_version, workload, effects)
    folder = script.absolute().parent
    hints = named_hints(text, folder, os.environ)
    review = review_script(text, where, hints.knobs if hints is not None else (), files_in(folder))
    found = review.settings
    if json_output:
        named = hints.as_json() if hints is not None else None
        print_json({**review.as_json(), "hints_file": named})
        return 0
    if hints is not None:
        prose(f"line {hints.line}: ROMIO_HINTS names {hints.path}: {hints.said}")
    if found and not mpi:
        say(f"judged for {MPI[review.mpi]}; --mpi chooses another library")
    for told in review.remarks if found else ():
        prose(f"remark: {told}")
    if not found:
        console.print("no I/O setting was found")
    for one in found:
        place = f"line {one.knob.line}" + (f" of {escape(one.knob.file)}" if one.knob.file else "")
        console.print(
            f"{place}: {escape(one.knob.name)}={escape(one.knob.value)}  {_MARKS.get(one.verdict, one.verdict)}"
        )
        prose(f"  {one.reason}" + (f"; {one.fix}" if one.fix else ""))
    return 0


def _print_settings(name: str, json_output: bool) -> None:
    found = explain(name)
    if json_output:
        keys = ("name", "description", "trap", "values", "default", "unit", "evidence", "driver", "operations")
        print_json(
            [
                {"stack": stack.name, "carrier": one.carrier.name, "key": one.setting}
                | {key: getattr(one, key) for key in keys}
                | {key: [asdict(entry) for entry in getattr(one, key)] for key in ("breaks", "defaults")}
                for stack, one in found
            ]
        )
        return
    for stack, one in found:
        values = [format_value(value, one.unit) for value in one.values]
        offered = ", ".join(values) if len(values) <= _MOST_VALUES else f"{values[0]} to {values[-1]}"
        only = f" under {' or '.join(one.driver)} alone" if one.driver else ""
        say(one.name, "bold")
        prose(f"  of {stack.name}: {stack.description}")
        prose(f"  {one.description}")
        if one.trap:
            prose(f"  take care: {one.trap}")
        for breakage in one.breaks:
            prose(f"  {breakage.caution(one.setting)}")
        others = "".join(f"; {format_value(value, one.unit)} {said}" for value, said in one.other_defaults)
        prose(f"  values: {offered} (default {format_value(one.default, one.unit)}{others})")
        prose(f"  acts on: {' and '.join(f'{word}s' for word in one.operations)}{only}")
        unproven = "; no observation shows whether it acts" if one.evidence == "none" else ""
        prose(f"  set by: {one.carrier.name} {one.setting}{unproven}")


def bundle(
    identifier: IdArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the ZIP file to this path.", metavar="FILE.zip")
    ] = None,
    store: StoreOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Write a ZIP file of an experiment for the helpdesk, with names of people and hosts and secrets removed."""
    identifier, content = desk_of(store, server).bundle(identifier)
    target = output or Path(f"stripewise-{identifier}.zip")
    try:
        if is_special(target):
            with os.fdopen(open_to_write(target, "choose another file with --output"), "wb") as file:
                file.write(content)
        else:
            # It holds pieces of output that only the user can read where it lies.
            with written_whole(target) as part:
                part.touch(0o600, exist_ok=False)
                part.write_bytes(content)
    except OSError as error:
        raise StripewiseError(
            f"cannot write {target}: {error.strerror}", "choose another file with --output"
        ) from error
    if json_output:
        print_json({"id": identifier, "file": str(target), "bytes": len(content)})
    remark(f"written: {target}; read the files under output/ in it before you send it")
