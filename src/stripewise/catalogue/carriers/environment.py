"""What is fixed when the program starts: words of its command line, variables, parameters of Open MPI's components."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from stripewise.catalogue.carriers.base import (
    INTERPRETER,
    LOST,
    Carried,
    Carrier,
    Expressed,
    Form,
    LaunchSettings,
    Setting,
)
from stripewise.shell import is_variable


class Environment(Carrier):
    """The launcher exports them.

    Attributes
    ----------
    prefix : str
        Of each variable's name, before the key.
    by, wins : str
        As in :class:`~stripewise.catalogue.carriers.base.Carried`.
    """

    name = verb = "env"
    acts = ("launch",)
    undecided = "components read their variables when the program starts"
    needs_mpi = False
    prefix = ""
    by = "environment"
    wins = "the plan wins over the user's environment"

    def wrong_key(self, key: str) -> str:
        """Refuse all but names of variables: ``env``, which starts the program, would read them as options."""
        return "" if is_variable(key) else "is not the name of a variable"

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Export the variable."""
        launch.environment[self.prefix + setting.key] = setting.value
        return Carried(setting, self.by, self.wins)

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write them as variables."""
        if form is not Form.VARIABLES:
            return None
        good = [(self.prefix + s.key, s.value) for s in settings if is_variable(s.key)]
        bad = [s.but("is not a name that a shell can export") for s in settings if not is_variable(s.key)]
        return Expressed(good, bad)


ENVIRONMENT = Environment()


class Argument(Carrier):
    """The launcher puts a value where the command has its key in braces."""

    name = verb = "argument"
    acts = ("launch",)
    undecided = "the command line is fixed when the program starts"
    needs_mpi = False

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Bring the value by the command line."""
        return Carried(setting, "command", "the plan wins: it is put into the command")

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Name all as lost: only the command line can hold an argument."""
        if form is not Form.VARIABLES:
            return None
        where = "is an argument of the program: put it where the command has"
        return Expressed(cannot=[s.but(f"{where} {{{s.key}}}") for s in settings])


ARGUMENT = Argument()


_UNITS = {"k": 1, "m": 2, "g": 3}
_SWITCHES = {
    **dict.fromkeys(("true", "t", "enabled", "yes", "y"), True),
    **dict.fromkeys(("false", "f", "disabled", "no", "n"), False),
}
_LONGEST = 100


class Mca(Environment):
    """Variables ``OMPI_MCA_NAME``, for the whole process.

    Texts are read as by ``mca_base_var.c`` and ``mca_base_var_enum.c`` of Open MPI 6.1.0a1 (opal/mca/base).
    """

    name = verb = "mca"
    undecided = "Open MPI reads its parameters in `MPI_Init`"
    needs_mpi = True
    prefix = "OMPI_MCA_"
    by = "OMPI_MCA"
    wins = "the plan wins over --mca on the command line and the user's environment"
    proofs = frozenset({"calls", "layout"})
    reads = "Open MPI reads a number, and one of K, M and G directly behind it"
    on_fault = "Open MPI refuses it"

    def number(self, key: str, text: str) -> float | None:
        """Give what ``strtoull`` with base 0 makes of it, times a power of 1024 by the letter behind it."""
        found = re.match(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]{0,18})(.?)", text)
        if found is None:
            return 0
        base = 16 if found[2][1:2] in ("x", "X") else 8 if found[2].startswith("0") else 10
        number = int(found[2][:_LONGEST], base) << 10 * _UNITS.get(found[3].lower(), 0)
        return -number if found[1] == "-" else number

    def switch(self, text: str) -> bool | None:
        """Take a number, or a word in small letters."""
        if number := re.fullmatch(r"\s*([+-]?[0-9]{1,18})", text):
            return int(number[1]) != 0
        return _SWITCHES.get(text.lstrip())

    def word(self, text: str, words: Sequence[str]) -> str | None:
        """Take lists of components, too: ``vulcan,individual``, or ``^vulcan``, which takes all others."""
        return text if text.startswith("^") or all(part in words for part in text.split(",")) else None

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write them as parameters, or as the variables that hold them."""
        if form is Form.MCA:
            return Expressed([(s.key, s.value) for s in settings])
        if form is Form.VARIABLES and mpi not in ("", "openmpi"):
            return Expressed(cannot=[s.but("is a parameter of Open MPI") for s in settings])
        return super().express(form, settings, mpi=mpi, place=place)


MCA = Mca()


_PYTHON = "STRIPEWISE_PYTHON"
_LOADER = "torch.utils.data.DataLoader"
"""Its use is counted in each run, whether there are settings for it or not."""
_AT_EACH_ITERATOR = (f"{_LOADER}.num_workers", f"{_LOADER}.prefetch_factor")


class Python(Carrier):
    """A module that stands first in ``PYTHONPATH`` fills arguments that a program leaves at their default."""

    name = verb = "python"
    acts = ("open",)
    reported = True
    undecided = "the module reads its settings when Python starts"
    needs_mpi = False
    of_objects = True
    echo = "the object"
    proofs = frozenset({"objects"})
    reads = "the module reads digits"
    on_fault = "the library refuses it, and the program's own call is made"

    def number(self, key: str, text: str) -> float | None:
        """Take a number as Python writes it."""
        return float(text) if re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]+)?", text) else None

    def why_early(self, key: str) -> str:
        """Let orders change what a loader reads whenever it makes an iterator."""
        return "" if key in _AT_EACH_ITERATOR else self.undecided

    def wrong_key(self, key: str) -> str:
        """Refuse what does not name an argument of an object in a module."""
        ok = key.count(".") >= 2 and all(part.isidentifier() for part in key.split("."))
        return "" if ok else "is not MODULE.OBJECT.ARGUMENT"

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Bring the setting by the variable, if a Python that reads ``PYTHONPATH`` may be there."""
        if launch.program.isolated:
            return Carried(setting, LOST, launch.program.isolated)
        if launch.in_python is None:
            return Carried(setting, LOST, "nothing was put into its Python")
        launch.pending.setdefault(_PYTHON, {})[setting.key] = setting.value
        wins = (
            "the plan wins over the program's arguments" if launch.override else "arguments that the program gives win"
        )
        return Carried(setting, INTERPRETER, wins)

    def finish(self, launch: LaunchSettings, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Set the variables, also in runs without settings, so that both are counted alike."""
        if launch.in_python is not None and not launch.program.isolated:
            ours = launch.pending.get(_PYTHON, {})
            asked = {
                "set": ours,
                "watch": [f"{name}." for name in dict.fromkeys((_LOADER, *launch.watched))],
                "override": launch.override,
                "report": str(launch.folder.absolute()),
            }
            if launch.orders:
                asked["orders"] = launch.orders
            launch.environment[_PYTHON] = json.dumps(asked)
            others = launch.users("PYTHONPATH")
            launch.environment["PYTHONPATH"] = f"{launch.in_python}:{others}" if others else str(launch.in_python)
        return carried

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write none of them: without Stripewise, nothing reads the variable."""
        if form is not Form.VARIABLES:
            return None
        return Expressed(
            cannot=[s.but("is an argument in Python: write it into the program's source") for s in settings]
        )


PYTHON = Python()
