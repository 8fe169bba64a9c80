"""What follows from parameters: settings computed from them, and the performance that experts expect of them."""

from __future__ import annotations

from dataclasses import dataclass

from stripewise.carriers import Carrier
from stripewise.spec.expression import Expression


@dataclass(frozen=True)
class Derived:
    """A setting computed from others, as ``cb_config_list`` from ``cb_nodes``.

    Attributes
    ----------
    name : str
        The carrier's name of the setting.
    carrier, layer : Carrier, str
        As in :class:`Parameter`.
    template : str
        The value with ``{value}`` in place of the computed number.
    value : Expression
        The number.
    active_if : Expression or None
        When to emit it; it is also left out while every parameter that it needs is at its default.
    """

    name: str
    carrier: Carrier
    layer: str
    template: str
    value: Expression
    active_if: Expression | None = None


@dataclass(frozen=True)
class Knowledge:
    """A piece of expert knowledge: under a condition, performance is expected to change by a factor.

    Attributes
    ----------
    condition : Expression
        Over parameters and workload words.
    gain : float
        Expected ratio of performance to that without the condition; above 1 is faster.
    source : str
        Where it is known from.
    """

    condition: Expression
    gain: float
    source: str
