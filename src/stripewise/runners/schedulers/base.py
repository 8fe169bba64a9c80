"""The interface of a scheduler: text in, text out. :mod:`stripewise.runners.schedulers.queue` calls its commands."""

from __future__ import annotations

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from stripewise.errors import UserError
from stripewise.requests.experiment import Batch
from stripewise.runners.schedulers.job import Answer, Call, Directives, Inside, JobRequest, Lookup, Standing
from stripewise.shell import directive, quote


@dataclass(frozen=True)
class Allocation:
    """The nodes of the job that Stripewise itself runs in.

    Attributes
    ----------
    job : str
    nodes : tuple of str
    """

    job: str
    nodes: tuple[str, ...]

    def slots(self, size: int) -> list[tuple[str, ...]]:
        """Divide the nodes into sets of one size; the rest stays idle."""
        return [self.nodes[at : at + size] for at in range(0, len(self.nodes) - size + 1, size)]


class Steps(ABC):
    """What the runner ``steps`` needs: several programs at once, each on nodes of its own, within one allocation.

    All methods raise :class:`~stripewise.errors.TransientError` if the scheduler does not answer.
    """

    @abstractmethod
    def allocation(self, environment: Mapping[str, str], call: Call) -> Allocation:
        """Find the allocation that this process runs in.

        Raises
        ------
        UserError
            If it runs in none.
        """

    @abstractmethod
    def options(self, nodes: Sequence[str], name: str) -> list[str]:
        """Give the options of the scheduler's launcher that start a step on these nodes, under this name."""

    @abstractmethod
    def named(self, allocation: str, name: str, call: Call) -> list[str]:
        """List the steps of an allocation that have a name and are not over."""

    @abstractmethod
    def end(self, steps: Sequence[str], call: Call) -> None:
        """Ask for the end of steps."""

    @abstractmethod
    def nodes_left(self, allocation: str, call: Call) -> tuple[str, ...]:
        """List the nodes that belong to an allocation now; one that went down leaves it, even if it comes back."""

    @abstractmethod
    def suspended(self, allocation: str, call: Call) -> str:
        """Give the time when an allocation was last suspended or resumed, as it is printed, or an empty text."""

    @abstractmethod
    def is_over(self, allocation: str, call: Call) -> bool:
        """Whether an allocation is over, with all its steps."""


class Arrays(ABC):
    """What job arrays need.

    Attributes
    ----------
    index : str
        The variable that holds a task's number, counted from 1.
    """

    index: ClassVar[str]

    @abstractmethod
    def limits(self, call: Call, user: str) -> Mapping[str, int]:
        """Ask how many tasks of one array a user may have, by the name of each limit.

        Raises
        ------
        StripewiseError
            If the scheduler does not answer, or allows no arrays.
        """

    def allowed(self, call: Call, user: str, wanted: int) -> tuple[int, str]:
        """Give the number of tasks that fit, and why there are fewer than wanted; raises as :meth:`limits`."""
        name, most = min(self.limits(call, user).items(), key=lambda limit: limit[1], default=("", wanted))
        if most >= wanted:
            return wanted, ""
        return most, f"{most} shards in place of {wanted}: {name} of this cluster allows no more"

    @abstractmethod
    def options(self, tasks: int, at_once: int, logs: Path) -> list[str]:
        """Write the options of an array whose tasks write their output into a folder."""

    @abstractmethod
    def submit(self, script: Path) -> list[str]:
        """Give the command that submits an array; it prints the job's identifier as its first word."""


class Scheduler(ABC):
    """A batch system. Every method is a function from text to text; nothing is called, written or remembered.

    Attributes
    ----------
    name : str
        As ``[batch] scheduler`` names it.
    title : str
        As people call it.
    mark : str
        The beginning of a job script's lines that are meant for the scheduler.
    programs : tuple of str
        Its commands; the first one submits jobs. Runs can only start where it is on the path.
    inside : Inside
    start : tuple of str
        Words that start the ranks of a program within a job, with the placeholders ``{nodes}``, ``{processes}`` and
        ``{processes_per_node}``; empty if the scheduler leaves that to the MPI library.
    misleading : tuple of str
        Beginnings of variables by which its commands would act on other jobs, or name one otherwise.
    nodes_option, time_option : re.Pattern
        Find the number of nodes and the time limit in a script's options.
    steps : Steps or None
    arrays : Arrays or None
        What only some schedulers have.
    submit_words, cancel_words, find_words : tuple of str
        The commands that submit a script and end a job, to be followed by the one or the other, and that which lists
        the jobs with a ``{name}`` that are not over; the last is empty if there is none.
    name_words : tuple of str
        The options that must hold whatever a user's script says: the job's ``{name}``, and its environment.
    identifier_in : re.Pattern
        Finds a job's identifier in what was printed when it was submitted; by default the last word, since a site's
        hooks may print lines before it.
    gone : re.Pattern
        Finds in what a failed command printed that the job is over or unknown.
    overview : tuple of str
        A command whose first line of output shows that the scheduler answers; empty if there is none.
    waits : frozenset of str
        Commands that wait while the scheduler's daemon restarts, and then succeed.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    mark: ClassVar[str]
    programs: ClassVar[tuple[str, ...]]
    inside: ClassVar[Inside]
    start: ClassVar[tuple[str, ...]] = ()
    misleading: ClassVar[tuple[str, ...]] = ()
    nodes_option: ClassVar[re.Pattern[str]]
    time_option: ClassVar[re.Pattern[str]]
    steps: ClassVar[Steps | None] = None
    arrays: ClassVar[Arrays | None] = None
    submit_words: ClassVar[tuple[str, ...]]
    cancel_words: ClassVar[tuple[str, ...]]
    find_words: ClassVar[tuple[str, ...]] = ()
    name_words: ClassVar[tuple[str, ...]]
    identifier_in: ClassVar[re.Pattern[str]] = re.compile(r"(\S+)\s*\Z")
    gone: ClassVar[re.Pattern[str]]
    waits: ClassVar[frozenset[str]] = frozenset()
    overview: ClassVar[tuple[str, ...]] = ()

    # -- the script ------------------------------------------------------------------------------------------------

    @abstractmethod
    def place_options(self, batch: Batch) -> list[str]:
        """Write the options for queue, account and reservation, and those that keep the scheduler's own output away."""

    @abstractmethod
    def resource_options(self, nodes: int, per_node: int, exclusive: bool) -> list[str]:
        """Write the options for nodes and ranks. Left out for a script with directives of its own."""

    @abstractmethod
    def time_options(self, seconds: float) -> list[str]:
        """Write the option for the time limit."""

    def read_nodes(self, text: str) -> int:
        """Read the number of nodes from what :attr:`nodes_option` found."""
        return int(text)

    @abstractmethod
    def read_time(self, text: str) -> float | None:
        """Read a time limit in seconds as the scheduler does; None if it sets no limit."""

    def name_options(self, name: str) -> list[str]:
        """Write the options that must hold whatever a user's script says."""
        return [word.format(name=name) for word in self.name_words]

    def first_options(self) -> list[str]:
        """Write the options that hold unless the user's script says otherwise."""
        return []

    def script(self, request: JobRequest) -> str:
        """Write the script of a job. Of two directives that contradict each other, schedulers take the later one."""
        batch = request.batch
        ours = [*self.place_options(batch), *self.first_options()]
        if batch.nodes is not None and not request.directives:
            ours += self.resource_options(batch.nodes, batch.processes_per_node or 1, batch.exclusive)
        if request.seconds is not None:
            ours += self.time_options(request.seconds)
        lines = [
            "#!/bin/bash",
            *(directive(self.mark, option) for option in ours),
            *request.directives,
            *(directive(self.mark, option) for option in (*batch.directives, *self.name_options(request.name))),
            f"cd -- {quote(str(request.folder))} || exit 66",
            f"exec /bin/bash -- {quote(str(request.script))}",
        ]
        return "\n".join(lines) + "\n"

    def read_script(self, text: str) -> Directives:
        """Read the directives at the head of a job script: as schedulers do, up to its first command."""
        lines = []
        # Only a line feed separates lines, for bash and schedulers alike; str.splitlines knows ten more characters.
        for line in text.split("\n"):
            bare = line.strip()
            if bare.startswith(self.mark):
                lines.append(bare)
            elif bare and not bare.startswith("#"):
                break
        return self.read_directives(lines)

    def read_directives(self, lines: Sequence[str]) -> Directives:
        """Find nodes and time in directives; of several options the last one counts."""
        said = " " + " ".join(_join_words(line.removeprefix(self.mark)) for line in lines)
        nodes, time = _find_last(self.nodes_option, said), _find_last(self.time_option, said)
        return Directives(
            tuple(lines), self.read_nodes(nodes) if nodes else None, self.read_time(time) if time else None
        )

    def read_options(self, options: Sequence[str]) -> Directives:
        """Find nodes and time in options that have no mark yet."""
        return self.read_directives([directive(self.mark, option) for option in options])

    # -- the commands ----------------------------------------------------------------------------------------------

    def identifier(self, output: str) -> str:
        """Read a job's identifier from what was printed when it was submitted; empty if there is none."""
        found = self.identifier_in.search(output)
        return found[1] if found else ""

    @abstractmethod
    def status(self, identifiers: Sequence[str]) -> list[str]:
        """Give the command that lists the state of jobs. One that the scheduler forgot must not make it fail."""

    @abstractmethod
    def standings(self, output: str) -> dict[str, Standing]:
        """Read what :meth:`status` printed. A state that is not known to be over is not over.

        Raises
        ------
        ValueError
            If the output cannot be read.
        """

    def find(self, name: str) -> list[str]:
        """Give the command that lists the jobs with a name that are not over; empty if there is none."""
        return [word.format(name=name) for word in self.find_words]

    def found(self, answer: Answer) -> list[str] | None:
        """Read what :meth:`find` printed; None if the scheduler did not answer."""
        return answer.stdout.split() if answer.returncode == 0 else None

    def lookups(self, identifier: str) -> tuple[Lookup, ...]:
        """Give the commands that ask about one job, in turn; none if :meth:`status` already says all."""
        return ()

    def silent(self, answer: Answer) -> bool:
        """Whether a failed command says that the scheduler's daemon did not answer."""
        return False


def make_unsupported(scheduler: Scheduler, what: str) -> UserError:
    """Make the error for something that a scheduler does not have."""
    return UserError(f"{scheduler.title} has no {what}", "leave it out of [batch], or choose another scheduler there")


def json_object(output: str) -> dict[str, Any]:
    """Read a JSON object that a command printed.

    Raises
    ------
    ValueError
        If it is something else.
    """
    try:
        found = json.loads(output)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError(f"not a JSON object: {output[:60]!r}")
    return found


def clock(seconds: float) -> str:
    """Write a time as hours, minutes and seconds, rounded up."""
    whole = int(-(-seconds // 1))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def read_clock(text: str, units: Mapping[int, Sequence[int]]) -> float | None:
    """Read numbers between colons.

    Parameters
    ----------
    text : str
    units : mapping of int to sequence of int
        For each count of numbers, the seconds that each of them stands for.
    """
    parts = text.split(":")
    if len(parts) not in units or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    return float(sum(int(part) * unit for part, unit in zip(parts, units[len(parts)], strict=True)))


def _find_last(option: re.Pattern[str], said: str) -> str:
    """Give an option's last value; empty if there is none. An option begins a word: ``ior-N4`` is a job's name."""
    return next((m[1] for m in reversed([*option.finditer(said)]) if said[m.start() - 1] == " "), "")


def _join_words(line: str) -> str:
    try:
        return " ".join(shlex.split(line, comments=True))
    except ValueError:
        return line
