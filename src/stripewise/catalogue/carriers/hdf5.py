"""Properties of HDF5: of a file where it is created or opened, of a dataset where it is created."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.catalogue.carriers.base import (
    LOST,
    RUNTIME,
    RUNTIME_OVERRIDES,
    Carried,
    Carrier,
    LaunchSettings,
    Setting,
    whole,
)


class Hdf5Property(Carrier):
    """Only the runtime can set them; HDF5 has neither a file nor a variable for them."""

    name = verb = "hdf5"
    acts = ("create", "open", "dataset")
    undecided = ""
    reported = True
    apis = ("hdf5",)
    echo = "HDF5"
    proofs = frozenset({"calls", "hdf5"})
    reads = "the runtime reads digits alone"
    on_fault = "the runtime refuses it"

    def number(self, key: str, text: str) -> float | None:
        """Take digits alone."""
        return whole(text)

    def switch(self, text: str) -> bool | None:
        """Take the words that ``native/core/hdf5_settings.c`` takes."""
        return {"true": True, "yes": True, "false": False, "no": False}.get(text)

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Let the runtime set the property."""
        if not launch.preloaded:
            return Carried(setting, LOST, "only the runtime can apply it, and it cannot be preloaded here")
        if launch.program.hdf5_inside:
            return Carried(setting, LOST, "HDF5 is linked into the program, where the runtime cannot reach it")
        wins = RUNTIME_OVERRIDES if launch.override else "properties that the program sets itself win"
        return Carried(setting, RUNTIME, wins)

    def needs_runtime(self, settings: Sequence[Setting], *, override: bool, pattern: str) -> list[str]:
        """Say that only the runtime sets properties."""
        return ["sets HDF5 properties"]


HDF5 = Hdf5Property()
