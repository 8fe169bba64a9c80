"""The effect ledger: what became of every setting, with the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.meaning import Situation, explain_unread, find_parameter, parse
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import settings_of
from stripewise.catalogue.space import Derived, Space
from stripewise.catalogue.stack import stacks_naming
from stripewise.catalogue.workload import Workload
from stripewise.observe.activity import Activity, FileActivity, SettingOutcome
from stripewise.observe.evidence import NO_EFFECT, RULES, UNPROVABLE, Case, Verdict
from stripewise.result import Effect
from stripewise.trial import Role, State, Trial

_REQUESTED, _PASSED = "requested", "passed to the program"


def verdicts(
    space: Space,
    settings: Sequence[Setting],
    made: Sequence[Activity],
    baseline: Sequence[Activity],
    others: Sequence[tuple[Sequence[Setting], Sequence[Activity]]] = (),
) -> list[Effect]:
    """Say of each setting of a plan whether it did anything.

    Parameters
    ----------
    space : Space
        With the parameters that the settings came from.
    settings : sequence of Setting
        The plan's.
    made, baseline : sequence of Activity
        Of runs with the plan, and of runs of the default. Of these, a setting is compared with the ones that did not
        have its value.
    others : sequence of (sequence of Setting, sequence of Activity), optional
        Other plans with their runs. Those that give a setting another value stand in where the default tells nothing.

    Returns
    -------
    list of Effect
        In the order of the settings.
    """
    return [_effect(space, setting, settings, made, baseline, others) for setting in settings]


def effects_of(space: Space, trial: Trial, default: Trial, trials: Sequence[Trial] = ()) -> list[Effect]:
    """Say what became of a trial's settings, by what its runs did, of the default's, and of other trials'."""
    if trial.role is not Role.CANDIDATE:
        return []
    others = [
        (settings_of(space, other.configuration), made)
        for other in trials
        if other.role is Role.CANDIDATE and other.number != trial.number and (made := activities_of(other))
    ]
    settings = settings_of(space, trial.configuration)
    return verdicts(space, settings, activities_of(trial), activities_of(default), others)


def effects_in_run(settings: Sequence[Setting], activity: Activity) -> list[Effect]:
    """Say what became of settings in a run by itself: without another run, what needs a comparison stays unproven."""
    found = {parameter.name: parameter for one in settings if (parameter := find_parameter(one)) is not None}
    derived = [
        d
        for one in settings
        for stack in stacks_naming(one.key)
        for d in stack.derived
        if (d.carrier, d.name) == (one.carrier, one.key)
    ]
    return verdicts(Space(tuple(found.values()), (), tuple(derived), {}), settings, [activity], [])


def activities_of(trial: Trial) -> list[Activity]:
    """Give what a trial's finished runs did: those that were cut or failed did not show all that acts."""
    return [run.activity for run in trial.runs if run.state is State.FINISHED and run.activity is not None]


def beside_a_proven_gain(effects: Sequence[Effect]) -> list[Effect]:
    """Say of a single setting that nobody saw that nothing else explains a proven gain."""
    if len(effects) == 1 and effects[0].status == _REQUESTED:
        return [replace(effects[0], evidence=f"{_PASSED}; nothing else explains the proven gain")]
    return list(effects)


def all_idle(effects: Sequence[Effect]) -> bool:
    """Whether there are settings, and none of them did anything."""
    return bool(effects) and all(effect.status in (NO_EFFECT, "refused") for effect in effects)


def idle_settings(effects: Sequence[Effect]) -> set[str]:
    """Names of settings that did nothing, unless none would be left to explain a gain."""
    return set() if all_idle(effects) else {effect.name for effect in effects if effect.status == NO_EFFECT}


@dataclass(frozen=True)
class _WithoutIt:
    """The file in runs without a setting: of the default, of other values, of other values alone; then all files.

    ``alone`` tells whether no other setting of the plan concerns the same direction.
    """

    usual: tuple[FileActivity, ...]
    varied: tuple[FileActivity, ...]
    paired: tuple[FileActivity, ...]
    switched: tuple[FileActivity, ...]
    every: tuple[tuple[FileActivity, ...], ...]
    bare: tuple[tuple[FileActivity, ...], ...]
    alone: bool


def _effect(
    space: Space,
    setting: Setting,
    settings: Sequence[Setting],
    made: Sequence[Activity],
    baseline: Sequence[Activity],
    others: Sequence[tuple[Sequence[Setting], Sequence[Activity]]],
) -> Effect:
    derived = next((d for d in space.derived if d.name == setting.key and d.carrier is setting.carrier), None)
    parameter = _parameter(space, setting, derived)
    name = parameter.name if parameter is not None and derived is None else setting.key
    layer = parameter.layer if parameter is not None else setting.layer
    unseen = "nothing shows whether it was used"
    if setting.carrier.of_objects:
        unseen = f"no Python of the run reported a use of {setting.key.rpartition('.')[0]}"
    plain = Effect(name, layer, setting.value, "plan", None, _REQUESTED, f"{_PASSED}; {unseen}")
    alone = _is_alone(space, setting, settings)
    # A derived setting acts through its parameter: it is judged by the value that it was computed from.
    judged = next((s for s in settings if derived and parameter and s.key == parameter.setting), setting)
    without = [activity for activity in baseline if not _had_setting(activity, setting)]
    varied = [(given, seen) for given, seen in others if setting not in given]
    rest = _list_others(setting, settings)
    paired = [activity for given, seen in varied for activity in seen if _list_others(setting, given) == rest]
    unit = _list_together(space, setting, parameter, settings)
    bare = [activity for given, seen in others if set(given) == set(settings) - unit for activity in seen]
    found: list[Effect] = []
    for activity in made:
        given = _file_of(activity, setting)
        if given is None and setting.carrier.reported:
            # The observer gives it to every file that it can act on.
            idle = setting.carrier.only_on_calls and bool(activity.files)
            where = "no object of the run's Python" if setting.carrier.of_objects else "no file of the run"
            plain = replace(plain, status=NO_EFFECT if idle else _REQUESTED, evidence=f"{where} was given it")
            continue
        file, outcome = given or (activity.main, None)
        without_it = _WithoutIt(
            usual=_list_usual(file, without),
            varied=_list_usual(file, [other for _, seen in varied for other in seen]),
            paired=_list_usual(file, paired),
            switched=_list_usual(file, bare),
            every=tuple(tuple(one.files) for one in without),
            bare=tuple(tuple(one.files) for one in bare),
            alone=alone,
        )
        status, evidence, by = _judge(parameter, setting, judged.value, activity, file, outcome, without_it)
        echoed = outcome.echoed if outcome is not None else None
        requested = outcome.application if by == "application" and outcome is not None else setting.value
        found.append(Effect(name, layer, requested or setting.value, by, echoed, status, evidence))
    return _find_common(found) or plain


def _judge(
    parameter: Parameter | None,
    setting: Setting,
    value: str,
    activity: Activity,
    file: FileActivity | None,
    outcome: SettingOutcome | None,
    without: _WithoutIt,
) -> tuple[str, str, str]:
    """Status, evidence, and who asked for the value that counts."""
    if outcome is not None and outcome.outcome == "application_wins":
        own = f"the program sets {setting.key} to {outcome.application} itself, and the plan does not override it"
        return "refused", own, "application"
    if outcome is not None and outcome.outcome == "refused":
        return "refused", outcome.note or "the file system or the library refused it", "plan"
    if outcome is not None and outcome.outcome == "not_applicable" and setting.carrier.reported:
        if file is not None and setting.carrier.of_objects and not (outcome.acted or outcome.missed):
            return "requested", f"no use of {file.path} succeeded", "plan"
        idle = f"every use of {file.path} has this value anyway" if file and setting.carrier.of_objects else ""
        return NO_EFFECT, outcome.note or idle or "it does not apply to this file", "plan"
    if parameter is None or file is None:
        return "requested", "no parameter describes how its effect could be seen", "plan"
    dead = _without_rule(parameter, setting, value, activity, file)
    if dead is not None:
        return *dead, "plan"
    case = Case(
        parameter=parameter,
        value=value,
        file=file,
        before=next(iter(without.usual), None),
        alone=without.alone,
        baseline=without.usual,
        every=tuple(activity.files),
        others=without.every,
        varied=without.varied,
        paired=without.paired,
        switched=without.switched,
        bare=without.bare,
    )
    return *_by_rule(case, outcome), "plan"


def _without_rule(
    parameter: Parameter, setting: Setting, value: str, activity: Activity, file: FileActivity
) -> Verdict | None:
    """What makes a setting dead before any rule is asked."""
    found = parse(parameter, value)
    if found.wrong:
        return NO_EFFECT, found.wrong
    situation = Situation(Workload(driver=file.driver), io=activity.job.mpi_io, mpi=activity.job.mpi or "")
    if why := explain_unread(parameter, situation):
        return NO_EFFECT, why
    return None


def _by_rule(case: Case, outcome: SettingOutcome | None) -> Verdict:
    echoed = outcome.echoed if outcome is not None else None
    given = outcome.given if outcome is not None else None
    if echoed and given and echoed != given and echoed.isdigit() and given.isdigit():
        return NO_EFFECT, f"the library changed {given} to {echoed}"
    status, evidence = RULES[case.parameter.evidence].judge(case)
    if status == UNPROVABLE and case.parameter.evidence != "none" and echoed is not None and case.before is None:
        says = case.parameter.carrier.echo
        return "echoed", f"{says} returns {echoed}; {evidence}"
    return status, evidence


def _parameter(space: Space, setting: Setting, derived: Derived | None) -> Parameter | None:
    if derived is None:
        return find_parameter(setting, space.parameters)
    own = (p for p in space.parameters if p.name in derived.value.names and p.carrier is setting.carrier)
    return next(own, None)


def _is_alone(space: Space, setting: Setting, settings: Iterable[Setting]) -> bool:
    """Whether nothing else in the plan concerns the same direction; a derived setting belongs to its parameter.

    How many files an output has is changed only by the settings of its library that say so, or that theirs depend on.
    """
    derived = {d.name: d.value.names for d in space.derived}

    def owner(key: str) -> Parameter | None:
        if key in derived:
            return next((p for p in space.parameters if p.name in derived[key]), None)
        return next((p for p in space.parameters if p.setting == key), None)

    own = owner(setting.key)
    for other in settings:
        rival = owner(other.key)
        if other.key == setting.key or (own is not None and rival is own):
            continue
        if own is None or rival is None:
            return False
        named = own.evidence != "parts" or any(rival.name in rule.names for rule in own.rules)
        if not named and own.layer == rival.layer and rival.evidence != "parts":
            continue
        if set(own.operations) & set(rival.operations):
            return False
    return True


def _list_together(
    space: Space, setting: Setting, parameter: Parameter | None, settings: Iterable[Setting]
) -> set[Setting]:
    """List what goes if a setting is taken back: its parameter's, with what is derived from that."""
    if parameter is None:
        return {setting}
    keys = {parameter.setting, *(d.name for d in space.derived if parameter.name in d.value.names)}
    return {one for one in settings if one.key in keys and one.carrier is parameter.carrier}


def _file_of(activity: Activity, setting: Setting) -> tuple[FileActivity, SettingOutcome] | None:
    """The file with most bytes that the setting was meant for; one that met the observer if that alone acts on it."""
    best: tuple[FileActivity, SettingOutcome] | None = None
    alone = setting.carrier.only_on_calls and bool(activity.beside)
    files = activity.beside if alone else (*activity.through, *activity.beside)
    for file in activity.objects if setting.carrier.of_objects else files:
        for outcome in file.asked:
            if outcome.key in (setting.name, setting.key) and outcome.requested is not None:
                if best is None or file.bytes > best[0].bytes:
                    best = (file, outcome)
                break
    return best


def _list_others(setting: Setting, settings: Sequence[Setting]) -> frozenset[Setting]:
    return frozenset(other for other in settings if other.target != setting.target)


def _had_setting(activity: Activity, setting: Setting) -> bool:
    """Whether a run had the setting with this value."""
    return any(
        outcome.key in (setting.name, setting.key) and outcome.requested == setting.value
        for file in (*activity.files, *activity.objects)
        for outcome in file.asked
    )


def _list_usual(file: FileActivity | None, baseline: Sequence[Activity]) -> tuple[FileActivity, ...]:
    """The same file (by path, else the main one) in the runs without the setting."""
    found = []
    for activity in baseline:
        among = (*(activity.through or activity.beside), *activity.objects)
        same = next((other for other in among if file is not None and other.path == file.path), None)
        if (usual := same or activity.main) is not None:
            found.append(usual)
    return tuple(found)


def _find_common(found: Sequence[Effect]) -> Effect | None:
    """The verdict that most runs agree on; runs that split evenly prove nothing."""
    if not found:
        return None
    (status, count), *others = Counter(effect.status for effect in found).most_common()
    first = next(effect for effect in found if effect.status == status)
    if others and others[0][1] == count:
        texts = "; ".join(dict.fromkeys(f"{effect.status}: {effect.evidence}" for effect in found))
        return replace(first, status=UNPROVABLE, evidence=f"runs differ ({texts})")
    return first
