"""``stripewise doctor`` and ``stripewise site native build``: what this machine has, and building what it lacks."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from stripewise.desk.cli.options import JsonOption, StoreOption
from stripewise.desk.cli.output import console, escape, print_json, remark
from stripewise.errors import StripewiseError, UserError
from stripewise.runners.native.build import KERNEL, KERNEL_HDF5, RUNTIME, BuildFailed, build, observer_for
from stripewise.runners.native.compiler import ask_compiler, find_compiler
from stripewise.runners.program.checkup import Check, checkup
from stripewise.store.opening import open_store

_NEXT = "stripewise tune -- mpiexec -n 4 ./my_app"
_MARKS = {"ok": "[green]ok[/]", "missing": "[red]missing[/]", "note": "[yellow]-[/]"}


def doctor(
    path: Annotated[
        Path,
        typer.Argument(help="Where your program writes: its file system and layout are shown.", metavar="PATH"),
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


def build_native(
    mpicc: Annotated[
        Path | None, typer.Option(help="The MPI's compiler wrapper (mpicc, or Cray's cc); found if left out.")
    ] = None,
    hdf5: Annotated[
        bool, typer.Option("--hdf5", help="Link the benchmark program with a parallel HDF5 of that MPI.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Build the runtime and the benchmark program for an MPI; tune does so by itself when it must."""
    environment = dict(os.environ)
    compiler = ask_compiler(mpicc, environment) if mpicc is not None else find_compiler(None, None, environment)
    try:
        library = build(RUNTIME, compiler, environment)
        kernel = build(KERNEL_HDF5 if hdf5 else KERNEL, compiler, environment)
    except BuildFailed as failure:
        for line in failure.lines:
            remark(line)
        raise
    try:
        # What tune would build within the time limit of its first experiment.
        observer_for(environment)
    except StripewiseError as error:  # as in tune, the runtime does what it can
        remark(f"stripewise: the program's own calls cannot be seen: {error.what}")
    if json_output:
        print_json(
            {
                "library": str(library.path),
                "kernel": str(kernel.path),
                "mpi": {"abi": compiler.abi, "standard": compiler.standard, "mpicc": str(compiler.path)},
                "compiler": compiler.identity,
                "reused": library.reused and kernel.reused,
            }
        )
        return
    console.print(f"library  {escape(str(library.path))}{'  (built before)' if library.reused else ''}")
    console.print(f"kernel   {escape(str(kernel.path))}{'  (built before)' if kernel.reused else ''}")
    console.print(f"mpi      {compiler.abi} interface, MPI {compiler.standard}, by {escape(str(compiler.path))}")
