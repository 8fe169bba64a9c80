"""Every hint of ROMIO's stack on top of many calls: what the stack makes of it there, and the call to make of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import spell
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from tests.system.lustre.driver import KIB, MIB, Case, Driver, Seen

RANKS, NODES, STRIPES = 4, 2, 2
# What ranks do, and what is known of it when settings are searched: that "holes" leaves some, no word says.
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "taking turns": ({"piece": 8 * KIB}, {"layout": "strided", "piece_size": 8 * KIB, "transfer_size": 128 * KIB}),
    "holes": (
        {"piece": 8 * KIB, "hole": 32 * KIB},
        {"layout": "strided", "piece_size": 8 * KIB, "transfer_size": 128 * KIB},
    ),
    "apart": (
        {"layout": "segmented", "pieces": 2, "piece": 72 * KIB, "hole": 16 * KIB},
        {"piece_size": 72 * KIB, "transfer_size": 144 * KIB},
    ),
    "whole": (
        {"layout": "segmented", "pieces": 1, "piece": 128 * KIB},
        {"layout": "segmented", "piece_size": 128 * KIB, "transfer_size": 128 * KIB},
    ),
}
TRIED: dict[str, tuple[Any, ...]] = {
    "romio_cb_write": ("enable", "disable"),
    "romio_cb_read": ("enable", "disable"),
    "cb_nodes": (1, 4),
    "cb_buffer_size": (64 * KIB,),
    "romio_ds_write": ("enable", "disable"),
    "romio_ds_read": ("enable", "disable"),
    "ind_wr_buffer_size": (64 * KIB,),
    "ind_rd_buffer_size": (64 * KIB,),
    "romio_no_indep_rw": (True,),
    "romio_min_fdomain_size": (MIB,),
    "romio_lustre_co_ratio": (2,),
    "romio_lustre_coll_threshold": (64 * KIB,),
    "romio_lustre_ds_in_coll": ("disable",),
    "romio_cb_alltoall": ("disable",),
    "romio_cb_fr_type": (MIB,),
}
# A layout is asked for at creation alone.
OF_NEW_FILES: dict[str, tuple[Any, ...]] = {
    "striping_factor": (4,),
    "striping_unit": (128 * KIB,),
    "start_iodevice": (3,),
}
STRIPING = {"striping_factor": STRIPES, "striping_unit": 64 * KIB}


@dataclass(frozen=True)
class Trial:
    """A hint on top of others at one call.

    Attributes
    ----------
    call : str
        Of :data:`CALLS`, ``independent`` before it if it is.
    parameter : str
    base, case : Case
        Without the hint and with it.
    live : bool
        Whether the stack files say that it can act there.
    """

    call: str
    parameter: str
    base: Case
    case: Case
    live: bool


def trials(operation: str) -> Iterator[Trial]:
    """All of them, for ``write`` or ``read``."""
    cb, ds = f"romio_cb_{operation}", f"romio_ds_{operation}"
    together: list[dict[str, Any]] = [{"cb_nodes": 4}, {cb: "enable"}, {cb: "disable"}, {cb: "disable", ds: "disable"}]
    number = 0
    for collective, bases in ((True, [{}, *together]), (False, [{}, {ds: "disable"}])):
        way = f"{operation}_all" if collective else operation
        for name, (fields, words) in CALLS.items():
            space = _space(operation, collective, words)
            for base in bases:
                usual = Case(f"{number}", way, hints=_hints(base), **fields)
                # Hints of the other direction and layouts are tried alone: there is nothing that others could change.
                near = {name: TRIED[name] for name in TRIED if operation in space[name].operations}
                for parameter, values in (near if base else {**TRIED, **OF_NEW_FILES}).items():
                    for value in values if parameter not in base else ():
                        number += 1
                        more = {**base, parameter: value}
                        case = Case(f"{usual.name}-{number}", way, hints=_hints(more), **fields)
                        live = parameter in TRIED and _fold(space, more) != _fold(space, base)
                        yield Trial(name if collective else f"independent {name}", parameter, usual, case, live)
                number += 1


def _space(operation: str, collective: bool, words: Mapping[str, Any]) -> Space:
    stack = load_stack("romio")
    lustre = {"api": "mpiio", "driver": "LUSTRE:", "file_system": "lustre"}
    work = {"operation": operation, "nodes": NODES, "processes_per_node": RANKS // NODES, "collective": collective}
    context = Workload.model_validate({**lustre, **work, **words}).words()
    return Space.bind(stack.parameters, stack.constraints, stack.derived, context)


def _fold(space: Space, values: Mapping[str, Any]) -> Configuration:
    """The configuration with what cannot act at its default, whether or not a search would try it."""
    levels = np.array([[p.level(values.get(p.name, p.default)) for p in space.parameters]])
    return space.configuration(space.fold(levels)[0])


def _hints(values: Mapping[str, Any]) -> dict[str, str]:
    """All of them, whatever can act: aggregators as the stack asks for them."""
    hints = {name: spell(value) for name, value in values.items()}
    if "cb_nodes" in values:
        hints["cb_config_list"] = f"*:{-(-values['cb_nodes'] // NODES)}"
    return hints


def run(driver: Driver, place: Path, tried: list[Trial]) -> dict[str, Seen]:
    """Make all calls, each on a file of its own that is there already, as long as it is to be."""
    cases = {case.name: case for trial in tried for case in (trial.base, trial.case)}
    prepared: dict[tuple[object, ...], Path] = {}
    place.mkdir()
    for case in cases.values():
        shape = (case.layout, case.pieces, case.piece, case.hole)
        if shape not in prepared:
            folder = place.with_name(f"{place.name}-{len(prepared)}")
            driver.run(folder, [Case("file", "write_all", *shape, STRIPING)], RANKS, NODES)
            prepared[shape] = folder / "file"
        # What one case writes the others must not see; what they read they may share.
        (os.link if case.way.startswith("read") else shutil.copy)(prepared[shape], place / case.name)
        os.link(f"{prepared[shape]}.layout", place / f"{case.name}.layout")
    found = driver.run(place, cases.values(), RANKS, NODES)
    shutil.rmtree(place)
    return found


def accesses(seen: Mapping[str, Seen], case: Case) -> tuple[object, ...]:
    """Who moved what, and which ranks opened the file; of a call that asks for a layout rank 0 opens it twice."""
    found = seen[case.name]
    return sorted(found.reads.items()), sorted(found.writes.items()), sorted(set(found.opens))
