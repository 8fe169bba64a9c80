"""The results of a campaign: its table and its summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stripewise.catalogue.carriers import ARGUMENT
from stripewise.catalogue.factor import WORKLOAD_ROLES, Factor, Tunable
from stripewise.catalogue.stack import load_stack
from stripewise.documents import toml_document
from stripewise.engine.campaign.plan import PlannedPoint, value_of
from stripewise.errors import UserError
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table, write_table
from stripewise.models.tunables import describe_schema
from stripewise.observe.objectives import kind_of
from stripewise.ownership import is_special
from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Points
from stripewise.requests.objective import Objective
from stripewise.sizes import format_size
from stripewise.trial import Run, State

_FAILURES = 100


def table_of(
    points: Points,
    planned: Sequence[PlannedPoint],
    results: Mapping[int, Run],
    objective: Objective,
    about: str,
    whole: bool,
) -> Table:
    """Make the table of a campaign's finished runs.

    Parameters
    ----------
    results : mapping
        Runs by number.
    about : str
        One sentence on where the figures come from.
    whole : bool
        Whether every combination was to be measured.

    Raises
    ------
    UserError
        If no run has finished.
    """
    campaign = points.campaign
    rows: list[dict[str, Any]] = []
    failed = False
    for run in sorted(planned, key=lambda entry: (entry.trial, entry.repeat)):
        result = value_of(results, run.number)
        if result is None or result.state is not State.FINISHED:
            failed = True
            continue
        rows.append({**run.point.values, "operation": run.point.operation, "repeat": run.repeat, "value": result.value})
    if not rows:
        raise UserError(f"no run of campaign {campaign.name} has finished", "see why with --json, and fix it")
    column = kind_of(campaign.objective).column
    rows = [{**row, column: row.pop("value")} for row in rows]
    schema = Schema(
        name=campaign.name,
        description=" ".join(
            f"{part.rstrip('.')}." for part in (campaign.description, about, _describe_assumed(campaign)) if part
        ),
        source=campaign.source,
        license=campaign.license,
        complete=whole and not failed,
        constraints=_list_constraints(campaign),
        objective=ObjectiveColumn(column=column, direction=objective.direction, unit=objective.unit),
        parameter=[_tunable(campaign, factor, rows) for factor in campaign.tunable],
        context=[
            Column(
                name="operation", kind="categorical", role="operation", values=_list_present(campaign.operations, rows)
            ),
            *(_column(factor, rows) for factor in campaign.workload),
        ],
    )
    return make_table(describe_schema(schema, campaign.stacks), rows, f"campaign {campaign.name}")


def _list_constraints(campaign: Campaign) -> list[str]:
    """List the campaign's own, and what its program does in every run: the benchmarks share one file unless told."""
    shared = campaign.program != "command" and all(factor.role != "file_per_process" for factor in campaign.factors)
    return [*campaign.constraints, *(["not file_per_process"] if shared else [])]


def _list_present(operations: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    seen = {row["operation"] for row in rows}
    return [name for name in operations if name in seen]


def _values(factor: Factor, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    seen = {repr(row[factor.name]): row[factor.name] for row in rows}
    if factor.ordered and all(isinstance(v, int | float) and not isinstance(v, bool) for v in seen.values()):
        return sorted(seen.values(), key=float)
    listed = [value for value in factor.values if repr(value) in seen]
    return [*listed, *(value for text, value in sorted(seen.items()) if text not in set(map(repr, listed)))]


def _column(factor: Factor, rows: Sequence[Mapping[str, Any]]) -> Column:
    return Column(
        name=factor.name,
        kind="ordinal" if factor.ordered else "categorical",
        role=factor.role,
        unit=factor.unit or "",
        scale=factor.axis,
        values=_values(factor, rows),
    )


def _tunable(campaign: Campaign, factor: Tunable, rows: Sequence[Mapping[str, Any]]) -> Column:
    column = _column(factor, rows)
    only = list(factor.operations) if set(factor.operations) < set(campaign.operations) else None
    carrier, key = factor.carrier, factor.key or factor.name
    if carrier is None and factor.role not in WORKLOAD_ROLES and any("{" + key + "}" in w for w in campaign.command):
        carrier = ARGUMENT
    stacked = factor.carrier is None and any(
        parameter.name == factor.name
        for name in campaign.stacks
        for parameter in load_stack(name).with_switch([factor.name]).parameters
    )
    own = carrier is not None and not stacked and not carrier.of_file_system
    return column.model_copy(
        update={
            "default": factor.default if factor.default in column.values else None,
            "active_if": factor.active_if,
            "operations": only,
            **({"carrier": carrier, "key": key} if own else {}),
        }
    )


def _describe_assumed(campaign: Campaign) -> str:
    assumed = campaign.assumptions()
    if not assumed:
        return ""
    units = {factor.name: factor.unit for factor in campaign.factors}
    listed = "; ".join(
        f"{name} {', '.join(format_size(v) if units[name] == 'B' else str(v) for v in values)}"
        for name, values in assumed.items()
    )
    return f"Not printed in the study, chosen here: {listed}."


def summary(
    points: Points,
    planned: Sequence[PlannedPoint],
    results: Mapping[int, Run],
    *,
    kind: str,
    complete: bool,
    table: Path | None,
    shard: tuple[int, int],
) -> dict[str, Any]:
    """Summarise a campaign, or a shard of it, as plain values."""
    campaign = points.campaign
    ended = [(run, value_of(results, run.number)) for run in planned]
    failed = [(run, result) for run, result in ended if result is not None and result.state is not State.FINISHED]
    made = [run for run in results.values() if run.state.ended]
    return {
        "campaign": campaign.name,
        "digest": campaign.digest,
        "runner": campaign.runner,
        "kind": kind,
        "simulated": kind == "simulated",
        "shard": list(shard),
        "design": campaign.design.kind,
        "configurations": len({run.trial for run in planned}),
        "repeats": campaign.repeats,
        "runs": {
            "planned": len(planned),
            "finished": sum(result is not None and result.state is State.FINISHED for _, result in ended),
            "failed": len(failed),
            "left": sum(result is None for _, result in ended),
        },
        "complete": complete and all(result is not None for _, result in ended),
        "left_out": points.left_out,
        "seconds": sum(run.elapsed or 0.0 for run in made),
        "node_hours": sum(run.facts.node_hours for run in made),
        "assumed": campaign.assumptions(),
        "failures": [
            {
                "run": run.number,
                "operation": run.point.operation,
                "configuration": dict(run.point.values),
                "reason": "" if result is None else result.reason,
            }
            for run, result in failed[:_FAILURES]
        ],
        "table": None if table is None else str(table),
    }


def check_out(path: Path) -> Path:
    """Give the common stem of a table's files, after making sure that nothing else is overwritten.

    Raises
    ------
    UserError
        If the folder does not exist, or a file of that name does not belong to a table: a campaign file, for instance.
    """
    stem = path.with_suffix("") if path.suffix in (".csv", ".toml") else path
    if not stem.absolute().parent.is_dir():
        raise UserError(f"--out: the folder {stem.absolute().parent} does not exist", "create it first")
    described = stem.with_name(stem.name + ".toml")
    try:
        # Another user may have put a pipe there, where a name of ours can be guessed.
        known = {} if is_special(described) else toml_document(described.read_text("utf-8"), str(described))
    except FileNotFoundError:
        return stem
    except (OSError, ValueError, UserError):
        known = {}
    if not {"name", "objective", "parameter"} <= known.keys():
        raise UserError(f"{described} is there already and describes no table", "choose another name with --out")
    return stem


def save(table: Table, path: Path) -> Path:
    """Write a table's two files, each whole or not at all, and give the path of the data.

    Raises
    ------
    UserError
        See :func:`check_out`; or if they cannot be written.
    """
    stem = check_out(path)
    write_table(table, stem)
    return stem.with_name(stem.name + ".csv")
