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
YesOption = Annotated[bool, typer.Option("--yes", help="Agree to the worst-case cost, however large.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar="STRIPEWISE_SERVER",
        help="A service to use instead of a store: unix:PATH or https://HOST.",
        metavar="URL",
        callback=hints.remember_server,
    ),
]
