"""What an experiment has found, or would do, as people and machines read it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stripewise.catalogue.carriers import HDF5
from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.output import complete_commands, console, duration, escape, number, print_json, prose, say
from stripewise.errors import StripewiseError
from stripewise.observe.objectives import timing
from stripewise.output.markup import capitalised, list_changes, write_setting
from stripewise.result import Effect, Interval, Result, Summary
from stripewise.sizes import count_of, format_factor, format_size, format_value

if TYPE_CHECKING:
    from stripewise.store.base import Store

_MANY_NAMES = 12
_FIRST_NAMES = 3


def left_out_lines(left_out: Mapping[str, str]) -> list[str]:
    """Say what is not searched and why, one line per reason; of very many names the first few."""
    lines = []
    for reason in dict.fromkeys(left_out.values()):
        names = [name for name, why in left_out.items() if why == reason]
        more = [f"{len(names) - _FIRST_NAMES} more"] if len(names) > _MANY_NAMES else []
        lines.append(f"left out: {', '.join([*(names[:_FIRST_NAMES] if more else names), *more])} ({reason})")
    return lines


def worst_case_line(
    runs: int, seconds: float | None, node_hours: float | None, bytes: int | None, counted: str = ""
) -> str:
    """Say the most that an experiment can cost, as far as that is known.

    Parameters
    ----------
    counted : str
        What its runs are where they are no launches, as in ``400 phases``.
    """
    cost = [counted or count_of(runs, "launch", "launches")]
    if seconds is not None:
        cost.append(duration(seconds))
    if node_hours is not None:
        cost.append(number(node_hours, "node-hours", 3))
    if bytes:
        cost.append(f"{format_size(bytes)} of I/O")
    return f"worst case: {', '.join(cost)}"


def deliver(store: Store, identifier: str, result: Result, report: Path | None, json_output: bool) -> None:
    """Print a result, and write its report; a report that cannot be written keeps no result from being seen.

    Raises
    ------
    StripewiseError
        If the program of an experiment within one launch failed after the answer was known.
    """
    try:
        if report is not None:
            from stripewise.output.html import write_report  # noqa: PLC0415  pages are slow to load

            write_report(store.record(identifier), store.trials(identifier), report, complete_commands)
    finally:
        if json_output:
            print_json(result.as_json())
        else:
            # The search has explained the objective in its first lines.
            print_result(result, report, explained=True, demo=store.record(identifier).experiment.is_demo)
    if failed := store.record(identifier).facts.program_failed:
        # It has run for its own sake: what follows it in a script must not go on.
        raise StripewiseError(failed, f"the answer is kept: stripewise show {identifier}")


def print_dry_run(document: dict[str, Any], json_output: bool) -> None:
    """Print what an experiment would do."""
    if json_output:
        print_json(document)
        return
    for line in document["found"]:
        prose(line)
    space = document["space"]
    about = "" if space["exact"] else "about "
    console.print(f"space: {about}{space['distinct']:,} distinct configurations (grid of {space['grid']:,})")
    units = {parameter["name"]: parameter["unit"] for parameter in space["parameters"]}
    for parameter in space["parameters"]:
        *values, default = (
            format_value(value, parameter["unit"]) for value in (*parameter["values"], parameter["default"])
        )
        prose(f"  {parameter['name']}: {', '.join(values)} (default {default})")
    for line in left_out_lines(document["left_out"]):
        prose(f"  {line}")
    console.print("first configurations:")
    defaults = {parameter["name"]: parameter["default"] for parameter in space["parameters"]}
    for configuration in document["first"]:
        prose(f"  {' '.join(list_changes(configuration, defaults, units)) or '(defaults)'}")
    worst = document["worst_case"]
    # Another version's service may tell more, or less.
    known = (worst["runs"], worst["seconds"], worst["node_hours"], worst["bytes"])
    console.print(worst_case_line(*known, counted=document.get("counted", "")))
    for note in document["notes"]:
        prose(f"note: {note}")
    console.print("nothing was started; the same command without --dry-run starts it")


def print_result(result: Result, report: Path | None = None, *, explained: bool = False, demo: bool = False) -> None:
    """Print a result for people.

    Parameters
    ----------
    explained : bool
        Whether they have read what is measured.
    demo : bool
        Whether it is of ``stripewise demo``, whose limits need one line.
    """
    unit, units = result.objective.unit, {one.name: one.unit for one in result.space.parameters}
    # What a table answered says which in its environment.
    origin = " (simulated)" if result.simulated else " (replayed)" if "table" in result.environment else ""
    console.print()
    prose(result.verdict + origin, "bold")
    for family in result.families:
        prose(f"  {family.family} (experiment {family.experiment}): {family.verdict}")
    console.print()
    if not explained and (said := timing(result.objective)):
        prose(f"  {said}", "dim")
    for note in result.objective_notes:
        prose(f"  {complete_commands(note)}")
    if result.reference is not None:
        console.print(f"  reference  {_format_measured(result.reference, unit)}  (without the component)")
    console.print(f"  default    {_format_measured(result.default, unit)}")
    console.print(f"  best       {_format_measured(result.best, unit)}{'' if result.confirmed else '  (the default)'}")
    if (replays := result.replays) is not None:
        values = f"default {number(replays.default, unit)}, best found {number(replays.candidate, unit)}"
        prose(
            f"  searched on {count_of(replays.runs, 'replay')} of {replays.record}: {values} (of replays, not of "
            "the program)"
        )
    if result.candidate is not None:
        shown = number(result.candidate.value, unit)
        console.print(f"  candidate  {shown}  (not proven{'; its settings:' if result.effects else ''})")
    if result.confirmed:
        bounds = f"{_ratios(result.speedup_interval)}{_describe_least(result)}"
        prose(f"  speed-up   {format_factor(result.speedup)}  ({bounds})")
    elif result.candidate is not None and result.candidate.speedup_interval is not None:
        bounds = _ratios(result.candidate.speedup_interval)
        prose(f"  speed-up   {format_factor(result.candidate.speedup or 1.0)}  ({bounds}; not proven)")
    console.print()
    for effect in result.effects:
        prose(f"  {_write_effect(effect, units)}")
    for sentence in (
        f"what mattered: {'; '.join(result.contributions)}" if result.shares else "",
        f"no effect here: {', '.join(result.ineffective)}" if result.ineffective else "",
        result.ceiling.says if result.ceiling is not None else "",
        *(change.sentence for change in result.level.changes),
        describe_repeats(result.cost.repeated) if result.cost is not None and result.cost.repeated else "",
        describe_unneeded(result) if result.cost is not None and result.cost.unneeded else "",
    ):
        if sentence:
            prose(f"  {sentence}")
    for failure in result.failures[:3]:
        prose(f"  {failure.count} failed: {failure.reason}")
    if result.cheapest is not None:
        words = _write_changes(result.cheapest.configuration, result)
        prose(f"  cheaper for other users, and within 5% of the best in the search: {words}")
    if result.preferred_over is not None:
        words = _write_changes(result.preferred_over.configuration, result)
        prose(f"  preferred, being cheaper and within 5%, to: {words}")
    if not result.confirmed and result.confirmation.more_budget:
        prose(f"  {complete_commands(result.confirmation.more_budget)}")
    _print_limits(result, demo)
    identifier = result.experiment
    console.print()
    if result.confirmed and result.best.role == "reference" and result.reference is not None:
        console.print("the program is best without the component" + escape(result.reference.how))
    if result.applicable and _carried_by_plan(result):
        _say(f"apply it:   stripewise run {identifier} -- COMMAND")
        _say(f"export it:  stripewise export {identifier} --to {_forms(result)}")
    again = [f"look again: stripewise show {identifier}"] if explained else []
    if last := "; ".join([*again, *([f"report: {report}"] if report else [])]):
        _say(last)


def _write_changes(configuration: Mapping[str, Any], result: Result) -> str:
    parameters = result.space.parameters
    defaults, units = {one.name: one.default for one in parameters}, {one.name: one.unit for one in parameters}
    return " ".join(list_changes(configuration, defaults, units))


def _write_effect(effect: Effect, units: Mapping[str, str]) -> str:
    """Say what became of a setting of a plan, whose values are texts, in the words that rows of runs use for it."""
    # What is only requested has no evidence: its sentence says so.
    said = (effect.evidence or effect.status,) if effect.status == "requested" else (effect.status, effect.evidence)
    text = effect.requested
    value = int(text) if text.isdecimal() and str(int(text)) == text else text
    return f"{write_setting(effect.name, value, units)}: {' - '.join(filter(None, said))}"


def _print_limits(result: Result, demo: bool) -> None:
    """Print what the pairs could not show; without pairs the verdict says it all."""
    if result.confirmation.pairs and result.confirmation.limits:
        heading = f"  Limits of this {'proof' if result.confirmed else 'comparison'}:"
        if demo:
            console.print(f"{heading} a short demo, which says nothing of your program", style="dim")
            return
        console.print(heading, style="dim")
        for limit in result.confirmation.limits:
            prose(f"    {capitalised(limit)}", "dim")


def describe_repeats(launches: int) -> str:
    """Say how many launches were made again, and why."""
    were = "launch was" if launches == 1 else "launches were"
    return f"{launches} {were} repeated: the earlier one was interrupted, or ended while nobody was there to store it"


def describe_unneeded(result: Result) -> str:
    """Say how many launches of the budget were saved, and why."""
    assert result.cost is not None
    saved = result.cost.unneeded
    why = "the answer needed no more" if result.candidate is None else "they would hardly have proven the gain"
    return f"saved {saved} of {saved + result.runs} launches: {why}"


def _ratios(bounds: Interval | None) -> str:
    """Say where a speed-up comes from: it need not be the ratio of the medians above it."""
    if bounds is None:
        return "failed runs leave no interval"
    return f"median of ratios, {bounds.percent} interval {format_factor(bounds.low)} to {format_factor(bounds.high)}"


def _describe_least(result: Result) -> str:
    """Say where single runs with the best settings are slower than with the default, although most are faster."""
    least = result.confirmation.p10
    return f"; one run in ten gains less than {least:.2f}" if least is not None and least < 1 else ""


def _say(line: str) -> None:
    say(complete_commands(line))


def _carried_by_plan(result: Result) -> bool:
    """Whether a plan can say all of the best: it cannot take variables away, nor replace the command."""
    if result.best.role != "reference" or result.reference is None:
        return True
    off = result.reference.off
    return not off.get("unset") and not off.get("command")


def _forms(result: Result) -> str:
    """Forms to export a result in: HDF5's properties have no other carrier than the runtime."""
    settings = Plan.parse(result.plan, "result").settings
    only_runtime = settings and all(setting.carrier is HDF5 for setting in settings)
    return "plan|shell|sbatch" if only_runtime else "hints|shell|sbatch|openmpi|..."


def format_interval(ends: Interval | None, digits: int = 3) -> str:
    """Write an interval."""
    return "" if ends is None else f"{number(ends.low, digits=digits)} to {number(ends.high, digits=digits)}"


def _format_measured(summary: Summary, unit: str) -> str:
    spread = f"  ({format_interval(summary.interval, 4)})" if summary.interval else ""
    return f"{number(summary.value, unit)}{spread}  {summary.runs} run{'' if summary.runs == 1 else 's'}"
