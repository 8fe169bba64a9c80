"""Predictions of systems that the shared constants have not seen.

Per system only the bandwidths of its OSTs and of its nodes are its own, and they come from its file-per-process
cells. A cell is held back by one of the two; the other comes from the system with the same part: nodes of Edison
and KNL from Haswell (one network), OSTs of Haswell from KNL (one file system). ARCHER2's come from the notes, for
its cells are cached.

The shared constants that no source fixes begin as what was guessed before any fit, good to an order of magnitude
(95%), and are fitted to the remaining cells of all other machines, by robust least squares in log space; then the
machine left out is predicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from cells import CELLS, GIB, SYSTEMS, Cell, base_site, predict, system_of
from scipy.optimize import least_squares

from stripewise.lab.site import Site

GUESSES = {
    "ost.request_seconds": 0.2e-3,  # 0.1 to 0.4 ms guessed in the notes
    "ost.access_seconds": 60 / 7200 / 2,  # half a turn of a disk of 7,200 turns a minute
    "locks.seconds": 1.2e-3,  # guessed in the notes
    "mpi.aggregator_bandwidth": 0.8 * GIB,  # 0.73 to 0.87 GiB/s in the notes
}
CONSTANTS = tuple(GUESSES)
_MODEL_ERROR = np.log(1.5)
_GUESS_ERROR = np.log(10.0) / 2
_DIRECTIONS = ("write", "read")


@dataclass(frozen=True)
class Prediction:
    """A cell and what was predicted for it.

    Attributes
    ----------
    cell : Cell
    predicted : float
        GiB/s.
    bound : str
        What acts.
    """

    cell: Cell
    predicted: float
    bound: str

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.cell.measured

    @property
    def hit(self) -> bool:
        """Whether it is within a factor of 1.5."""
        return 1 / 1.5 <= self.ratio <= 1.5


def _cell(system: str, kind: str) -> Cell:
    return next(cell for cell in CELLS if cell.system == system and cell.kind == kind)


def _update(site: Site, values: Mapping[str, float]) -> Site:
    tables: dict[str, dict[str, float]] = {}
    for key, value in values.items():
        table, name = key.split(".")
        tables.setdefault(table, {})[name] = value
    return site.model_copy(
        update={name: getattr(site, name).model_copy(update=changes) for name, changes in tables.items()}
    )


def _solve(site: Site, system: str, direction: str, key: str) -> float:
    """The bandwidth at which a file-per-process cell is reproduced: nearly proportional to it, so few steps do."""
    cell = _cell(system, f"FPP {direction}")
    table, name = key.split(".")
    value = getattr(getattr(site, table), name)
    for _ in range(12):
        predicted, _ = predict(_update(site, {key: value}), system_of(system), cell)
        value *= cell.measured / predicted
        if abs(predicted / cell.measured - 1) < 1e-4:
            break
    return value


def sites(constants: Mapping[str, float]) -> dict[str, Site]:
    """All systems' sites under shared constants, each with bandwidths from file-per-process cells."""
    found = {system.name: _update(base_site(system), constants) for system in SYSTEMS}
    wide = 1000.0 * GIB
    for direction in _DIRECTIONS:
        node, ost = f"network.node_{direction}_bandwidth", f"ost.{direction}_bandwidth"
        haswell = _solve(_update(found["Cori Haswell"], {ost: wide}), "Cori Haswell", direction, node)
        for name in ("Edison scratch1", "Edison scratch3", "Cori KNL", "Cori Haswell"):
            found[name] = _update(found[name], {node: haswell})
        for name in ("Edison scratch1", "Edison scratch3", "Cori KNL"):
            found[name] = _update(found[name], {ost: _solve(found[name], name, direction, ost)})
        knl = getattr(found["Cori KNL"].ost, f"{direction}_bandwidth")
        found["Cori Haswell"] = _update(found["Cori Haswell"], {ost: knl})
    return found


def shipped() -> dict[str, float]:
    """The shared constants of the sites' files."""
    site = base_site(SYSTEMS[0])
    return {key: float(getattr(getattr(site, key.split(".")[0]), key.split(".")[1])) for key in CONSTANTS}


def predictions(constants: Mapping[str, float]) -> list[Prediction]:
    """All cells that nothing was fitted to."""
    found = sites(constants)
    return [Prediction(c, *predict(found[c.system], system_of(c.system), c)) for c in CELLS if not c.fitted]


def constants_without(left_out: set[str]) -> dict[str, float]:
    """The shared constants from the cells of all systems but some."""
    logs = np.log(list(GUESSES.values()))

    def residuals(shift: np.ndarray) -> np.ndarray:
        trial = dict(zip(CONSTANTS, np.exp(logs + shift), strict=True))
        made = [p for p in predictions(trial) if p.cell.system not in left_out]
        off = np.log([p.ratio for p in made]) / _MODEL_ERROR
        # Cauchy's loss: a cell that the model has no mechanism for must not bend the constants of all others.
        robust = np.sign(off) * np.sqrt(np.log1p(off**2))
        return np.concatenate([robust, shift / _GUESS_ERROR])

    found = least_squares(residuals, np.zeros(len(logs)), diff_step=0.02, max_nfev=15)
    return dict(zip(CONSTANTS, map(float, np.exp(logs + found.x)), strict=True))


def leave_one_out(by_machine: bool = False) -> tuple[list[Prediction], dict[str, dict[str, float]]]:
    """Predict each system with constants from the others; or each machine with all its file systems."""
    made: list[Prediction] = []
    constants: dict[str, dict[str, float]] = {}
    for unit in dict.fromkeys(s.machine if by_machine else s.name for s in SYSTEMS):
        left_out = {s.name for s in SYSTEMS if unit in (s.machine, s.name)}
        constants[unit] = constants_without(left_out)
        made += [p for p in predictions(constants[unit]) if p.cell.system in left_out]
    return made, constants


def orders(made: list[Prediction]) -> list[tuple[str, str, bool, float, float]]:
    """System, direction, whether the better way was predicted, measured and predicted collective over independent."""
    by_cell = {(p.cell.system, p.cell.kind): p for p in made}
    found = []
    for system in [s.name for s in SYSTEMS if (s.name, "VPIC-IO write") in by_cell]:
        for direction, together, alone in (
            ("write", "collective write", "VPIC-IO write"),
            ("read, early", "collective read, early", "BD-CATS-IO read, early"),
            ("read, late", "collective read, late", "BD-CATS-IO read, late"),
        ):
            a, b = by_cell[system, together], by_cell[system, alone]
            measured, predicted = a.cell.measured / b.cell.measured, a.predicted / b.predicted
            found.append((system, direction, (measured > 1) == (predicted > 1), measured, predicted))
    return found
