"""The layout of a file on storage, chosen when the file is created."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.catalogue.carriers.base import (
    CHOSEN_FILES,
    LOST,
    OBSERVER,
    RUNTIME,
    RUNTIME_WINS,
    Carried,
    Carrier,
    Expressed,
    Form,
    LaunchSettings,
    Setting,
)
from stripewise.catalogue.carriers.hint import bring_as_hints
from stripewise.catalogue.filesystems import FileSystem, Key, named

_VARIABLE = "STRIPEWISE_LAYOUT"
_KEPT = "a file that exists keeps its layout"


class LayoutCarrier(Carrier):
    """The runtime or the observer lays a file out as the program creates it; commands lay out directories before."""

    name = verb = "layout"
    acts = ("create",)
    of_file_system = True
    reported = True
    needs_mpi = False
    on_calls = True
    undecided = ""
    proofs = frozenset({"layout"})
    on_fault = "the command refuses it"

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Let the preloaded library lay out the file, or else hints that mean the same."""
        system, key = _known(setting)
        library = "runtime" if launch.preloaded else "observer"
        if launch.observed and system.in_program and not set(setting.value) & set(",="):
            launch.pending.setdefault(_VARIABLE, {})[setting.name] = setting.value
            return Carried(setting, RUNTIME if launch.preloaded else OBSERVER, _KEPT)
        if launch.preloaded and system.in_program:
            return Carried(setting, RUNTIME, _KEPT)
        if launch.observed and system.in_program:
            return Carried(setting, LOST, f"{_VARIABLE} cannot express a value with any of , =")
        if launch.preloaded or launch.observed:
            how = "use the lfs export on the directory" if system.keys else "no command is known for it"
            return Carried(setting, LOST, f"the {library} cannot lay out files of {setting.layer}: {how}")
        if launch.program.without_mpi:
            return Carried(setting, LOST, launch.program.without_mpi)
        if key is None or not key.hints:
            return Carried(setting, LOST, "layouts are applied by the runtime, which cannot be preloaded here")
        only = f"{RUNTIME_WINS}; it acts only under ROMIO's {system.label} driver, on new files"
        return bring_as_hints(setting, key.hints, launch, only)

    def finish(self, launch: LaunchSettings, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Set the variable of the observer, which tells the layouts of new files even where it is to set none."""
        if launch.observed:
            ours = launch.pending.get(_VARIABLE, {})
            launch.environment[_VARIABLE] = ",".join(f"{name}={value}" for name, value in ours.items())
            if ours:
                launch.environment[CHOSEN_FILES] = launch.pattern
                launch.environment[f"{_VARIABLE}_ALLOW"] = ",".join(launch.allow)
        return carried

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write the file system's own commands, or the hints and parameters that mean the same."""
        if form is Form.VARIABLES:
            lost = [] if mpi else [s.but("is set by commands alone; use the lfs export") for s in settings if _apart(s)]
            return Expressed(cannot=lost) if lost else None
        said = Expressed()
        layouts: dict[str, dict[str, str]] = {}
        for setting in settings:
            layouts.setdefault(setting.layer, {})[setting.key] = setting.value
        for setting in settings:
            system, key = _known(setting)
            others = layouts[setting.layer]
            if form is Form.COMMANDS:
                why = system.refused(setting.key, setting.value, others)
                if not system.keys:
                    why = f"belongs to the file system {setting.layer}, for which no command is known"
                if why:
                    said.cannot.append(setting.but(why))
            elif form is Form.MCA:
                if key is not None and key.mca:
                    said.pairs.append((key.mca, setting.value))
                else:
                    said.cannot.append(setting.but("has no MCA parameter; use the lfs export"))
            else:
                why = system.not_as_hint(setting.key, setting.value, others)
                if key is None or not key.hints:
                    said.cannot.append(setting.but("has no hint; use the lfs export"))
                elif why:
                    said.cannot.append(setting.but(f"{why}; use the lfs export"))
                else:
                    said.pairs += [(name, setting.value) for name in key.hints]
        if form is Form.COMMANDS:
            for layer, layout in layouts.items():
                kept = {k: v for k, v in layout.items() if not named(layer).refused(k, v, layout)}
                lines, undo = named(layer).for_directory(kept, place) if kept else ([], [])
                said.pairs += [(line, "") for line in lines] + [("", line) for line in undo]
        return said

    def needs_runtime(self, settings: Sequence[Setting], *, override: bool, pattern: str) -> list[str]:
        """Say that only the runtime lays out new files, unless commands alone can."""
        return [] if all(_apart(setting) for setting in settings) else ["lays out new files"]


def _apart(setting: Setting) -> bool:
    """Whether commands alone lay out files as a setting asks."""
    system = named(setting.layer)
    return bool(system.keys) and not system.in_program


def _known(setting: Setting) -> tuple[FileSystem, Key | None]:
    system = named(setting.layer)
    return system, next((key for key in system.keys if key.name == setting.key), None)


LAYOUT = LayoutCarrier()
