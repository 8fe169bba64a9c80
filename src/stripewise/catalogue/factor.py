"""Factors of a campaign: what is varied, with its values; what can be tuned, and how."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from stripewise.catalogue.carriers import Carrier
from stripewise.catalogue.configuration import place_of
from stripewise.catalogue.stack import Scalar, read_carrier
from stripewise.sizes import parse_size

Operation = Literal["read", "write"]

SIZES = ("file_size", "transfer_size", "piece_size", "stripe_size", "collective_buffer_size", "sieving_buffer_size")
"""Roles whose values are bytes."""

WORKLOAD_ROLES = (
    *("nodes", "processes", "processes_per_node", "file_size", "transfer_size", "piece_size", "layout", "collective"),
    *("file_per_process", "api"),
)
"""Roles that say what the program does: they become words of its command line."""

_COUNTS = ("nodes", "processes", "processes_per_node")
ROLES = (*WORKLOAD_ROLES, *SIZES, "stripe_count", "aggregators", "collective_buffering", "data_sieving")
"""All words of the field that a factor's name may be."""


class Factor(BaseModel):
    """A ``[[workload]]`` table: something that cannot be tuned, with the values to be measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    values: list[Scalar] = Field(min_length=1)
    role: str = Field(default="", description="the field's word for it; by default the name, where that is one")
    kind: Literal["ordinal", "categorical"] | None = None
    unit: str | None = None
    scale: Literal["linear", "log2"] | None = None
    default: Scalar | None = None
    assumed: list[Scalar] = Field(
        default_factory=list, description="values that the study followed does not print: chosen by whoever wrote this"
    )

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("values"), list):
            return data
        data = dict(data)
        role = data.get("role") or (data.get("name") if data.get("name") in ROLES else "other")
        data["role"] = role
        if data.get("unit") is None and role in SIZES:
            data["unit"] = "B"
        if data.get("unit") == "B":
            for key in ("values", "assumed"):
                data[key] = [_size(value) for value in data.get(key, [])]
            if data.get("default") is not None:
                data["default"] = _size(data["default"])
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.name.isidentifier():
            raise ValueError(f"'{self.name}' is not a name: use letters, digits and underscores")
        if self.name in ("operation", "repeat"):
            raise ValueError(f"'{self.name}' is kept for the table's own column; operations are named at the top")
        if len(set(map(repr, self.values))) != len(self.values):
            raise ValueError(f"{self.name} lists a value twice")
        if self.ordered and [*self.values] != sorted(self.values, key=float):
            raise ValueError(f"{self.name}: values must ascend")
        if self.role in _COUNTS and any(isinstance(v, bool | str | float) or v < 1 for v in self.values):
            raise ValueError(f"{self.name}: the number of {self.role} must be whole and at least 1")
        if self.axis == "log2" and float(self.values[0]) < 0:
            raise ValueError(f"{self.name} has scale log2 but a value of {self.values[0]}")
        for given, what in ((self.assumed, "assumed"), ([] if self.default is None else [self.default], "default")):
            unknown = [value for value in given if place_of(value, self.values) is None]
            if unknown and not (what == "default" and isinstance(self, Tunable)):
                raise ValueError(f"{self.name}: {what} {unknown[0]!r} is not among its values")
        return self

    @property
    def ordered(self) -> bool:
        """Whether values can be compared by size."""
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)
        if self.kind == "ordinal" and not numbers:
            raise ValueError(f"{self.name} is ordinal but has a value that is not a number")
        return numbers and self.kind != "categorical"

    @property
    def axis(self) -> Literal["linear", "log2"]:
        """The scale: log2 where values are sizes or grow by factors, unless declared."""
        if self.scale is not None or not self.ordered:
            return self.scale or "linear"
        values = [float(value) for value in self.values]
        doubling = (
            len(values) > 1 and values[0] > 0 and all(b / a >= 2 for a, b in zip(values, values[1:], strict=False))
        )
        return "log2" if doubling else "linear"


class Tunable(Factor):
    """A ``[[tunable]]`` table: something that a user can set; how is known from a stack, or said here."""

    operations: list[Operation] = Field(
        default=["read", "write"], description="for which it can be set; for others it belongs to the workload"
    )
    carrier: Carrier | None = Field(default=None, description="how it is set, where no stack says so")
    key: str = ""
    active_if: str | None = None

    _carried = model_validator(mode="before")(staticmethod(read_carrier))


def _size(value: Any) -> Any:
    return parse_size(value) if isinstance(value, str) else value
