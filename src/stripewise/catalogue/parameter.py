"""One tunable, with all that is known about it: values, how it is set, when it acts, how its effect is proven."""

from __future__ import annotations

import bisect
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.carriers import ARGUMENT, ENVIRONMENT, FILE, OVER_MPI_IO, Carrier
from stripewise.catalogue.configuration import Value, identity, place_of, plain_number
from stripewise.catalogue.expression import Expression
from stripewise.errors import UserError

_CHOSEN = ("transfer_size", "piece_size", "layout", "collective", "file_per_process", "api")


class Kind(StrEnum):
    """How the values of a parameter relate to one another."""

    INTEGER = "integer"
    ORDINAL = "ordinal"
    CATEGORICAL = "categorical"
    BOOLEAN = "boolean"


class Scale(StrEnum):
    """The axis on which ordered values are evenly spread; on a logarithmic one, 0 stands for "unset"."""

    LINEAR = "linear"
    LOG2 = "log2"


class When(StrEnum):
    """The moment at which a value takes effect: for files still to be created, or at every open."""

    CREATE = "create"
    OPEN = "open"
    START = "start"


class Scope(StrEnum):
    """What one value governs."""

    PROCESS = "process"
    FILE = "file"
    DATASET = "dataset"


class Safety(StrEnum):
    """What a value may change besides time.

    ``pure``: nothing. ``layout``: where bytes lie. ``format``: the file's internal format. ``corrupting``: the data;
    never searched.
    """

    PURE = "pure"
    LAYOUT = "layout"
    FORMAT = "format"
    CORRUPTING = "corrupting"


OPERATIONS = ("read", "write")


@dataclass(frozen=True)
class KnownValue:
    """A value that only some versions of a parameter's library know, or have as the default.

    Attributes
    ----------
    since, until : str
        Version range, as of a parameter; empty where open.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's own name

    value: Value
    since: str = ""
    until: str = ""


@dataclass(frozen=True)
class Breakage:
    """A value under which some MPI-IO calls do something else than they should, by a fault of their library.

    Attributes
    ----------
    calls : tuple of str
        As a report names them, such as ``write_ordered``.
    how : str
        What goes wrong.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's own name

    value: Value
    calls: tuple[str, ...]
    how: str

    def functions(self, among: Set[str] | None = None) -> str:
        """Give the calls by their names in MPI, all of them or those among some."""
        return " or ".join(f"MPI_File_{call}" for call in self.calls if among is None or call in among)

    def caution(self, name: str) -> str:
        """Say which programs must not get the value of the setting of this name."""
        return f"leave {name}={self.value} out if the program calls {self.functions()}: {self.how}"


def logarithms(values: Sequence[Any] | NDArray[Any]) -> NDArray[np.float64]:
    """Binary logarithms of the values of a logarithmic axis, ascending; "unset" (0) lies one step below the others.

    Parameters
    ----------
    values : sequence of number
        Ascending, none negative, only the first may be 0.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers[0] > 0:
        return np.asarray(np.log2(numbers), dtype=np.float64)
    found = np.log2(numbers[1:])
    step = found[1] - found[0] if len(found) > 1 else 1.0
    return np.concatenate([found[:1] - step, found]) if len(found) else np.zeros(1)


@dataclass(frozen=True)
class Parameter:
    """A tunable parameter.

    Attributes
    ----------
    name : str
        Unique within a space.
    kind : Kind
        Integer and ordinal values are ordered; categorical ones are not.
    values : sequence of Value
        All values that may be tried, ascending where ordered. A ``range`` is kept as such.
    other_values : bool
        Whether its component also understands words that are not among ``values``.
    default : Value
        What acts when nothing is set; always one of ``values``. A parameter at its default is not emitted.
    unit : str
        ``B``, ``count`` ... or empty.
    scale : Scale
        Of ordered values.
    role : str
        The field's word for it (see the design's table format); ``other`` if none fits.
    carrier, key : Carrier, str
        The carrier and the name that the carrier uses.
    layer : str
        The stack's layer (``romio``, ``lustre`` ...); for layouts, the file system.
    when, scope : When, Scope
        Moment and reach.
    operations : tuple of str
        ``read``, ``write`` or both: the operations it can influence.
    counted : tuple of str
        The operations that the objective measures: what the parameter does to others is no effect.
    driver : tuple of str
        File-system drivers (prefixes of ``romio_filesystem_type``) under which it acts; empty for any.
    io_component : tuple of str
        MPI-IO implementations under which it acts (``romio``, ``ompio``), as its stack says; empty for any.
    since, until : str
        Version range of the component that knows it; empty where open.
    library : str
        The component whose versions these are, as its stack says.
    mpi : tuple of str
        MPI libraries that alone know it (``Cray MPICH``), as its stack says; empty for any.
    active_if : Expression or None
        When false, the value means nothing and folds to the default.
    same_as_default : Expression or None
        When true, the value acts exactly as the default does and folds to it: a synonym, or a buffer larger than
        anything it is to hold. It may name the parameter itself.
    maximum_from, default_from : Expression or None
        Largest value and default as functions of the workload, applied by :meth:`bind`.
    safety : Safety
        See :class:`Safety`.
    evidence : str
        The rule that can prove its effect (``stripewise.engine.effects``); ``none`` where nothing can.
    switch : tuple of Value
        Values that change the most, each tried within the first runs; ``lowest`` and ``highest`` stand for the ends of
        an ordered parameter. See :attr:`switch_levels`.
    cost : float
        Relative price of a larger value (stripes, aggregators, memory): among equals the cheaper wins. 0 if none.
    breaks : tuple of Breakage
        Values that programs with certain calls must not get.
    known : tuple of KnownValue
        Values that only some versions know.
    defaults : tuple of KnownValue
        Defaults of the versions that have another one; empty once the version is known and ``default`` is its own.
    description, trap : str
        What it does; what goes wrong silently.
    """

    name: str
    kind: Kind
    values: Sequence[Value]
    default: Value
    unit: str = ""
    scale: Scale = Scale.LINEAR
    role: str = "other"
    carrier: Carrier = ARGUMENT
    key: str = ""
    layer: str = ""
    when: When = When.OPEN
    scope: Scope = Scope.FILE
    operations: tuple[str, ...] = OPERATIONS
    counted: tuple[str, ...] = OPERATIONS
    driver: tuple[str, ...] = ()
    io_component: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    library: str = ""
    mpi: tuple[str, ...] = ()
    active_if: Expression | None = None
    same_as_default: Expression | None = None
    maximum_from: Expression | None = None
    default_from: Expression | None = None
    safety: Safety = Safety.PURE
    evidence: str = "none"
    switch: tuple[Value, ...] = ()
    cost: float = 0.0
    breaks: tuple[Breakage, ...] = ()
    known: tuple[KnownValue, ...] = ()
    defaults: tuple[KnownValue, ...] = ()
    other_values: bool = field(default=False, compare=False)
    description: str = field(default="", compare=False)
    trap: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise UserError(f"parameter name {self.name!r} is not an identifier", "use letters, digits and underscores")
        if len(self.values) == 0:
            raise UserError(f"parameter {self.name} has no values", "list at least one under 'values'")
        if not isinstance(self.values, range):
            if len(set(map(identity, self.values))) != len(self.values):
                raise UserError(f"parameter {self.name} lists a value twice", "remove the duplicate")
            if self.ordered:
                self._check_order()
        if self.scale is Scale.LOG2 and self.ordered and float(self.values[0]) < 0:
            raise UserError(f"parameter {self.name} has scale log2 but a value of {self.values[0]}", "use scale linear")
        place = place_of(self.default, self.values)
        if place is None:
            raise UserError(f"parameter {self.name}: default {self.default!r} is not among its values")
        # As the values write it: 1.0 may be given as 1.
        object.__setattr__(self, "default", self.values[place])
        if any(value == "" and value != self.default for value in self.values):
            raise UserError(f"parameter {self.name}: an empty value cannot be set", 'make it the default: default = ""')

    def _check_order(self) -> None:
        numbers = [value for value in self.values if isinstance(value, int | float) and not isinstance(value, bool)]
        if len(numbers) != len(self.values):
            raise UserError(f"parameter {self.name} is {self.kind} but has a value that is not a number")
        if not all(abs(number) <= sys.float_info.max for number in numbers):
            raise UserError(f"parameter {self.name} has a value that is too large, or is no number")
        if any(a >= b for a, b in zip(numbers, numbers[1:], strict=False)):
            raise UserError(f"parameter {self.name}: values must ascend", "sort them")

    @property
    def chosen_word(self) -> str:
        """The word of the workload that its value is, where it tells the program what to do; empty if none."""
        return self.role if self.role in _CHOSEN and self.carrier in (ARGUMENT, ENVIRONMENT, FILE) else ""

    @property
    def ordered(self) -> bool:
        """Whether values can be compared by size."""
        return self.kind in (Kind.INTEGER, Kind.ORDINAL)

    @property
    def switch_levels(self) -> tuple[tuple[int, ...], ...]:
        """For each of :attr:`switch`, the levels that can stand for it, best first; without values not offered here."""
        every = range(len(self.values))
        ends = {"lowest": tuple(every), "highest": tuple(reversed(every))} if self.ordered else {}
        known = [value for value in self.switch if value in ends or place_of(value, self.values) is not None]
        return tuple(ends[str(value)] if value in ends else (self.level(value),) for value in known)

    @property
    def setting(self) -> str:
        """The carrier's name for the parameter."""
        return self.key or self.name

    def breakage(self, value: Value) -> Breakage | None:
        """Which calls a value breaks, as such or in words; None if it breaks none."""
        return next((one for one in self.breaks if str(one.value).lower() == str(value).lower()), None)

    def caution(self, value: Value) -> str:
        """Say which programs must not get a value; empty where all may."""
        broken = self.breakage(value)
        return "" if broken is None else broken.caution(self.setting)

    @property
    def other_defaults(self) -> list[tuple[Value, str]]:
        """Defaults of some versions alone, each with the versions in words."""
        ends = [(("since", one.since), ("until", one.until)) for one in self.defaults]
        words = [" ".join(f"{word} {self.library} {end}" for word, end in two if end) for two in ends]
        return [(one.value, said) for one, said in zip(self.defaults, words, strict=True)]

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs through which I/O meets it, as a workload names them; empty for any."""
        return self.carrier.apis or (OVER_MPI_IO if self.io_component else ())

    def meets(self, api: str | None) -> bool:
        """Whether it can act on I/O through an API; None where that is unknown."""
        return not self.apis or api is None or api in self.apis

    @property
    def needs_mpi_io(self) -> bool:
        """Whether it can act only on a program that uses MPI-IO."""
        before = self.carrier.acts == ("launch",) or not self.carrier.needs_mpi
        return bool(self.io_component) or not before

    @property
    def rules(self) -> tuple[Expression, ...]:
        """What decides whether a value acts: when it means something, and when it does what the default does."""
        return tuple(rule for rule in (self.active_if, self.same_as_default) if rule is not None)

    def acts_in(self, columns: Mapping[str, Any], n: int) -> NDArray[np.bool_]:
        """Say in which of ``n`` configurations the value means something and is not what the default does.

        Parameters
        ----------
        columns : mapping
            Names to scalars or arrays of length ``n``, the parameter's own among them. A rule over names that are not
            there rules nothing out.
        """
        acts = np.ones(n, dtype=bool)
        for rule, wanted in ((self.active_if, True), (self.same_as_default, False)):
            if rule is not None and rule.names <= columns.keys():
                acts &= np.broadcast_to(np.asarray(rule(columns), dtype=bool), (n,)) == wanted
        return acts

    def where_chosen(self) -> Parameter:
        """Let it act only where the parameter ``io`` chooses the MPI-IO implementation that it is of."""
        if len(self.io_component) != 1:
            return self
        own = "" if self.active_if is None else f" and ({self.active_if.text})"
        side = "==" if self.io_component == ("ompio",) else "!="
        return replace(self, active_if=Expression.parse(f"io {side} 'ompio'{own}"))

    def level(self, value: Value) -> int:
        """Give the index of a value.

        Raises
        ------
        UserError
            If the value is not one of the parameter's.
        """
        place = place_of(value, self.values)
        if place is not None:
            return place
        shown = ", ".join(str(v) for v in list(self.values[:8])) + (", ..." if len(self.values) > 8 else "")
        raise UserError(f"{self.name} has no value {value!r}", f"choose from {shown}")

    def bind(self, context: Mapping[str, Any]) -> Parameter:
        """Fix what depends on the workload: drop values beyond ``maximum_from``, compute ``default_from``.

        The default is added to the values of an ordered parameter if it is missing: it is the baseline and must be
        in the space.
        """
        if self.maximum_from is None and self.default_from is None:
            return self
        values = list(self.values)
        default = self.default if self.default_from is None else plain_number(self.default_from(context))
        if self.maximum_from is not None:
            largest = self.maximum_from(context)
            values = [value for value in values if float(value) <= largest or value == default]
        if default not in values and self.ordered:
            bisect.insort(values, default)
        return replace(self, values=tuple(values), default=default, maximum_from=None, default_from=None)
