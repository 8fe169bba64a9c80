"""What the accelerator does beside the program's own calls of the C library."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.catalogue.carriers.base import (
    CHOSEN_FILES,
    LOST,
    OBSERVER,
    Carried,
    Carrier,
    Expressed,
    Form,
    LaunchSettings,
    Setting,
    whole,
)

_VARIABLE = "STRIPEWISE_POSIX"


class Posix(Carrier):
    """Two variables hold the settings and the files that they are for; the preloaded accelerator reads them."""

    name = verb = "posix"
    acts = ("open",)
    reported = True
    undecided = "the library reads its settings when the program starts"
    needs_mpi = False
    on_calls = only_on_calls = True
    apis = ("posix",)
    echo = "the library"
    proofs = frozenset({"acts"})
    reads = "the library reads digits alone"
    on_fault = "the library refuses it"

    def number(self, key: str, text: str) -> float | None:
        """Take digits alone."""
        return whole(text)

    def wrong_key(self, key: str) -> str:
        """Refuse what ends an entry of the variable."""
        return "has a ',' or '=', which separate the settings" if set(key) & set(",=") else ""

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Bring the setting by the variable, if the library that reads it is in the program."""
        if not launch.observed:
            why = launch.program.obstacle or "the library that acts on it is not preloaded"
            return Carried(setting, LOST, why)
        if self.wrong_key(setting.key) or set(setting.value) & set(",="):
            return Carried(setting, LOST, f"{_VARIABLE} cannot express a name or value with any of , =")
        launch.pending.setdefault(_VARIABLE, {})[setting.key] = setting.value
        return Carried(setting, OBSERVER, "calls of the program itself that ask for the same come later and win")

    def finish(self, launch: LaunchSettings, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Set the variables; what the user's own held would act in runs with the defaults, too."""
        if launch.observed:
            ours = launch.pending.get(_VARIABLE, {})
            if ours or launch.users(_VARIABLE):
                launch.environment[_VARIABLE] = ",".join(f"{key}={value}" for key, value in ours.items())
                launch.environment[CHOSEN_FILES] = launch.pattern
        return carried

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write none of them: without Stripewise, nothing reads the variables."""
        if form is not Form.VARIABLES:
            return None
        return Expressed(cannot=[s.but("needs the library that stripewise run preloads") for s in settings])


POSIX = Posix()
