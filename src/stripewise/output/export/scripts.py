"""The plan itself, shell and job scripts around it, and an experiment file's tables."""

from __future__ import annotations

from dataclasses import replace

from stripewise.catalogue.carriers import MCA, Form
from stripewise.catalogue.plan import Plan
from stripewise.documents import toml_value
from stripewise.output.export.request import Export, Request, exported, heredoc, hints_file, text
from stripewise.shell import assign


def plan_file(request: Request) -> Export:
    """The plan file itself."""
    return Export(
        request.plan.text(),
        "rm -f stripewise.plan\n",
        [],
        "save as stripewise.plan, then: stripewise run stripewise.plan -- COMMAND",
        _plan_wins(request.plan),
        "stripewise.plan",
    )


def _plan_wins(plan: Plan) -> str:
    if plan.override:
        return "the plan wins over the program's own hints (override yes)."
    return "the program's own hints win over the plan (override no); the report names each key that lost."


def shell(request: Request) -> Export:
    """Shell lines that set all that the environment can carry, and preload the runtime where that is not enough."""
    pairs, cannot = request.express(Form.VARIABLES)
    lines, undo = exported(pairs[Form.VARIABLES])
    wins = ["PNETCDF_HINTS wins over the program's own."] if request.pnetcdf else []
    reasons = request.needs_runtime
    use = "source it in the shell or job script, before the program starts"
    if reasons:
        lines += heredoc("stripewise.plan", request.plan.text())
        lines += ["export STRIPEWISE_MODE=apply", 'export STRIPEWISE_PLAN="$PWD/stripewise.plan"', _library(request)]
        lines += [
            f"# the runtime {' and '.join(reasons)}, so it is preloaded, directly before the program:",
            f"# mpiexec -n 4 {_preload()} {request.program}",
        ]
        undo += ["unset STRIPEWISE_MODE STRIPEWISE_PLAN STRIPEWISE_LIBRARY", "rm -f stripewise.plan"]
        wins.append(_plan_wins(request.plan))
        use += "; then start the program as its last line shows"
    elif request.hints:
        made, back = hints_file(f"{s.key} {s.value}\n" for s in request.hints)
        lines, undo = lines + made, undo + back
        wins.append("the program's own MPI_Info wins over ROMIO_HINTS; Open MPI's OMPIO does not read it.")
    if request.plan.of(MCA):
        wins.append("mpirun --mca wins over OMPI_MCA_* variables, which win over mca-params.conf.")
    return Export(text(lines), text(undo), cannot, use, " ".join(wins), "stripewise.sh")


def sbatch(request: Request) -> Export:
    """A snippet of a Slurm job script."""
    base = shell(request)
    if not base.text:
        return Export("", "", base.cannot, "the job script stays as it is", "", "stripewise-job.sh")
    lines = [line for line in base.text.removesuffix("\n").split("\n") if not line.startswith("# mpiexec")]
    prefix = f"{_preload()} " if request.needs_runtime else ""
    lines += [
        "# --export=ALL keeps the variables above; --export=NAME=VALUE would drop the others and split at commas",
        f"srun --export=ALL {prefix}{request.program}",
    ]
    use = "put it into the job script in place of the srun line; submit with sbatch --export=ALL (its default)"
    if prefix:
        use += ". LD_PRELOAD stands directly before the program, so srun and the shell stay untouched"
    undo = "restore the old srun line and remove the lines above it\n"
    return replace(base, text=text(lines), undo=undo, use=use, filename="stripewise-job.sh")


def _library(request: Request) -> str:
    if request.library:
        return assign("STRIPEWISE_LIBRARY", request.library)
    ask = "set it to the library that stripewise native build names on the login node"
    return f': "${{STRIPEWISE_LIBRARY:?{ask}}}"'


def _preload() -> str:
    return 'env LD_PRELOAD="$STRIPEWISE_LIBRARY${LD_PRELOAD:+:$LD_PRELOAD}"'


def toml(request: Request) -> Export:
    """Tables that narrow the next experiment to the values found and the defaults."""
    lines: list[str] = []
    cannot: list[str] = []
    if request.plan.settings and not request.changed:
        cannot.append("the plan's settings: an experiment names parameters, and this plan does not say which they were")
    for name, value in request.changed.items():
        if isinstance(value, bool):
            cannot.append(f"{name}={str(value).lower()}: a boolean parameter always has both values")
            continue
        lines += [f"[parameters.{name}]", f"values = [{toml_value(value)}]", ""]
    if lines:
        lines.insert(0, "# narrows the next experiment to these values and the defaults")
    return Export(
        text(lines).rstrip("\n") + "\n" if lines else "",
        "remove these tables from the experiment file\n",
        cannot,
        "add it to an experiment file; the default of each parameter stays in the space, as the baseline",
        "an experiment file wins over the stack files that it names.",
        "parameters.toml",
    )
