"""The sections for those who want to check or to apply it: machine, cost, validity, exports, runs, provenance."""

from __future__ import annotations

import json
import shlex
from typing import Any

from stripewise import __version__
from stripewise.plots.style import number
from stripewise.report.export import TARGETS, export
from stripewise.report.machine import sentence
from stripewise.report.markup import (
    Html,
    capitalised,
    copyable,
    count,
    date,
    duration,
    escape,
    facts,
    figure,
    fold,
    join,
    listing,
    moment,
    paragraph,
    section,
    table,
    tag,
    value_text,
)
from stripewise.report.reading import Reading
from stripewise.spec.plan import Plan
from stripewise.spec.result import Cost, ParameterSummary
from stripewise.spec.sizes import format_size
from stripewise.spec.trial import Phase, Role, State, Trial

_MOST_ROWS = 2000
_TITLES = {
    "hints": "ROMIO hints file",
    "plan": "Plan of Stripewise",
    "shell": "Shell",
    "sbatch": "Slurm job script",
    "cray": "Cray MPICH",
    "intel": "Intel MPI",
    "openmpi": "Open MPI",
    "lfs": "File-system layout of a directory",
    "toml": "Experiment file",
}


def machine(reading: Reading, drawn: set[str]) -> Html:
    """The default's control chart."""
    runs, moments, chart = reading.machine
    span = duration(moments[-1] - moments[0]) if len(moments) > 1 else ""
    answer = sentence(chart, [run.number for run in runs], span)
    parts: list[object] = [paragraph(answer)]
    if "machine" in drawn:
        caption = "Limits at three standard deviations, from the differences of neighbouring runs."
        parts.append(figure("machine", f"Control chart of {count(len(runs), 'run')} of the default. {answer}", caption))
        rows = [
            (run.number, f"{when:.1f}", number(run.value), ", ".join(rules) or "-")
            for run, when, rules in zip(runs, moments, chart.rules, strict=True)
        ]
        unit = f" ({reading.unit})" if reading.unit else ""
        headings = ("Run", "Seconds from the start", f"Value{unit}", "Out of the ordinary")
        parts.append(fold("The default's runs as a table", table("Runs of the default", headings, rows, (0, 1, 2))))
    return section("machine", "Was it the machine?", *parts)


def cost(reading: Reading, drawn: set[str]) -> Html:
    """What it took, and when it has paid for itself."""
    result = reading.result
    # An unfinished experiment has no account yet, and one that an earlier version kept may have none.
    spent = result.cost or Cost(seconds=result.seconds, node_hours=result.node_hours)
    saved, runs_to_even = spent.saved_a_run_seconds, spent.break_even_runs
    shown = facts(
        [
            ("Launches", sum(spent.launches.values()) or result.runs),
            ("Time", duration(spent.seconds)),
            ("Node-hours", number(spent.node_hours)),
            ("Data moved", format_size(spent.bytes) if spent.bytes else ""),
            ("Saved in each run from now on", duration(saved) if saved else ""),
            ("Paid for after", count(runs_to_even, "run") if runs_to_even else ""),
        ]
    )
    parts: list[object] = [shown]
    if "cost" in drawn:
        seconds, launches = reading.spending()
        told = ", ".join(f"{name} {duration(value)}" for name, value in seconds.items())
        caption = f"Wall time of {count(sum(launches.values()), 'launch', 'launches')} by purpose."
        parts.append(figure("cost", f"Bar chart of the time spent: {told}.", caption))
    return section("cost", "What it cost", *parts)


def validity(reading: Reading) -> Html:
    """For what the result holds."""
    range_ = reading.result.validity
    shown = facts(
        [
            ("Ranks", range_.ranks),
            ("Nodes", range_.nodes),
            ("Bytes in a run", format_size(range_.bytes) if range_.bytes else ""),
            ("MPI", range_.mpi),
            ("Driver and file system", _driver(reading)),
            ("Simulated" if reading.result.simulated else "Measured", date(range_.date)),
        ]
    )
    return section("validity", "Where it holds", shown, paragraph(capitalised(range_.warning)))


def _driver(reading: Reading) -> str:
    environment = reading.result.environment
    return ", ".join(str(environment[key]) for key in ("driver", "file_system") if environment.get(key))


def apply(reading: Reading) -> Html:
    """How to apply and to undo it, for each way."""
    result = reading.result
    plan = Plan.parse(result.plan, "the result's plan")
    if not plan.settings:
        return section("apply", "How to apply it", paragraph("The default is kept: there is nothing to apply."))
    changed = result.changed(result.best)
    command = shlex.join(reading.record.experiment.command) or "COMMAND"
    run = reading.completed(f"stripewise run {result.experiment}")
    first = copyable(f"{run} -- {command}\n", "command that applies the settings")
    parts: list[object] = [
        paragraph("With Stripewise at hand, this runs the program with the settings, and with nothing left behind:"),
        first,
        paragraph("Without it, in the words of other tools:"),
    ]
    silent = []
    for target in TARGETS:
        made = export(plan, target, changed=changed)
        if made.empty:
            silent.append(_TITLES[target])
            continue
        note = tag("span", f" · {count(len(made.cannot), 'setting')} missing", class_="small") if made.cannot else ""
        content = [
            paragraph(tag("strong", "Use: "), made.use, "."),
            copyable(made.text, f"{_TITLES[target]} text"),
            paragraph(tag("strong", "Who wins: "), made.wins),
            paragraph(tag("strong", "Undo:")),
            copyable(made.undo, f"{_TITLES[target]} undo"),
        ]
        if made.cannot:
            content += [paragraph(tag("strong", "What this form cannot say:")), listing(made.cannot)]
        parts.append(fold(join([_TITLES[target], note]), join(content)))
    if silent:
        parts.append(paragraph("Not one of the settings can be said in the words of: ", ", ".join(silent), "."))
    return section("apply", "How to apply and to undo it", *parts)


def runs(reading: Reading) -> Html:
    """All runs, and the reasons of failures."""
    result = reading.result
    parts: list[object] = []
    failures = result.failures
    if failures:
        rows = [(entry.reason, entry.count, entry.run) for entry in failures]
        parts.append(table("Why runs failed", ("Reason", "Times", "First run"), rows, (1, 2)))
    ended = reading.runs[:_MOST_ROWS]
    rows_all = [
        (
            run.number,
            trial.number,
            run.phase.value
            + (f", pair {run.pair + 1}" if run.phase is Phase.CONFIRMATION and run.pair is not None else ""),
            tag("span", run.state.value, class_=f"state {run.state.value}"),
            (">" if run.state is State.PRUNED and not reading.maximize else "") + number(run.value),
            number(run.elapsed),
            join([_settings(reading, trial), tag("div", run.reason, class_="reason") if run.reason else ""]),
        )
        for run, trial in ended
    ]
    unit = f" ({reading.unit})" if reading.unit else ""
    headings = ("Run", "Trial", "Phase", "State", f"Value{unit}", "Seconds", "Settings, and what went wrong")
    cut = f", the first {_MOST_ROWS:,} of {len(reading.runs):,}" if len(reading.runs) > len(ended) else ""
    whole = table(f"All runs in order{cut}", headings, rows_all, (0, 1, 4, 5))
    parts.append(fold(f"All {count(len(reading.runs), 'run')}", whole, open_=len(ended) <= 60))
    return section("runs", "Runs", *parts)


def _settings(reading: Reading, trial: Trial) -> Html:
    if trial.role is not Role.CANDIDATE:
        return escape(reading.describe(trial))
    return Html(" ".join(tag("code", word) for word in reading.changed(trial)) or "(defaults)")


def provenance(reading: Reading) -> Html:
    """Where it all comes from, so that it can be done again."""
    result, record = reading.result, reading.record
    experiment = record.experiment
    environment = result.environment
    known = facts(
        [
            ("Experiment", record.id),
            ("Command", tag("code", shlex.join(experiment.command)) if experiment.command else ""),
            ("Runner", experiment.runner),
            ("Sampler", experiment.sampler),
            ("Seed", str(experiment.seed)),
            ("First run", moment(reading.started) if not result.simulated else ""),
            ("Owner", record.owner),
            ("Stripewise", __version__),
            *((_heading(key), _plain(value)) for key, value in environment.items()),
        ]
    )
    space = result.space
    rows = [
        (
            tag("code", p.name),
            p.layer,
            _values(p),
            value_text(p.default, p.unit),
        )
        for p in reading.parameters
    ]
    about = "" if space.exact else "about "
    size = f"{about}{space.distinct:,} distinct configurations of a grid of {space.grid:,}"
    parts = [known]
    if rows:
        parts.append(fold(f"The space: {size}", table("Parameters", ("Parameter", "Layer", "Values", "Default"), rows)))
    workload = result.workload.model_dump(exclude_none=True)
    if workload:
        parts.append(fold("The workload", facts((k.replace("_", " "), _plain(v)) for k, v in workload.items())))
    definition = json.dumps(experiment.model_dump(mode="json", exclude_defaults=True), indent=2, ensure_ascii=False)
    parts.append(fold("The experiment as it was defined", copyable(definition + "\n", "definition of the experiment")))
    return section("provenance", "Provenance", *parts)


def _heading(key: str) -> str:
    """Write a key of the environment as people do."""
    words = key.replace("_", " ").replace("mpi", "MPI").replace("cpus", "CPUs")
    return "MPI-IO" if key == "io" else words[:1].upper() + words[1:]


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value if value is not None else "")


def _values(parameter: ParameterSummary) -> str:
    unit, listed = parameter.unit, parameter.values
    if parameter.count > len(listed) == 2:
        return f"{value_text(listed[0], unit)} to {value_text(listed[1], unit)}, {parameter.count:,} values"
    return ", ".join(value_text(value, unit) for value in listed)
