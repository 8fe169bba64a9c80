"""What a setting means: which parameter it sets, what its text is taken for, and whether its value acts here.

Every other room asks here. How texts are read is each carrier's knowledge, and what the words are is each parameter's.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import ValidationError

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, MCA, Carrier, Setting, carrier_named
from stripewise.catalogue.configuration import Value, is_same, place_of, plain_number
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.filesystems import CRAYS, FILE_SYSTEMS, GENERIC, find_file_system, has_driver, of_file
from stripewise.catalogue.parameter import Breakage, Kind, Parameter, When
from stripewise.catalogue.plan import Plan, spell
from stripewise.catalogue.stack import every_stack, stacks_naming
from stripewise.catalogue.told import Told, version_of_component
from stripewise.catalogue.workload import Workload
from stripewise.documents import Bundled
from stripewise.errors import UserError, choose, explain_fault
from stripewise.sizes import parse_number

_CLOSE = 0.85
_NAMES = Bundled("names", "catalogue")
_OF_MODULE = {
    **dict.fromkeys(("hdf5", "hdf5-parallel", "hdf5-mpi", "cray-hdf5", "cray-hdf5-parallel"), "HDF5"),
    **dict.fromkeys(("pnetcdf", "parallel-netcdf", "cray-parallel-netcdf"), "PnetCDF"),
    "mpich": "MPICH",
    "openmpi": "Open MPI",
    **dict.fromkeys(("impi", "intel-mpi", "intelmpi", "intel-oneapi-mpi"), "Intel MPI"),
}
_MODULE = re.compile(rf"(?P<name>{'|'.join(_OF_MODULE)})/(?P<version>[0-9]+(?:\.[0-9]+)+).*", re.I)
_UNSET = "unset"
_SEVERAL = 4
"""Of nodes or processes, where their number is not known."""
_LONGEST_BEGIN = 40
"""Characters of the longest beginning of a name that stands for others."""
_IMPLEMENTATIONS = ("romio", "ompio")


# -- which parameter a setting sets ------------------------------------------------------------------------


def find_parameter(setting: Setting, among: Iterable[Parameter] | None = None) -> Parameter | None:
    """Give the parameter that a setting sets, by carrier, key and, for layouts, file system.

    Parameters
    ----------
    among : iterable of Parameter, optional
        By default those of all stacks that come with Stripewise.
    """
    if among is None:
        among = (parameter for stack in stacks_naming(setting.key) for parameter in stack.parameters)
    alike = (parameter for parameter in among if parameter.setting == setting.key)
    place = (setting.carrier, setting.layer)
    return next((parameter for parameter in alike if _place(parameter) == place), None)


def _place(parameter: Parameter) -> tuple[Carrier, str]:
    made = Setting(parameter.carrier, parameter.setting, "", parameter.layer)
    return made.carrier, made.layer


@cache
def parameters() -> dict[str, Parameter]:
    """Give the parameters of all stacks that come with Stripewise, by name."""
    return {parameter.name: parameter for stack in every_stack() for parameter in stack.parameters}


def find_breakage(setting: Setting) -> Breakage | None:
    """Which calls a setting breaks, as the stacks that come with Stripewise state it; None if it breaks none."""
    parameter = find_parameter(setting)
    value = None if parameter is None else parse(parameter, setting.value).value
    return None if parameter is None or value is None else parameter.breakage(value)


# -- what a text means -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meaning:
    """What a text is taken for.

    Attributes
    ----------
    value : Value or None
        The value that acts; None where the text is ignored or refused.
    wrong : str
        Why it is no value of the parameter, and what becomes of it; empty if it is one.
    misread : str
        What it is taken for, where that is not what its writer means; empty where it is.
    fix : str
        What to write instead.
    """

    value: Value | None
    wrong: str = ""
    misread: str = ""
    fix: str = ""


def parse(parameter: Parameter, text: str) -> Meaning:
    """Say what a text means as the value of a parameter, by its carrier."""
    values = () if isinstance(parameter.values, range) else parameter.values
    if all(isinstance(value, bool) for value in values) and values:
        found = parameter.carrier.switch(text)
        return _not_among(parameter, text, ("true", "false")) if found is None else Meaning(found)
    if all(isinstance(value, int | float) for value in values):
        return _parse_number(parameter, text)
    words = words_of(parameter)
    known = {spell(value): value for value in values}
    word = parameter.carrier.word(text, tuple(known) if words is None else words)
    if word is None and words is not None:
        return _not_among(parameter, text, words)
    return Meaning(text if word is None else known.get(word, word))


def value_of(parameter: Parameter, text: str) -> Value:
    """Give the value that acts where a text was set: the default where it is ignored or refused."""
    value = parse(parameter, text).value
    return parameter.default if value is None else value


def _parse_number(parameter: Parameter, text: str) -> Meaning:
    reader = find_file_system(parameter.layer) if parameter.carrier.of_file_system else parameter.carrier
    taken, written = reader.number(parameter.setting, text), parse_number(text)
    if taken is None:
        wrong = "is not a number" if written is None else "is not possible"
        return Meaning(None, f"'{text}' {wrong}: {parameter.carrier.on_fault}", fix="write a number")
    number = plain_number(taken)
    words = words_of(parameter)
    if words is not None and place_of(number, parameter.values) is None:
        return _not_among(parameter, text, words)
    if written == taken:
        return Meaning(number)
    if written is None:
        fix = "write a number"
    else:
        fix = f"write {int(written) if reader.number(parameter.setting, str(int(written))) == written else number}"
    return Meaning(number, misread=f"{reader.reads}: '{text}' is {number:,} for it", fix=fix)


def _not_among(parameter: Parameter, text: str, words: Iterable[str]) -> Meaning:
    known = tuple(word for word in words if word != _UNSET)
    return Meaning(
        None, f"'{text}' is not one of {', '.join(known)}: {parameter.carrier.on_fault}", fix=choose(text, known)
    )


def words_of(parameter: Parameter) -> tuple[str, ...] | None:
    """Give the words that a parameter's key understands; None where it takes numbers, or they are not known."""
    if parameter.other_values or parameter.ordered:
        return None
    words = tuple(spell(value) for value in parameter.values)
    if len(words) > 1:
        return words
    # A single value is what is searched, not all that the library knows: users may name its others.
    return next((switch for switch in parameter.carrier.switches if words[0] in switch), None)


def check_value(setting: Setting, where: str) -> None:
    """Refuse a value that would be ignored silently, or be taken for another.

    Raises
    ------
    UserError
        If the parameter's key does not understand it.
    """
    parameter = find_parameter(setting)
    if parameter is None:
        return
    found = parse(parameter, setting.value)
    of_runtime = setting.carrier.of_file_system and isinstance(found.value, int)
    if of_runtime and not found.misread and setting.value != str(found.value):
        what = f"the runtime reads digits alone, not '{setting.value}'"
        raise UserError(f"{where}: {setting.key}: {what}", f"write {found.value}")
    if found.wrong or found.misread:
        raise UserError(f"{where}: {setting.key}: {found.wrong or found.misread}", found.fix)


def check_combination(plan: Plan, rules: Iterable[Expression], where: str) -> None:
    """Refuse a plan that breaks a rule of which it sets a name, where its values decide that.

    Parameters
    ----------
    rules : iterable of Expression
        Of the site; those of stacks that say why are added.

    Raises
    ------
    UserError
        With the reason of the rule.
    """
    known = {p.name: value_of(p, s.value) for s in plan.settings if (p := find_parameter(s)) is not None}
    columns = with_defaults(known, parameters().values())
    of_stacks = (rule for stack in every_stack() for rule in stack.constraints if rule.reason)
    for rule in (*of_stacks, *rules):
        if rule.names & known.keys() and rule.names <= columns.keys() and not bool(rule(columns)):
            raise UserError(f"{where}: {rule.reason or rule.text}", "change one of these settings")


def check_plan(plan: Plan, where: str, *, decides: bool = False) -> list[str]:
    """Refuse what would be ignored or misread, and name lines that look misspelt or do nothing.

    Parameters
    ----------
    decides : bool
        Whether the runtime decides by what the plan says of the workload.

    Returns
    -------
    list of str
        A sentence for each such line.

    Raises
    ------
    UserError
        See :func:`check_value`; also for keys that the runtime or a file system does not have.
    """
    doubts = []
    for files, settings in ((plan.files, plan.settings), *plan.sections):
        for setting in settings:
            _check_key(setting, where)
            check_value(setting, where)
            names = names_of(setting.carrier)
            close = difflib.get_close_matches(setting.key, sorted(names), 1, _CLOSE)
            if close and setting.key not in names:
                doubts.append(f"{setting.key} is not a known hint: was {close[0]} meant?")
        targets = Counter(setting.target for setting in settings)
        doubts += [
            f"the plan has {name} {times} times: the last one counts" for name, times in targets.items() if times > 1
        ]
        if not settings and files != Plan.files:
            doubts.append(f"the plan has no setting for the files {files}")
    return doubts + _doubt_workload(plan.workload, where, decides=decides)


def _check_key(setting: Setting, where: str) -> None:
    """Refuse a key where all that exist are known."""
    if setting.carrier.of_file_system:
        systems = {system.name: system for system in FILE_SYSTEMS if system.keys}
        if setting.layer not in systems:
            raise UserError(f"{where}: no layout of '{setting.layer[:40]}' is known", choose(setting.layer, systems))
        keys, place = [key.name for key in systems[setting.layer].keys], f"layout of {setting.layer}"
    elif setting.carrier.own_keys:
        keys, place = sorted(names_of(setting.carrier)), setting.carrier.verb
    else:
        return
    if setting.key not in keys:
        raise UserError(f"{where}: {place} has no key '{setting.key[:40]}'", choose(setting.key, keys))


def _doubt_workload(words: Iterable[tuple[str, str]], where: str, *, decides: bool) -> list[str]:
    doubts = []
    for word, text in words:
        field = "nodes" if word == "processes" else word
        try:
            Workload.model_validate({field: text} if field in Workload.model_fields else {})
        except UserError as error:
            raise UserError(f"{where}: workload {word}: {error.what}", error.fix) from error
        except ValidationError as error:
            fault = error.errors()[0]
            if fault["type"] != "literal_error":
                raise UserError(f"{where}: workload {word} {explain_fault(fault)}, not '{text[:40]}'") from error
            # A table may have words of its own.
            doubts.append(f"workload {word} is '{text[:40]}', which is not {fault['ctx']['expected']}")
    if words and not decides:
        doubts.append("workload lines act in the modes predict and online alone")
    return doubts


@cache
def names_of(carrier: Carrier) -> frozenset[str]:
    """Names that the stacks know of a carrier."""
    settings = {p.setting for stack in every_stack() for p in stack.parameters if p.carrier is carrier}
    return frozenset(settings | {d.name for stack in every_stack() for d in stack.derived if d.carrier is carrier})


@cache
def _further_names(carrier: Carrier) -> tuple[frozenset[str], tuple[str, ...]]:
    """Names that libraries document and no stack has, and the beginnings that they reserve."""
    entries = _NAMES.document("known_names").get(carrier.name, [])
    names = (name for entry in entries for name in entry.get("names", []))
    return frozenset(names), tuple(begin for entry in entries for begin in entry.get("begins", []))


@cache
def _described() -> dict[tuple[Carrier, str], Parameter]:
    """Give the settings of the bundled names that are described, as parameters that nothing searches."""
    found = {}
    for entry in _NAMES.document("known_names")["setting"]:
        words = entry.get("words", [])
        made = Parameter(
            re.sub(r"\W", "_", entry["name"]),
            Kind.CATEGORICAL,
            (_UNSET, *words),
            _UNSET,
            carrier=carrier_named(entry["carrier"]),
            key=entry["name"],
            when=When.START,
            io_component=tuple(entry.get("io_component", ())),
            since=entry.get("since", ""),
            until=entry.get("until", ""),
            library=entry.get("library", ""),
            mpi=tuple(entry.get("mpi", ())),
            other_values=not words,
            description=entry["description"],
            trap=entry.get("trap", ""),
        )
        found[made.carrier, made.setting] = made
    return found


def find_described(setting: Setting) -> Parameter | None:
    """Give the parameter that a setting sets where no stack has it, but its library documents it."""
    found = _described()
    begins = (setting.key[:place] + "*" for place in range(min(len(setting.key), _LONGEST_BEGIN), 3, -1))
    return found.get((setting.carrier, setting.key)) or next(
        (found[setting.carrier, name] for name in begins if (setting.carrier, name) in found), None
    )


def knows_name(carrier: Carrier, name: str) -> bool:
    """Whether an I/O library knows a setting of this name, or it could be nothing else: a misspelt one."""
    names, begins = _further_names(carrier)
    return name in names_of(carrier) or name in names or name.startswith(begins)


def find_source(carrier: Carrier, name: str) -> str:
    """Say what documents a name that no stack has; empty where nothing does."""
    for entry in _NAMES.document("known_names").get(carrier.name, []):
        if name in entry.get("names", []) or name.startswith(tuple(entry.get("begins", []))):
            return str(entry["source"])
    return ""


def knows_exactly(carrier: Carrier, name: str) -> bool:
    """Whether an I/O library knows a setting of just this name."""
    return name in names_of(carrier) or name in _further_names(carrier)[0]


@cache
def bare_names() -> dict[str, Carrier]:
    """Names of hints and MCA parameters, which no library reads as variables."""
    return {name: one for one in (HINT, MCA) for name in names_of(one) if not knows_name(ENVIRONMENT, name)}


def versions_in(modules: Iterable[str]) -> dict[str, str]:
    """Give the versions of I/O libraries that names of environment modules tell, as ``cray-hdf5-parallel/1.14.3``."""
    found = [one for one in map(_MODULE.fullmatch, modules) if one]
    told = {(_OF_MODULE[one["name"].lower()], one["version"]) for one in found}
    # Of a library with two versions, either may act.
    several = {
        library for library, version in told for other, another in told if library == other and version != another
    }
    return {library: version for library, version in told if library not in several}


# -- whether a value acts ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Situation:
    """All that decides whether a value acts; what is not known rules nothing out.

    Attributes
    ----------
    workload : Workload
        What the program does, with the file system and the driver that opens the file.
    io : str or None
        The MPI-IO implementation, ``romio`` or ``ompio``; any other word stands for an unknown one.
    mpi : str
        The program's MPI library with its version, as it names itself.
    versions : mapping
        Versions of other components, by the names that stacks give in ``library``; see :func:`versions_in`.
    told : Told
        What the program's MPI library says of its own settings; it goes before what stacks say of its versions.
    own : mapping
        Hints that the program sets itself and that win, with their values.
    values : mapping
        The values of other parameters, by name.
    unsure : frozenset of str
        Parameters that may have other values than these where the value is to act.
    """

    workload: Workload = field(default_factory=Workload)
    io: str | None = None
    mpi: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    told: Told = field(default_factory=Told)
    own: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    unsure: frozenset[str] = frozenset()

    def version(self, library: str) -> str:
        """Give the version of a component; empty if unknown. Open MPI's ROMIO has that of the MPICH it is from."""
        if library == "MPICH" and (inside := self._romio_inside()):
            return inside
        found = re.match(rf"{re.escape(library)}\D*(\d+(?:\.\d+)*)", self.mpi) if library else None
        return found[1] if found else self.versions.get(library, "")

    def _romio_inside(self) -> str:
        """The version of the ROMIO in an Open MPI: of the component that it has, or that its version is known for."""
        if not self.mpi.startswith("Open MPI"):
            return ""
        if self.told.components:
            return version_of_component(self.told.romio)
        choice = parameters()["io"]
        known = [one for one in choice.known if not _explain_version(choice, one.since, one.until, self)]
        return version_of_component(str(known[-1].value)) if known else ""


@dataclass(frozen=True)
class Answer:
    """Whether a value acts.

    Attributes
    ----------
    acts : bool or None
        None where what is not known decides it.
    why : str
        Why it does not act, or what is not known; empty where it acts.
    unknown : frozenset of str
        What would decide it: ``file_system``, or names of parameters.
    """

    acts: bool | None
    why: str = ""
    unknown: frozenset[str] = frozenset()


def acts(parameter: Parameter, value: Value | None, situation: Situation) -> Answer:
    """Say whether a value acts: it is read, means something, and is not what would act without it.

    Parameters
    ----------
    value : Value or None
        None where it is not known: then it rules nothing out.
    """
    workload = situation.workload
    parameter = in_version(parameter, situation)
    why = explain_unread(parameter, situation) or explain_unknown_value(parameter, value, situation)
    if not why and not parameter.meets(workload.api):
        why = f"acts on files used through {' or '.join(parameter.apis)}, the program's are used through {workload.api}"
    if why:
        return Answer(False, why)
    unsure = {name for rule in parameter.rules for name in rule.names & situation.unsure} - {parameter.name}
    words = workload.words()
    worlds = [words]
    if workload.collective is None:
        # Both kinds of calls may be made, or one alone.
        worlds += [{**words, "independent": False}, {**words, "collective": False}]
    unknown = [name for name in ("nodes", "processes_per_node", "processes") if getattr(workload, name) is None]
    if unknown:
        worlds += [{**one, **dict.fromkeys(unknown, _SEVERAL)} for one in worlds]
    if idle := _explain_idle(parameter, value, worlds, situation.values, unsure):
        return Answer(False, idle)
    if parameter.driver and not workload.driver and not workload.file_system:
        why = f"acts on {systems_of(parameter)} alone, and the file system is not said"
        return Answer(None, why, frozenset({"file_system"}))
    if unsure:
        return Answer(None, f"depends on {', '.join(sorted(unsure))}, with other values elsewhere", frozenset(unsure))
    return Answer(True)


def explain_unread(parameter: Parameter, situation: Situation) -> str:
    """Say why nothing reads a parameter here, whatever its value; empty if it is read, or that is not known."""
    return next((why for why in _list_obstacles(parameter, situation) if why), "")


def _list_obstacles(parameter: Parameter, situation: Situation) -> Iterator[str]:
    workload = situation.workload
    if parameter.io_component and situation.io in _IMPLEMENTATIONS and situation.io not in parameter.io_component:
        yield f"acts under {' or '.join(parameter.io_component)}, the program uses {situation.io}"
    yield _other_library(parameter, situation)
    if parameter.driver and workload.driver and not has_driver(workload.driver, parameter.driver):
        yield f"needs the {' or '.join(parameter.driver)} driver; this file uses {workload.driver.rstrip(':')}"
    kind = workload.file_system or ""
    if parameter.driver and not workload.driver and kind and not has_driver(kind, parameter.driver):
        yield f"acts on {systems_of(parameter)} alone, the files lie on {kind}"
    if parameter.carrier.of_file_system and kind:
        asked = find_file_system(parameter.layer)
        if asked is not GENERIC and asked is not of_file(kind, workload.driver):
            yield f"lays out files on {asked.label}, the program's lie on {kind}"
    if workload.operation in ("read", "write") and workload.operation not in parameter.operations:
        yield f"acts on {parameter.operations[0]}s only, the program {workload.operation}s"
    if workload.operation == "read" and parameter.when is When.CREATE:
        yield "acts when a file is created, the program only reads"
    if parameter.carrier is HINT and parameter.setting in situation.own:
        yield f"the program sets it itself, to {situation.own[parameter.setting]}"


def _other_library(parameter: Parameter, situation: Situation) -> str:
    """Why the MPI library, or the version of the component that would have to read a parameter, does not know it."""
    mpi = situation.mpi
    if parameter.mpi and mpi and not any(name.lower() in mpi.lower() for name in parameter.mpi):
        shown = " ".join(re.split(r"[,\n]", mpi, maxsplit=1)[0].split())
        return f"{' or '.join(parameter.mpi)} alone knows it, the program uses {shown}"
    if situation.told.lists(parameter.carrier, parameter.setting):
        has = parameter.setting in situation.told.values
        return "" if has else f"{situation.told.library} lists no setting of this name"
    return _explain_version(parameter, parameter.since, parameter.until, situation)


def explain_unknown_value(parameter: Parameter, value: Value | None, situation: Situation) -> str:
    """Say why the program's version of a library does not know a value; empty if it does, or that is not known."""
    components = _components(parameter, situation)
    if components:
        known = value in components or is_same(value or "", parameter.default)
        return "" if known else f"{situation.told.library} has no such component, but {', '.join(components)}"
    for one in parameter.known:
        if one.value == value and (why := _explain_version(parameter, one.since, one.until, situation)):
            return why
    return ""


def in_version(parameter: Parameter, situation: Situation) -> Parameter:
    """Give the parameter with the default of the program's own library; as it is where that is not known.

    A library's own word goes first, then its version. Components that the library has are values, too, unless the
    stack keeps the parameter out of searches: it then has one value.
    """
    values, default = parameter.values, parameter.default
    components = _components(parameter, situation)
    if components and parameter.other_values and len(values) > 1:
        values = tuple(dict.fromkeys((*values, *components)))
        parameter = replace(parameter, values=values, switch=_switch_of(parameter, components))
    if text := situation.told.default(parameter.carrier, parameter.setting):
        found = None if parameter.default_from is not None else parse(parameter, text).value
        default = default if found is None else found
    elif parameter.defaults and situation.version(parameter.library):
        own = (one for one in parameter.defaults if not _explain_version(parameter, one.since, one.until, situation))
        default = next((one.value for one in own), default)
    else:
        return parameter
    if len(values) == 1:
        values = (default,)
    elif place_of(default, values) is None:
        values = tuple(sorted({*values, default}, key=float)) if parameter.ordered else (*values, default)
    return replace(parameter, values=values, default=default, defaults=())


def _components(parameter: Parameter, situation: Situation) -> tuple[str, ...]:
    """The components among which a parameter chooses, as the library lists them; none where it chooses no component."""
    of_open_mpi = parameter.carrier is MCA and not parameter.ordered
    return situation.told.components.get(parameter.setting, ()) if of_open_mpi else ()


def _switch_of(parameter: Parameter, components: Sequence[str]) -> tuple[Value, ...]:
    """Strong switches, of which a beginning of a name stands for the component that has it."""
    return tuple(next((c for c in components if c.startswith(str(one))), one) for one in parameter.switch)


def _explain_version(parameter: Parameter, since: str, until: str, situation: Situation) -> str:
    library, have = parameter.library, situation.version(parameter.library)
    if not have:
        return ""
    if since and compare_versions(have, since) < 0:
        return f"known since {library} {since}, the program uses {have}"
    if until and compare_versions(have, until) > 0:
        return f"known until {library} {until}, the program uses {have}"
    return ""


def compare_versions(have: str, bound: str) -> int:
    """Compare a version with a bound as far as the bound goes: 4.1.9 is no later than 4.1, and 5 is 5.0."""
    ours, theirs = ([int(part) for part in re.findall(r"\d+", version)] for version in (have, bound))
    ours = (ours + [0] * len(theirs))[: len(theirs)]
    return (ours > theirs) - (ours < theirs)


def systems_of(parameter: Parameter) -> str:
    """The file systems under whose drivers a parameter acts."""
    return " or ".join(word.lower() for word in parameter.driver if word != CRAYS)


def acting(words: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Value]:
    """Give what acts of some values of parameters, all known: those without a meaning or like the default are left out.

    Parameters
    ----------
    words : mapping
        Of the workload.
    values : mapping
        By the names of parameters; all others are at their defaults.
    """
    known = parameters()
    return {name: value for name, value in values.items() if not _explain_idle(known[name], value, [words], values)}


def evaluate_rule(rule: Expression, words: Mapping[str, Any], values: Mapping[str, Value]) -> bool:
    """Evaluate a rule; parameters without a value are at their defaults."""
    known = parameters()
    named = [known[name] for name in rule.names & known.keys()]
    return bool(rule(with_defaults({**words, **values}, named)))


def with_defaults(values: Mapping[str, Any], among: Iterable[Parameter]) -> dict[str, Any]:
    """Add the defaults of parameters that have no value, as far as these can be told.

    Parameters
    ----------
    values : mapping
        Words of the workload and parameters to scalars, or to equally long arrays.
    """
    found = dict(values)
    for parameter in among:
        rule = parameter.default_from
        if parameter.name not in found and (rule is None or rule.names <= found.keys()):
            found[parameter.name] = parameter.default if rule is None else rule(found)
    return found


def _explain_idle(
    parameter: Parameter,
    value: Value | None,
    worlds: Sequence[Mapping[str, Any]],
    values: Mapping[str, Value],
    unsure: Set[str] = frozenset(),
) -> str:
    """Say why a value that is read does nothing in any of some worlds; rules on what is unsure rule nothing out."""
    if value is None:
        unsure = unsure | {parameter.name}
    else:
        values = {**values, parameter.name: value}
    active, alike = (
        rule if rule is not None and rule.names.isdisjoint(unsure) else None
        for rule in (parameter.active_if, parameter.same_as_default)
    )
    if active is not None and not any(_may_hold(active, words, values) for words in worlds):
        shown = ("collective", "independent", "reads", "writes", "file_system")
        given = {**{name: worlds[0][name] for name in shown}, **values}
        because = [f"{name} is {spell(given[name])}" for name in sorted(active.names) if name in given]
        flat = re.sub(r"\s+", " ", active.text).strip()
        return f"it has a meaning only where {flat}" + (f"; here {', '.join(because)}" if because else "")
    fixed = parameter.default_from is None and not parameter.defaults and not parameter.carrier.of_file_system
    if fixed and value is not None and is_same(value, parameter.default):
        return "the library does the same without it: this is its default"
    if alike is not None and value is not None and _may_hold(alike, worlds[0], values, otherwise=False):
        return "here it does what the default does anyway"
    return ""


def _may_hold(
    rule: Expression, words: Mapping[str, Any], values: Mapping[str, Value], *, otherwise: bool = True
) -> bool:
    """Whether a rule holds; as given where it cannot be evaluated."""
    try:
        return evaluate_rule(rule, words, values)
    except UserError:
        return otherwise
