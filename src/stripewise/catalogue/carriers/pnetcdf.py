"""Hints of PnetCDF, which it takes from its caller or from ``PNETCDF_HINTS`` before MPI-IO sees the file."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.catalogue.carriers.base import Carried, Carrier, Expressed, Form, LaunchSettings, Setting, digits

_VARIABLE = "PNETCDF_HINTS"


class Pnetcdf(Carrier):
    """A variable holds them, with the runtime and without it: at the open it is too late.

    Texts are read as by ``ncmpio_util.c`` of PnetCDF 1.15.0 (src/drivers/ncmpio).
    """

    name = "pnetcdf"
    verb = "hint"
    in_artifact = "env"  # To the runtime they are variables, which the launcher exports.
    acts = ("create",)
    undecided = "PnetCDF reads its variable before MPI-IO sees the file"
    reported = True
    apis = ("pnetcdf",)
    reads = "PnetCDF reads digits alone"
    on_fault = "the library ignores it without a message"

    def number(self, key: str, text: str) -> float | None:
        """Give what ``strtoll`` makes of it."""
        return digits(text)

    def word(self, text: str, words: Sequence[str]) -> str | None:
        """Compare without regard to case."""
        return next((word for word in words if word.lower() == text.lower()), None)

    def owns(self, key: str) -> bool:
        """PnetCDF's hints, and those of its library GIO, are known by their names."""
        return key.startswith(("nc_", "pnetcdf_")) or key in ("file_striping", "overstriping_ratio")

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Bring the hint by the variable."""
        return launch.put(setting, _VARIABLE, setting.key, ";=")

    def finish(self, launch: LaunchSettings, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Set the variable; keep other keys of the user's own."""
        if ours := launch.pending.get(_VARIABLE):
            names = {part: part.partition("=")[0].strip() for part in launch.users(_VARIABLE).split(";")}
            kept = [part for part, name in names.items() if name and name not in ours]
            launch.environment[_VARIABLE] = _joined(kept, list(ours.items()))
        return carried

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write the variable."""
        if form is Form.HINTS:
            why = f"is read by PnetCDF alone: use the shell export, which sets {_VARIABLE}"
            return Expressed(cannot=[s.but(why) for s in settings])
        if form is not Form.VARIABLES:
            return None
        good = [(s.key, s.value) for s in settings if not any(c in s.key + s.value for c in ";=")]
        bad = [s for s in settings if (s.key, s.value) not in good]
        why = f"has a ';' or '=', which separate {_VARIABLE}"
        return Expressed([(_VARIABLE, _joined([], good))] if good else [], [s.but(why) for s in bad])


def _joined(kept: list[str], pairs: list[tuple[str, str]]) -> str:
    return ";".join([*kept, *(f"{key}={value}" for key, value in pairs)])


PNETCDF = Pnetcdf()
