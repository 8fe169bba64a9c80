"""Every error that Stripewise raises on purpose.

One root, split by who can fix the fault: the user (:class:`UserError`), time (:class:`TransientError`), or
nobody before the program itself is fixed (:class:`RunFailed`). A message says what was wrong and where;
``fix`` says what to do. The edges (command line, server) turn them into one line and an exit code or status.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class StripewiseError(Exception):
    """Root of all expected errors: what was wrong and where, and what the reader can do about it, a line each."""

    exit_code = 1

    def __init__(self, what: str, fix: str = "") -> None:
        self.what = " ".join(what.split())
        self.fix = " ".join(fix.split())
        super().__init__(self.what)

    def naming(self, identifier: str) -> None:
        """Put an experiment's identifier where the fix says how to resume it: lower layers do not know which it is."""
        self.fix = self.fix.replace("stripewise resume ID", f"stripewise resume {identifier}")

    def naming_nothing(self) -> None:
        """Say what to do where the command carries no experiment on that could be resumed."""
        self.fix = self.fix.replace("continue with: stripewise resume ID", "repeat the command")

    def __str__(self) -> str:
        return f"{self.what}; {self.fix}" if self.fix else self.what


class UserError(StripewiseError):
    """The request cannot be carried out as asked: a file, an option or a command is wrong."""

    exit_code = 2


class CannotExecute(UserError):  # noqa: N818  says what cannot be done
    """The program of a command cannot be executed.

    ``of_shell`` is the exit code that a shell gives such a command.
    """

    def __init__(self, what: str, fix: str = "", of_shell: int = 126) -> None:
        super().__init__(what, fix)
        self.of_shell = of_shell


class NotFound(UserError):  # noqa: N818  a kind of UserError, which says more
    """Nothing is kept under the name that the request gives; the service answers it with 404."""


class StoreError(StripewiseError):
    """The store cannot be read or written."""


class TransientError(StripewiseError):
    """The environment failed in a way that another try may not meet (a scheduler restarting, a busy store)."""


class RunFailed(StripewiseError):  # noqa: N818  a run that failed is a result, not a fault of ours
    """One launch failed; the experiment goes on.

    ``what`` is the reason that is stored and shown with the run.
    """


class Stopped(StripewiseError):  # noqa: N818
    """The experiment was stopped on request before its end; it can be resumed."""


class NothingWorks(StripewiseError):  # noqa: N818
    """The program fails even with its default settings, so there is nothing to compare with."""


def pip_install(extra: str = "") -> str:
    """Say how pip installs Stripewise with an extra: the program's one place that knows where it is published."""
    return "from a clone of Stripewise: pip install " + (f"'.[{extra}]'" if extra else ".")


@contextmanager
def import_optional(extra: str) -> Iterator[None]:
    """Import packages that an extra of ours brings, and say how to install them where they are missing.

    Raises
    ------
    UserError
        If one is not installed, is too old, or does not load.
    """
    try:
        yield
    except ImportError as error:
        package, part, _ = (error.name or "").partition(".")
        if not isinstance(error, ModuleNotFoundError):
            what = f"a package of '{extra}' does not load: {error}"
        elif part:
            what = f"the package {package} is too old: it has no {error.name}"
        else:
            what = f"the package {package} is not installed"
        raise UserError(what, f"install it, {pip_install(extra)}") from error


def long_name(error: Exception) -> UserError | None:
    """Explain an error of the system about a name that is too long; None for others."""
    if not isinstance(error, OSError) or error.errno != errno.ENAMETOOLONG:
        return None
    name = str(error.filename)
    return UserError(f"the name {name[:40]}... of {len(name)} characters is too long for a file", "use a shorter one")


def choose(word: str, known: Iterable[str]) -> str:
    """Say what to choose from in place of an unknown word, as a fix; the one that was probably meant comes first.

    Examples
    --------
    >>> choose("gentic", ["auto", "genetic", "optuna:NAME"])
    'did you mean genetic? choose from auto, genetic, optuna:NAME'
    """
    import difflib  # noqa: PLC0415  only who errs waits for it

    offered = list(known)
    # Of "regex:PATTERN" and "energy[:COMMAND]" only the first part is a word to be spelt.
    plain = {re.split(r"[:\[]", one)[0]: one for one in offered}
    close = difflib.get_close_matches(re.split(r"[:\[]", word)[0], plain, 1)
    meant = f"did you mean {plain[close[0]]}? " if close else ""
    return f"{meant}choose from {', '.join(offered)}"


_WORDS = {
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be finite",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
}
_BOUNDS = {
    "greater_than": ("must be greater than {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be less than {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
    "literal_error": ("must be {}", "expected"),
    "enum": ("must be {}", "expected"),
    "string_too_short": ("must have at least {} characters", "min_length"),
    "string_too_long": ("must have at most {} characters", "max_length"),
    "too_short": ("must have at least {} entries", "min_length"),
    "too_long": ("must have at most {} entries", "max_length"),
}


def explain_fault(fault: Mapping[str, Any]) -> str:
    """Say what is wrong with a value, in plain words.

    Parameters
    ----------
    fault : mapping
        One entry of pydantic's list of errors.
    """
    kind, context = fault["type"], fault.get("ctx", {})
    if kind in _WORDS:
        return _WORDS[kind]
    if kind in _BOUNDS and _BOUNDS[kind][1] in context:
        words, name = _BOUNDS[kind]
        said = words.format(context[name])
        return said.removesuffix("ies") + "y" if context[name] == 1 and said.endswith("ies") else said
    return str(fault["msg"]).removeprefix("Value error, ")
