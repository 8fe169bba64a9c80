"""What an answer says, each statement with the two runs that it compares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import settings_of
from stripewise.catalogue.space import Space
from stripewise.diagnose.site import Diagnosis
from stripewise.engine.ineffective import Narrowing
from stripewise.engine.space import BoundSpace
from stripewise.result import Result
from stripewise.search.belief.posterior import NEAR
from stripewise.trial import Role, Trial

from .programs import Arm

NOTHING: Arm = ()


@dataclass(frozen=True)
class Statement:
    """A sentence of an answer that can be checked by switching one thing.

    Attributes
    ----------
    kind : str
        ``effective``, ``no effect``, ``speed-up``, ``share``, ``preferred``, ``predicted``, or ``answer``:
        a setting of the answer, or of what was to be proven, must do something.
    says : str
    arm, other : Arm
        The settings with the thing, and without it.
    low, high : float
        How many times as fast ``arm`` is said to be as ``other``; not for calls.
    beside : str
        The direction of calls that the statement leaves out, because the objective does not measure it; else empty.
    """

    kind: str
    says: str
    arm: Arm
    other: Arm
    low: float = math.nan
    high: float = math.nan
    beside: str = ""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All settings that are compared."""
        return self.arm, self.other

    @property
    def of_calls(self) -> bool:
        """Whether it speaks of what the program does, not of how fast."""
        return self.kind in ("effective", "no effect", "answer")


def list_statements(
    result: Result, bound: BoundSpace, trials: Sequence[Trial], diagnosis: Diagnosis | None
) -> list[Statement]:
    """List all statements of a result and of the diagnosis of the default run that switching one thing can check."""
    found = [*_of_effects(result, bound, trials), *_of_folds(bound, trials), *_of_gain(result, bound, trials)]
    if diagnosis is not None:
        found += _of_findings(diagnosis)
    return list({(one.kind, one.arm, one.other, one.says): one for one in found}.values())


def _shown(result: Result, trials: Sequence[Trial]) -> Trial | None:
    number = result.candidate.trial if result.candidate is not None else result.best.trial
    return next((one for one in trials if one.number == number and one.role is Role.CANDIDATE), None)


def _arm_of(space: Space, configuration: Mapping[str, Any]) -> Arm:
    return tuple(settings_of(space, Configuration(configuration)))


def leave_out(space: Space, arm: Arm, name: str) -> Arm:
    """Take a setting away by its name, with what is derived from it."""
    keys = {name, *(p.setting for p in space.parameters if p.name == name)}
    keys |= {d.name for d in space.derived if name in d.value.names}
    return tuple(setting for setting in arm if setting.key not in keys)


def _of_effects(result: Result, bound: BoundSpace, trials: Sequence[Trial]) -> Iterator[Statement]:
    trial = _shown(result, trials)
    if trial is None:
        return
    arm = _arm_of(bound.space, trial.configuration)
    for effect in result.effects:
        kind = {"effective": "effective", "no_effect": "no effect"}.get(effect.status)
        if kind is not None:
            says = f"{effect.name}={effect.requested}: {kind} - {effect.evidence}"
            yield make_statement(kind, says, arm, leave_out(bound.space, arm, effect.name))
        if result.confirmation.pairs and effect.name in result.changed(result.shown):
            place = "the answer" if result.confirmed else "what was to be proven"
            says = f"{effect.name}={effect.requested} is in {place} - {effect.evidence}"
            yield Statement("answer", says, arm, leave_out(bound.space, arm, effect.name))


def make_statement(kind: str, says: str, arm: Arm, other: Arm) -> Statement:
    """Make a statement on calls; its last words name the direction that it leaves out."""
    beside = next((way for way in ("read", "write") if says.endswith(f"does not measure {way}s")), "")
    return Statement(kind, says, arm, other, beside=beside)


def _of_folds(bound: BoundSpace, trials: Sequence[Trial]) -> Iterator[Statement]:
    """Parameters that are no longer varied: one trial for each value that did nothing."""
    for idle in Narrowing().idle(bound.space, trials):
        where = dict(idle.where)
        for value in idle.values:
            given = {**where, idle.name: value}
            trial = next((one for one in trials if all(one.configuration.get(k) == v for k, v in given.items())), None)
            arm = NOTHING if trial is None else _arm_of(bound.space, trial.configuration)
            if arm != (other := leave_out(bound.space, arm, idle.name)):
                yield make_statement(
                    "no effect", f"{idle.name}={value}: no longer varied - {idle.evidence}", arm, other
                )


def _of_gain(result: Result, bound: BoundSpace, trials: Sequence[Trial]) -> Iterator[Statement]:
    trial = _shown(result, trials)
    if trial is None:
        return
    arm = _arm_of(bound.space, trial.configuration)
    interval = result.confirmation.interval
    if interval is not None and result.confirmation.estimate is not None:
        says = f"{result.confirmation.estimate:.2f} times the default ({interval.low:.2f} to {interval.high:.2f})"
        yield Statement("speed-up", says, arm, NOTHING, interval.low, interval.high)
    for share in result.shares:
        other = leave_out(bound.space, arm, share.name)
        if share.interval is not None and other != arm:
            yield Statement("share", share.says, arm, other, share.interval.low, share.interval.high)
    if result.preferred_over is not None:
        other = _arm_of(bound.space, result.preferred_over.configuration)
        yield Statement("preferred", "preferred, being cheaper and within 5%", arm, other, 1 - NEAR, math.inf)
    if result.cheapest is not None:
        other = _arm_of(bound.space, result.cheapest.configuration)
        yield Statement("preferred", "cheaper and within 5% of the best", other, arm, 1 - NEAR, math.inf)


def _of_findings(diagnosis: Diagnosis) -> Iterator[Statement]:
    for finding in diagnosis.problems:
        arm: Arm = finding.settings
        expected = finding.expected
        if arm and expected.reasons:
            yield Statement("predicted", f"{finding.code}: {expected.says}", arm, NOTHING, expected.low, expected.high)
