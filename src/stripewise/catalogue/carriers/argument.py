"""Words of the program's command line."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.catalogue.carriers.base import Carried, Carrier, Expressed, Form, LaunchSettings, Setting


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
