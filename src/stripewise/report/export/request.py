"""What an export is made from and made of, and the parts that several exports share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stripewise.spec.configuration import Value
from stripewise.spec.parameter import Apply
from stripewise.spec.plan import Plan, Setting


@dataclass(frozen=True)
class Export:
    """A plan as another tool takes it.

    Attributes
    ----------
    text : str
        To be copied: a file's content or shell lines.
    undo : str
        What takes the effect back.
    cannot : list of str
        What of the plan is missing from the text, and why; empty if all is there.
    use : str
        Where the text goes.
    wins : str
        Who wins each key where several set it.
    filename : str
        A usual name for the text.
    empty : bool
        Whether nothing of the plan could be written; the text is then a comment that says so.
    """

    text: str
    undo: str
    cannot: list[str] = field(default_factory=list)
    use: str = ""
    wins: str = ""
    filename: str = ""
    empty: bool = False


@dataclass(frozen=True)
class Request:
    """What an export is made from.

    Attributes
    ----------
    plan, library, directory, program, changed
        See :func:`stripewise.report.export.export`.
    """

    plan: Plan
    library: str
    directory: str
    program: str
    changed: Mapping[str, Value]

    @property
    def hints(self) -> list[Setting]:
        """MPI-IO hints; PnetCDF's own, which MPI-IO does not know, are left out."""
        return [s for s in self.plan.of(Apply.HINT) if not s.key.startswith("nc_")]

    @property
    def pnetcdf(self) -> list[Setting]:
        """PnetCDF's own hints."""
        return [s for s in self.plan.of(Apply.HINT) if s.key.startswith("nc_")]

    @property
    def stripes(self) -> dict[str, str]:
        """Lustre's layout keys."""
        return {s.key: s.value for s in self.plan.of(Apply.STRIPING) if s.layer == "lustre"}


def no(setting: Setting, why: str) -> str:
    """A line of what cannot be expressed."""
    return f"{setting.key}={setting.value} {why}"


def arguments(plan: Plan) -> list[str]:
    """Settings that stand on the program's command line, which no variable or file can carry."""
    where = "is an argument of the program: put it where the command has"
    return [no(s, f"{where} {{{s.key}}}") for s in plan.of(Apply.ARGUMENT)]


def scope(plan: Plan) -> list[str]:
    """What environment-wide carriers lose of a plan's reach."""
    lost = []
    if plan.files != "*":
        lost.append(f"the limit to files {plan.files}: this acts on all files of the program")
    if plan.override:
        lost.append("override: here the program's own hints win")
    return lost


def text(lines: Iterable[str]) -> str:
    """Join lines."""
    return "".join(f"{line}\n" for line in lines)
