"""What a phase says of the run that it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stripewise.facts import RunFacts
from stripewise.launch import Launch, Outcome
from stripewise.observe.journal import JournalPhase
from stripewise.observe.phase_report import report_of
from stripewise.requests.experiment import Experiment
from stripewise.runners.within.families import MIXED, family_of
from stripewise.runners.within.loss_limit import Loss
from stripewise.trial import Phase, State


def block_of(asked: Launch, phases: Sequence[JournalPhase], last: JournalPhase) -> Sequence[JournalPhase] | None:
    """Give the phases that a run holds, the last of which is known; None where they are no evidence.

    A setting that only puts off what is to be written looks fast, and makes the next phase slow. So each run of a pair
    follows a phase with the same settings: the pair compares what the program would take with these settings all the
    time.

    Parameters
    ----------
    asked : Launch
    phases : sequence of JournalPhase
        The family's in the launch, in order.
    last : JournalPhase
        One of them.
    """
    end = phases.index(last) + 1
    if asked.phase is not Phase.CONFIRMATION:
        return [last] if last.settings != MIXED else None
    block = phases[max(0, end - asked.block) : end]
    before = phases[: end - asked.block][-1:] if end > asked.block else []
    return block if before and all(one.settings == last.settings for one in (*before, *block)) else None


def outcome_of(
    asked: Launch,
    experiment: Experiment,
    folder: Path,
    phases: Sequence[JournalPhase],
    block: Sequence[JournalPhase],
    loss: Loss | None,
    seen: Sequence[JournalPhase],
) -> Outcome:
    """Give the outcome of a run.

    Parameters
    ----------
    asked : Launch
    experiment : Experiment
    folder : Path
        Of the launch.
    phases : sequence of JournalPhase
        The family's in the launch, in order.
    block : sequence of JournalPhase
        Those of the run.
    loss : Loss or None
        Of the launch, up to the run.
    seen : sequence of JournalPhase
        What each family did in the last of them: the evidence of what acted.
    """
    last = block[-1]
    start, within = phases.index(block[0]), experiment.within
    reason = ""
    if missed := max(phase.missed for phase in block):
        reason = (
            f"{missed} of its settings did not act: the program sets them itself, or MPI or the file system "
            "refused them"
        )
    seconds = sum(phase.seconds for phase in block)
    return Outcome(
        asked.number,
        State.FAILED if reason else State.FINISHED,
        seconds,
        block[0].time - block[0].seconds,
        reason,
        report=report_of(seen),
        folder=folder,
        metrics={experiment.objective.name: sum(phase.moved for phase in block) / 2**20 / seconds},
        facts=RunFacts(
            nodes=last.nodes,
            adopted=bool(asked.attempt),  # its order may have been carried out before it was asked for again
            file_family=family_of(last),
            switched=_switched(asked, phases, start),
            lost=0.0 if loss is None else loss.lost / loss.default,
            waits=0 if loss is None else loss.wait(within.factor - 1, within.max_loss),
        ),
    )


def _switched(asked: Launch, phases: Sequence[JournalPhase], start: int) -> float | None:
    """The bandwidth of the phase before a run of the proof, where it only separates its settings from others."""
    if asked.phase is not Phase.CONFIRMATION or start < 2 or phases[start - 2].settings == phases[start - 1].settings:
        return None
    return phases[start - 1].bandwidth
