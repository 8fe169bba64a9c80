"""What a carrier is: one way in which a setting reaches a program."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from stripewise.errors import UserError, choose
from stripewise.sizes import parse_number

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

RUNTIME, OBSERVER, INTERPRETER, LOST = "runtime", "observer", "interpreter", "none"
"""Who brings a setting to the program: the preloaded runtime; what is preloaded without MPI; its Python; nobody."""

CHOSEN_FILES = "STRIPEWISE_POSIX_FILES"
"""The variable that tells the observer which files settings are for."""

RUNTIME_OVERRIDES = "the plan wins over the program's own hints"
RUNTIME_WINS = "the program's own hints win"

OVER_MPI_IO = ("mpiio", "hdf5", "pnetcdf")
"""APIs whose I/O goes through MPI-IO, as a workload names them."""

_LONGEST = 100
"""Characters that a number may have."""

_OWN_FILE = re.compile(r"(?<!\$)\{([a-z0-9]+):([^{}]+)\}")

Moment = Literal["launch", "open", "create", "dataset"]


@dataclass(frozen=True)
class Setting:
    """One line of a plan.

    Attributes
    ----------
    key, value : str
        As the carrier spells them.
    layer : str
        For layouts the file system, by its name in a plan (``lustre``); empty for all others.
    """

    carrier: Carrier
    key: str
    value: str
    layer: str = ""

    def __post_init__(self) -> None:
        if not self.carrier.of_file_system:
            object.__setattr__(self, "layer", "")
        object.__setattr__(self, "carrier", self.carrier.owner(self.key))

    @property
    def name(self) -> str:
        """What plans and reports call it: the key, for layouts after the file system."""
        return f"{self.layer} {self.key}" if self.layer else self.key

    @property
    def target(self) -> str:
        """What is set, as a line of the plan begins."""
        return f"{self.carrier.verb} {self.name}"

    def line(self) -> str:
        """The setting as a line of the plan."""
        return f"{self.target} {self.value}"

    def but(self, why: str) -> str:
        """A line that says why it cannot be expressed."""
        return f"{self.key}={self.value} {why}"


@dataclass(frozen=True)
class Program:
    """What must be known of a program to bring settings to it.

    Attributes
    ----------
    abi : str
        Of its MPI; empty if unknown.
    io : str or None
        ``romio`` or ``ompio``.
    cray : bool
        Whether its MPI is Cray's.
    obstacle : str
        Why nothing can be preloaded, or empty.
    environment : mapping
        The variables it starts with, those of the command line included.
    without_mpi : str
        Why nothing in the program would read what an MPI library reads, or empty.
    version : str
        Of its MPI library, as that names itself; empty if unknown.
    own_files : tuple of (str, Path)
        Files of the user's that the command names as ``{CARRIER:FILE}``, with the carrier's name.
    hdf5_inside : bool
        Whether HDF5 is linked into the program's file, so that the runtime does not see calls of it.
    romio : str
        The io component of Open MPI that is ROMIO, as the library names it; empty if it has none, or has not said.
    isolated : str
        Why its Python would not read ``PYTHONPATH``; empty if it does, or nothing shows a Python.
    isolated_child : str
        The same of a Python that its script starts.
    """

    abi: str = ""
    io: str | None = None
    cray: bool = False
    obstacle: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    without_mpi: str = ""
    version: str = ""
    own_files: tuple[tuple[str, Path], ...] = ()
    hdf5_inside: bool = False
    romio: str = ""
    isolated: str = ""
    isolated_child: str = ""


@dataclass(frozen=True)
class Carried:
    """How one setting reaches a program.

    Attributes
    ----------
    by : str
        ``runtime``, ``observer``, ``interpreter``, ``ROMIO_HINTS``, ``MPICH_MPIIO_HINTS``, ``PNETCDF_HINTS``,
        ``environment``, ``OMPI_MCA``, ``command``, ``adios2 file``; ``none`` if it cannot reach it.
    wins : str
        Who wins if the program, or its user's environment, sets the same key; or why it cannot reach the program.
    """

    setting: Setting
    by: str
    wins: str

    def as_json(self) -> dict[str, str]:
        """Give it as JSON."""
        setting = self.setting
        return {
            "carrier": setting.carrier.name,
            "key": setting.name,
            "value": setting.value,
            "by": self.by,
            "wins": self.wins,
        }


@dataclass
class LaunchSettings:
    """A launch that settings are brought to: what is known of it, and what carriers add.

    Attributes
    ----------
    folder : Path
        The run's; the files are to be written there.
    preloaded : bool
        Whether the runtime is in the program.
    observed : bool
        Whether the observer is in it: alone in programs without MPI, else beside the runtime.
    allow : tuple of str
        Layouts of directories that may be replaced, as in a plan.
    override, pattern : bool, str
        Of the plan: whether it wins over the program's own hints, and the files that it is for.
    environment, files : dict
        Variables to be set directly before the program; names within the folder to contents.
    pending : dict
        Carrier's variable to the keys and values that :meth:`Carrier.finish` puts into it.
    stand_in : dict
        For files of :attr:`Program.own_files` the path of the copy that the program is to read instead.
    in_python : Path or None
        The folder of the module that is put into the program's Python; None where none is.
    watched : tuple of str
        Objects of Python whose use is counted without a setting, too, to compare with runs that have one.
    orders : tuple of str
        Paths of the orders that the module in the program's Python carries out, and of its answers; or empty.
    """

    program: Program
    folder: Path
    preloaded: bool
    override: bool = False
    pattern: str = "*"
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    pending: dict[str, dict[str, str]] = field(default_factory=dict)
    stand_in: dict[tuple[str, Path], Path] = field(default_factory=dict)
    observed: bool = False
    allow: tuple[str, ...] = ()
    in_python: Path | None = None
    watched: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()

    def put(self, setting: Setting, variable: str, key: str, forbidden: str) -> Carried:
        """Keep a setting for a variable that lists keys and values, unless it cannot hold the value."""
        if any(c in key + setting.value for c in forbidden):
            why = f"{variable} cannot express a name or value with any of {' '.join(forbidden)}"
            return Carried(setting, LOST, why)
        self.pending.setdefault(variable, {})[key] = setting.value
        return Carried(setting, variable, "it wins over the program's own hints")

    def users(self, variable: str) -> str:
        """What the user's environment has in a variable."""
        return self.program.environment.get(variable, "")


class Form(StrEnum):
    """Forms in which settings can be written for use without Stripewise."""

    HINTS = "MPI-IO hints"
    VARIABLES = "variables of the environment"
    MCA = "parameters of Open MPI"
    COMMANDS = "commands of the file system"


@dataclass
class Expressed:
    """Settings in a form.

    Attributes
    ----------
    pairs : list of (str, str)
        Names and values; of commands the line and what undoes it.
    cannot : list of str
        What the form cannot express, and why.
    """

    pairs: list[tuple[str, str]] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)


class Carrier(ABC):
    """One way in which a setting reaches a program. A subclass is known once an object of it is made.

    Attributes
    ----------
    name : str
        In stack files, campaigns and experiments.
    verb : str
        First word of a plan's line. Two carriers may share one: :meth:`owns` says whose a key is.
    in_artifact : str
        The verb that artifacts name it by; its own unless a subclass says otherwise.
    acts : tuple of str
        When a value takes effect: at ``launch``, or at each ``open``, ``create`` or ``dataset`` of the program.
    of_file_system : bool
        Whether a key belongs to a file system, which the line names.
    own_keys : bool
        Whether Stripewise's own library reads it, so that no keys exist but those of the stacks.
    reported : bool
        Whether the runtime reports for each file what became of a setting.
    undecided : str
        Why no model can choose a value while the program runs (``predict``, ``online``); empty if one can.
    needs_mpi : bool
        Whether only a program with an MPI library reads it.
    on_calls : bool
        Whether the observer acts on it, at the calls of the C library that a program makes.
    only_on_calls : bool
        Whether nothing else does, also in programs with MPI.
    within_calls : bool
        Whether all that a value changes happens in calls whose time reports count.
    of_objects : bool
        Whether it sets arguments of objects in Python, which belong to no file.
    apis : tuple of str
        The APIs through which I/O meets a value, as a workload names them; empty for any.
    echo : str
        Who tells the runtime which value is in force.
    proofs : frozenset of str
        Facts that can prove an effect, by the kinds of :data:`stripewise.observe.evidence.RULES`.
    names_files : bool
        Whether it changes a copy of a file of the user's, which the command names as ``{NAME:FILE}``.
    reads : str
        How numbers are read, by whom, in a sentence; said where a number is not what its writer means.
    on_fault : str
        What becomes of a text that is not understood.
    switches : tuple of tuple of str
        Words that turn something on and off: who knows one of a group knows all of it.
    """

    known: ClassVar[dict[str, Carrier]] = {}

    name = ""
    verb = ""
    in_artifact = ""
    acts: tuple[Moment, ...] = ()
    of_file_system = False
    own_keys = False
    reported = False
    undecided = "it acts before the program opens a file"
    needs_mpi = True
    on_calls = False
    only_on_calls = False
    within_calls = False
    of_objects = False
    apis: tuple[str, ...] = ()
    echo = "MPI_File_get_info"
    proofs: frozenset[str] = frozenset({"calls", "parts"})
    names_files = False
    reads = "the component reads it otherwise"
    on_fault = "the component ignores it without a message"
    switches: tuple[tuple[str, ...], ...] = ()

    def __init__(self) -> None:
        self.in_artifact = self.in_artifact or self.verb
        named = sorted({**self.known, self.name: self}.items())  # messages and schemas list them
        self.known.clear()
        self.known.update(named)

    def __repr__(self) -> str:
        return self.name.upper()

    def __reduce__(self) -> tuple[Any, ...]:
        return carrier_named, (self.name,)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema  # noqa: PLC0415  slow to load, and only schemas need it

        def read(value: Any) -> Carrier:
            if isinstance(value, Carrier):
                return value
            if value not in cls.known:
                raise ValueError(f"'{value}' is not a carrier; choose from {', '.join(cls.known)}")
            return cls.known[value]

        return core_schema.no_info_plain_validator_function(
            read, serialization=core_schema.plain_serializer_function_ser_schema(lambda carrier: carrier.name)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "enum": [*cls.known]}

    @property
    def decided(self) -> bool:
        """Whether the runtime can apply what a model chooses while the program runs."""
        return not self.undecided

    def why_early(self, key: str) -> str:
        """Say why no order can set a key while the program runs; empty if one can."""
        return self.undecided

    # -- the plan ------------------------------------------------------------------------------------------

    def owns(self, key: str) -> bool:
        """Whether a key of the carrier's verb belongs to it and to no other carrier."""
        return False

    def owner(self, key: str) -> Carrier:
        """The carrier of a key, among those with the same verb."""
        return next((c for c in self.known.values() if c.verb == self.verb and c.owns(key)), self)

    def wrong_key(self, key: str) -> str:
        """Say why a text cannot be a key; empty if it can."""
        return ""

    # -- what a text means ---------------------------------------------------------------------------------

    def number(self, key: str, text: str) -> float | None:
        """Give the number that a key gets by a text; None where the text is refused or ignored.

        Unless a subclass says otherwise, it is the number that a person means.
        """
        return parse_number(text)

    def switch(self, text: str) -> bool | None:
        """Whether a text turns something on or off; None where it is refused or ignored."""
        return {"true": True, "false": False}.get(text)

    def word(self, text: str, words: Sequence[str]) -> str | None:
        """Give the word, among those that a key knows, by which a text is taken; None if there is none."""
        return text if text in words else None

    # -- a launch ------------------------------------------------------------------------------------------

    def carry(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Bring a setting to a launch, or say why it cannot reach the program."""
        if self.needs_mpi and launch.program.without_mpi:
            return Carried(setting, LOST, launch.program.without_mpi)
        return self.bring(setting, launch)

    @abstractmethod
    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """As :meth:`carry`, to a program that reads what the carrier brings."""

    def finish(self, launch: LaunchSettings, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Set the variables and files that hold several settings, once all are known.

        Returns
        -------
        sequence of Carried
            What was given, changed where something does not fit.
        """
        return carried

    # -- exports -------------------------------------------------------------------------------------------

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Write settings in a form for use without Stripewise; None if the carrier knows nothing of the form.

        Parameters
        ----------
        settings : sequence of Setting
            All of this carrier.
        mpi : {"", "cray", "intel", "openmpi"}
            The MPI library that is to read it; empty for any.
        place : str
            The directory that commands are for, quoted.
        """
        return None

    def needs_runtime(self, settings: Sequence[Setting], *, override: bool, pattern: str) -> list[str]:
        """Say what only the runtime does for settings; empty if files and variables do the same."""
        return []


def digits(text: str) -> int:
    """Give the number at the beginning of a text, as strtoll(3) with base 10 does: 0 where there is none."""
    found = re.match(r"[ \t\n\v\f\r]*([+-]?[0-9]+)", text[:_LONGEST])
    return max(-(1 << 63), min(int(found[1]), (1 << 63) - 1)) if found else 0


def parse_whole(text: str) -> int | None:
    """Give the number that a text is if it has digits alone."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else None


def own_files(words: Sequence[str], folder: Path) -> tuple[tuple[str, Path], ...]:
    """Give the files that words of a command name as ``{CARRIER:FILE}``, with the carrier's name.

    Parameters
    ----------
    folder : Path
        Where relative paths begin.
    """
    named = [match for word in words for match in _OWN_FILE.finditer(word) if _names_files(match[1])]
    return tuple(dict.fromkeys((match[1], folder / match[2]) for match in named))


def with_files(words: Sequence[str], folder: Path, stand_in: Mapping[tuple[str, Path], Path]) -> tuple[str, ...]:
    """Put the paths of files in place of ``{CARRIER:FILE}``: of the copy where there is one, else the user's own."""

    def path(match: re.Match[str]) -> str:
        return str(stand_in.get((match[1], folder / match[2]), match[2])) if _names_files(match[1]) else match[0]

    return tuple(_OWN_FILE.sub(path, word) for word in words)


def _names_files(name: str) -> bool:
    return name in Carrier.known and Carrier.known[name].names_files


def carrier_named(name: str) -> Carrier:
    """The carrier of a name.

    Raises
    ------
    UserError
        If there is none.
    """
    if name not in Carrier.known:
        raise UserError(f"'{name}' is not a carrier", choose(name, Carrier.known))
    return Carrier.known[name]
