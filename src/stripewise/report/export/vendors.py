"""Cray MPICH, Intel MPI and Open MPI."""

from __future__ import annotations

from stripewise.report.export.environment import environment, heredoc
from stripewise.report.export.hints import as_hints, hint_lines
from stripewise.report.export.request import Export, Request, no, scope, text
from stripewise.spec.parameter import Apply
from stripewise.spec.plan import Plan
from stripewise.spec.shell import assign

_OMPI_LUSTRE = {"stripe_count": "fs_lustre_stripe_width", "stripe_size": "fs_lustre_stripe_size"}
_INTEL = {"cb_nodes": "I_MPI_FILESYSTEM_CB_NODES", "cb_config_list": "I_MPI_FILESYSTEM_CB_CONFIG_LIST"}


def cray(request: Request) -> Export:
    """``MPICH_MPIIO_HINTS``."""
    lines, undo, cannot = environment(request, mca=False)
    pairs, refused = as_hints(request)
    cannot += refused
    good = []
    for key, value in pairs:
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
    cannot += [no(s, "needs the runtime: use the shell export") for s in request.plan.of(Apply.HDF5)]
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
    lines, undo, cannot = environment(request, mca=False)
    pairs, refused = as_hints(request)
    cannot += refused
    direct = [(key, value) for key, value in pairs if key in _INTEL]
    names = []
    lustre = bool(request.stripes) or any(key.startswith("romio_lustre") for key, _ in pairs)
    if direct or lustre:
        lines.append("# Intel MPI 2021.11 and later; before that, I_MPI_EXTRA_FILESYSTEM=1 and the hints file alone")
        lines.append("export I_MPI_FILESYSTEM=1")
        names.append("I_MPI_FILESYSTEM")
    if lustre:
        lines.append("export I_MPI_FILESYSTEM_FORCE=lustre")
        names.append("I_MPI_FILESYSTEM_FORCE")
    for key, value in direct:
        lines.append(assign(_INTEL[key], value))
        names.append(_INTEL[key])
    if names:
        undo.append(f"unset {' '.join(names)}")
    others, too_much = hint_lines(pairs)
    cannot += too_much
    if others:
        lines += [*heredoc("stripewise.hints", "".join(others)), 'export ROMIO_HINTS="$PWD/stripewise.hints"']
        undo += ["unset ROMIO_HINTS", "rm -f stripewise.hints"]
    cannot += [no(s, "needs the runtime: use the shell export") for s in request.plan.of(Apply.HDF5)]
    return Export(
        text(lines),
        text(undo),
        cannot + (scope(request.plan) if pairs else []),
        "put it into the job script, before mpirun",
        "the I_MPI_FILESYSTEM variables act on every file of the process; the program's own MPI_Info wins over "
        "ROMIO_HINTS. I_MPI_FILESYSTEM=1 switches native file-system support on, which may open files with another "
        "driver than the one that was measured: measure once more.",
        "stripewise-intel.sh",
    )


def openmpi(request: Request) -> Export:
    """``OMPI_MCA`` variables and lines of a parameter file."""
    lines, undo, cannot = environment(request)
    parameters = [(s.key, s.value) for s in request.plan.of(Apply.MCA)]
    for setting in request.plan.of(Apply.STRIPING):
        name = _OMPI_LUSTRE.get(setting.key) if setting.layer == "lustre" else None
        if name is None:
            cannot.append(no(setting, "has no MCA parameter; use the lfs export"))
        else:
            parameters.append((name, setting.value))
            lines.append(assign(f"OMPI_MCA_{name}", setting.value))
            undo.append(f"unset OMPI_MCA_{name}")
    cannot += [
        no(s, "is a hint for ROMIO, which OMPIO does not read; run with --mca io romio341 and use the hints export")
        for s in request.hints
    ]
    cannot += [no(s, "needs the runtime: use the shell export") for s in request.plan.of(Apply.HDF5)]
    if parameters:
        lines.append("# or, for all your jobs, these lines in $HOME/.openmpi/mca-params.conf (without the #):")
        lines += [f"#   {name} = {value}" for name, value in parameters]
        undo.append("# and take the lines out of $HOME/.openmpi/mca-params.conf again")
    return Export(
        text(lines),
        text(undo),
        cannot + (scope(request.plan) if parameters else []),
        "put it into the job script, before mpirun",
        "mpirun --mca NAME VALUE wins over OMPI_MCA_NAME, which wins over $HOME/.openmpi/mca-params.conf, which wins "
        "over the installation's openmpi-mca-params.conf. All act on the whole process.",
        "stripewise-openmpi.sh",
    )
