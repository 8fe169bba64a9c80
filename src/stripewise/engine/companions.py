"""The searches of several file families of one launch: the costliest family's session takes the others along.

Each of the others is an experiment of its own, with its own budget, proof and result, which can be exported and
confirmed like any other. The costliest family's experiment waits for them, and its result tells of all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from stripewise.catalogue.plan import Plan
from stripewise.engine.ledger import ExperimentLedger
from stripewise.engine.priors import AUTO
from stripewise.errors import NotFound, Stopped, StripewiseError, UserError
from stripewise.facts import Facts
from stripewise.requests.experiment import LONGEST_NAME, Experiment
from stripewise.result import FamilyResult, Result
from stripewise.runners.base import Family, Runner, SharedLaunch
from stripewise.runners.within.families import pattern_of, said_of
from stripewise.store.base import Record, Store

Steps = Generator[None, None, Result]
"""A session that goes on by a turn of its loop whenever it is asked for the next one."""


@dataclass
class _Companion:
    """The search of another family: its steps while it is under way, then its result or why there is none."""

    family: Family
    experiment: str
    steps: Steps | None = None
    result: Result | None = None
    reason: str = ""
    undecided: bool = False


class Companions:
    """The searches beside that of the costliest family; none where only one family is tuned.

    Parameters
    ----------
    ledger : ExperimentLedger
        Of the costliest family's experiment, which remembers those of the others.
    launch : SharedLaunch
        As the runner of the costliest family sees it.
    begin : callable
        Gives the steps of an experiment by its identifier and runner.
    note : callable
        Is told what the user should know.
    """

    def __init__(
        self,
        store: Store,
        ledger: ExperimentLedger,
        launch: SharedLaunch,
        begin: Callable[[str, Runner], Steps],
        note: Callable[[str], None],
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._launch = launch
        self._begin = begin
        self._note = note
        self._all: list[_Companion] | None = None

    def advance(self) -> None:
        """Let each search take a turn; they begin once the families are known."""
        for one in self._known():
            if one.steps is None:
                continue
            try:
                next(one.steps)
            except StopIteration as ended:
                self._end(one, result=ended.value)
            except Stopped as stopped:
                self._end(one, reason=str(stopped), undecided=True)
            except UserError as error:  # of this family: it has nothing that could be searched, or always fails
                self._end(one, reason=str(error))
            except StripewiseError as error:
                self._end(one, reason=str(error), undecided=True)

    @property
    def under_way(self) -> bool:
        """Whether one of them is still to be decided in this launch."""
        return any(one.steps is not None for one in self._known())

    @property
    def undecided(self) -> str:
        """Say which of them the launch left undecided, and why; empty where it left none."""
        return "; ".join(f"{said_of(one.family)}: {one.reason}" for one in self._known() if one.undecided)

    def close(self) -> None:
        """Put back those that are under way, so that they can be resumed."""
        for one in self._all or ():
            if one.steps is not None:
                one.steps.close()

    def tell(self, own: Result) -> Result:
        """Give the result of the costliest family with those of the others, and a plan for all of them."""
        if not self._known():
            return own
        first, experiment = self._launch.family, self._ledger.experiment
        families = [_describe_family(first, self._ledger.identifier, own)]
        plan = replace(
            Plan.parse(own.plan, "the plan of the result"), override=experiment.override, files=pattern_of(first[0])
        )
        for one in self._known():
            told = _describe_family(one.family, one.experiment, one.result, one.reason)
            if one.result is not None and one.result.confirmed:
                plan, kept = join_plans(plan, Plan.parse(one.result.plan, "its plan"))
                if kept:
                    what = f"{', '.join(kept)} of another family of the same files, for which a plan has one value"
                    told = told.model_copy(update={"verdict": f"{told.verdict} The plan keeps {what}."})
            families.append(told)
        return own.model_copy(update={"families": tuple(families), "plan": plan.text()})

    # -- their experiments ---------------------------------------------------------------------------------

    def _known(self) -> list[_Companion]:
        if self._all is None:
            families = self._launch.others
            if not families:
                return []
            self._all = [self._companion(family) for family in families]
            names = ", ".join(f"{said_of(one.family)} (experiment {one.experiment})" for one in self._all)
            self._note(f"{said_of(self._launch.family)} is tuned here; each beside it by a search of its own: {names}")
        return self._all

    def _companion(self, family: Family) -> _Companion:
        """Take up the experiment of a family, or make it."""
        kept = {tuple(known["family"]): known["experiment"] for known in self._ledger.facts.families}
        record = self._record(kept.get(family, ""))
        if record is None:  # it is new, or somebody has deleted it
            facts = Facts(folder=self._ledger.facts.folder, user=self._ledger.facts.user)
            record = self._store.record(self._store.create(self._definition(family), facts))
            kept[family] = record.id
            made = [{"family": list(one), "experiment": identifier} for one, identifier in kept.items()]
            self._ledger.remember(families=made)
        one = _Companion(family, record.id, result=record.result)
        runner = self._launch.beside(family, record.experiment)
        if record.result is None:
            one.steps = self._begin(record.id, runner)
        elif record.result.confirmed:
            runner.shared.keep(Plan.parse(record.result.plan, "its plan"))
        return one

    def _definition(self, family: Family) -> Experiment:
        experiment = self._ledger.experiment
        name = f"{experiment.name} {said_of(family)}".strip()[:LONGEST_NAME]
        made = of_one_family(experiment, pattern_of(family[0]), family[1])
        earlier = [self._earlier(one, made, family) for one in experiment.warm_start]
        return made.model_copy(update={"name": name, "warm_start": list(dict.fromkeys(filter(None, earlier)))})

    def _earlier(self, named: str, made: Experiment, family: Family) -> str:
        """Give what a family starts from where the user named an experiment: that one's search of the same family."""
        if named == AUTO:
            return named
        result = self._store.record(named).result
        for one in () if result is None else result.families:
            if (one.files, one.operation) == (made.files, family[1]):
                record = self._record(one.experiment)
                if record is not None and record.state == "finished":
                    return record.id
        if result is not None and result.objective.name == made.objective.name:
            return named
        self._note(f"{said_of(family)} does not start from experiment {named}, which has no search of it")
        return ""

    def _record(self, identifier: str) -> Record | None:
        """Read an experiment; None if there is none, or no more."""
        try:
            return self._store.record(identifier) if identifier else None
        except NotFound:
            return None

    def _end(self, one: _Companion, *, result: Result | None = None, reason: str = "", undecided: bool = False) -> None:
        one.steps, one.result, one.reason, one.undecided = None, result, reason, undecided
        self._note(f"{said_of(one.family)} (experiment {one.experiment}): {result.verdict if result else reason}")


def _describe_family(family: Family, experiment: str, result: Result | None, reason: str = "") -> FamilyResult:
    site, operation, *_ = family
    missing = FamilyResult(
        family=said_of(family), operation=operation, files=pattern_of(site), experiment=experiment, verdict=reason
    )
    if result is None:
        return missing
    found = {name: getattr(result, name) for name in ("confirmed", "speedup", "speedup_interval", "verdict")}
    return missing.model_copy(update={**found, "configuration": result.changed(result.best)})


def join_plans(plan: Plan, other: Plan) -> tuple[Plan, list[str]]:
    """Add the settings of another family to a plan, and say which stay as they are in it for the same files."""
    groups = ((plan.files, plan.settings), *plan.sections)
    before = {one.target: one.value for files, settings in groups if files == other.files for one in settings}
    added = tuple(one for one in other.settings if one.target not in before)
    kept = [one.key for one in other.settings if before.get(one.target, one.value) != one.value]
    return (replace(plan, sections=(*plan.sections, (other.files, added))) if added else plan), kept


def of_one_family(experiment: Experiment, files: str, operation: str) -> Experiment:
    """Give the experiment that tunes one family of those that another one tunes."""
    objective = experiment.objective
    if objective.name.startswith("phase_bandwidth"):
        objective = objective.model_copy(update={"name": f"phase_bandwidth:{operation}"})
    within = experiment.within.model_copy(update={"families": "costliest"})
    return experiment.model_copy(update={"files": files, "objective": objective, "within": within})
