"""Cray MPICH, Intel MPI and Open MPI."""

from __future__ import annotations

from stripewise.catalogue.carriers import LAYOUT, Form, hint_lines
from stripewise.catalogue.filesystems import GENERIC, of_file
from stripewise.catalogue.plan import Plan
from stripewise.output.export.request import Export, Request, exported, hints_file, text
from stripewise.shell import assign

_INTEL = {"cb_nodes": "I_MPI_FILESYSTEM_CB_NODES", "cb_config_list": "I_MPI_FILESYSTEM_CB_CONFIG_LIST"}
_RUNTIME = "needs the runtime: use the shell export"


def cray(request: Request) -> Export:
    """``MPICH_MPIIO_HINTS``."""
    pairs, cannot = request.express(Form.VARIABLES, Form.HINTS, mpi="cray", otherwise=_RUNTIME)
    lines, undo = exported(pairs[Form.VARIABLES])
    good = []
    for key, value in pairs[Form.HINTS]:
        if any(c in key + value for c in ":,"):
            cannot.append(f"{key}={value}: MPICH_MPIIO_HINTS separates at ':' and ',' and cannot hold such a value")
        else:
            good.append(f"{key}={value}")
    if good and any(c in request.plan.files for c in ":,"):
        cannot += [f"{pair}: the file pattern {request.plan.files} has a ':' or ','" for pair in good]
        good = []
    if good:
        joined = ",".join(":".join([name, *good]) for name in _patterns(request.plan))
        lines.append(assign("MPICH_MPIIO_HINTS", joined))
        lines.append("export MPICH_MPIIO_HINTS_DISPLAY=1  # prints the hints in force at each open, as evidence")
        undo.append("unset MPICH_MPIIO_HINTS MPICH_MPIIO_HINTS_DISPLAY")
    return Export(
        text(lines),
        text(undo),
        cannot,
        "put it into the job script, before srun or aprun",
        "MPICH_MPIIO_HINTS is expected to win over the program's own MPI_Info; what MPICH_MPIIO_HINTS_DISPLAY prints "
        "decides.",
        "stripewise-cray.sh",
    )


def _patterns(plan: Plan) -> list[str]:
    """Cray's patterns are matched against the name as the program gives it, a plan's also against the base name."""
    return [plan.files] if plan.files == "*" or "/" in plan.files else [plan.files, f"*/{plan.files}"]


def intel(request: Request) -> Export:
    """``I_MPI_FILESYSTEM`` variables, and a hints file for what they do not know."""
    pairs, cannot = request.express(Form.VARIABLES, Form.HINTS, mpi="intel", otherwise=_RUNTIME)
    lines, undo = exported(pairs[Form.VARIABLES])
    hints = pairs[Form.HINTS]
    direct = [(_INTEL[key], value) for key, value in hints if key in _INTEL]
    system = _driver(request, [key for key, _ in hints])
    forced = [("I_MPI_FILESYSTEM_FORCE", system)] if system else []
    if direct or forced:
        lines.append("# Intel MPI 2021.11 and later; before that, I_MPI_EXTRA_FILESYSTEM=1 and the hints file alone")
        made, back = exported([("I_MPI_FILESYSTEM", "1"), *forced, *direct])
        lines, undo = lines + made, undo + back
    others, too_much = hint_lines(hints)
    if others:
        made, back = hints_file(others)
        lines, undo = lines + made, undo + back
    return Export(
        text(lines),
        text(undo),
        cannot + too_much + (request.scope if hints else []),
        "put it into the job script, before mpirun",
        "the I_MPI_FILESYSTEM variables act on every file of the process; the program's own MPI_Info wins over "
        "ROMIO_HINTS. I_MPI_FILESYSTEM=1 switches native file-system support on, which may open files with another "
        "driver than the one that was measured: measure once more.",
        "stripewise-intel.sh",
    )


def _driver(request: Request, hints: list[str]) -> str:
    """The file system whose driver ROMIO must use for the plan to act; empty if any serves."""
    named = [setting.layer for setting in request.plan.of(LAYOUT)]
    named += [key.split("_")[1] for key in hints if key.startswith("romio_") and key.count("_") > 1]
    return next((system.name for kind in named if (system := of_file(kind)) is not GENERIC), "")


def openmpi(request: Request) -> Export:
    """``OMPI_MCA`` variables and lines of a parameter file."""
    pairs, cannot = request.express(Form.MCA, Form.VARIABLES, mpi="openmpi", otherwise=_RUNTIME)
    parameters = pairs[Form.MCA]
    lines, undo = exported([*pairs[Form.VARIABLES], *((f"OMPI_MCA_{name}", value) for name, value in parameters)])
    if parameters:
        lines.append("# or, for all your jobs, these lines in $HOME/.openmpi/mca-params.conf (without the #):")
        lines += [f"#   {name} = {value}" for name, value in parameters]
        undo.append("# and take the lines out of $HOME/.openmpi/mca-params.conf again")
    return Export(
        text(lines),
        text(undo),
        cannot + (request.scope if parameters else []),
        "put it into the job script, before mpirun",
        "mpirun --mca NAME VALUE wins over OMPI_MCA_NAME, which wins over $HOME/.openmpi/mca-params.conf, which wins "
        "over the installation's openmpi-mca-params.conf. All act on the whole process.",
        "stripewise-openmpi.sh",
    )
