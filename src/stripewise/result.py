"""What an experiment has shown: the result document as frozen values, read and written here and nowhere else.

Every part has a default, so that a result which an earlier version kept can be read by this one. Keys that this version
does not know are left out.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from stripewise.catalogue.configuration import find_changes
from stripewise.catalogue.stack import OffEntry
from stripewise.catalogue.workload import Workload
from stripewise.observe.ceiling import Ceiling
from stripewise.requests.objective import Objective
from stripewise.sizes import count_of, format_factor

USUAL_LEVEL = 0.95
"""Level of the intervals whose keys in JSON say ``ci95``."""
_WIDE = 2.0
"""Ratio of an interval's ends from which it is too wide to show that two things are the same."""


@dataclass(frozen=True)
class Interval:
    """An interval that covers the true value with probability ``level``.

    Attributes
    ----------
    low, high : float
        The ends; infinite without a bound.
    level : float
        Two-sided, 0 to 1.
    """

    low: float
    high: float
    level: float = USUAL_LEVEL

    @property
    def ci95(self) -> list[float | None] | None:
        """The ends for JSON keys that say ``ci95``; None at another level, and None for an infinite end."""
        return [_make_finite(self.low), _make_finite(self.high)] if self.level == USUAL_LEVEL else None

    @property
    def percent(self) -> str:
        """The level for people, such as ``95%``."""
        return f"{100 * self.level:g}%"

    @property
    def bounded(self) -> bool:
        """Whether both ends of an interval of ratios say something."""
        return self.low > 0 and self.high < math.inf


class _ResultPart(BaseModel):
    """A part of the document, with its intervals written in the form that the level asks for.

    At 95% an interval is the pair of its ends under a key that ends in ``ci95``. At any other level that key is null,
    and a key that ends in ``interval`` holds ``low``, ``high`` and ``level``.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, defer_build=True)
    _intervals: ClassVar[dict[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _read_intervals(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            data = dict(data)
            for name, key in cls._intervals.items():
                ends, given = data.pop(key, None), data.get(name)
                if isinstance(given, Mapping):
                    data[name] = _make_interval(given["low"], given["high"], given["level"])
                elif given is None and ends is not None:
                    data[name] = _make_interval(*ends)
        return data

    @model_serializer(mode="wrap")
    def _write_intervals(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = {}
        for name, value in write(self).items():
            key = self._intervals.get(name)
            if key is None:
                written[name] = value
                continue
            interval: Interval | None = getattr(self, name)
            written[key] = None if interval is None else interval.ci95
            if interval is not None and written[key] is None:
                written[name] = {
                    "low": _make_finite(interval.low),
                    "high": _make_finite(interval.high),
                    "level": interval.level,
                }
        return written

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Take it from plain JSON values.

        Raises
        ------
        pydantic.ValidationError
            If a value is not of its kind.
        """
        return cls.model_validate(data)

    def as_json(self) -> dict[str, Any]:
        """Give it as plain JSON values, as the reference of the result document describes them."""
        found: dict[str, Any] = _make_plain(self.model_dump(by_alias=True))
        return found


class Summary(_ResultPart):
    """The median of a configuration's runs."""

    _intervals = {"interval": "ci95"}
    value: float | None = None
    interval: Interval | None = None
    runs: int = 0


class Reference(Summary):
    """The program with the component switched off, and how it was switched off."""

    off: dict[str, Any] = {}

    @property
    def how(self) -> str:
        """How it was switched off, in words that can be copied, after a colon; empty where nothing is known."""
        how = OffEntry.model_construct(**self.off).how
        return f": {how}" if how else ""


class Arm(Summary):
    """A configuration with the median of its runs."""

    configuration: dict[str, Any] = {}


class Best(Arm):
    """The configuration to use; ``role`` says what it is: ``default``, ``reference`` or ``candidate``."""

    trial: int | None = None
    role: str = Field(default="", alias="is")


class Candidate(_ResultPart):
    """What looked best but was not proven."""

    _intervals = {"speedup_interval": "speedup_ci95"}
    configuration: dict[str, Any] = {}
    trial: int | None = None
    value: float | None = None
    speedup: float | None = None
    speedup_interval: Interval | None = None


class Alternative(_ResultPart):
    """A configuration that was measured in the search and is not the one shown."""

    configuration: dict[str, Any] = {}
    value: float | None = None
    trial: int | None = None


@dataclass(frozen=True)
class Effect:
    """What became of a setting.

    Attributes
    ----------
    name : str
        The parameter, or the carrier's key where there is none (a derived setting, the application's own hint).
    layer : str
        Its stack's layer.
    requested : str
        The value asked for.
    requested_by : {"plan", "application"}
    echoed : str or None
        What MPI_File_get_info said afterwards.
    status : {"requested", "echoed", "effective", "no_effect", "refused", "unprovable"}
    evidence : str
        One sentence.
    """

    name: str
    layer: str = ""
    requested: str = ""
    requested_by: str = "plan"
    echoed: str | None = None
    status: str = ""
    evidence: str = ""


class Share(_ResultPart):
    """What a setting of a proven answer contributes: how many times slower the program is without it.

    ``slowdown`` is None where that was not measured; ``acts`` says whether an observed fact shows that it acts.
    ``pairs`` are those in which it was left out.
    """

    _intervals = {"interval": "ci95"}
    name: str = ""
    slowdown: float | None = None
    interval: Interval | None = None
    pairs: int = 0
    acts: bool = False

    @property
    def says(self) -> str:
        """What was measured of it, in words for people; empty if nothing was."""
        if self.slowdown is None or self.interval is None:
            return ""
        ends = self.interval
        figures = f"{ends.percent} interval {format_factor(ends.low)} to {format_factor(ends.high)}, {self.pairs} pairs"
        if ends.low <= 1 <= ends.high:
            return (
                f"{self.name} has no measurable share ({format_factor(self.slowdown)} times as slow without "
                f"it, {figures})"
            )
        if ends.high < 1:
            return f"without {self.name} the program is {format_factor(1 / self.slowdown)} times as fast ({figures})"
        return f"without {self.name} the program is {format_factor(self.slowdown)} times as slow ({figures})"


class PairOfRuns(_ResultPart):
    """Values of one pair of the confirmation; None where a run failed or is still to come."""

    pair: int
    order: str = ""
    default: float | None = None
    candidate: float | None = None

    @property
    def first(self) -> str:
        """The arm that ran first; empty where that is unknown."""
        return self.order.removesuffix("-first")

    def speedup(self, maximize: bool) -> float | None:
        """How many times better the candidate was, or None."""
        if not self.default or not self.candidate:
            return None
        return self.candidate / self.default if maximize else self.default / self.candidate


class Same(_ResultPart):
    """The default compared with itself.

    Attributes
    ----------
    interval : Interval or None
        None where the runs are too few to bound it.
    runs : int
        That were compared.
    """

    _intervals = {"interval": "ci95"}
    ratio: float
    interval: Interval | None = None
    passed: bool = True
    runs: int = 0

    @property
    def testable(self) -> bool:
        """Whether the runs tell anything."""
        return self.interval is not None and self.interval.low > 0 and math.isfinite(self.interval.high)

    @property
    def untested(self) -> str:
        """Say that the runs tell nothing."""
        count = f": {count_of(self.runs, 'run')} of it {'is' if self.runs == 1 else 'are'} too few" if self.runs else ""
        return f"the default was not tested against itself{count}"

    @property
    def says(self) -> str:
        """What the comparison shows, in a sentence for people."""
        ends = self.interval
        bounds = "" if ends is None else f", {ends.percent} interval {ends.low:.3g} to {ends.high:.3g}"
        figures = f"(ratio {self.ratio:.3g}{bounds})"
        if not self.testable:
            return f"{self.untested[0].upper()}{self.untested[1:]}."
        if not self.passed:
            return f"The default tested against itself shows a gain {figures}, so the session proves nothing."
        if ends is None or ends.high > _WIDE * ends.low:
            return f"The default tested against itself is too noisy to tell whether it shows a gain {figures}."
        return f"The default tested against itself shows no gain, as it must {figures}."


class Proof(_ResultPart):
    """The confirmation: its pairs, what they show, which points of the protocol were kept, and what limits it."""

    _intervals = {"interval": "ci95"}
    pairs: tuple[PairOfRuns, ...] = ()
    candidate_trial: int | None = None
    candidates_tested: int = 0
    minimum_effect: float = 1.0
    confidence: float = USUAL_LEVEL
    decision: str = "none"
    kept: tuple[str, ...] = ()
    limits: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("limits", "not_kept"))
    estimate: float | None = None
    interval: Interval | None = None
    geometric_mean: float | None = None
    p10: float | None = None
    same_against_same: Same | None = None
    more_budget: str = ""


class Failure(_ResultPart):
    """A reason for which runs failed: the first of them, and how many."""

    run: int
    reason: str
    count: int


class Cost(_ResultPart):
    """What was spent, what a run saves now, and after how many runs the search has paid for itself.

    ``launches`` has one for each run; ``repeated`` counts those that a run needed beyond its first. ``unneeded`` are
    launches of the budget that were left although there was time for them.
    """

    launches: dict[str, int] = {}
    repeated: int = 0
    unneeded: int = 0
    seconds: float | None = None
    node_hours: float | None = None
    bytes: int = 0
    saved_a_run_seconds: float = 0.0
    break_even_runs: int | None = None


class Validity(_ResultPart):
    """For what the result holds."""

    ranks: int | None = None
    nodes: int | None = None
    bytes: int | None = None
    mpi: str | None = None
    date: str | None = None
    warning: str = ""


class ParameterSummary(_ResultPart):
    """A parameter of the space; ``values`` holds the first and the last where there are more than 64."""

    name: str
    layer: str = ""
    values: tuple[Any, ...] = ()
    count: int = 0
    kind: str = ""
    scale: str = ""
    default: Any = None
    unit: str = ""
    role: str = ""


class SpaceSummary(_ResultPart):
    """The size of the space and its parameters; ``exact`` says whether ``distinct`` was counted."""

    grid: int = 0
    distinct: int = 0
    exact: bool = True
    parameters: tuple[ParameterSummary, ...] = ()


class LevelChange(_ResultPart):
    """A change of the machine during the search: between which runs, and how many times slower it became.

    ``started`` is when the later run started, in epoch seconds.
    """

    before: int
    after: int
    started: float | None = None
    slower: float

    @property
    def sentence(self) -> str:
        """Say when the machine became how much slower or faster."""
        word, factor = ("slower", self.slower) if self.slower > 1 else ("faster", 1 / self.slower)
        sudden = self.after == self.before + 1
        when = f"at run {self.after}" if sudden else f"between runs {self.before} and {self.after}"
        if self.started is not None:
            when += f" ({datetime.datetime.fromtimestamp(self.started).astimezone():%H:%M})"
        return f"The machine became {factor:.1f} times {word} {when}; the search compares all runs at one level."


class LevelOfRun(_ResultPart):
    """How many times slower than on average the machine was at a run, and what the default would have shown then."""

    run: int
    slower: float
    default: float


class MachineLevel(_ResultPart):
    """The level of the machine during the search; empty where it did not change."""

    changes: tuple[LevelChange, ...] = ()
    runs: tuple[LevelOfRun, ...] = ()


class Replays(_ResultPart):
    """What was searched on replays of a record, and not proven on the program.

    ``runs`` are launches of replays. ``default`` and ``candidate`` are values of replays, not of the program, and
    ``faithful`` says how replays compare with the program under the default.
    """

    record: str = ""
    runs: int = 0
    default: float | None = None
    candidate: float | None = None
    faithful: dict[str, Any] = {}


class FamilyResult(_ResultPart):
    """What the search of one file family found, of several that were tuned within one launch.

    ``files`` is the glob of its files in the plan, ``configuration`` what differs from the default where a gain is
    proven, and ``experiment`` the one that has its full result.
    """

    _intervals = {"speedup_interval": "speedup_ci95"}
    family: str = ""
    operation: str = ""
    files: str = "*"
    experiment: str = ""
    confirmed: bool = False
    speedup: float = 1.0
    speedup_interval: Interval | None = None
    verdict: str = ""
    configuration: dict[str, Any] = {}


class Result(_ResultPart):
    """All that an experiment has shown; see the reference of the result document."""

    _intervals = {"speedup_interval": "speedup_ci95"}
    experiment: str = ""
    name: str = ""
    simulated: bool = False
    state: str = "finished"
    objective: Objective = Objective("", "minimize", "")
    reference: Reference | None = None
    default: Arm = Arm()
    best: Best = Best()
    speedup: float = 1.0
    speedup_interval: Interval | None = None
    confirmed: bool = False
    verdict: str = ""
    reason: str = ""
    search_ended: str = ""
    runs: int = 0
    seconds: float = 0.0
    node_hours: float = 0.0
    settings: dict[str, str] = {}
    effects: tuple[Effect, ...] = ()
    objective_notes: tuple[str, ...] = ()
    shares: tuple[Share, ...] = ()
    cautions: tuple[str, ...] = ()
    ineffective: tuple[str, ...] = ()
    left_out: dict[str, str] = {}
    warm_start: tuple[dict[str, Any], ...] = ()
    model: dict[str, Any] | None = None
    confirmation: Proof = Proof()
    candidate: Candidate | None = None
    replays: Replays | None = None
    families: tuple[FamilyResult, ...] = ()
    cheapest: Alternative | None = None
    preferred_over: Alternative | None = None
    level: MachineLevel = MachineLevel()
    failures: tuple[Failure, ...] = ()
    cost: Cost | None = None
    ceiling: Ceiling | None = None
    plan: str = ""
    environment: dict[str, Any] = {}
    validity: Validity = Validity()
    space: SpaceSummary = SpaceSummary()
    workload: Workload = Workload()

    @model_validator(mode="before")
    @classmethod
    def _level_of_earlier_versions(cls, data: Any) -> Any:
        """Earlier versions wrote the confirmation's interval under ``ci95`` whatever its level was."""
        if isinstance(data, Mapping) and isinstance(proof := data.get("confirmation"), Mapping):
            level = proof.get("confidence", USUAL_LEVEL)
            if level != USUAL_LEVEL:
                data = dict(data)
                data["confirmation"] = _with_level(proof, "interval", "ci95", level)
                data = _with_level(data, "speedup_interval", "speedup_ci95", level)
                if isinstance(data.get("candidate"), Mapping):
                    data["candidate"] = _with_level(data["candidate"], "speedup_interval", "speedup_ci95", level)
        return data

    @field_validator("workload", mode="before")
    @classmethod
    def _known_words(cls, data: Any) -> Any:
        return {} if data is None else data

    @field_serializer("objective")
    def _measured(self, objective: Objective) -> dict[str, Any]:
        return objective.as_json()

    @field_serializer("workload")
    def _said(self, workload: Workload) -> dict[str, Any]:
        return workload.model_dump(exclude_none=True)

    @property
    def contributions(self) -> list[str]:
        """What each setting of the answer contributes, in words for people; those without a measured share together."""
        found = [share.says for share in self.shares if share.says]
        for acts in (True, False):
            names = [share.name for share in self.shares if not share.says and share.acts is acts]
            one, listed = len(names) == 1, ", ".join(names)
            if acts:
                known = f"{listed} acts; its share" if one else f"{listed} act; their shares"
            else:
                known = f"the share of {listed}" if one else f"the shares of {listed}"
            found += [f"{known} {'was' if one else 'were'} not measured"] if names else []
        return found

    @property
    def applicable(self) -> bool:
        """Whether the plan holds something proven, of one file family at least."""
        return self.confirmed or any(family.confirmed for family in self.families)

    @property
    def gain(self) -> float:
        """The speed-up of the settings to use: what was proven, and 1 where the default was kept."""
        return self.speedup if self.confirmed else 1.0

    @property
    def shown(self) -> Arm | Candidate | None:
        """What people want to see: the best if the gain is proven, else what looked best; None where nothing did."""
        return self.best if self.confirmed else self.candidate

    def changed(self, arm: Arm | Candidate | None) -> dict[str, Any]:
        """The settings of a configuration that differ from the default's."""
        return find_changes(arm.configuration if arm else {}, self.default.configuration)


def _with_level(data: Mapping[str, Any], name: str, key: str, level: float) -> dict[str, Any]:
    changed = dict(data)
    ends = changed.pop(key, None)
    if ends is not None:
        changed[name] = {"low": ends[0], "high": ends[1], "level": level}
    return changed


def _make_interval(low: float | None, high: float | None, level: float = USUAL_LEVEL) -> Interval:
    if not all(number is None or type(number) in (int, float) for number in (low, high, level)):
        raise ValueError("an end of an interval is not a number")
    return Interval(0.0 if low is None else low, math.inf if high is None else high, level)


def _make_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _make_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _make_plain(item) for key, item in value.items()}
    return [_make_plain(item) for item in value] if isinstance(value, list | tuple) else value
