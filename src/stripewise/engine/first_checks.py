"""What the first runs must show before more are spent: that they measure the program which is meant."""

from __future__ import annotations

from stripewise.engine.fidelity import Done, Faithfulness
from stripewise.engine.ledger import Ledger
from stripewise.errors import UserError
from stripewise.observe.report import Report
from stripewise.runners.replayer import Replayer
from stripewise.trial import Phase, Role, Run, State


def check_program(ledger: Ledger, run: Run) -> None:
    """Stop after the first run if the program that is to be measured is not among those that it started.

    Raises
    ------
    UserError
        If it is not.
    """
    named, missing = ledger.experiment.objective.program, run.facts.no_report
    worked = any(other.state is State.FINISHED for _, other in ledger.runs())
    if named and missing and not worked and run.facts.get("exit_code") == 0:
        raise UserError(
            f"the first run cannot be measured: {missing}",
            "name one of the programs of the command, or leave the program out to measure all of them",
        )


def check_replay(ledger: Ledger, replayer: Replayer | None, run: Run, report: Report | None) -> None:
    """Refuse to search on replays that are not faithful to the program, once they ran with the default.

    Raises
    ------
    UserError
        If they are not.
    """
    default = ledger.trials[run.trial].role is Role.DEFAULT
    if replayer is None or not default or run.phase is Phase.CONFIRMATION or report is None:
        return
    known = ledger.facts.replay
    if known is not None and known["faithful"]:
        return
    now = Faithfulness(Done.by_record(replayer.record), Done.by_report(report, replayer.record), replayer.replay.whole)
    ledger.remember(replay=now.as_json())
    if now.differences and run.phase is not Phase.WARMUP:
        raise UserError(
            f"replays of {replayer.replay.record} are not faithful to the program: {'; '.join(now.differences)}",
            "record the program again on this machine as it is now, set think = true in [replay], or tune the "
            "program itself",
        )
