"""Members beside those that ship: of programs on one node, too, weighed by what is like the system at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stripewise.model.domain import Floats
from stripewise.search.portfolio.features import OF_ONE_NODE
from stripewise.search.portfolio.members import Members

_OTHER_KIND = 0.25
"""What a system of the other kind (a node's own file system, a shared one) counts."""


@dataclass(frozen=True, eq=False)
class Portfolio:
    """Members of all systems.

    Attributes
    ----------
    members : Members
    shared : tuple of bool
        Whether the file systems of each are shared by several nodes.
    several : tuple of bool
        Whether any of its programs ran on several nodes.
    """

    members: Members
    shared: tuple[bool, ...]
    several: tuple[bool, ...]

    def only(self, kept: Sequence[bool]) -> Portfolio:
        """Give what is known from some of the members alone."""
        places = [place for place, keep in enumerate(kept) if keep]
        shared, several = (tuple(each[place] for place in places) for each in (self.shared, self.several))
        return Portfolio(self.members.only(kept), shared, several)

    def on_nodes(self) -> Members:
        """Give the members for a program on several nodes: those that ship, where nothing is left out."""
        return self.members.only(self.several)

    def weights(self, facts: Mapping[str, Any]) -> Floats:
        """How much each member counts for a workload before anything has run, shape ``(members,)``; their sum is 1.

        What is like this system as far as one can see, a node's own file system or a shared one, counts more.
        """
        system = facts.get("file_system")
        alike = np.array([system is None or shared == (system not in OF_ONE_NODE) for shared in self.shared])
        weight = np.where(alike, 1.0, _OTHER_KIND)
        return np.asarray(weight / weight.sum(), dtype=np.float64)
