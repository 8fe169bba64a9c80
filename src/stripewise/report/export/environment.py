"""What the environment of a program can carry."""

from __future__ import annotations

from stripewise.report.export.hints import hint_lines
from stripewise.report.export.request import Request, arguments, no
from stripewise.spec.parameter import Apply
from stripewise.spec.shell import assign, is_variable


def needs_runtime(request: Request) -> list[str]:
    """Why environment variables alone cannot carry the plan; empty if they can."""
    plan = request.plan
    reasons = []
    if plan.of(Apply.STRIPING):
        reasons.append("lays out new files")
    if plan.of(Apply.HDF5):
        reasons.append("sets HDF5 properties")
    if request.hints and plan.override:
        reasons.append("wins over the program's own hints")
    if request.hints and plan.files != "*":
        reasons.append(f"acts on {plan.files} only")
    if hint_lines([(s.key, s.value) for s in request.hints])[1]:
        reasons.append("carries hints that a hints file cannot")
    return reasons


def environment(request: Request, *, mca: bool = True) -> tuple[list[str], list[str], list[str]]:
    """Lines that set what the environment can carry, their undo, and what is missing."""
    lines: list[str] = []
    names: list[str] = []
    cannot = arguments(request.plan)
    for setting in request.plan.of(Apply.ENV, Apply.MCA):
        name = f"OMPI_MCA_{setting.key}" if setting.apply is Apply.MCA else setting.key
        if setting.apply is Apply.MCA and not mca:
            cannot.append(no(setting, "is a parameter of Open MPI"))
            continue
        if not is_variable(name):
            cannot.append(no(setting, "is no name that a shell can export"))
            continue
        lines.append(assign(name, setting.value))
        names.append(name)
    good = [s for s in request.pnetcdf if not any(c in s.key + s.value for c in ";=")]
    cannot += [no(s, "has a ';' or '=', which separate PNETCDF_HINTS") for s in request.pnetcdf if s not in good]
    if good:
        lines.append(assign("PNETCDF_HINTS", ";".join(f"{s.key}={s.value}" for s in good)))
        names.append("PNETCDF_HINTS")
    return lines, [f"unset {' '.join(names)}"] if names else [], cannot


def heredoc(path: str, content: str) -> list[str]:
    """Shell lines that write a file."""
    # Only a line feed ends a here-document's line; every line of a plan or hints file has two words at least.
    return [f"cat > {path} <<'END_OF_SETTINGS'", *content.removesuffix("\n").split("\n"), "END_OF_SETTINGS"]
