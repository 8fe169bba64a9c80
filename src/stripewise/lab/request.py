"""What ``simulate run`` is asked for: a workload or a record, details of its access, and settings to try."""

from __future__ import annotations

import difflib
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from stripewise.catalogue.configuration import Value, place_of
from stripewise.catalogue.plan import spell
from stripewise.catalogue.workload import Workload
from stripewise.documents import parse_document, read_document
from stripewise.errors import UserError
from stripewise.formats import MAX_RECORD_BYTES, RECORD_HEADER
from stripewise.lab.batch import Access, directions, parameters
from stripewise.lab.engine import SimulatedOutcome
from stripewise.lab.recorded import SimulatedPart, parts_of, run_parts
from stripewise.lab.site import Site
from stripewise.observe.record import Record
from stripewise.observe.record_reading import read_record
from stripewise.sizes import format_size, parse_size

_LISTS = ("cb_config_list",)
_MOST = 1_000_000


class _WorkloadFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = ""
    description: str = ""
    workload: Workload | None = None
    record: str = ""
    access: Access = Access()
    settings: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class SimulationRequest:
    """What to simulate, with the settings to simulate it with.

    Attributes
    ----------
    parts : tuple of SimulatedPart
        What runs.
    access : Access
        What memory holds of reads.
    settings : dict of str to tuple of Value
        The values of each setting; all combinations are simulated.
    notes : tuple of str
        What cannot be simulated as it is.
    """

    parts: tuple[SimulatedPart, ...]
    access: Access
    settings: dict[str, tuple[Value, ...]]
    notes: tuple[str, ...] = ()

    def configurations(self) -> list[dict[str, Value]]:
        """All combinations of the settings, one empty if there are none."""
        names = list(self.settings)
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*self.settings.values())]

    def run(self, site: Site) -> dict[str, SimulatedOutcome]:
        """Simulate every combination, by direction.

        Raises
        ------
        UserError
            If the site is too small for the workload.
        """
        for part in self.parts:
            check_fit(site, part.workload)
        rows = self.configurations()
        columns = {name: np.array([row[name] for row in rows], dtype=object) for name in self.settings}
        return {direction: run_parts(site, self._of(direction), columns) for direction in self._directions()}

    def _directions(self) -> list[str]:
        return list(dict.fromkeys(part.direction for part in self.parts))

    def _of(self, direction: str) -> list[SimulatedPart]:
        return [part for part in self.parts if part.direction == direction]

    def cached(self, site: Site) -> tuple[float, float]:
        """Say which parts of a read the clients' and the servers' memory hold."""
        client, server = self.access.client_cached, self.access.server_cached
        held = site.client.cached if client is None else client
        return held, min(1.0 - held, site.oss.cached if server is None else server)

    def without_effect(self, site: Site, direction: str) -> dict[str, bool]:
        """Say which settings could be left out in all combinations without any change of the times."""
        whole = self.run(site)[direction]
        found = {}
        for name in self.settings:
            columns = {
                other: np.array([row[other] for row in self.configurations()], dtype=object)
                for other in self.settings
                if other != name
            }
            found[name] = bool(np.all(run_parts(site, self._of(direction), columns).seconds == whole.seconds))
        return found


def check_fit(site: Site, workload: Workload) -> None:
    """Refuse a workload that needs more nodes, or more processes a node, than the site has."""
    if (workload.nodes or 1) > site.nodes:
        raise UserError(f"{workload.nodes} nodes are more than the {site.nodes} of site {site.name}", "lower nodes")
    if (workload.processes_per_node or 1) > site.cores:
        raise UserError(
            f"{workload.processes_per_node} processes a node are more than the {site.cores} cores of site {site.name}",
            "lower processes_per_node",
        )


def load_request(path: str | Path) -> SimulationRequest:
    """Read a workload file, or the record of a program, which is simulated with the settings of the site.

    Raises
    ------
    UserError
        With the file and the place that is wrong.
    """
    origin = str(path)
    text = read_document(Path(path), "workload", most=MAX_RECORD_BYTES, errors="surrogateescape")
    if text.startswith(RECORD_HEADER):
        return _of_record(read_record(Path(path)).need_mpi_io(origin), Access(), {})
    parsed = parse_document(_WorkloadFile, text, origin)
    settings = {name: _values(name, given, f"{origin}: settings.{name}") for name, given in parsed.settings.items()}
    count = int(np.prod([len(values) for values in settings.values()], dtype=float)) if settings else 1
    if count > _MOST:
        raise UserError(f"{origin}: {count:,} combinations of settings", f"list fewer values: at most {_MOST:,}")
    if (parsed.workload is None) == (not parsed.record):
        raise UserError(f"{origin} needs either a workload table or a record", "write one of them")
    if parsed.workload is None:
        record = read_record(Path(path).parent / parsed.record).need_mpi_io(parsed.record)
        return _of_record(record, parsed.access, settings)
    parts = (SimulatedPart(parsed.workload, way, parsed.access) for way in directions(parsed.workload))
    return SimulationRequest(tuple(parts), parsed.access, settings)


def _of_record(record: Record, access: Access, settings: dict[str, tuple[Value, ...]]) -> SimulationRequest:
    parts, notes = parts_of(record, access)
    return SimulationRequest(tuple(parts), access, settings, tuple(notes))


def make_readable(name: str, value: Value) -> str:
    """Write a setting's value as in a file: sizes with their unit."""
    parameter = parameters().get(name)
    size = parameter is not None and parameter.unit == "B" and isinstance(value, int) and value > 0
    return format_size(int(value)) if size else spell(value)


def _values(name: str, given: Any, where: str) -> tuple[Value, ...]:
    if name not in parameters() and name not in _LISTS:
        close = difflib.get_close_matches(name, [*parameters(), *_LISTS], 1)
        raise UserError(f"{where}: no such setting", f"is {close[0]} meant?" if close else "see docs/reference/stacks")
    listed = given if isinstance(given, list) else [given]
    if not listed:
        raise UserError(f"{where} has no value", "give one, or a list of some")
    return tuple(_value(name, value, where) for value in listed)


def _value(name: str, value: Any, where: str) -> Value:
    if not isinstance(value, bool | int | str):
        raise UserError(f"{where}: {value!r} is not a value of a setting", "write a whole number, a size or a word")
    if name in _LISTS:
        return str(value)
    parameter = parameters()[name]
    if not parameter.ordered:
        if place_of(value, parameter.values) is None:
            shown = ", ".join(str(known).lower() for known in parameter.values)
            raise UserError(f"{where}: unknown value {value!r}", f"choose from {shown}")
        return value
    if isinstance(value, str) and parameter.unit == "B":
        return parse_size(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{where}: {value!r} is not a whole number", "write a number")
    return value
