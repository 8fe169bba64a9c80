"""The report: one HTML file that needs nothing else, neither a network nor a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stripewise.errors import StripewiseError, UserError
from stripewise.ownership import written_whole

if TYPE_CHECKING:  # whoever writes a page of logs needs no store
    from stripewise.store.base import Record
    from stripewise.trial import Trial


def write_report(record: Record, trials: Sequence[Trial], path: Path, completed: Callable[[str], str] = str) -> None:
    """Write the report of a finished experiment, whole or not at all.

    Parameters
    ----------
    record : Record
        With its result.
    path : Path
        Replaced if it exists.
    completed : callable
        Completes the commands that a text names, so that they can be copied: with the store, for instance.

    Raises
    ------
    UserError
        If the experiment has no result.
    StripewiseError
        If the file cannot be written.
    """
    save_text(path, render_report(record, trials, completed))


def render_report(record: Record, trials: Sequence[Trial], completed: Callable[[str], str] = str) -> str:
    """Write the report as text.

    Raises
    ------
    UserError
        If the experiment has no result.
    """
    if record.result is None:
        raise UserError(f"experiment {record.id} has no result yet", f"finish it first: stripewise resume {record.id}")
    # Plotly takes half a second to import; commands that draw nothing are not to wait for it.
    from stripewise.output.experiment_view import ExperimentView  # noqa: PLC0415
    from stripewise.output.figures import figures  # noqa: PLC0415
    from stripewise.output.markup import date  # noqa: PLC0415
    from stripewise.output.page import page  # noqa: PLC0415
    from stripewise.output.sections import HEADINGS, sections  # noqa: PLC0415

    view = ExperimentView(record, trials, completed)
    drawn = figures(view)
    return page(
        "report.html",
        title=record.experiment.name or f"Experiment {record.id}",
        subtitle=f"{date(record.result.validity.date)} · experiment {record.id}",
        headings=HEADINGS,
        experiment=sections(view, drawn, ("headline", *HEADINGS)),
        figures=drawn,
        simulated=record.result.simulated,
    )


def save_text(path: Path, text: str) -> None:
    """Replace a file by a text, so that no reader ever sees a part of it.

    Raises
    ------
    StripewiseError
        If it cannot be written; what was there before then still is.
    """
    try:
        with written_whole(path, sync=True) as part:
            # Names of files may be in another encoding.
            part.write_text(text, "utf-8", "backslashreplace", "\n")
    except OSError as error:
        raise StripewiseError(
            f"cannot write {path}: {error.strerror}", "check the folder and the space left"
        ) from error
