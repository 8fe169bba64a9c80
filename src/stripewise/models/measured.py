"""What the rows of a table say of combinations: values never measured together, and expectations that they overrule.

A model predicts any combination. Where the table has none like it, the prediction rests on nothing: the prescriber and
the runtime leave out what was never measured together, and what the stacks expect to harm, unless the table shows that
it does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Value
from stripewise.catalogue.expectation import HARMS, pieces_about
from stripewise.catalogue.meaning import with_defaults
from stripewise.catalogue.space import Knowledge
from stripewise.catalogue.workload import Workload
from stripewise.models.cells import Data, group_rows
from stripewise.models.domain import NEW, Apart, Domain, Floats, Measured
from stripewise.models.tunables import SetBy, TunableColumn, bytes_of, find_stand_in, known_parameters, tunable_columns

NUMBER_ROLES = ("nodes", "processes", "processes_per_node", "file_size", "transfer_size", "piece_size")
"""Roles of columns that give the words of the same name."""
_ROLES = (
    "nodes",
    "processes_per_node",
    "file_size",
    "transfer_size",
    "piece_size",
    "operation",
    "layout",
    "collective",
    "file_per_process",
    "api",
    "file_system",
)


def find_measured(domain: Domain, points: Floats, target: Floats | None) -> Measured:
    """Say of a table what its rows show of combinations.

    Parameters
    ----------
    domain : Domain
        Of the table.
    points : ndarray, shape (n, c)
        Its rows, folded.
    target : ndarray, shape (n,), or None
        Natural logarithms of their values; None where they are not known, and then they overrule nothing.
    """
    overruled = () if target is None else _find_overruled(domain, Data.of_points(domain, points, target))
    return Measured(tuple(_never_together(domain, points)), tuple(overruled))


# -- never measured together -------------------------------------------------------------------------------


def _never_together(domain: Domain, points: Floats) -> Iterator[Apart]:
    """Compare every parameter with the columns before it.

    Two numbers of which neither is a setting say what the program does: the model may go between them and beyond.
    """
    tunables = {tunable.place: tunable for tunable in tunable_columns(domain.schema)}
    settings = {place for place, tunable in tunables.items() if _is_setting(tunable)}
    categories = {place for place, column in enumerate(domain.columns) if column.kind == "categorical"}
    for place, tunable in tunables.items():
        for other in range(place):
            if {place, other} & settings or {place, other} <= categories:
                yield from _list_apart(domain, points, tunable, other)


def _is_setting(tunable: TunableColumn) -> bool:
    """Whether a prescription may set it, be it by what stands in for it."""
    return tunable.set_by not in (SetBy.PROGRAM, SetBy.LAUNCH) or tunable.column.role == "collective"


def _list_apart(domain: Domain, points: Floats, tunable: TunableColumn, other: int) -> Iterator[Apart]:
    """For each value of a parameter, say with which values of another column it was measured, where that is not all.

    A number is measured with all that lies between two values that it was measured with.
    """
    place = tunable.place
    pairs = np.unique(points[:, [place, other]], axis=0)
    numbers, others = np.unique(pairs[:, 0]), np.unique(pairs[:, 1])
    together = np.zeros((len(numbers), len(others)), dtype=bool)
    together[np.searchsorted(numbers, pairs[:, 0]), np.searchsorted(others, pairs[:, 1])] = True
    if tunable.column.kind == "ordinal":
        together = _fill_columns(together)
    if domain.columns[other].kind == "ordinal":
        together = _fill_columns(together.T).T
    if other == domain.operation:
        # What an operation cannot set was not measured with it, and does nothing there.
        for index, number in enumerate(others):
            together[:, index] |= not tunable.can_change(str(domain.columns[other].values[int(number)]))
    for number, row in zip(numbers, together, strict=True):
        if row.all():
            continue
        kept = others[row]
        if domain.columns[other].kind == "categorical":
            yield Apart(place, float(number), other, tuple(float(each) for each in kept))
        else:
            low = -math.inf if row[0] else float(kept[0])
            high = math.inf if row[-1] else float(kept[-1])
            yield Apart(place, float(number), other, (low, high))


def _fill_columns(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Fill each column between its first and its last truth."""
    result: NDArray[np.bool_] = np.logical_or.accumulate(rows) & np.logical_or.accumulate(rows[::-1])[::-1]
    return result


def mark_together(domain: Domain, points: Floats) -> NDArray[np.bool_]:
    """Say which points have only values that were measured together, pair by pair, shape ``(n,)``.

    Shapes: points ``(n, c)``.
    """
    allowed = np.ones(len(points), dtype=bool)
    if domain.measured is not None and domain.measured.apart:
        folded = domain.folded(points)
        for apart in domain.measured.apart:
            allowed &= keeps_pair(domain, apart, folded)
    return allowed


def keeps_pair(domain: Domain, apart: Apart, folded: Floats) -> NDArray[np.bool_]:
    """Say which folded points keep to what was measured of one pair, shape ``(n,)``."""
    others = folded[:, apart.other]
    if domain.columns[apart.other].kind == "categorical":
        kept = np.isin(others, (*apart.allowed, NEW))
    else:
        kept = (others >= apart.allowed[0]) & (others <= apart.allowed[1])
    result: NDArray[np.bool_] = (folded[:, apart.place] != apart.number) | kept
    return result


# -- expected to harm --------------------------------------------------------------------------------------


def find_harms(domain: Domain, tunables: Sequence[TunableColumn]) -> tuple[Knowledge, ...]:
    """Find what the stacks expect of a model's settings: each condition under which performance is lost.

    Those that the measurements overrule are left out.

    Parameters
    ----------
    tunables : sequence of TunableColumn
        All of them.
    """
    names = {tunable.parameter.name for tunable in tunables if tunable.parameter is not None and tunable.stack}
    if find_stand_in(tunables) is not None:
        names |= {"romio_cb_write", "romio_cb_read"}
    known = {*known_parameters(domain.schema), *Workload().words()}
    overruled = () if domain.measured is None else domain.measured.overruled
    return tuple(
        piece
        for piece in pieces_about(names, domain.schema.stacks)
        if piece.gain <= HARMS and piece.condition.names <= known and piece.condition.text not in overruled
    )


def _find_overruled(domain: Domain, data: Data) -> Iterator[str]:
    """Find the conditions that did no harm where they can be compared: the best of most workloads was under them."""
    tunables = tunable_columns(domain.schema)
    harms = find_harms(domain, tunables)
    if not harms:
        return
    points, mean = data.points[data.gathered.first], data.gathered.means(data.target)
    mean = mean if domain.objective.maximize else -mean
    standin = find_stand_in(tunables)
    program = [t.place for t in tunables if t.set_by in (SetBy.PROGRAM, SetBy.LAUNCH) and t is not standin]
    group = group_rows(points[:, [*range(domain.contexts), *program]])
    values = _values_of(domain, tunables, points)
    for piece in harms:
        under = np.broadcast_to(np.asarray(piece.condition(values), dtype=bool), len(points))
        best = np.full((2, group.max() + 1), -np.inf)
        for side, rows in enumerate((~under, under)):
            np.maximum.at(best[side], group[rows], mean[rows])
        both = np.isfinite(best).all(axis=0)
        if both.any() and float(np.median(best[1, both] - best[0, both])) > 0:
            yield piece.condition.text


def _values_of(domain: Domain, tunables: Sequence[TunableColumn], points: Floats) -> dict[str, Any]:
    """What conditions name, of every row: words of the workload by the columns' roles, and parameters."""
    standin = find_stand_in(tunables)
    roles = {column.role: place for place, column in enumerate(domain.columns) if column.role in _ROLES}
    if standin is not None:
        roles.pop("collective", None)  # its two values are what is compared, with and without buffering
    places = list(roles.values())
    distinct, member = np.unique(points[:, places], axis=0, return_inverse=True)
    words = [_make_words({role: row[i] for i, role in enumerate(roles)}, roles, domain) for row in distinct]
    values: dict[str, Any] = {
        name: np.asarray([entry[name] for entry in words])[member.reshape(-1)] for name in Workload().words()
    }
    values = with_defaults(values, (parameter for _, parameter in known_parameters(domain.schema).values()))
    return values | list_setting_values(domain, tunables, standin, points)


def _make_words(row: Mapping[str, float], roles: Mapping[str, int], domain: Domain) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for role, number in row.items():
        column = domain.columns[roles[role]]
        if column.kind == "categorical":
            told[role] = column.values[int(number)]
        else:
            told[role] = number * bytes_of(column)
    return Workload.model_construct(**told).words()


def list_setting_values(
    domain: Domain, tunables: Sequence[TunableColumn], standin: TunableColumn | None, points: Floats
) -> dict[str, NDArray[Any]]:
    """Give the values of the stacks' parameters by their names, of each point.

    Parameters
    ----------
    standin : TunableColumn or None
        The column "collective or not" where ``romio_cb_*`` stands in for it.
    points : ndarray, shape (n, c)
    """
    found: dict[str, NDArray[Any]] = {}
    for tunable in tunables:
        if tunable.parameter is not None:
            found[tunable.parameter.name] = domain.values(tunable.place, points[:, tunable.place])
    if standin is not None:
        collective = domain.values(standin.place, points[:, standin.place]).tolist()
        word = np.where([is_true(value) for value in collective], "automatic", "disable")
        found |= {"romio_cb_write": word, "romio_cb_read": word}
    return found


def is_true(value: Value | None) -> bool:
    """Whether a value of the column "collective or not" stands for collective calls."""
    return value is True or str(value).lower() == "true" or value == 1
