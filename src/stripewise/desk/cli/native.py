"""``stripewise site native build``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from stripewise.desk.cli.help import Commands
from stripewise.desk.cli.options import JsonOption
from stripewise.desk.cli.output import console, print_json, remark
from stripewise.runners.native.build import KERNEL, KERNEL_HDF5, RUNTIME, BuildFailed, build
from stripewise.runners.native.compiler import ask_compiler, find_compiler


def register(app: Commands) -> None:
    """Add the commands."""
    group = Commands(help="The native parts: the preloaded runtime and the benchmark program.")
    group.command("build")(build_native)
    app.add_typer(group, name="native")


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
