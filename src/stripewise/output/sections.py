"""The sections of an experiment: what was found, how to apply it, and what is needed to check it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from stripewise import __version__
from stripewise.catalogue.plan import Plan
from stripewise.observe.objectives import timing
from stripewise.output.experiment_view import ExperimentView
from stripewise.output.export import TITLES, Export, export
from stripewise.output.markup import duration, workload_text
from stripewise.output.page import environment
from stripewise.output.plots.proof import explain_control
from stripewise.output.plots.style import number
from stripewise.result import Cost, ParameterSummary
from stripewise.sizes import format_value

HEADINGS = {
    "proof": "Proof",
    "effects": "Effects",
    "trajectory": "Search",
    "parameters": "Parameters",
    "runs": "Runs",
    "apply": "Apply",
    "machine": "Machine",
    "validity": "Validity",
    "cost": "Cost",
    "provenance": "Provenance",
}
"""The sections in order: each is a macro of this name in ``sections.html``, and the words that link to it.

``headline`` stands before them: the verdict, the settings and what to do next.
"""

_STATUS_WORDS = {
    "effective": ("✓", "effective", "what the program did differs from what it did without it"),
    "echoed": ("≈", "echoed", "the library reports it back, which proves no effect"),
    "requested": ("…", "requested", "asked for, and nothing was heard of it"),
    "no_effect": ("○", "no effect", "evidence shows that it changed nothing here"),
    "refused": ("✕", "refused", "something else won, or the library did not take it"),
    "unprovable": ("?", "unprovable", "nothing that can be observed would show its effect"),
}


def sections(view: ExperimentView, drawn: Collection[str], names: Iterable[str]) -> dict[str, Markup]:
    """Write sections of an experiment, by name.

    Parameters
    ----------
    drawn : collection of str
        Names of the figures to leave places for.
    names : iterable of str
        Of :data:`HEADINGS`, or ``headline``.
    """
    macros, about = environment().get_template("sections.html").module, Details(view)
    return {name: getattr(macros, name)(view, drawn, about) for name in names}


@dataclass(frozen=True)
class Details:
    """What the templates ask of a view besides its own attributes."""

    view: ExperimentView
    version: str = __version__

    def status(self, word: str) -> tuple[str, str, str]:
        """Give the symbol, the words and the meaning of a setting's status."""
        return _STATUS_WORDS.get(word, ("", word, ""))

    def timing(self) -> str:
        """Say what the objective counts, where people may expect something else."""
        return timing(self.view.result.objective)

    def statuses(self) -> list[str]:
        """List the statuses that occur, in the order of the legend."""
        used = {entry.status for entry in self.view.result.effects}
        return [status for status in _STATUS_WORDS if status in used]

    def exports(self) -> dict[str, Export]:
        """Write the settings for each target, by title; nothing where the default is kept."""
        result = self.view.result
        plan = Plan.parse(result.plan, "the result's plan")
        if not result.applicable or not (plan.settings or plan.sections):
            return {}
        changed, cautions = result.changed(result.best), result.cautions
        return {title: export(plan, target, changed=changed, cautions=cautions) for target, title in TITLES.items()}

    def nothing_to_apply(self) -> str:
        """Say why there is nothing to export."""
        result = self.view.result
        if result.confirmed and result.reference is not None:
            return f"The program is best without the component{result.reference.how}."
        return "The default is kept: there is nothing to apply."

    def more(self) -> tuple[str, str]:
        """Say how many pairs would decide, and the command that makes them; empty where no number of pairs would."""
        text, colon, command = self.view.result.confirmation.more_budget.partition(": stripewise ")
        return text + ("." if colon else ""), self.view.completed(f"stripewise {command}") if colon else ""

    def advice(self) -> str:
        """Say what to do where the default is kept and no number of further pairs is known to decide."""
        result = self.view.result
        if result.confirmation.same_against_same and not result.confirmation.same_against_same.passed:
            return "Repeat the experiment when the machine is quieter."
        if not result.effects:
            return "Look at which settings can act here, and try a larger budget or other stacks."
        if result.candidate is None:
            return "These settings gain nothing here; other stacks, or a case that does more I/O, may."
        return "A larger budget finds smaller gains; a case that does more I/O shows them more clearly."

    def caveat(self) -> str:
        """Give the one reservation that matters most; empty where there is nothing to apply."""
        result = self.view.result
        proof = result.confirmation
        if not result.confirmed:
            return ""
        if proof.p10 is not None and proof.p10 < 1:
            return f"one run in ten gains less than {number(proof.p10)}: the gain holds on average, not in each run."
        if result.effects and not any(effect.status == "effective" for effect in result.effects):
            return "no observation shows which setting acted; the gain is measured for all of them together."
        return result.validity.warning or ". ".join(proof.limits[:1])

    def program(self) -> str:
        """Write the command as it was given."""
        return shlex.join(self.view.record.experiment.command)

    def command(self) -> str:
        """Write the command that applies the result."""
        run = self.view.completed(f"stripewise run {self.view.result.experiment}")
        return f"{run} -- {self.program() or 'COMMAND'}"

    def machine(self) -> str:
        """Say whether the machine changed meanwhile."""
        runs, moments, chart = self.view.machine
        span = duration(moments[-1] - moments[0]) if len(moments) > 1 else ""
        return explain_control(chart, [run.number for run in runs], span, self.view.result.level.changes)

    def cost(self) -> Cost:
        """Give the account; an unfinished experiment has none yet, and one that an earlier version kept may lack it."""
        result = self.view.result
        return result.cost or Cost(seconds=result.seconds, node_hours=result.node_hours)

    def environment(self) -> list[tuple[str, str]]:
        """Write what is known of the machine and its software."""
        return [(_heading(key), _make_plain(value)) for key, value in self.view.result.environment.items()]

    def workload(self) -> list[tuple[str, str]]:
        """Write what is known of the workload."""
        known = self.view.result.workload.model_dump(exclude_none=True)
        return [(key.replace("_", " "), workload_text(key, value)) for key, value in known.items()]

    def values(self, parameter: ParameterSummary) -> str:
        """Write the values of a parameter; of long ranges the ends."""
        unit, listed = parameter.unit, parameter.values
        if parameter.count > len(listed) == 2:
            return f"{format_value(listed[0], unit)} to {format_value(listed[1], unit)}, {parameter.count:,} values"
        return ", ".join(format_value(value, unit) for value in listed)

    def definition(self) -> str:
        """Write the experiment as it was defined."""
        definition = self.view.record.experiment.model_dump(mode="json", exclude_defaults=True)
        return json.dumps(definition, indent=2, ensure_ascii=False)


def _heading(key: str) -> str:
    words = key.replace("_", " ").replace("mpi", "MPI").replace("cpus", "CPUs")
    return "MPI-IO" if key == "io" else words[:1].upper() + words[1:]


def _make_plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value if value is not None else "")
