"""What a computing centre allows Stripewise to do, and where state is kept: the staff's file, read by every command.

The file is :data:`PATH` where the staff put one there (owned by root and writable by nobody else), and otherwise what
the variable ``STRIPEWISE_SITE`` names. See ``docs/reference/sites.md``.
"""

from __future__ import annotations

import difflib
import os
import stat
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from stripewise.catalogue.expression import Expression
from stripewise.catalogue.filesystems.lustre import HEAD_STRIPES
from stripewise.catalogue.meaning import check_plan, parameters, words_of
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.stack import ForbiddenEntry, Scalar
from stripewise.catalogue.workload import Size, Workload
from stripewise.documents import parse_document, read_document
from stripewise.errors import UserError, choose
from stripewise.formats import PLAN_HEADER
from stripewise.requests.site_file import PATH, VARIABLE, find_site_file


class PolicyLimits(BaseModel):
    """The ``[limits]`` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    jobs: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="most jobs of an experiment at a time, whatever `[batch] jobs` says"
    )
    run_bytes: Size | None = Field(
        default=None,
        description="most bytes that a run may read and write; an experiment whose warm-up run moves more ends "
        "after it",
    )
    node_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None, description="most that an experiment may cost in the worst case; consent does not lift this limit"
    )
    ask_node_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=10.0,
        description="worst case in node-hours above which consent is needed: by a question on a terminal, otherwise "
        "by `--yes`",
    )
    ask_bytes: Size = Field(default=1 << 40, description="worst case in bytes above which consent is needed")


class PolicyStriping(BaseModel):
    """The ``[striping]`` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    pools: list[str] | None = Field(default=None, description="pools that may be chosen; all if left out")
    stripe_count: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="most stripes of a file, usually the number of OSTs of the file system. Larger values are "
        "neither searched nor chosen by a model under `run`",
    )
    composite: bool = Field(
        default=True,
        description="set the last component of new files where the folder's layout is composite, as users may by "
        "`lfs setstripe`",
    )
    pooled: bool = Field(default=False, description="set layouts on new files where the folder's layout names a pool")


class PolicyFolders(BaseModel):
    """The ``[folders]`` table; ``~`` and variables as ``$USER`` are replaced."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    state: str | None = Field(
        default=None,
        description="runs' folders and campaigns, by default `~/.local/state/stripewise`; compute nodes must see it",
    )
    cache: str | None = Field(
        default=None, description="built libraries, by default `~/.cache/stripewise`; compute nodes must see it"
    )


Basis = Literal["verified", "manual", "rule"]
"""How a centre knows something: measured there, read in a manual, or by a rule of thumb."""


def _checked(text: str) -> str:
    """Refuse an expression that names what nobody knows, or compares a parameter with a word that it has not."""
    expression, known = Expression.parse(text), parameters()
    for name in sorted(expression.names - known.keys() - Workload().words().keys()):
        close = difflib.get_close_matches(name, [*known, *Workload().words()], 1)
        meant = f": did you mean {close[0]}?" if close else ""
        raise ValueError(f"names {name}, which is neither a parameter nor a word of the workload{meant}")
    for name, value in expression.compared:
        words = words_of(known[name]) if name in known else None
        if words is not None and isinstance(value, str) and value not in words:
            raise ValueError(f"compares {name} with '{value}'; {choose(value, words)}")
    return text


Condition = Annotated[str, AfterValidator(_checked)]


class PolicyForbidden(ForbiddenEntry):
    """A ``[[forbidden]]`` table: a combination of settings that the centre knows to be harmful."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    condition: Condition = Field(description="expression of parameters and words of the workload")
    reason: str = Field(min_length=1, description="why; users read it")
    basis: Basis = Field(description="`verified` here, from a `manual`, or a `rule` of thumb")

    def as_rule(self) -> Expression:
        """Give the rule that configurations keep."""
        return self.rule(f"the site ({self.basis})")


class PolicyStart(BaseModel):
    """A ``[[start]]`` table: settings that searches try first."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    settings: str = Field(description="lines of a plan, separated by semicolons: `hint romio_cb_write enable`")
    condition: Condition = Field(default="true", description="expression of words of the workload")
    reason: str = Field(min_length=1, description="why; users read it")
    basis: Basis = Field(description="as above")

    @field_validator("settings")
    @classmethod
    def _is_plan(cls, text: str) -> str:
        lines = [line.strip() for line in text.split(";") if line.strip()]
        if not lines:
            raise ValueError("holds no settings; write lines of a plan: hint romio_cb_write disable")
        doubts = check_plan(Plan.parse("\n".join([PLAN_HEADER, *lines]), f"'{text}'"), f"'{text}'")
        if doubts:
            raise ValueError(doubts[0])
        return text

    def holds(self, words: Mapping[str, Any]) -> bool:
        """Whether it is meant for a program, of which some words are known."""
        condition = Expression.parse(self.condition)
        return condition.names <= words.keys() and bool(condition(words))


class Policy(BaseModel):
    """A site file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    limits: PolicyLimits = PolicyLimits()
    striping: PolicyStriping = PolicyStriping()
    folders: PolicyFolders = PolicyFolders()
    objectives: dict[str, str] = Field(
        default_factory=dict, description="objective to the text behind its name, where the user writes none"
    )
    applications: list[str] | None = Field(
        default=None, description="patterns of commands that may be launched; all where left out"
    )

    forbidden: list[PolicyForbidden] = Field(
        default_factory=list, description="combinations that nothing may set; see below"
    )
    start: list[PolicyStart] = Field(default_factory=list, description="settings that searches try first; see below")

    @property
    def rules(self) -> tuple[Expression, ...]:
        """What every configuration keeps, each with the centre's reason."""
        return tuple(one.as_rule() for one in self.forbidden)

    @property
    def allowances(self) -> tuple[str, ...]:
        """What is allowed of folders with special layouts, in the words of plans: ``composite``, ``pool``."""
        may = (("composite", self.striping.composite), ("pool", self.striping.pooled))
        return tuple(word for word, allowed in may if allowed)

    def allowed_values(self, name: str, values: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Give those values of a layout's setting that the site allows; of other settings all of them.

        Parameters
        ----------
        name : str
            The setting's key or role: ``stripe_count``, ``overstripe_count``, ``head_size``, ``pool``, ``template``.
        """
        most, pools = self.striping.stripe_count, self.striping.pools
        if name in ("stripe_count", "overstripe_count") and most is not None:
            # Negative counts mean all there are, or so many on each.
            return tuple(v for v in values if isinstance(v, int | float) and 0 <= v <= most)
        if name == "head_size" and most is not None and most < HEAD_STRIPES:
            return tuple(v for v in values if v == 0)
        if name == "pool" and pools is not None:
            return tuple(v for v in values if v in ("", "inherit", *pools))
        if name == "template" and (most is not None or pools is not None):
            # Nothing checks what a template asks for.
            return tuple(v for v in values if v == "none")
        return tuple(values)

    def folder(self, name: str, environment: Mapping[str, str]) -> Path | None:
        """Give a folder of the site file with its variables replaced; None where it says nothing.

        Raises
        ------
        UserError
            If a variable in it is not set.
        """
        text = getattr(self.folders, name)
        if text is None:
            return None
        try:
            whole = string.Template(text).substitute(environment)
        except (KeyError, ValueError) as error:
            raise UserError(f"site file: folders.{name} = '{text}' names {error}, which is not set") from error
        return Path(whole).expanduser()


def load_policy(environment: Mapping[str, str] = os.environ, path: Path = PATH) -> Policy:
    """Read the site file; without one, everything is allowed and only large costs are asked about.

    Raises
    ------
    UserError
        If there is one that cannot be read, is wrong, or could have been changed by others than root.
    """
    found = find_site_file(environment, path)
    if found is None:
        return Policy()
    if found is path:
        _check_owner(path)
    return _read(found)


def _check_owner(path: Path) -> None:
    about = path.stat()
    if about.st_uid != 0 or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError(f"site file {path} is not owned by root, or others may write it", "chown root, chmod 644")


def _read(path: Path) -> Policy:
    return parse_document(Policy, read_document(path, "site", f"correct {VARIABLE}"), f"site file {path}")
