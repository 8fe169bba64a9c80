"""What a preloaded library acts on: layouts of new files, properties of HDF5, calls of the C library."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.catalogue.carriers.base import (
    CHOSEN_FILES,
    LOST,
    OBSERVER,
    RUNTIME,
    RUNTIME_OVERRIDES,
    RUNTIME_WINS,
    Carried,
    Carrier,
    Expressed,
    Form,
    LaunchSettings,
    Setting,
    parse_whole,
)
from stripewise.catalogue.carriers.hint import bring_as_hints
from stripewise.catalogue.filesystems import FileSystem, Key, find_file_system

_VARIABLE = "STRIPEWISE_LAYOUT"
_KEPT = "a file that exists keeps its layout"


class LayoutCarrier(Carrier):
    """The runtime or the observer lays a file out as the program creates it; commands lay out directories before."""

    name = verb = "layout"
    acts = ("create",)
    of_file_system = True
    reported = True
    needs_mpi = False
    on_calls = within_calls = True
    undecided = ""
    proofs = frozenset({"layout"})
    on_fault = "the command refuses it"

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Let the preloaded library lay out the file, or else hints that mean the same."""
        system, key = _find_key(setting)
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
            lost = (
                []
                if mpi
                else [s.but("is set by commands alone; use the lfs export") for s in settings if _needs_commands(s)]
            )
            return Expressed(cannot=lost) if lost else None
        said = Expressed()
        layouts: dict[str, dict[str, str]] = {}
        for setting in settings:
            layouts.setdefault(setting.layer, {})[setting.key] = setting.value
        for setting in settings:
            system, key = _find_key(setting)
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
                kept = {k: v for k, v in layout.items() if not find_file_system(layer).refused(k, v, layout)}
                lines, undo = find_file_system(layer).for_directory(kept, place) if kept else ([], [])
                said.pairs += [(line, "") for line in lines] + [("", line) for line in undo]
        return said

    def needs_runtime(self, settings: Sequence[Setting], *, override: bool, pattern: str) -> list[str]:
        """Say that only the runtime lays out new files, unless commands alone can."""
        return [] if all(_needs_commands(setting) for setting in settings) else ["lays out new files"]


def _needs_commands(setting: Setting) -> bool:
    """Whether commands alone lay out files as a setting asks."""
    system = find_file_system(setting.layer)
    return bool(system.keys) and not system.in_program


def _find_key(setting: Setting) -> tuple[FileSystem, Key | None]:
    system = find_file_system(setting.layer)
    return system, next((key for key in system.keys if key.name == setting.key), None)


LAYOUT = LayoutCarrier()


_POSIX_VARIABLE = "STRIPEWISE_POSIX"


class Posix(Carrier):
    """Two variables hold the settings and the files that they are for; the preloaded accelerator reads them."""

    name = verb = "posix"
    acts = ("open",)
    own_keys = True
    reported = True
    undecided = "the library reads its settings when the program starts"
    needs_mpi = False
    on_calls = only_on_calls = within_calls = True
    apis = ("posix",)
    echo = "the library"
    proofs = frozenset({"acts"})
    reads = "the library reads digits alone"
    on_fault = "the library refuses it"

    def number(self, key: str, text: str) -> float | None:
        """Take digits alone."""
        return parse_whole(text)

    def wrong_key(self, key: str) -> str:
        """Refuse what ends an entry of the variable."""
        return "has a ',' or '=', which separate the settings" if set(key) & set(",=") else ""

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Bring the setting by the variable, if the library that reads it is in the program."""
        if not launch.observed:
            why = launch.program.obstacle or "the library that acts on it is not preloaded"
            return Carried(setting, LOST, why)
        if self.wrong_key(setting.key) or set(setting.value) & set(",="):
            return Carried(setting, LOST, f"{_POSIX_VARIABLE} cannot express a name or value with any of , =")
        launch.pending.setdefault(_POSIX_VARIABLE, {})[setting.key] = setting.value
        return Carried(setting, OBSERVER, "calls of the program itself that ask for the same come later and win")

    def finish(self, launch: LaunchSettings, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Set the variables; what the user's own held would act in runs with the defaults, too."""
        if launch.observed:
            ours = launch.pending.get(_POSIX_VARIABLE, {})
            if ours or launch.users(_POSIX_VARIABLE):
                launch.environment[_POSIX_VARIABLE] = ",".join(f"{key}={value}" for key, value in ours.items())
                launch.environment[CHOSEN_FILES] = launch.pattern
        return carried

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write none of them: without Stripewise, nothing reads the variables."""
        if form is not Form.VARIABLES:
            return None
        return Expressed(cannot=[s.but("needs the library that stripewise run preloads") for s in settings])


POSIX = Posix()


class Hdf5Property(Carrier):
    """Only the runtime can set them; HDF5 has neither a file nor a variable for them."""

    name = verb = "hdf5"
    acts = ("create", "open", "dataset")
    own_keys = True
    undecided = ""
    reported = True
    apis = ("hdf5",)
    echo = "HDF5"
    proofs = frozenset({"calls", "hdf5"})
    reads = "the runtime reads digits alone"
    on_fault = "the runtime refuses it"

    def number(self, key: str, text: str) -> float | None:
        """Take digits alone."""
        return parse_whole(text)

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
