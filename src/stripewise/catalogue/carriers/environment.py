"""Variables of the program's environment."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.catalogue.carriers.base import Carried, Carrier, Expressed, Form, LaunchSettings, Setting
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
