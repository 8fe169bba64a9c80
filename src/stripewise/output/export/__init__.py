"""A plan written for other tools: hints files, job scripts, vendors' variables, file-system commands.

Pure text in and out. Each export says how to use it, how to undo it, who wins each key, and what it cannot express, so
that nothing of a plan is lost silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from stripewise.catalogue.configuration import Value
from stripewise.catalogue.plan import Plan
from stripewise.errors import UserError, choose
from stripewise.formats import PLAN_HEADER
from stripewise.output.export.request import Export, Request, hints, lfs
from stripewise.output.export.scripts import plan_file, sbatch, shell, toml
from stripewise.output.export.vendors import cray, intel, openmpi

__all__ = ["TARGETS", "TITLES", "Export", "export"]

_NOTHING = "# the plan sets nothing: the program runs with its defaults\n"
_ELSEWHERE = "# none of the plan's settings can be written in this form\n"


def export(
    plan: Plan,
    target: str,
    *,
    library: str = "",
    directory: str = "",
    program: str = "",
    changed: Mapping[str, Value] | None = None,
) -> Export:
    """Write a plan for another tool.

    Parameters
    ----------
    plan : Plan
    target : str
        One of :data:`TARGETS`.
    library : str
        Path of the runtime, where known; otherwise the text asks for it.
    directory : str
        The directory that gives new files their layout, for ``lfs``.
    program : str
        The program with its arguments, for ``sbatch``.
    changed : mapping, optional
        Parameters with their values, for ``toml``: an experiment names parameters, a plan their carriers' keys.

    Raises
    ------
    UserError
        If the target is unknown, the plan cannot be written, or the program does not fit on one line.
    """
    if target not in _WRITERS:
        raise UserError(f"no export is called '{target}'", choose(target, TARGETS))
    plan.text()  # refuses keys and values that no file or variable can carry
    if not program.isprintable():
        raise UserError(f"the program {program[:60]!r} does not fit on one line", "write it without control characters")
    request = Request(plan, library, directory or "DIRECTORY", program or "./my_app", dict(changed or {}))
    made = _WRITERS[target][1](request)
    if PLAN_HEADER not in made.text:
        made = replace(made, cannot=[*made.cannot, *request.elsewhere])
        if target != "toml":  # an experiment finds out itself
            made = _cautioned(made, request, comment="" if target == "hints" else "# ")
    if made.text:
        return made
    anything = plan.settings or plan.sections
    return replace(made, text=_ELSEWHERE if anything else _NOTHING, use="", undo="", wins="", empty=True)


def _cautioned(made: Export, request: Request, comment: str) -> Export:
    """Say beside the text, and in it where it has comments, which programs must not get it without the runtime."""
    cautions = [caution for key, caution in request.cautions.items() if key in made.text]
    if not cautions:
        return made
    comments = "".join(f"{comment}{caution}\n" for caution in cautions) if comment else ""
    return replace(made, text=comments + made.text, use="; ".join([made.use, *cautions]))


_WRITERS: dict[str, tuple[str, Callable[[Request], Export]]] = {
    "hints": ("ROMIO hints file", hints),
    "plan": ("Plan of Stripewise", plan_file),
    "shell": ("Shell", shell),
    "sbatch": ("Slurm job script", sbatch),
    "cray": ("Cray MPICH", cray),
    "intel": ("Intel MPI", intel),
    "openmpi": ("Open MPI", openmpi),
    "lfs": ("File-system layout of a directory", lfs),
    "toml": ("Experiment file", toml),
}
TARGETS = tuple(_WRITERS)
"""The names of the exports."""
TITLES = {name: title for name, (title, _) in _WRITERS.items()}
"""What people call them."""
