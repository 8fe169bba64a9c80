"""From an experiment and what is known of the program to the space that is searched.

What values a parameter has here: the limits of machine, folders and site, and what the program sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from stripewise.catalogue.carriers import HINT
from stripewise.catalogue.configuration import place_of
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.filesystems import FILE_SYSTEMS, OMPIO, of_file
from stripewise.catalogue.meaning import Situation, explain_unknown_value, explain_unread, in_version, parse
from stripewise.catalogue.parameter import OPERATIONS, Breakage, Kind, Parameter, Scale
from stripewise.catalogue.plan import spell
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import Stack, every_stack, load_stack, stacks_naming
from stripewise.catalogue.workload import Workload
from stripewise.engine.schedule import schedule_of
from stripewise.errors import UserError
from stripewise.observe.chunk_shapes import WORDS, resolve
from stripewise.observe.evidence import check_evidence
from stripewise.observe.objectives import kind_of
from stripewise.requests.experiment import Experiment, chosen_words, is_own, override_parameter, own_parameter
from stripewise.requests.policy import Policy, load_policy
from stripewise.result import ParameterSummary, SpaceSummary
from stripewise.runners.base import Preflight

_PYTHON = re.compile(r"(.*/)?python[0-9.]*|.+\.py")


def as_found(parameter: Parameter, present: Mapping[str, int]) -> Parameter:
    """Let a layout's default be what files have for which nothing is set: else that value, set, would pass for new."""
    found = present.get(parameter.role)
    if found is None or not parameter.carrier.of_file_system or found == parameter.default:
        return parameter
    values = parameter.values if found in parameter.values else tuple(sorted({*parameter.values, found}, key=float))
    return replace(parameter, values=values, default=found, default_from=None)


def as_set(parameter: Parameter, hints: Mapping[str, str]) -> Parameter:
    """Let a hint's default be the value that the program sets itself, if that is a value of the hint."""
    text = hints.get(parameter.setting) if parameter.carrier is HINT else None
    if text is None:
        return parameter
    known = parse(parameter, text).value
    values = parameter.values
    if known is None:
        return parameter
    if place_of(known, values) is None:
        if not parameter.ordered or (parameter.scale is Scale.LOG2 and float(known) < 0):
            return parameter
        values = tuple(sorted({*values, known}, key=float))
    return replace(parameter, values=values, default=known, default_from=None)


def end(role: str, largest: Mapping[str, int], policy: Policy) -> int | None:
    """The largest value of a role that there is and that the site allows; None where neither says."""
    ends = [largest[role]] if role in largest else []
    if role == "stripe_count" and policy.striping.stripe_count is not None:
        ends.append(policy.striping.stripe_count)
    return min(ends, default=None)


def limit_values(parameter: Parameter, largest: int | None) -> tuple[Parameter, str]:
    """End a parameter's values with the largest there is; with a reason where nothing is left to choose."""
    if largest is None or not parameter.ordered or float(parameter.values[-1]) <= largest:
        return parameter, ""
    kept = {value for value in parameter.values if float(value) < largest} | {largest, parameter.default}
    if len(kept) == 1:
        return parameter, f"{largest} is all there is"
    return replace(parameter, values=tuple(sorted(kept, key=float))), ""


def allow_values(parameter: Parameter, policy: Policy) -> tuple[Parameter, str]:
    """Leave out values that the site does not allow; with a reason where nothing is left to choose."""
    if not parameter.carrier.of_file_system and parameter.role != "stripe_count":
        return parameter, ""
    name = parameter.role if parameter.role == "stripe_count" else parameter.setting
    values = policy.allowed_values(name, parameter.values)
    if len(values) == len(parameter.values):
        return parameter, ""
    kept = tuple(v for v in parameter.values if v in values or v == parameter.default)
    return (replace(parameter, values=kept), "") if len(kept) > 1 else (parameter, "the site allows no other value")


def drop_breaking(parameter: Parameter, calls: Set[str]) -> tuple[Parameter, str]:
    """Leave out values that break calls which the program makes; with a reason where nothing is left to choose."""
    broken = [one for one in parameter.breaks if one.value != parameter.default and not calls.isdisjoint(one.calls)]
    if not broken:
        return parameter, ""
    kept = tuple(value for value in parameter.values if value not in [one.value for one in broken])
    return (replace(parameter, values=kept), "") if len(kept) > 1 else (parameter, why_broken(broken[0], calls))


def drop_unknown(parameter: Parameter, situation: Situation) -> tuple[Parameter, str]:
    """Leave out values that the program's version of the library does not know; with a reason where none is left."""
    why = {value: explain_unknown_value(parameter, value, situation) for value in parameter.values}
    kept = tuple(value for value in parameter.values if not why.get(value))
    if len(kept) == len(parameter.values):
        return parameter, ""
    return (replace(parameter, values=kept), "") if len(kept) > 1 else (parameter, next(filter(None, why.values())))


def as_used(parameter: Parameter, known: Circumstances, *, asked: bool) -> tuple[Parameter, str]:
    """Let words for shapes of chunks be what they stand for in the program; with a reason where nothing is left."""
    if known.shapes is None or not set(parameter.values) & set(WORDS):
        return parameter, ""
    if known.workload.operation == "write" and not asked:
        return parameter, "the program reads nothing, and its readers may need other chunks: name values"
    kept = resolve(parameter.values, known.shapes)
    if len(kept) > 1:
        return replace(parameter, values=kept), ""
    return parameter, "the first run shows no other shape for a dataset of HDF5 that has chunks"


def why_broken(breakage: Breakage, calls: Set[str]) -> str:
    """Say why a value is not for a program that makes some calls."""
    return f"the program calls {breakage.functions(calls)}, and with {spell(breakage.value)} {breakage.how}"


_COUNTED = 100_000
_INTERFACES = ("posix", "mpiio", "hdf5", "pnetcdf")
_OVERRIDE = "; --override lets Stripewise change it"


@dataclass(frozen=True)
class BoundSpace:
    """The space of an experiment, with what was left out of it and why.

    Attributes
    ----------
    left_out : mapping
        Parameter name to the reason why it is not searched here.
    dropped : tuple of str
        Which values of searched parameters are not tried, and why.
    """

    space: Space
    stacks: tuple[Stack, ...]
    left_out: Mapping[str, str]
    dropped: tuple[str, ...] = ()

    @property
    def reference(self) -> Stack | None:
        """The stack that can be switched off, if one declares how."""
        return next((stack for stack in self.stacks if stack.off is not None), None)


def default_stacks(io: str | None, workload: Workload, apis: Collection[str] = (), *, both: bool = False) -> list[str]:
    """Choose stacks for a program whose user named none.

    Parameters
    ----------
    io : str or None
        MPI-IO implementation found in the program's MPI library: ``romio``, ``ompio`` or None.
    workload : Workload
        With the driver and file system, once observed.
    apis : collection of str
        Libraries whose settings take part where the program uses them.
    both : bool
        Whether the library has OMPIO and ROMIO, so that one can be chosen.
    """
    system = of_file(workload.file_system, workload.driver)
    used = [api for api in apis if api == workload.api]
    own = ["openmpi", "ompio", "romio"] if io == "ompio" and both else ["ompio" if io == "ompio" else "romio"]
    return [*own, *([system.name] if system.keys else []), *used]


def _assume_reach(parameter: Parameter) -> str:
    """Say that a parameter reaches the program, where nothing is known to the contrary."""
    return ""


_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Circumstances(Situation):
    """A situation, which decides whether a value acts, with what further bounds the values of an experiment.

    Attributes
    ----------
    lost : callable
        Gives the reason why a parameter cannot reach the program, empty if it can: no run is spent on such ones.
    largest : mapping
        Role to the largest value that there is, as in :class:`~stripewise.runners.base.Preflight`: larger ones act as
        it does and are not searched, unless the experiment itself names values.
    present : mapping
        Role to the value that a file has for which nothing is set, as its folder and site make it: that is the default
        of a layout, whatever the stack file takes for one, unless the experiment itself names a default.
    calls : set of str
        MPI-IO calls that the program makes on the files that are tuned, as a report names them: values that break one
        are not searched.
    shapes : mapping or None
        What words for shapes of chunks stand for in the program; None before it has run.
    """

    lost: Callable[[Parameter], str] = _assume_reach
    largest: Mapping[str, int] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)
    calls: Set[str] = frozenset()
    shapes: Mapping[str, str] | None = None


def circumstances_before(preflight: Preflight, workload: Workload) -> Circumstances:
    """Give what is known before the first run."""
    mpi = preflight.environment.get("mpi") or ""
    return Circumstances(
        workload,
        preflight.io,
        mpi,
        versions=preflight.versions,
        told=preflight.told,
        lost=preflight.lost,
        largest=preflight.largest,
    )


def _default_stacks(experiment: Experiment, known: Circumstances) -> list[str]:
    both = bool(known.told.romio) and not known.lost(load_stack("openmpi").parameters[0])
    return default_stacks(known.io, known.workload, schedule_of(experiment).apis, both=both)


def _open_words(experiment: Experiment, known: Circumstances) -> Circumstances:
    """Let the words of the workload that a parameter chooses be unknown, whatever one run showed of them."""
    chosen = dict.fromkeys(chosen_words(experiment).values())
    return replace(known, workload=known.workload.model_copy(update=chosen)) if chosen else known


def bind_space(experiment: Experiment, known: Circumstances) -> BoundSpace:
    """Load the stacks, apply the experiment's overrides, leave out what cannot act here, and bind to the workload.

    Raises
    ------
    UserError
        Unknown stacks or parameters, contradictory settings, or nothing left to tune.
    """
    known = _open_words(experiment, known)
    stacks = tuple(load_stack(name) for name in experiment.stacks or _default_stacks(experiment, known))
    parameters, left_out = _choose_parameters(experiment, stacks, known)
    constraints = [Expression.parse(text) for text in experiment.constraints]
    space = _bound(parameters, constraints, stacks, left_out, known.workload, known.own)
    bound = _only_live(BoundSpace(space, stacks, left_out, _list_dropped(parameters, known.calls)))
    _check_choice(bound.space)
    return bound


def check_space(experiment: Experiment, known: Circumstances) -> None:
    """Refuse, before the first run, an experiment whose space nothing that a run can show would make right.

    What depends on the workload waits for :func:`bind_space`. Parameters are as there.

    Raises
    ------
    UserError
        Unknown stacks, parameters or names in constraints, contradictory settings, or nothing left to tune.
    """
    known = _open_words(experiment, known)
    stacks = tuple(load_stack(name) for name in experiment.stacks or _default_stacks(experiment, known))
    later: set[str] = set()
    if not experiment.stacks:
        # The first run shows the file system, and which MPI-IO is at work where that is not known.
        possible = [*(system.name for system in FILE_SYSTEMS), *(() if known.io else ("romio", "ompio"))]
        possible += schedule_of(experiment).apis
        later = {parameter.name for name in possible for parameter in load_stack(name).parameters}
    parameters, left_out = _choose_parameters(experiment, stacks, known, later)
    constraints = [Expression.parse(text) for text in experiment.constraints]
    fixed = {p.name for p in parameters if known.workload.processes or not (p.default_from or p.maximum_from)}
    names = {p.name for p in parameters} | left_out.keys() | later | known.workload.words().keys()
    for constraint in constraints:
        if not constraint.names <= names:
            constraint(dict.fromkeys(names))
    _check_stacks(stacks, names)
    space = _bound(parameters, [c for c in constraints if c.names <= fixed], stacks, left_out, known.workload)
    if known.workload.processes or len(fixed) == len(parameters):
        if left_out and space.cardinality == 1 and not later:
            raise _nothing_left(left_out, known.lost, experiment)
        _check_choice(space)


def _list_dropped(parameters: Sequence[Parameter], calls: Set[str]) -> tuple[str, ...]:
    """Say which values were left out because they break calls of the program."""
    return tuple(
        f"{parameter.name} is not set to {spell(one.value)}: {why_broken(one, calls)}"
        for parameter in parameters
        for one in parameter.breaks
        if one.value not in parameter.values and not calls.isdisjoint(one.calls)
    )


def _check_choice(space: Space) -> None:
    """Refuse a space in which there is nothing to choose."""
    if space.cardinality <= _COUNTED and space.count() == (1, True):
        rules = " and ".join(repr(c.text) for c in space.constraints)
        held = f" that satisfies {rules}" if rules and space.cardinality > 1 else ""
        raise UserError(
            f"the default is the only configuration of {', '.join(space.names)}{held}",
            "give a parameter more values, or loosen the constraints",
        )


def _check_stacks(stacks: Sequence[Stack], known: Collection[str]) -> None:
    """Refuse rules over names that no stack has: they would never act, and nobody would know."""
    universe = {*known, *(p.name for stack in (*every_stack(), *stacks) for p in stack.parameters)}
    for stack in stacks:
        for parameter in stack.parameters:
            check_evidence(parameter, f"stack {stack.name}")
        rules = [*stack.constraints, *(d.value for d in stack.derived), *(k.condition for k in stack.knowledge)]
        rules += [d.active_if for d in stack.derived if d.active_if is not None]
        for rule in rules:
            unknown = sorted(rule.names - universe)
            if unknown:
                raise UserError(
                    f"stack {stack.name}: '{rule.text}' names {unknown[0]}, which is neither a parameter nor a "
                    "word of the workload",
                    "correct the name",
                )


def _bound(
    parameters: Sequence[Parameter],
    constraints: Sequence[Expression],
    stacks: Sequence[Stack],
    left_out: Mapping[str, str],
    workload: Workload,
    own: Mapping[str, str] = _NONE,
) -> Space:
    """Bind parameters with their stacks' constraints, derived settings and knowledge, as far as these apply."""
    kept = {parameter.name for parameter in parameters}
    words = workload.words()
    # A parameter left out acts at its default, or as the program sets it, and conditions on it see just that.
    absent = [as_set(p, own) for stack in stacks for p in stack.parameters if p.name in left_out]
    words |= {p.name: p.bind(words).default for p in absent}
    known = kept | words.keys()
    today = words | {parameter.name: parameter.bind(words).default for parameter in parameters}
    # A rule that the current settings break, as the user describes them, does not hold for this program.
    known_rules = (*(c for stack in stacks for c in stack.constraints), *load_policy().rules)
    rules = [c for c in known_rules if c.names <= known and c(today)]
    return Space.bind(
        parameters,
        [*rules, *constraints],
        [d for stack in stacks for d in stack.derived if d.value.names <= known and d.value.names & kept],
        words,
        [k for stack in stacks for k in stack.knowledge if k.condition.names <= known],
    )


def _choose_parameters(
    experiment: Experiment,
    stacks: Sequence[Stack],
    known: Circumstances,
    later: Collection[str] = (),
) -> tuple[list[Parameter], dict[str, str]]:
    """Choose the parameters to search, and say why others are left out; ``later`` names those that may yet come."""
    parameters: list[Parameter] = []
    left_out: dict[str, str] = {}
    changed = set()
    policy = load_policy()
    stacks, known = _with_choice(experiment, stacks, known)
    alone = replace(known, own=_NONE)
    for stack in stacks:
        for one in stack.parameters:
            parameter, override = in_version(one, known), experiment.parameters.get(one.name)
            if override is None or "default" not in override.model_fields_set:
                parameter = as_set(as_found(parameter, known.present), known.own)
            if override is not None:
                changed.add(parameter.name)
                if override.exclude:
                    left_out[parameter.name] = "excluded by the experiment"
                    continue
                parameter = override_parameter(parameter, override)
            beyond = ""
            if override is None or not ({"values", "low", "high"} & override.model_fields_set):
                parameter, beyond = limit_values(parameter, end(parameter.role, known.largest, policy))
            parameter, forbidden = allow_values(parameter, policy)
            parameter, broken = drop_breaking(parameter, known.calls)
            parameter, unknown = drop_unknown(parameter, alone)
            parameter, unseen = as_used(parameter, known, asked=override is not None)
            reason = (
                beyond
                or forbidden
                or broken
                or unknown
                or unseen
                or explain_unread(parameter, alone)
                or known.lost(parameter)
                or _outside_objective(parameter, experiment)
                or ("" if experiment.override else _set_by_program(parameter, known))
            )
            if reason:
                left_out[parameter.name] = reason
            else:
                parameters.append(_count_measured(parameter, experiment))
    for name, override in experiment.parameters.items():
        if name not in changed and name not in later:
            if override.exclude:
                raise UserError(f"[parameters.{name}] excludes a parameter that no stack has")
            added, forbidden = allow_values(own_parameter(name, override), policy)
            reason = forbidden or known.lost(added)
            if reason:
                left_out[name] = reason
            else:
                parameters.append(added)
    if not parameters:
        raise _nothing_left(left_out, known.lost, experiment)
    return parameters, left_out


def _with_choice(
    experiment: Experiment, stacks: Sequence[Stack], known: Circumstances
) -> tuple[Sequence[Stack], Circumstances]:
    """Let parameters of OMPIO and of ROMIO act under their own component alone where one is to be chosen."""
    choice = next((one for stack in stacks for one in stack.parameters if one.name == "io"), None)
    override = experiment.parameters.get("io")
    if choice is None or known.lost(choice) or (override is not None and override.exclude):
        return stacks, known
    workload = known.workload
    if workload.driver == OMPIO.lower():
        # The driver of ROMIO is known once it has opened a file: till then the file system decides.
        workload = workload.model_copy(update={"driver": None})
    stacks = [replace(stack, parameters=tuple(one.where_chosen() for one in stack.parameters)) for stack in stacks]
    return stacks, replace(known, io=None, workload=workload)


def _outside_objective(parameter: Parameter, experiment: Experiment) -> str:
    """Say that a parameter acts on the direction alone that the objective does not measure; empty if it was asked for.

    Whatever it does there, no value of the objective would show it, so it stays as the program has it.
    """
    if set(parameter.operations) & set(_list_measured(parameter, experiment)):
        return ""
    return f"acts on {' and '.join(parameter.operations)}s only, which {experiment.objective.name} does not measure"


def _count_measured(parameter: Parameter, experiment: Experiment) -> Parameter:
    """Let an effect on the direction that the objective does not measure be none, as for a parameter of it alone."""
    measured = _list_measured(parameter, experiment)
    return parameter if measured == parameter.counted else replace(parameter, counted=measured)


def _list_measured(parameter: Parameter, experiment: Experiment) -> tuple[str, ...]:
    """List the directions in which a parameter counts: the objective's, or all for a parameter that was asked for."""
    # What the objective is subject to may be of the other direction.
    way = "" if experiment.objective.subject_to else kind_of(experiment.objective.name).operation
    asked = parameter.name in experiment.parameters or any(parameter.setting in one for one in experiment.try_first)
    return (way,) if way and not asked else OPERATIONS


def _nothing_left(left_out: Mapping[str, str], lost: Callable[[Parameter], str], experiment: Experiment) -> UserError:
    unreachable = lost(Parameter("hint", Kind.BOOLEAN, (False, True), False, carrier=HINT))
    own = [name for name, entry in experiment.parameters.items() if is_own(entry) and name in left_out]
    if unreachable in left_out.values() and not own:
        mpi = "launch an MPI program (tune -- mpiexec -n 4 ./my_app). "
        unseen = (
            "Name --stack posix to tune its own reads and writes, or --stack romio if it starts an MPI program unseen. "
        )
        if any(_PYTHON.fullmatch(word) for word in experiment.command):
            *names, last = (stack.name for stack in stacks_naming('carrier = "python"'))
            libraries = f"name what the program uses, --stack {', '.join(names)} or {last}"
            mpi, unseen = "", f"{libraries}, or --stack posix for its own reads and writes. "
        return UserError(
            f"nothing is left to tune: {unreachable}",
            f"{mpi}{'' if experiment.stacks else unseen}Or say what "
            "may change: --parameter block=4096,65536 for {block} in the command, or --parameter env:NAME=VALUE,VALUE",
        )
    alike: dict[str, list[str]] = {}
    for name in own or left_out:
        alike.setdefault(left_out[name], []).append(name)
    listed = "; ".join(f"{', '.join(same[:3])}: {reason}" for reason, same in list(alike.items())[:3])
    set_by_program = any(reason.endswith(_OVERRIDE) for reason in left_out.values())
    fix = "let the plan win over the program's own hints with --override, or " if set_by_program else ""
    return UserError(
        f"nothing is left to tune ({listed})", f"{fix}name another {'parameter' if own else 'stack with --stack'}"
    )


def _only_live(bound: BoundSpace) -> BoundSpace:
    """Leave out parameters that mean nothing in any configuration for this workload (a read hint of a writer)."""
    space = bound.space
    dead = [name for name in space.names if name not in space.live]
    if not dead:
        return bound
    live = [p for p in space.parameters if p.name not in dead]
    why = _why_dead(space, dead)
    if not live:
        if space.cardinality == 1:
            _check_choice(space)
        stacks = " and ".join(stack.name for stack in bound.stacks)
        name = next(name for name in dead if len(space[name].values) > 1)
        raise UserError(
            f"no parameter of {stacks} can act on this program: {name} {why[name]}",
            "check that the program does its I/O as you expect, or name another stack with --stack",
        )
    words = {**space.context, **{name: space[name].default for name in dead}}
    bare = replace(space, parameters=tuple(live), context=words)
    left_out = {**bound.left_out, **why}
    return BoundSpace(
        Space.bind(bare.parameters, bare.constraints, bare.derived, words, bare.knowledge),
        bound.stacks,
        left_out,
        bound.dropped,
    )


def _why_dead(space: Space, dead: Sequence[str]) -> dict[str, str]:
    """Why parameters mean nothing in any configuration: one value, another interface, or the rest of the workload."""
    why = dict.fromkeys(dead, "acts in no configuration of this search")
    api = space.context.get("api", "unknown")
    worlds = {other: replace(space, context={**space.context, "api": other}).live for other in _INTERFACES}
    for name in dead if api != "unknown" else ():
        others = " or ".join(other for other, live in worlds.items() if name in live)
        if others:
            why[name] = f"acts on files used through {others}, the program's are used through {api}"
    return why | {name: "has only one value" for name in dead if len(space[name].values) == 1}


def _set_by_program(parameter: Parameter, situation: Situation) -> str:
    why = explain_unread(parameter, situation)
    return f"{why}{_OVERRIDE}" if why else ""


def describe_space(bound: BoundSpace) -> SpaceSummary:
    """Give the size of the space and its parameters."""
    distinct, exact = bound.space.count()
    parameters = tuple(
        ParameterSummary(
            name=p.name,
            layer=p.layer,
            values=tuple(p.values) if len(p.values) <= 64 else (p.values[0], p.values[-1]),
            count=len(p.values),
            kind=p.kind.value,
            scale=p.scale.value,
            default=p.default,
            unit=p.unit,
            role=p.role,
        )
        for p in bound.space.parameters
    )
    return SpaceSummary(grid=bound.space.cardinality, distinct=distinct, exact=exact, parameters=parameters)
