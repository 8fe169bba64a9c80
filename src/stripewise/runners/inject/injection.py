"""How a plan travels to the program: by the preloaded runtime, or by what MPI libraries read of their own accord.

Nothing is written or started here. The carriers say what to set, and what the files must hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stripewise.catalogue.carriers import LOST, Carried, Carrier, LaunchSettings, Program, Setting
from stripewise.catalogue.plan import Plan
from stripewise.observe.processes import PREFIX
from stripewise.requests.policy import Policy


@dataclass(frozen=True)
class Guidance:
    """What the runtime is to do besides carrying out the plan.

    Attributes
    ----------
    mode : str
        ``observe``, ``apply``, ``predict``, ``online`` or ``orders``; empty: apply where there are settings, else
        observe.
    model : Path or None
        An artifact, for the modes predict and online.
    journal : Path or None
        Where the mode online keeps what it learned, and orders are answered.
    orders : Path or None
        The file of orders, for the mode orders.
    settle : bool
        Whether files are synchronised before they are closed, in the mode orders.
    allow : tuple of str
        See :class:`~stripewise.catalogue.plan.Plan`.
    record : Path or None
        Where the runtime writes what the program does.
    """

    mode: str = ""
    model: Path | None = None
    journal: Path | None = None
    allow: tuple[str, ...] = ()
    orders: Path | None = None
    settle: bool = False
    record: Path | None = None
    level: str = ""

    @classmethod
    def under(
        cls,
        policy: Policy,
        mode: str = "",
        model: Path | None = None,
        journal: Path | None = None,
        orders: Path | None = None,
        *,
        settle: bool = False,
    ) -> Guidance:
        """What a site allows."""
        allow = [
            word for word, may in (("composite", policy.striping.composite), ("pool", policy.striping.pooled)) if may
        ]
        return cls(mode, model, journal, tuple(allow), orders, settle)


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
    stand_in : mapping
        As in :class:`~stripewise.catalogue.carriers.base.LaunchSettings`.
    """

    environment: Mapping[str, str]
    files: Mapping[str, str]
    carried: tuple[Carried, ...]
    stand_in: Mapping[tuple[str, Path], Path] = field(default_factory=dict)

    @property
    def lost(self) -> tuple[Carried, ...]:
        """Settings that cannot reach the program."""
        return tuple(entry for entry in self.carried if entry.by == LOST)


def inject(
    plan: Plan,
    program: Program,
    library: Path | None,
    folder: Path,
    guidance: Guidance | None = None,
    observer: Path | None = None,
) -> Injection:
    """Work out how a plan travels.

    Parameters
    ----------
    plan : Plan
    program : Program
    library : Path or None
        The runtime; None where it cannot or shall not be preloaded.
    folder : Path
        The run's; the caller writes the files of the result there.
    guidance : Guidance, optional
    observer : Path or None
        What is to be preloaded into a program without MPI, or beside the runtime.
    """
    preloaded = library is not None and not program.obstacle
    observed = observer is not None and not program.obstacle
    guidance = guidance or Guidance()
    allow = tuple(dict.fromkeys((*plan.allow, *guidance.allow)))
    launch = LaunchSettings(program, folder, preloaded, plan.override, plan.files, observed=observed, allow=allow)
    carried = [setting.carrier.carry(setting, launch) for setting in plan.settings]
    for carrier in Carrier.known.values():
        carried = [*carrier.finish(launch, carried)]
    if not preloaded:
        why = "only the runtime gives several groups of files settings of their own"
        carried += [Carried(setting, LOST, why) for _, settings in plan.sections for setting in settings]
    if library is not None and preloaded:
        _preload(replace(plan, settings=_in_program(carried)), library, launch, guidance)
    if observed:
        # Behind the runtime, which tells it what MPI-IO and HDF5 do.
        others = launch.users("LD_PRELOAD").replace(" ", ":").split(":")
        libraries = [str(library)] * preloaded + [str(observer)]
        launch.environment["LD_PRELOAD"] = ":".join(dict.fromkeys(entry for entry in (*libraries, *others) if entry))
        launch.environment["STRIPEWISE_PROCESSES"] = str(folder.absolute() / PREFIX)
    return Injection(launch.environment, launch.files, tuple(carried), launch.stand_in)


def _in_program(carried: list[Carried]) -> tuple[Setting, ...]:
    """Give the settings for the runtime: all but layouts of file systems that it does not know."""
    return tuple(c.setting for c in carried if c.by != LOST or not c.setting.carrier.of_file_system)


def _preload(plan: Plan, library: Path, launch: LaunchSettings, guidance: Guidance) -> None:
    environment, folder = launch.environment, launch.folder
    environment["LD_PRELOAD"] = prepend(str(library), launch.users("LD_PRELOAD"))
    environment["STRIPEWISE_REPORT"] = str(folder / "report.json")
    environment["STRIPEWISE_MODE"] = guidance.mode or ("apply" if plan.settings or plan.sections else "observe")
    if guidance.model is not None:
        environment["STRIPEWISE_MODEL"] = str(guidance.model)
    if guidance.journal is not None:
        environment["STRIPEWISE_JOURNAL"] = str(guidance.journal)
    if guidance.orders is not None:
        environment["STRIPEWISE_ORDERS"] = str(guidance.orders)
    if guidance.record is not None:
        environment["STRIPEWISE_RECORD"] = str(guidance.record)
        environment["STRIPEWISE_RECORD_LEVEL"] = guidance.level
    if guidance.settle:
        environment["STRIPEWISE_SETTLE"] = "1"
    decides = guidance.mode in ("predict", "online", "orders")
    if plan.settings or plan.sections or plan.workload or (decides and (guidance.allow or plan.override)):
        launch.files["plan"] = replace(plan, allow=launch.allow).text()
        environment["STRIPEWISE_PLAN"] = str(folder / "plan")


def prepend(library: str, preloaded: str) -> str:
    """Put a library first in a list for LD_PRELOAD: what comes later then sees the calls that the runtime makes."""
    others = [entry for entry in preloaded.replace(" ", ":").split(":") if entry and entry != library]
    return ":".join([library, *others])
