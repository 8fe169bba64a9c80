"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from stripewise.cli import hints

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="STRIPEWISE_STORE",
        help="sqlite:///FILE, postgresql://... or journal:FOLDER.",
        metavar="URL",
        callback=hints.remember_store,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
