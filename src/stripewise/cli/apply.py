"""``stripewise run`` and ``stripewise export``: what was found, put to use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from stripewise.cli.options import JsonOption, ServerOption, StoreOption
from stripewise.cli.output import console, notes, print_json
from stripewise.cli.remote import open_experiments
from stripewise.errors import UserError
from stripewise.report.export import TARGETS, export
from stripewise.runner.foreground import prepare
from stripewise.spec.plan import HEADER, MAX_BYTES, Plan
from stripewise.spec.vocabulary import check_plan
from stripewise.tuning.folders import state_folder

SourceArgument = Annotated[str, typer.Argument(help="A finished experiment, or the file of a plan.", metavar="ID|PLAN")]

_SIMULATED = "these settings come from simulated runs, not from measurements: confirm them on the real machine"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("run")(run)
    app.command("export")(export_plan)


def run(
    context: typer.Context,
    source: SourceArgument,
    store: StoreOption = None,
    server: ServerOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but what the program says.")] = False,
) -> None:
    """Run a program with the settings found, as in: stripewise run ID -- mpiexec -n 4 ./my_app.

    The program takes the place of this command: its output, signals and exit code are its own.
    """
    command: list[str] = context.obj["command"]
    if not command:
        raise UserError(
            "there is no program to run", f"write it after two dashes: run {source} -- mpiexec -n 4 ./my_app"
        )
    plan, _, simulated = _plan_of(source, store, server)
    doubts = check_plan(plan, source)
    ready = prepare(plan, command, state_folder() / "applied" / _folder_name(plan, source))
    if not quiet:
        settings = " ".join(f"{s.key}={s.value}" for s in plan.settings) or "no settings: the default was best"
        notes.print(f"stripewise: {escape(settings)}")
        for warning in (*([_SIMULATED] if simulated else []), *doubts, *ready.warnings):
            notes.print(f"stripewise: {escape(warning)}")
    os.execvp(ready.words[0], list(ready.words))


def export_plan(
    source: SourceArgument,
    to: Annotated[str, typer.Option(help=f"One of {', '.join(TARGETS)}.")] = "plan",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the text there.", metavar="FILE")] = None,
    directory: Annotated[str, typer.Option(help="For lfs: the directory whose new files are laid out.")] = "",
    program: Annotated[str, typer.Option(help="For sbatch: the program with its arguments.")] = "",
    store: StoreOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Write the settings found for another tool, with their undo and what it cannot express."""
    plan, changed, simulated = _plan_of(source, store, server)
    library = os.environ.get("STRIPEWISE_LIBRARY", "")
    made = export(plan, to, library=library, directory=directory, program=program, changed=changed)
    if json_output:
        print_json(
            {
                "target": to,
                "simulated": simulated,
                **{name: getattr(made, name) for name in ("text", "undo", "cannot", "use", "wins", "filename")},
            }
        )
        return
    if output is not None:
        try:
            output.write_text(made.text, "utf-8")
        except OSError as error:
            raise UserError(f"cannot write {output}: {error.strerror}", "choose another file with --output") from error
        notes.print(f"written to {escape(str(output))}")
    else:
        console.print(escape(made.text), end="")
    if simulated:
        notes.print(f"note: {_SIMULATED}")
    for heading, text in (("use", made.use), ("undo", made.undo), ("who wins", made.wins)):
        if text:
            # Shell lines stay lines, so that an undo can be copied.
            lines = text.strip().splitlines()
            start = " " if len(lines) == 1 else "\n  "
            notes.print(f"{heading}:{start}" + escape("\n  ".join(lines)))
    for missing in made.cannot:
        notes.print(f"not expressed: {escape(missing)}")


def _plan_of(source: str, store: str | None, server: str | None) -> tuple[Plan, dict[str, Any], bool]:
    """The plan of a file or of an experiment, the parameters that it changes, and whether its runs were simulated."""
    path = Path(source)
    if path.is_file():
        return _read_plan(path), {}, False
    if "/" in source or source.endswith((".plan", ".txt")):
        raise UserError(f"there is no plan file {source}", "export one: stripewise export ID --to plan -o FILE")
    opened = open_experiments(store, server)
    try:
        record = opened.record(source)
    finally:
        opened.close()
    if record.result is None:
        raise UserError(
            f"experiment {record.id} is {record.state} and has no result yet",
            f"finish it: stripewise resume {record.id}",
        )
    result = record.result
    default = result["default"]["configuration"]
    best = result["best"]["configuration"]
    changed = {name: value for name, value in best.items() if default.get(name) != value}
    plan = Plan.parse(result["plan"], f"the plan of experiment {record.id}")
    return plan, changed, bool(result.get("simulated", False))


def _read_plan(path: Path) -> Plan:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(
                f"{path} is larger than {MAX_BYTES >> 20} MiB", "a plan is a short text: is it the right file?"
            )
        return Plan.parse(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise UserError(f"cannot read the plan {path}: {error.strerror}", "check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no plan: it is not UTF-8 text", f"a plan begins with '{HEADER}'") from error


def _folder_name(plan: Plan, source: str) -> str:
    name = plan.identifier or Path(source).name
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name) or "plan"
