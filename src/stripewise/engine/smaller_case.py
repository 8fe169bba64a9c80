"""A smaller case of the program that is searched first, and what its experiment leaves to the one at full size."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stripewise.catalogue.workload import Workload
from stripewise.engine.definition import LAUNCHING, check
from stripewise.engine.schedule import schedule_of
from stripewise.errors import UserError
from stripewise.requests.experiment import LONGEST_NAME, Experiment
from stripewise.runners.program.command import split_command
from stripewise.search.base import make_sampler

if TYPE_CHECKING:
    from stripewise.store.base import Record

_SUFFIX = " (small)"


def small_case(experiment: Experiment, command: Sequence[str], runs: int) -> Experiment:
    """Make the experiment that searches the small case: the same space and objective, and no proof.

    Parameters
    ----------
    experiment : Experiment
        At full size.
    command : sequence of str
        The program made smaller: fewer steps, ranks or bytes.
    runs : int
        Launches of it, failures and warm-up included.

    Raises
    ------
    UserError
        If there is no program, the search cannot start from earlier runs, or the command is wrong.
    """
    if refused := schedule_of(experiment).not_small:
        raise UserError(*refused)
    if experiment.runner not in LAUNCHING:
        raise UserError(
            f"--small needs a program, and runner {experiment.runner} launches none for each run",
            f"use the runner {', '.join(LAUNCHING[:-1])} or {LAUNCHING[-1]}",
        )
    if not make_sampler(experiment.sampler, experiment.sampler_options).uses_prior:
        raise UserError(
            f"sampler {experiment.sampler} cannot start from a small case", "use --sampler auto or surrogate"
        )
    if not split_command(command).program:
        raise UserError(f"--small '{shlex.join(command)}' names no program", "write it as after the two dashes")
    case = experiment.model_copy(
        update={
            "name": f"{experiment.name[: LONGEST_NAME - len(_SUFFIX)]}{_SUFFIX}",
            "command": list(command),
            # Sizes that the user gave are those of the whole; the first run shows its own.
            "workload": Workload(),
            "budget": experiment.budget.model_copy(update={"runs": runs}),
            "confirmation": experiment.confirmation.model_copy(update={"pairs": 0}),
        }
    )
    checked = Experiment.model_validate(case.model_dump())
    check(checked)
    return checked


def after_small(experiment: Experiment, small: Record) -> Experiment:
    """Give the experiment at full size, which starts from the small one and has what that left of the limits.

    Raises
    ------
    UserError
        If nothing is left of the time or the node-hours.
    """
    assert small.result is not None
    left = {}
    for limit in ("seconds", "node_hours"):
        most = getattr(experiment.budget, limit)
        if most is not None:
            left[limit] = most - getattr(small.result, limit)
            if left[limit] <= 0:
                words = "time" if limit == "seconds" else "node-hours"
                raise UserError(
                    f"the small case used up the limit of {words}, {most:g}",
                    f"start from it with a larger limit: --warm-start {small.id}",
                )
    return experiment.model_copy(
        update={
            "budget": experiment.budget.model_copy(update=left),
            "warm_start": [*experiment.warm_start, small.id],
        }
    )
