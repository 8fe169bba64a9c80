"""Parameters of Open MPI's components."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.carriers.base import Carried, Carrier, Expressed, Form, LaunchSettings, Setting
from stripewise.shell import is_variable

_PREFIX = "OMPI_MCA_"


class Mca(Carrier):
    """Variables ``OMPI_MCA_NAME``, for the whole process."""

    name = verb = "mca"
    acts = ("launch",)
    proofs = frozenset({"calls", "layout"})

    def wrong_key(self, key: str) -> str:
        """Refuse all but names of variables: ``env``, which starts the program, would read them as options."""
        return "" if is_variable(key) else "is not the name of a variable"

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Export the variable."""
        launch.environment[_PREFIX + setting.key] = setting.value
        wins = "the plan wins over --mca on the command line and the user's environment"
        return Carried(setting, "OMPI_MCA", wins)

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write them as parameters, or as the variables that hold them."""
        if form is Form.MCA:
            return Expressed([(s.key, s.value) for s in settings])
        if form is not Form.VARIABLES:
            return None
        if mpi not in ("", "openmpi"):
            return Expressed(cannot=[s.but("is a parameter of Open MPI") for s in settings])
        good = [(_PREFIX + s.key, s.value) for s in settings if is_variable(s.key)]
        bad = [s.but("is not a name that a shell can export") for s in settings if not is_variable(s.key)]
        return Expressed(good, bad)


MCA = Mca()
