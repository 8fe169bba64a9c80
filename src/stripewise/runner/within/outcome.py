"""What a phase says of the run that it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stripewise.runner.within.loss import Loss
from stripewise.spec.facts import RunFacts
from stripewise.spec.journal import JournalPhase
from stripewise.spec.launch import Launch, Outcome
from stripewise.spec.phase_report import report_of
from stripewise.spec.plan import Plan
from stripewise.spec.trial import Phase, State


def outcome_of(
    asked: Launch, objective: str, folder: Path, alike: Sequence[JournalPhase], phase: JournalPhase
) -> Outcome:
    """Give the outcome of a run that a phase is.

    Parameters
    ----------
    asked : Launch
    objective : str
        Its name.
    folder : Path
        Of the launch.
    alike : sequence of JournalPhase
        The family's in the launch, in order.
    phase : JournalPhase
        One of them.
    """
    doing = "writing" if phase.operation == "write" else "reading"
    place = alike.index(phase)
    loss = Loss.of(alike[: place + 1])
    before = alike[place - 1] if place > 1 and alike[place - 2].settings != alike[place - 1].settings else None
    reason = ""
    if phase.missed:
        reason = (
            f"{phase.missed} of its settings did not act: the program sets them itself, or MPI or the file system "
            "refused them"
        )
    return Outcome(
        asked.number,
        State.FAILED if reason else State.FINISHED,
        phase.seconds,
        phase.time - phase.seconds,
        reason,
        report=report_of(phase),
        folder=folder,
        metrics={objective: phase.bandwidth},
        facts=RunFacts(
            nodes=phase.nodes,
            adopted=bool(asked.attempt),  # its order may have been carried out before it was asked for again
            file_family=f"{doing} {phase.site}",
            switched=None if before is None else before.bandwidth,
            lost=0.0 if loss is None else loss.lost / loss.default,
        ),
    )


def pays_for_others(asked: Launch, phases: Sequence[JournalPhase], phase: JournalPhase) -> bool:
    """Whether a run of the proof may pay for what other settings left behind: then it is no evidence.

    A setting that only puts off what is to be written looks fast, and makes the next phase slow. So each run of a pair
    follows a phase with the same settings: the pair compares what the program would take with these settings all the
    time.
    """
    place = phases.index(phase)
    return asked.phase is Phase.CONFIRMATION and (place == 0 or phases[place - 1].settings != phase.settings)


def parse_settings(plan: Plan) -> dict[str, str]:
    """Give a plan's settings as answers name them."""
    return {f"{s.layer} {s.key}" if s.carrier.of_file_system else s.key: s.value for s in plan.settings}
