"""How a plan travels to the program: by the preloaded runtime, or by what MPI libraries read of their own accord.

Nothing is written or started here: what is to be set, and which files are to hold what, is worked out and explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stripewise.spec.parameter import Apply
from stripewise.spec.plan import Plan, Setting
from stripewise.spec.policy import Policy

HINTS_FILE = "romio-hints"
HINTS_LIMIT = 4096
"""ROMIO reads hints files shorter than this many bytes, and passes larger ones over without a word."""

_PNETCDF_PREFIX = ("nc_", "pnetcdf_")
_LUSTRE_AS_HINT = {"stripe_count": "striping_factor", "stripe_size": "striping_unit", "start_ost": "start_iodevice"}
_RUNTIME_WINS = "the program's own hints win"
_PROPERTIES_WIN = "properties that the program sets itself win"
_RUNTIME_OVERRIDES = "the plan wins over the program's own hints"


@dataclass(frozen=True)
class Program:
    """What must be known of a program to bring settings to it.

    Attributes
    ----------
    abi : str
        Of its MPI; empty if unknown.
    io : str or None
        ``romio`` or ``ompio``.
    cray : bool
        Whether its MPI is Cray's.
    obstacle : str
        Why nothing can be preloaded, or empty.
    environment : mapping
        The variables it starts with, those of the command line included.
    without_mpi : str
        Why nothing in the program would read what an MPI library reads, or empty.
    """

    abi: str = ""
    io: str | None = None
    cray: bool = False
    obstacle: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    without_mpi: str = ""


@dataclass(frozen=True)
class Guidance:
    """What the runtime is to do besides carrying out the plan.

    Attributes
    ----------
    mode : str
        ``observe``, ``apply``, ``predict`` or ``online``; empty: apply where there are settings, else observe.
    model : Path or None
        An artifact, for the modes predict and online.
    journal : Path or None
        Where the mode online keeps what it learned.
    allow : tuple of str
        See :class:`~stripewise.spec.plan.Plan`.
    """

    mode: str = ""
    model: Path | None = None
    journal: Path | None = None
    allow: tuple[str, ...] = ()

    @classmethod
    def under(cls, policy: Policy, mode: str = "", model: Path | None = None, journal: Path | None = None) -> Guidance:
        """What a site allows."""
        allow = [
            word for word, may in (("composite", policy.striping.composite), ("pool", policy.striping.pooled)) if may
        ]
        return cls(mode, model, journal, tuple(allow))


@dataclass(frozen=True)
class Carried:
    """The way of one setting.

    Attributes
    ----------
    setting : Setting
    carrier : str
        ``runtime``, ``ROMIO_HINTS``, ``MPICH_MPIIO_HINTS``, ``PNETCDF_HINTS``, ``environment``, ``OMPI_MCA``,
        ``command``; ``none`` if there is no way.
    wins : str
        Who wins if the program, or its user's environment, sets the same key; or why there is no way.
    """

    setting: Setting
    carrier: str
    wins: str

    def as_json(self) -> dict[str, str]:
        """Give it as JSON."""
        setting = self.setting
        key = f"{setting.layer} {setting.key}" if setting.apply is Apply.STRIPING else setting.key
        return {
            "layer": setting.apply.value,
            "key": key,
            "value": setting.value,
            "carrier": self.carrier,
            "wins": self.wins,
        }


@dataclass(frozen=True)
class Injection:
    """All that brings a plan to a program.

    Attributes
    ----------
    environment : mapping
        Variables to be set by ``env`` directly before the program.
    files : mapping
        Name within the run's folder to content.
    carried : tuple of Carried
        One a setting, in the plan's order.
    """

    environment: Mapping[str, str]
    files: Mapping[str, str]
    carried: tuple[Carried, ...]

    @property
    def lost(self) -> tuple[Carried, ...]:
        """Settings that cannot reach the program."""
        return tuple(entry for entry in self.carried if entry.carrier == "none")


def inject(
    plan: Plan, program: Program, library: Path | None, folder: Path, guidance: Guidance | None = None
) -> Injection:
    """Work out how a plan travels.

    Parameters
    ----------
    plan : Plan
    program : Program
    library : Path or None
        The runtime; None where it cannot or shall not be preloaded.
    folder : Path
        The run's; files named in the result are to be written there.
    guidance : Guidance, optional
    """
    guidance = guidance or Guidance()
    environment: dict[str, str] = {}
    files: dict[str, str] = {}
    preload = library is not None and not program.obstacle
    if preload:
        environment["LD_PRELOAD"] = prepend(str(library), program.environment.get("LD_PRELOAD", ""))
        environment["STRIPEWISE_REPORT"] = str(folder / "report.json")
        environment["STRIPEWISE_MODE"] = guidance.mode or ("apply" if plan.settings else "observe")
        if guidance.model is not None:
            environment["STRIPEWISE_MODEL"] = str(guidance.model)
        if guidance.journal is not None:
            environment["STRIPEWISE_JOURNAL"] = str(guidance.journal)
        decides = guidance.mode in ("predict", "online")
        if plan.settings or plan.workload or (decides and guidance.allow):
            files["plan"] = replace(plan, allow=tuple(dict.fromkeys((*plan.allow, *guidance.allow)))).text()
            environment["STRIPEWISE_PLAN"] = str(folder / "plan")
    without = None if preload else _Foreign(plan, program, folder)
    pnetcdf = _Pnetcdf(program.environment)
    carried = tuple(
        _by_environment(setting, environment)
        or _in_vain(setting, program)
        or _by_mca(setting, environment)
        or pnetcdf.carry(setting)
        or (without.carry(setting) if without else _by_runtime(setting, plan))
        for setting in plan.settings
    )
    environment.update(pnetcdf.environment())
    if without:
        carried = without.finish(carried, environment, files)
    return Injection(environment, files, carried)


def prepend(library: str, preloaded: str) -> str:
    """Put a library first in a list for LD_PRELOAD: what comes later then sees the calls that the runtime makes."""
    others = [entry for entry in preloaded.replace(" ", ":").split(":") if entry and entry != library]
    return ":".join([library, *others])


def _by_environment(setting: Setting, environment: dict[str, str]) -> Carried | None:
    """Carry what travels the same way whether the runtime is preloaded or not."""
    if setting.apply is Apply.ENV:
        environment[setting.key] = setting.value
        return Carried(setting, "environment", "the plan wins over the user's environment")
    if setting.apply is Apply.ARGUMENT:
        return Carried(setting, "command", "the plan wins: it is put into the command")
    return None


def _in_vain(setting: Setting, program: Program) -> Carried | None:
    """Carry nothing to a program in which no MPI library would take it."""
    return Carried(setting, "none", program.without_mpi) if program.without_mpi else None


def _by_mca(setting: Setting, environment: dict[str, str]) -> Carried | None:
    if setting.apply is not Apply.MCA:
        return None
    environment[f"OMPI_MCA_{setting.key}"] = setting.value
    return Carried(setting, "OMPI_MCA", "the plan wins over --mca on the command line and the user's environment")


def _by_runtime(setting: Setting, plan: Plan) -> Carried:
    if setting.apply is Apply.HDF5:
        return Carried(setting, "runtime", _RUNTIME_OVERRIDES if plan.override else _PROPERTIES_WIN)
    if setting.apply is Apply.STRIPING:
        return Carried(setting, "runtime", "a file that exists keeps its layout")
    return Carried(setting, "runtime", _RUNTIME_OVERRIDES if plan.override else _RUNTIME_WINS)


class _Pnetcdf:
    """PnetCDF's own hints: it takes them from its caller or this variable before MPI-IO sees the file."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given.get("PNETCDF_HINTS", "")
        self._hints: dict[str, str] = {}

    def carry(self, setting: Setting) -> Carried | None:
        """Take up a hint of PnetCDF; None for other settings."""
        if setting.apply is not Apply.HINT or not setting.key.startswith(_PNETCDF_PREFIX):
            return None
        return _expressed(setting, setting.key, self._hints, "PNETCDF_HINTS", ";=")

    def environment(self) -> dict[str, str]:
        """The variable, with what the user's own holds for other keys."""
        if not self._hints:
            return {}
        users = [part for part in self._given.split(";") if part.partition("=")[0].strip()]
        kept = [part for part in users if part.partition("=")[0].strip() not in self._hints]
        return {"PNETCDF_HINTS": ";".join([*kept, *(f"{k}={v}" for k, v in self._hints.items())])}


class _Foreign:
    """Carriers of programs without the runtime: each MPI library's own files and variables."""

    def __init__(self, plan: Plan, program: Program, folder: Path) -> None:
        self._plan = plan
        self._program = program
        self._folder = folder
        self._romio: dict[str, str] = {}
        self._cray: dict[str, str] = {}

    def carry(self, setting: Setting) -> Carried:
        """Take a hint or layout up, or say why it cannot be carried."""
        key, value = setting.key, setting.value
        if setting.apply is Apply.STRIPING:
            if setting.layer != "lustre" or key not in _LUSTRE_AS_HINT:
                return Carried(setting, "none", "layouts are applied by the runtime, which cannot be preloaded here")
            key = _LUSTRE_AS_HINT[key]
        elif setting.apply is not Apply.HINT:
            return Carried(setting, "none", "only the runtime can apply it, and it cannot be preloaded here")
        if self._program.cray and any(c in self._plan.files for c in ":,"):
            return Carried(setting, "none", f"MPICH_MPIIO_HINTS cannot express the file pattern {self._plan.files}")
        if self._program.cray:
            return _expressed(setting, key, self._cray, "MPICH_MPIIO_HINTS", ":,")
        if self._program.io == "ompio":
            return Carried(
                setting, "none", "Open MPI's OMPIO reads no hints file: add --mca io romio341 for ROMIO hints"
            )
        if any(c.isspace() for c in value):
            return Carried(setting, "none", "a line with a third word is void in a ROMIO hints file")
        self._romio[key] = value
        if key == "start_iodevice":
            self._romio["romio_lustre_start_iodevice"] = value  # ROMIO's name for it before MPICH 4.2
        wins = _RUNTIME_WINS
        if setting.apply is Apply.STRIPING:
            wins = "the program's own hints win; it acts only under ROMIO's Lustre driver, on new files"
        elif self._plan.override:
            wins = "the program's own hints win, although the plan asks to override them"
        return Carried(setting, "ROMIO_HINTS", wins)

    def finish(
        self, carried: tuple[Carried, ...], environment: dict[str, str], files: dict[str, str]
    ) -> tuple[Carried, ...]:
        """Set the variables and files, with what the user's own held for other keys."""
        given = self._program.environment
        if self._cray:
            ours = ":".join([self._plan.files, *(f"{k}={v}" for k, v in self._cray.items())])
            users = [part for part in given.get("MPICH_MPIIO_HINTS", "").split(",") if part]
            environment["MPICH_MPIIO_HINTS"] = ",".join([*users, ours])
        if self._romio:
            lines = {**_users_hints(given.get("ROMIO_HINTS", "")), **self._romio}
            text = "".join(f"{key} {value}\n" for key, value in lines.items())
            if len(text.encode()) >= HINTS_LIMIT:
                why = f"a ROMIO hints file of {HINTS_LIMIT} bytes or more is passed over"
                return tuple(Carried(c.setting, "none", why) if c.carrier == "ROMIO_HINTS" else c for c in carried)
            files[HINTS_FILE] = text
            environment["ROMIO_HINTS"] = str(self._folder / HINTS_FILE)
        return carried


def _expressed(setting: Setting, key: str, into: dict[str, str], carrier: str, forbidden: str) -> Carried:
    if any(c in key + setting.value for c in forbidden):
        return Carried(setting, "none", f"{carrier} cannot express a name or value with any of {' '.join(forbidden)}")
    into[key] = setting.value
    return Carried(setting, carrier, "it wins over the program's own hints")


def _users_hints(path: str) -> dict[str, str]:
    """Read the hints file that the user's environment names; ROMIO takes only one."""
    if not path:
        return {}
    try:
        text = Path(path).read_text("utf-8", "replace")
    except OSError:
        return {}
    pairs = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
