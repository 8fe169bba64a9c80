"""From an experiment and what is known of the program to the space that is searched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from stripewise.errors import UserError
from stripewise.spec.experiment import Experiment, ParameterOverride
from stripewise.spec.expression import Expression
from stripewise.spec.parameter import Parameter, When
from stripewise.spec.plan import Setting, spell
from stripewise.spec.space import Space
from stripewise.spec.stack import ParameterEntry, Stack, explain_validation, load_stack
from stripewise.spec.vocabulary import check_value
from stripewise.spec.workload import Workload

_LIBRARIES = {"ompio": "Open MPI", "romio": "MPICH"}


@dataclass(frozen=True)
class BoundSpace:
    """The space of an experiment, with what was left out of it and why.

    Attributes
    ----------
    space : Space
    stacks : tuple of Stack
    left_out : mapping
        Parameter name to the reason why it is not searched here.
    """

    space: Space
    stacks: tuple[Stack, ...]
    left_out: Mapping[str, str]

    @property
    def reference(self) -> Stack | None:
        """The stack that can be switched off, if one declares how."""
        return next((stack for stack in self.stacks if stack.off is not None), None)


def default_stacks(io: str | None, workload: Workload) -> list[str]:
    """Choose stacks for a program whose user named none.

    Parameters
    ----------
    io : str or None
        MPI-IO implementation found in the program's MPI library: ``romio``, ``ompio`` or None.
    workload : Workload
        With the driver and file system, once observed.
    """
    stacks = ["ompio"] if io == "ompio" else ["romio"]
    if (workload.driver or "").startswith("LUSTRE") or workload.file_system == "lustre":
        stacks.append("lustre")
    elif workload.file_system in ("ceph", "cephfs"):
        stacks.append("cephfs")
    return stacks


def bind_space(experiment: Experiment, workload: Workload, io: str | None, mpi: str | None = None) -> BoundSpace:
    """Load the stacks, apply the experiment's overrides, leave out what cannot act here, and bind to the workload.

    Parameters
    ----------
    experiment : Experiment
    workload : Workload
    io : str or None
        The program's MPI-IO implementation, ``romio`` or ``ompio``.
    mpi : str or None
        The program's MPI library with its version, as it names itself: parameters of other versions are left out.

    Raises
    ------
    UserError
        Unknown stacks or parameters, contradictory settings, or nothing left to tune.
    """
    stacks = tuple(load_stack(name) for name in experiment.stacks or default_stacks(io, workload))
    parameters: list[Parameter] = []
    left_out: dict[str, str] = {}
    overridden = set()
    for stack in stacks:
        for parameter in stack.parameters:
            override = experiment.parameters.get(parameter.name)
            if override is not None:
                overridden.add(parameter.name)
                if override.exclude:
                    left_out[parameter.name] = "excluded by the experiment"
                    continue
                parameter = _overridden(parameter, override)  # noqa: PLW2901
            reason = _why_not(parameter, stack, workload, io) or _other_version(parameter, mpi or "")
            if reason:
                left_out[parameter.name] = reason
            else:
                parameters.append(parameter)
    for name, override in experiment.parameters.items():
        if name not in overridden:
            if override.exclude:
                raise UserError(f"[parameters.{name}] excludes a parameter that no stack has")
            parameters.append(_own_parameter(name, override))
    if not parameters:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in list(left_out.items())[:3])
        raise UserError(f"nothing is left to tune ({reasons})", "name another stack with --stack")
    kept = {parameter.name for parameter in parameters}
    words = workload.words()
    # A parameter left out acts at its default, and conditions on it see just that.
    words |= {p.name: p.bind(words).default for stack in stacks for p in stack.parameters if p.name in left_out}
    known = kept | words.keys()
    space = Space.bind(
        parameters,
        [c for stack in stacks for c in stack.constraints if c.names <= known]
        + [Expression.parse(text) for text in experiment.constraints],
        [d for stack in stacks for d in stack.derived if d.value.names <= known and d.value.names & kept],
        words,
        [k for stack in stacks for k in stack.knowledge if k.condition.names <= known],
    )
    return _only_live(BoundSpace(space, stacks, left_out))


def _only_live(bound: BoundSpace) -> BoundSpace:
    """Leave out parameters that mean nothing in any configuration for this workload (a read hint of a writer)."""
    space = bound.space
    dead = set(space.names) - space.live
    if not dead:
        return bound
    live = [p for p in space.parameters if p.name not in dead]
    if not live:
        raise UserError(
            "no parameter of the stacks can act on this workload",
            "check that the program does MPI-IO, or name another stack",
        )
    words = {**space.context, **{name: space[name].default for name in dead}}
    bare = replace(space, parameters=tuple(live), context=words)
    left_out = {**bound.left_out, **dict.fromkeys(dead, "means nothing for this workload")}
    return BoundSpace(
        Space.bind(bare.parameters, bare.constraints, bare.derived, words, bare.knowledge), bound.stacks, left_out
    )


def _why_not(parameter: Parameter, stack: Stack, workload: Workload, io: str | None) -> str:
    if stack.io_component and io and io not in stack.io_component:
        return f"acts under {' or '.join(stack.io_component)}, the program uses {io}"
    if parameter.driver and workload.driver and not workload.driver.upper().startswith(parameter.driver):
        return f"acts under driver {' or '.join(parameter.driver)}, the file is opened by {workload.driver}"
    if workload.operation == "write" and "write" not in parameter.operations:
        return "acts on reads only, the program writes"
    if workload.operation == "read" and "read" not in parameter.operations:
        return "acts on writes only, the program reads"
    if workload.operation == "read" and parameter.when is When.CREATE:
        return "acts when a file is created, the program only reads"
    return ""


def _other_version(parameter: Parameter, mpi: str) -> str:
    """Why a parameter is unknown to the version of the MPI library that would have to read it."""
    library = _LIBRARIES.get(parameter.layer)
    found = re.match(rf"{library}\D*(\d+(?:\.\d+)*)", mpi) if library else None
    if found is None:
        return ""
    version = _numbers(found[1])
    if parameter.since and version < _numbers(parameter.since):
        return f"known since {library} {parameter.since}, the program uses {found[1]}"
    if parameter.until and version[: len(_numbers(parameter.until))] > _numbers(parameter.until):
        return f"known until {library} {parameter.until}, the program uses {found[1]}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _entry(parameter: Parameter) -> dict[str, Any]:
    text = {
        name: expression.text
        for name in ("active_if", "same_as_default", "maximum_from", "default_from")
        if (expression := getattr(parameter, name)) is not None
    }
    plain = {
        name: getattr(parameter, name)
        for name in (
            *("name", "kind", "default", "unit", "scale", "role", "apply", "key", "when", "scope", "since", "until"),
            *("safety", "evidence", "cost", "description", "trap"),
        )
    }
    return {
        **plain,
        **text,
        "values": list(parameter.values),
        "operations": list(parameter.operations),
        "driver": list(parameter.driver),
    }


def _overridden(parameter: Parameter, override: ParameterOverride) -> Parameter:
    for value in override.values or []:
        known = Setting(parameter.apply, parameter.setting, spell(value), parameter.layer)
        check_value(known, f"[parameters.{parameter.name}]")
    changes = {k: v for k, v in override.model_dump(exclude={"exclude"}).items() if v is not None}
    if not changes:
        return parameter
    entry = {**_entry(parameter), **changes}
    if "low" in changes or "high" in changes:
        entry.pop("values")
    where = f"[parameters.{parameter.name}]"
    try:
        entry_model = ParameterEntry.model_validate(entry)
        if "values" in changes and "default" not in changes and parameter.default not in entry["values"]:
            # The baseline is always in the space, whatever values the user wants tried.
            wanted = [
                *entry_model.model_copy(update={"default": None}).build(parameter.layer).values,
                parameter.default,
            ]
            ordered = sorted(wanted, key=float) if parameter.ordered else wanted
            entry_model = entry_model.model_copy(update={"values": ordered})
        return entry_model.build(parameter.layer)
    except ValidationError as error:
        raise explain_validation(error, where) from error
    except UserError as error:
        raise UserError(f"{where}: {error.what}", error.mend) from error


def _own_parameter(name: str, override: ParameterOverride) -> Parameter:
    where = f"[parameters.{name}]"
    fields = {k: v for k, v in override.model_dump(exclude={"exclude"}).items() if v is not None}
    if "kind" not in fields:
        raise UserError(
            f"{where}: no stack has a parameter of this name", "correct it, or define it here with kind and values"
        )
    try:
        return ParameterEntry.model_validate({"name": name, **fields}).build("user")
    except ValidationError as error:
        raise explain_validation(error, where) from error
    except UserError as error:
        raise UserError(f"{where}: {error.what}", error.mend) from error


def describe_space(bound: BoundSpace) -> dict[str, Any]:
    """Give the space as plain values: its size and its parameters."""
    distinct, exact = bound.space.count()
    return {
        "grid": bound.space.cardinality,
        "distinct": distinct,
        "exact": exact,
        "parameters": [
            {
                "name": p.name,
                "layer": p.layer,
                "values": list(p.values) if len(p.values) <= 64 else [p.values[0], p.values[-1]],
                "count": len(p.values),
                "kind": p.kind.value,
                "scale": p.scale.value,
                "default": p.default,
                "unit": p.unit,
                "role": p.role,
            }
            for p in bound.space.parameters
        ],
    }
