"""Hints: keys of ``MPI_Info`` at ``MPI_File_open``, and those of PnetCDF, which takes them from a variable before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from stripewise.catalogue.carriers.base import (
    LOST,
    OVER_MPI_IO,
    RUNTIME,
    RUNTIME_OVERRIDES,
    RUNTIME_WINS,
    Carried,
    Carrier,
    Expressed,
    Form,
    LaunchSettings,
    Setting,
    digits,
)
from stripewise.catalogue.filesystems import key_of

HINTS_FILE = "romio-hints"
HINTS_LIMIT = 4096
"""ROMIO reads hints files shorter than this many bytes, and ignores larger ones silently."""

_ROMIO, _CRAY = "ROMIO_HINTS", "MPICH_MPIIO_HINTS"
ROMIO_COMPONENT = "the component of ROMIO that `ompi_info --param io all` lists, if any"


class Hint(Carrier):
    """The runtime passes a hint to the open; without it, each MPI library's own file or variable does.

    Texts are read as by ROMIO: ``hint_fns.c`` and the drivers' ``*_hints.c`` of MPICH 5.1.0a1 (src/mpi/romio/adio).
    """

    name = verb = "hint"
    acts = ("open",)
    reported = True
    undecided = ""
    within_calls = True
    apis = OVER_MPI_IO
    proofs = frozenset({"calls", "layout"})
    reads = "ROMIO reads digits alone"
    on_fault = "the library ignores it without a message"
    switches = (("false", "true"), ("disable", "enable", "automatic"))

    def number(self, key: str, text: str) -> float | None:
        """Give what ``atoi`` makes of it: digits at the beginning, 0 without any, 32 bits; of layouts ``atoll``."""
        number = digits(text)
        return number if key_of(key) is not None else (number + (1 << 31)) % (1 << 32) - (1 << 31)

    def switch(self, text: str) -> bool | None:
        """Compare with the words in small letters and in capitals, as ROMIO does."""
        return {"true": True, "TRUE": True, "false": False, "FALSE": False}.get(text)

    def word(self, text: str, words: Sequence[str]) -> str | None:
        """Compare with the words in small letters and in capitals; ``requested`` is another word for ``enable``."""
        lower = text.lower() if text.isupper() else text
        found = "enable" if lower == "requested" else lower
        return text if text in words else found if found in words else None

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Bring the hint by the runtime, or else by the file or variable that the MPI library reads."""
        if launch.preloaded:
            return Carried(setting, RUNTIME, RUNTIME_OVERRIDES if launch.override else RUNTIME_WINS)
        wins = f"{RUNTIME_WINS}, although the plan asks to override them" if launch.override else RUNTIME_WINS
        return bring_as_hints(setting, (setting.key,), launch, wins)

    def finish(self, launch: LaunchSettings, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Write Cray's variable and ROMIO's hints file, with what the user's own hold for other keys."""
        if cray := launch.pending.get(_CRAY):
            ours = ":".join([launch.pattern, *(f"{k}={v}" for k, v in cray.items())])
            users = [part for part in launch.users(_CRAY).split(",") if part]
            launch.environment[_CRAY] = ",".join([*users, ours])
        if romio := launch.pending.get(_ROMIO):
            text = "".join(f"{k} {v}\n" for k, v in {**_hints_in(launch.users(_ROMIO)), **romio}.items())
            if len(text.encode()) >= HINTS_LIMIT:
                why = f"ROMIO ignores a hints file of {HINTS_LIMIT} bytes or more"
                return [Carried(c.setting, LOST, why) if c.by == _ROMIO else c for c in carried]
            launch.files[HINTS_FILE] = text
            launch.environment[_ROMIO] = str(launch.folder / HINTS_FILE)
        return carried

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write them as hints; OMPIO has none."""
        if form is Form.HINTS:
            return Expressed([(s.key, s.value) for s in settings])
        if form is Form.MCA:
            why = (
                f"is a hint for ROMIO, which OMPIO does not read; run with --mca io COMPONENT, {ROMIO_COMPONENT}, "
                "and use the hints export"
            )
            return Expressed(cannot=[s.but(why) for s in settings])
        return None

    def needs_runtime(self, settings: Sequence[Setting], *, override: bool, pattern: str) -> list[str]:
        """Say that only the runtime overrides hints, chooses files, or brings what a hints file cannot hold."""
        reasons = ["wins over the program's own hints"] if override else []
        reasons += [f"acts on {pattern} only"] if pattern != "*" else []
        if hint_lines([(s.key, s.value) for s in settings])[1]:
            reasons.append("carries hints that a hints file cannot")
        return reasons


def bring_as_hints(setting: Setting, keys: Sequence[str], launch: LaunchSettings, wins: str) -> Carried:
    """Bring a setting as hints of some names to a program without the runtime."""
    if launch.program.cray and any(c in launch.pattern for c in ":,"):
        return Carried(setting, LOST, f"{_CRAY} cannot express the file pattern {launch.pattern}")
    if launch.program.cray:
        return launch.put(setting, _CRAY, keys[0], ":,")
    if launch.program.io == "ompio":
        component = launch.program.romio or f"COMPONENT, {ROMIO_COMPONENT}"
        return Carried(setting, LOST, f"Open MPI's OMPIO reads no hints file: for ROMIO hints add --mca io {component}")
    if any(c.isspace() for c in setting.value):
        return Carried(setting, LOST, "ROMIO ignores a line of its hints file whose value has white space")
    launch.pending.setdefault(_ROMIO, {}).update(dict.fromkeys(keys, setting.value))
    return Carried(setting, _ROMIO, wins)


def hint_lines(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Lines of a hints file, and what does not fit there."""
    lines: list[str] = []
    cannot: list[str] = []
    size = 0
    for key, value in pairs:
        line = f"{key} {value}\n"
        if len(value.split()) != 1:
            cannot.append(f"{key}={value}: ROMIO ignores a line of its hints file whose value has white space")
        elif size + len(line.encode()) >= HINTS_LIMIT:
            cannot.append(f"{key}={value}: ROMIO reads less than {HINTS_LIMIT} bytes of a hints file")
        else:
            size += len(line.encode())
            lines.append(line)
    return lines, cannot


def _hints_in(path: str) -> dict[str, str]:
    """Read the hints file that the user's environment names; ROMIO takes only one."""
    if not path:
        return {}
    try:
        text = Path(path).read_text("utf-8", "replace")
    except OSError:
        return {}
    pairs = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


HINT = Hint()


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
    proofs = frozenset({"calls"})
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
            launch.environment[_VARIABLE] = _join_pairs(kept, list(ours.items()))
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
        return Expressed([(_VARIABLE, _join_pairs([], good))] if good else [], [s.but(why) for s in bad])


def _join_pairs(kept: list[str], pairs: list[tuple[str, str]]) -> str:
    return ";".join([*kept, *(f"{key}={value}" for key, value in pairs)])


PNETCDF = Pnetcdf()
