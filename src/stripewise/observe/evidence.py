"""Rules that tell from an activity whether a setting acted. Parameters name theirs (``evidence`` in stack files).

A rule compares what really happened to the file (which ranks wrote, in what sizes, how the file lies) with what was
asked for. It says ``effective`` or ``no_effect`` only where the facts leave no other reading, and ``effective`` only
where they differ from those of runs without the setting (:func:`compare_with_others`); all else is ``unprovable``. An
echo of a hint is never evidence: ROMIO echoes hints that its driver ignores. The exchange between ranks makes no system
call on the file. It shows in the messages that ROMIO sends within collective calls, and else in the time that these
calls spend outside system calls.

Rules for HDF5 settings: where datasets lie, what the file says of itself, how metadata reached it.

What a rule of evidence is given, what it answers, and the comparison without which nothing is effective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from stripewise.catalogue.filesystems import key_of
from stripewise.catalogue.meaning import parse
from stripewise.catalogue.parameter import Parameter
from stripewise.errors import UserError
from stripewise.observe.activity import Activity, Calls, Dataset, FileActivity, SettingOutcome, SystemCalls, Within
from stripewise.sizes import format_size

Verdict = tuple[str, str]
"""Status and one sentence."""

_WAYS = ("write", "read")
EFFECTIVE, NO_EFFECT, UNPROVABLE = "effective", "no_effect", "unprovable"


@dataclass(frozen=True)
class Case:
    """What a rule judges.

    Attributes
    ----------
    parameter : Parameter
    value : str
        As it was passed on.
    file, before : FileActivity, FileActivity or None
        The file in a run with the setting, and in a run without.
    alone : bool
        Whether no other setting of the plan could change the same facts.
    baseline : tuple of FileActivity
        The file in all runs without the setting.
    every : tuple of FileActivity
        All files of the run with the setting, those of the program's own calls included.
    others : tuple of tuple of FileActivity
        The same of each run without the setting.
    varied, paired : tuple of FileActivity
        The file in runs with another value of the setting, and in those of them that had nothing else changed.
    switched : tuple of FileActivity
        The file in runs that lacked the setting and had all others of the plan: one thing was switched.
    """

    parameter: Parameter
    value: str
    file: FileActivity
    before: FileActivity | None
    alone: bool
    baseline: tuple[FileActivity, ...] = ()
    every: tuple[FileActivity, ...] = ()
    others: tuple[tuple[FileActivity, ...], ...] = ()
    varied: tuple[FileActivity, ...] = ()
    paired: tuple[FileActivity, ...] = ()
    switched: tuple[FileActivity, ...] = ()

    def directions(self) -> list[str]:
        """The directions that the parameter can influence and the file was used in."""
        return [way for way in _WAYS if way in self.parameter.operations and getattr(self.file.upper, way).count]

    @property
    def number(self) -> int | None:
        """The value as a number, as what reads it takes it."""
        value = parse(self.parameter, self.value).value
        return value if isinstance(value, int) and not isinstance(value, bool) else None


Judge = Callable[..., Verdict]
"""A rule: judges a case, or a case and a direction."""
Measure = Callable[..., Any]
"""What a rule goes by, of a file or of all files of a run; None where it was not seen."""


def compare_with_others(
    measure: Measure,
    *,
    whole: bool = False,
    otherwise: Callable[..., bool] | None = None,
    without_exchange: bool = False,
) -> Callable[[Judge], Judge]:
    """Let a rule call a setting effective only if what it goes by differs from all runs without the setting.

    This is the only place that decides it: a rule says what a run shows, and not whether the default shows it as well.

    Parameters
    ----------
    measure : callable
        Takes the case, the file and, where the rule has one, the direction.
    whole : bool
        Whether it takes all files of a run in place of one.
    otherwise : callable, optional
        Takes the case and the direction, and says whether the runs differ in something else that counts.
    without_exchange : bool
        Whether system calls alone show it: the setting changes nothing between ranks.
    """

    def decorate(judge: Judge) -> Judge:
        @wraps(judge)
        def rule(case: Case, *way: str) -> Verdict:
            status, sentence = judge(case, *way)
            if way and case.switched and not case.alone and status in (EFFECTIVE, UNPROVABLE):
                return _judge_switched(case, way[0], status, sentence, without_exchange)
            if status != EFFECTIVE or (otherwise is not None and otherwise(case, *way)):
                return status, sentence
            now = measure(case, case.every if whole else case.file, *way)
            without = [measure(case, other, *way) for other in (case.others if whole else case.baseline)]
            known = [value for value in without if value is not None]
            if not known and not whole:
                # Calls show all settings together; a layout or a property shows one.
                more = case.paired if way else case.varied
                known = [value for other in more if (value := measure(case, other, *way)) is not None]
                if known and _is_among(now, known):
                    return UNPROVABLE, f"{sentence}, as with another value; no run without it tells this"
            if not known:
                why = "tells this" if case.others else "was observed"
                return UNPROVABLE, f"{sentence}; no run without it {why}"
            if not _is_among(now, known):
                return status, sentence
            if case.alone or not way or _same_calls(case, *way):
                return NO_EFFECT, f"{sentence}, as by default"
            return UNPROVABLE, f"{sentence}, as by default; other settings changed with it"

        rule.compared = True  # type: ignore[attr-defined]  # tests ask whether a rule compares
        return rule

    return decorate


_CHANCE = 0.1
"""Numbers of calls that depend on chance differ by less."""


def _judge_switched(case: Case, way: str, status: str, sentence: str, without_exchange: bool) -> Verdict:
    """Judge by runs in which only this setting was switched: no other comparison tells several settings apart."""
    made = _list_made(case.file, way)
    known = [_list_made(file, way) for file in case.switched]
    if not _is_among(made, known):
        # Where ranks read back what others write meanwhile, the number of calls differs from run to run.
        if made[-2] and any(one[-2] and _is_near(made, one) for one in known):
            return UNPROVABLE, f"{sentence}; nearly the same calls as without it"
        return EFFECTIVE, f"{sentence}; other calls than without it, all else alike"
    if status == EFFECTIVE or made[-1] or without_exchange:
        return NO_EFFECT, f"{sentence}; the same calls as without it, all else alike"
    return status, sentence


def _is_near(made: Sequence[int], other: Sequence[int]) -> bool:
    return all(abs(a - b) <= _CHANCE * max(a, b) for a, b in zip(made, other, strict=True))


def _list_made(file: FileActivity, way: str) -> tuple[int, ...]:
    """What MPI-IO did in a direction, in numbers; the messages last."""
    within = _find_collective(file, way)
    return *_key_calls(_all_calls(file, way)), *_key_calls(within), _count_sieved(file, way), within.messages


def _is_among(now: Any, known: Sequence[Any]) -> bool:
    """Whether a value was seen without the setting, or lies within what chance alone makes of it."""
    if now in known:
        return True
    parts = [value if isinstance(value, tuple) else (value,) for value in (now, *known)]
    if any(len(part) != len(parts[0]) or not all(isinstance(n, int | float) for n in part) for part in parts):
        return False
    return all(min(column) <= value <= max(column) for value, *column in zip(*parts, strict=True))


def _same_calls(case: Case, way: str) -> bool:
    made = _all_calls(case.file, way)
    return any(made == _all_calls(file, way) for file in case.baseline)


_NOT_HDF5 = "the file was not used through HDF5"


def _list_placed(file: FileActivity | None) -> dict[str, Dataset]:
    """Datasets that lie in one piece, by name."""
    datasets = file.datasets if file is not None else []
    return {dataset.name: dataset for dataset in datasets if dataset.address is not None}


def _count_aligned(datasets: list[Dataset], size: int) -> int:
    return sum((dataset.address or 0) % size == 0 for dataset in datasets)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 1


def _count_unaligned(case: Case, file: FileActivity) -> int | None:
    found = [dataset for name, dataset in _list_placed(file).items() if name in _list_placed(case.file)]
    return len(found) - _count_aligned(found, case.number or 1) if found else None


@compare_with_others(_count_unaligned)
def alignment(case: Case) -> Verdict:
    """Addresses of datasets: multiples of the value, which they are not by default."""
    size = case.number
    if not case.file.through_hdf5:
        return NO_EFFECT, _NOT_HDF5
    if not size or size < 2:
        return UNPROVABLE, f"any address is a multiple of {case.value}"
    least = _number(case.file.properties.get("alignment_threshold"))
    found = [dataset for dataset in _list_placed(case.file).values() if dataset.bytes >= least]
    if not found:
        return UNPROVABLE, "no dataset lies in one piece, so none has an address to look at"
    now = _count_aligned(found, size)
    sentence = f"{now} of {len(found)} datasets start at a multiple of {format_size(size)}"
    if now < len(found):
        return NO_EFFECT, sentence
    before = _list_placed(case.before)
    usual = [before[dataset.name] for dataset in found if dataset.name in before]
    if not usual:
        return UNPROVABLE, f"{sentence}; no default run to compare with"
    sentence += f", {_count_aligned(usual, size)} of {len(usual)} by default"
    return (EFFECTIVE if _count_aligned(usual, size) < len(usual) else NO_EFFECT), sentence


def _count_loose(case: Case, file: FileActivity) -> int | None:
    """Small datasets that are not aligned in a file that aligns; None of a file that aligns nothing anyway."""
    size = _number(file.properties.get("alignment"))
    small = [dataset for dataset in _list_placed(file).values() if dataset.bytes < (case.number or 1)]
    return len(small) - _count_aligned(small, size) if size > 1 else None


@compare_with_others(_count_loose)
def threshold(case: Case) -> Verdict:
    """A dataset smaller than the value that is not aligned, as by default it would be."""
    if not case.file.through_hdf5:
        return NO_EFFECT, _NOT_HDF5
    size, least = _number(case.file.properties.get("alignment")), case.number or 1
    if size < 2:
        return NO_EFFECT, "nothing is aligned in this file"
    small = [dataset for dataset in _list_placed(case.file).values() if dataset.bytes < least]
    loose = len(small) - _count_aligned(small, size)
    if loose:
        what, are = ("1 dataset", "is") if loose == 1 else (f"{loose} datasets", "are")
        return EFFECTIVE, f"{what} below {format_size(least)} {are} not at a multiple of {format_size(size)}"
    return UNPROVABLE, "every dataset is aligned; whether metadata is cannot be seen"


def _property(case: Case, file: FileActivity) -> str | None:
    return file.properties.get(case.parameter.setting)


@compare_with_others(_property)
def file_property(case: Case) -> Verdict:
    """What the file itself says."""
    if not case.file.through_hdf5:
        return NO_EFFECT, _NOT_HDF5
    key = case.parameter.setting
    found = case.file.properties.get(key)
    if found is None:
        return UNPROVABLE, f"this HDF5 library does not tell the file's {key}"
    return (EFFECTIVE if found == case.value else NO_EFFECT), f"the file's {key} is {found}"


def _collective_calls(case: Case, file: FileActivity) -> int:
    way = "write" if "write" in case.parameter.operations else "read"
    return 0 if file.modes is None else int(getattr(file.modes, f"collective_{way}s"))


@compare_with_others(_collective_calls)
def metadata(case: Case) -> Verdict:
    """Collective MPI calls beyond those of the program's own transfers."""
    if not case.file.through_hdf5:
        return NO_EFFECT, _NOT_HDF5
    if case.file.ranks < 2:
        return NO_EFFECT, "the file was opened by one rank"
    way = "write" if "write" in case.parameter.operations else "read"
    if case.before is None:
        return UNPROVABLE, "no default run to compare with"
    now, usual = _collective_calls(case, case.file), _collective_calls(case, case.before)
    sentence = f"{now} collective {way} calls of MPI, {usual} by default"
    if now == usual:
        return NO_EFFECT, sentence
    same = _collective_transfers(case.file, way) == _collective_transfers(case.before, way)
    return (EFFECTIVE if same and now > usual else UNPROVABLE), sentence


def _collective_transfers(file: FileActivity, way: str) -> int:
    return sum(made.collective for direction, made in file.transfers.items() if direction == way)


def _places(case: Case, file: FileActivity) -> tuple[object, ...] | None:
    if not file.through_hdf5:
        return None
    return file.size, tuple(sorted((name, dataset.address) for name, dataset in _list_placed(file).items()))


@compare_with_others(_places)
def addresses(case: Case) -> Verdict:
    """Where datasets lie, and the sizes of MPI's calls: metadata gathered in blocks moves both."""
    if not case.file.through_hdf5:
        return NO_EFFECT, _NOT_HDF5
    if case.before is None or not case.before.through_hdf5:
        return UNPROVABLE, "no default run to compare with"
    now, usual = _list_placed(case.file), _list_placed(case.before)
    moved = [name for name in now if name in usual and now[name].address != usual[name].address]
    if moved:
        sentence = f"{moved[0]} lies at {now[moved[0]].address}, at {usual[moved[0]].address} by default"
    elif case.file.size != case.before.size:
        sentence = f"the file has {case.file.size} bytes, {case.before.size} by default"
    else:
        return UNPROVABLE, "every dataset lies where it does by default, and the file is as large"
    return (EFFECTIVE, sentence) if case.alone else (UNPROVABLE, f"{sentence}; other settings changed with it")


def _list_chunked(case: Case, file: FileActivity) -> tuple[object, ...]:
    return tuple(sorted((dataset.name, tuple(dataset.chunk)) for dataset in file.datasets if dataset.chunk))


@compare_with_others(_list_chunked)
def chunks(case: Case) -> Verdict:
    """Chunks that datasets do not have by default."""
    if not case.file.through_hdf5:
        return NO_EFFECT, _NOT_HDF5
    usual = {dataset.name: dataset.chunk for dataset in (case.before.datasets if case.before else [])}
    chunked = [d for d in case.file.datasets if d.chunk and d.chunk != usual.get(d.name)]
    if not chunked:
        return NO_EFFECT, "no dataset has other chunks than by default"
    first = chunked[0]
    return EFFECTIVE, f"{first.name} has chunks of {' x '.join(map(str, first.chunk))} elements"


def _list_filtered(case: Case, file: FileActivity) -> list[Dataset]:
    """Datasets with the filter; a plugin's number is not told, only that it is none of HDF5's own filters."""
    name = {"plugin": "other"}.get(case.parameter.setting, case.parameter.setting)
    return [dataset for dataset in file.datasets if name in dataset.filters]


@compare_with_others(lambda case, file: tuple(sorted(dataset.name for dataset in _list_filtered(case, file))))
def filters(case: Case) -> Verdict:
    """Filters that HDF5 lists for a dataset, and what all filters together made of the data."""
    if not case.file.through_hdf5:
        return NO_EFFECT, _NOT_HDF5
    name = case.parameter.setting
    found = _list_filtered(case, case.file)
    if not found:
        return NO_EFFECT, f"no dataset is filtered by {name}"
    sentence = f"{'1 dataset is' if len(found) == 1 else f'{len(found)} datasets are'} filtered by {name}"
    given = sum(made.moved for way, made in case.file.transfers.items() if way == "write")
    stored = case.file.upper.write.bytes
    if given and stored:
        sentence += f"; {format_size(given)} of data were written in {format_size(stored)}, {given / stored:.2g} to 1"
    return EFFECTIVE, sentence


def _all_calls(file: FileActivity, way: str) -> SystemCalls:
    """The system calls of one direction that MPI-IO made."""
    made = Calls() if file.beneath is None or file.posix is None else getattr(file.posix, way)
    return SystemCalls(count=made.count, bytes=made.bytes, ranks=made.ranks or 0, largest=made.largest or 0)


def _find_collective(file: FileActivity, way: str) -> Within:
    """The system calls within collective calls of one direction."""
    made: Within = Within() if file.beneath is None else getattr(file.beneath, way)
    return made


def _find_independent(file: FileActivity, way: str) -> SystemCalls:
    """The system calls within independent calls of one direction."""
    made: SystemCalls = SystemCalls() if file.beneath is None else getattr(file.beneath, f"independent_{way}")
    return made


def _mpi_calls(file: FileActivity, way: str) -> Calls:
    made: Calls = getattr(file.upper, way)
    return made


def _per_direction(judge: Callable[[Case, str], Verdict]) -> Callable[[Case], Verdict]:
    """Judge both directions; an effect in one is an effect."""

    def rule(case: Case) -> Verdict:
        found = [judge(case, way) for way in case.directions()]
        if not found:
            ways = " or ".join(case.parameter.operations)
            return NO_EFFECT, f"no {ways} call was made on the file"
        for status in (EFFECTIVE, UNPROVABLE):
            for verdict in found:
                if verdict[0] == status:
                    return verdict
        return found[0]

    return rule


_UNLIKE = 2.0
"""Times outside system calls differ only if one is more than this times all those of the other side."""
_FEWEST_BASELINES = 3


def _exchange(case: Case, way: str) -> tuple[bool | None, str]:
    """Whether the ranks exchanged something else than by default, and how that shows; None if nothing shows it."""
    if case.before is None:
        return None, ""
    now, usual = _find_collective(case.file, way).messages, _find_collective(case.before, way).messages
    if now or usual:
        sentence = f"{now or 'no'} messages between ranks within collective {way}s, {usual or 'none'} by default"
        return abs(now - usual) > 0.01 * max(now, usual), sentence
    spent = _find_collective(case.file, way).exchange
    known = [seconds for file in case.baseline if (seconds := _find_collective(file, way).exchange) is not None]
    if spent is None or len(known) < _FEWEST_BASELINES:
        return None, ""
    (outside, whole), others = spent, [seconds for seconds, _ in known]
    mattered = outside > whole / 2 if outside > max(others) else all(part > all_ / 2 for part, all_ in known)
    if not mattered or min(others) / _UNLIKE <= outside <= max(others) * _UNLIKE:
        return None, ""
    by_default = f"{min(others):.3g} to {max(others):.3g} s by default"
    return True, f"{outside:.3g} s of collective {way}s outside system calls, {by_default}"


def _with_exchange(judge: Callable[[Case, str], Verdict]) -> Callable[[Case, str], Verdict]:
    """Let what the ranks exchanged speak where the system calls show no effect."""

    def rule(case: Case, way: str) -> Verdict:
        status, sentence = judge(case, way)
        if status == EFFECTIVE:
            return status, sentence
        changed, words = _exchange(case, way)
        if not changed:
            return status, f"{sentence}; {words}" if words else sentence
        if case.alone:
            return EFFECTIVE, words
        return UNPROVABLE, f"{words}; other settings changed with it"

    return rule


def _shares_buffers(case: Case, way: str) -> bool:
    """Whether ranks gave their data to others before system calls were made, and other settings rule how these look.

    Sizes of such system calls are those of the collective buffers, and tell nothing of what each rank does by itself.
    """
    return not case.alone and _exchanges(case.file, way)


def _exchanges(file: FileActivity, way: str) -> bool:
    return not _find_independent(file, way).count and bool(_find_collective(file, way).messages)


_SHARED = "ranks exchanged data in collective {way}s, so other settings may have made these system calls"


def _name_done(way: str) -> str:
    return "wrote" if way == "write" else "read"


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


@_per_direction
@_with_exchange
@compare_with_others(lambda case, file, way: _find_collective(file, way).ranks)
def aggregators(case: Case, way: str) -> Verdict:
    """Ranks that made system calls during collective calls."""
    now = _find_collective(case.file, way)
    if not now.count:
        return UNPROVABLE, f"no {way} system call was seen during collective calls"
    usual = _find_collective(case.before, way).ranks if case.before is not None else None
    sentence = f"{_ranks(now.ranks)} {_name_done(way)} during collective calls, {case.value} asked for"
    if usual is not None:
        sentence += f", {usual} by default"
    if now.ranks == case.number:
        if usual != now.ranks:
            return EFFECTIVE, sentence
        if usual >= case.file.ranks and not case.alone:
            return UNPROVABLE, f"{sentence}: every rank, as also without aggregation"
        return NO_EFFECT, sentence
    if now.ranks in (case.parameter.default, usual):
        return NO_EFFECT, sentence
    if case.alone and usual is not None:
        return EFFECTIVE, f"{sentence}: rounded by the driver"
    return UNPROVABLE, sentence


def _during_collective(case: Case, file: FileActivity, way: str) -> tuple[int, ...]:
    return _key_calls(_find_collective(file, way))


@_per_direction
@_with_exchange
@compare_with_others(_during_collective, otherwise=lambda case, way: bool(_exchange(case, way)[0]))
def collective_buffering(case: Case, way: str) -> Verdict:
    """Aggregation: fewer ranks, or larger pieces, than the program's own calls."""
    now = _find_collective(case.file, way)
    if case.file.modes is None or not case.file.modes.collective_reads + case.file.modes.collective_writes:
        return NO_EFFECT, "the file was used without collective calls"
    if not now.count:
        return UNPROVABLE, f"no {way} system call was seen during collective calls"
    if case.before is None:
        return UNPROVABLE, f"{_describe(now, way)}, no default to compare"
    usual = _find_collective(case.before, way)
    sentence = f"{_describe(now, way)}; by default {_describe(usual, way)}"
    if _key_calls(now) == _key_calls(usual):
        sentence = f"{sentence}, the same"
        changed, words = _exchange(case, way)
        if changed and case.value == "disable" and not _find_collective(case.file, way).messages:
            return EFFECTIVE, words
        # Fewer ranks writing than there are is aggregation. Where all write, only the exchange tells: automatic
        # buffering compares the ranks' offsets in each call before it leaves them to write by themselves.
        known = changed is False or usual.ranks < case.file.ranks
        return (NO_EFFECT if known else UNPROVABLE), sentence
    everyone = now.ranks >= case.file.ranks > usual.ranks
    fewer = now.ranks < case.file.ranks <= usual.ranks
    if case.alone or (case.value == "disable" and everyone) or (case.value == "enable" and fewer):
        return EFFECTIVE, sentence
    return UNPROVABLE, f"{sentence}; other settings changed with it"


def _describe(made: SystemCalls, way: str) -> str:
    times = "once" if made.count == 1 else f"{made.count} times"
    return f"{_ranks(made.ranks)} {_name_done(way)} {times}, at most {format_size(made.largest)}"


def _key_calls(made: SystemCalls) -> tuple[int, ...]:
    """What system calls are compared by."""
    return made.count, made.bytes, made.ranks, made.largest


def _was_refilled(case: Case, way: str, made: SystemCalls) -> bool:
    """Whether a rank needed several system calls for one MPI call, on average."""
    calls = _find_collective(case.file, way).moving if isinstance(made, Within) else _count_independent(case.file, way)
    return made.count > made.ranks * calls / max(1, case.file.ranks)


def _count_independent(file: FileActivity, way: str) -> int:
    return 0 if file.modes is None else int(getattr(file.modes, f"independent_{way}s"))


def _buffer(case: Case, way: str, now: SystemCalls, usual: SystemCalls | None, calls: str, part: int = 1) -> Verdict:
    """A buffer's size acts where the buffer was filled, or where the default one would have been too small."""
    size, default, largest = case.number, case.parameter.default, now.largest
    if size is None or not isinstance(default, int):
        return UNPROVABLE, f"'{case.value}' is not a size"
    size, default = size // part, default // part
    if not largest:
        return UNPROVABLE, f"no {way} system call was seen {calls}"
    sentence = f"largest {way} {calls} was {format_size(largest)} with a buffer of {format_size(size)}"
    if usual is not None:
        sentence += f", {format_size(usual.largest)} by default"
        if _key_calls(now) == _key_calls(usual):
            return NO_EFFECT, f"{sentence}: the same system calls"
    if largest > size:
        return NO_EFFECT, f"{sentence}: larger than the buffer, so something else set it"
    if size < default:
        if largest == size:
            if not (case.alone or _was_refilled(case, way, now)):
                return UNPROVABLE, f"{sentence}; other settings, too, make system calls of this size"
            return EFFECTIVE, f"{sentence}: the buffer was full"
        return NO_EFFECT, f"{sentence}: never filled, so the default {format_size(default)} acts alike"
    if largest > default:
        return EFFECTIVE, f"{sentence}: more than the default {format_size(default)} holds"
    return NO_EFFECT, f"{sentence}: the default {format_size(default)} would have held it"


@_per_direction
@_with_exchange
@compare_with_others(lambda case, file, way: _find_collective(file, way).largest)
def collective_buffer_size(case: Case, way: str) -> Verdict:
    """Largest system call during collective calls, against the buffer."""
    usual = _find_collective(case.before, way) if case.before is not None else None
    return _buffer(case, way, _find_collective(case.file, way), usual, "during collective calls")


@_per_direction
@_with_exchange
@compare_with_others(lambda case, file, way: _find_collective(file, way).largest)
def double_buffer_size(case: Case, way: str) -> Verdict:
    """As :func:`collective_buffer_size`, for OMPIO: vulcan fills half of the buffer while it writes the other."""
    usual = _find_collective(case.before, way) if case.before is not None else None
    now = _find_collective(case.file, way)
    part = 2 if case.number is not None and now.largest <= case.number // 2 else 1
    return _buffer(case, way, now, usual, "during collective calls", part)


def _by_ranks(case: Case, file: FileActivity, way: str) -> SystemCalls:
    # Where independent calls were made, collective ones may have gone through the other, collective buffer.
    alone = bool(_find_independent(case.file, way).count)
    return _find_independent(file, way) if alone else _find_collective(file, way)


@_per_direction
@compare_with_others(lambda case, file, way: _by_ranks(case, file, way).largest, without_exchange=True)
def sieving_buffer_size(case: Case, way: str) -> Verdict:
    """Largest system call, against the sieving buffer."""
    if _shares_buffers(case, way):
        return UNPROVABLE, _SHARED.format(way=way)
    usual = None if case.before is None else _by_ranks(case, case.before, way)
    return _buffer(case, way, _by_ranks(case, case.file, way), usual, "by the ranks themselves")


def _count_sieved(file: FileActivity, way: str) -> int:
    """Reads inside write calls; of reads, whether more was read than asked for."""
    if way == "write":
        return 0 if file.beneath is None else file.beneath.reading_back.count
    asked = _mpi_calls(file, "read").bytes
    made = _all_calls(file, "read")
    return int(made.bytes > asked * 1.01 or made.largest > (_mpi_calls(file, way).largest or 0))


def _sieves(file: FileActivity, way: str) -> bool:
    """Whether ranks sieved by themselves; what they read for others looks alike."""
    return bool(_count_sieved(file, way)) and not (way == "read" and _exchanges(file, way))


def _sieving(case: Case, file: FileActivity, way: str) -> tuple[int, ...] | None:
    """What shows sieving: of one setting among others, only what no other one can have made."""
    made = _all_calls(file, way)
    if not made.count:
        return None
    if case.alone:
        return made.count, made.bytes, made.largest, _count_sieved(file, way)
    return bool(_count_sieved(file, way)), made.largest < (_mpi_calls(file, way).largest or 0)


@_per_direction
@compare_with_others(_sieving, without_exchange=True)
def data_sieving(case: Case, way: str) -> Verdict:
    """Read-modify-write inside write calls; more bytes read than asked for inside read calls."""
    made = _all_calls(case.file, way)
    if not made.count:
        return UNPROVABLE, f"no {way} system call was seen"
    call = _mpi_calls(case.file, way).largest or 0
    pieces = f"largest {way} {format_size(made.largest)} of calls up to {format_size(call)}"
    sieved = _count_sieved(case.file, way)
    if way == "write":
        sentence = f"{sieved} reads inside write calls, {pieces}"
    else:
        asked = _mpi_calls(case.file, "read").bytes
        sentence = f"{format_size(made.bytes)} read for {format_size(asked)} asked for, {pieces}"
    if case.value in ("disable", "false"):
        if sieved:
            return NO_EFFECT, sentence
        if made.largest >= call:
            return NO_EFFECT, f"{sentence}: a call was one piece anyway"
        if _shares_buffers(case, way):
            return UNPROVABLE, f"{sentence}; {_SHARED.format(way=way)}"
        if not case.alone and not any(_sieves(file, way) for file in (*case.baseline, *case.varied)):
            return UNPROVABLE, f"{sentence}; no run without it sieved, and other settings changed with it"
        return EFFECTIVE, f"{sentence}: piece by piece"
    if case.before is None:
        return UNPROVABLE, sentence
    before = _all_calls(case.before, way)
    if (before.count, before.bytes, before.largest) == (made.count, made.bytes, made.largest):
        return NO_EFFECT, f"{sentence}, as by default"
    return (EFFECTIVE, sentence) if sieved and case.alone else (UNPROVABLE, f"{sentence}; other settings changed too")


def _layout_key(case: Case) -> str:
    """The layout's name for the setting; carriers of hints have others."""
    if case.parameter.evidence == "layout":
        return case.parameter.setting
    key = key_of(case.parameter.setting)
    return key.name if key is not None else case.parameter.role


def _laid_out(case: Case, file: FileActivity) -> str | None:
    found = file.told_layout.get(_layout_key(case))
    return None if found is None else str(found)


@compare_with_others(_laid_out)
def layout(case: Case) -> Verdict:
    """What the file system says of the file, whatever the carrier calls it."""
    key, found = _layout_key(case), case.file.told_layout
    if key not in found:
        return UNPROVABLE, f"the file system does not tell the file's {key}"
    actual = str(found[key])
    usual = case.before.told_layout.get(key) if case.before is not None else None
    if actual == case.value:
        return EFFECTIVE, f"the file's {key} is {actual}"
    if usual is not None and str(usual) != actual and case.number is not None and case.number <= 0:
        return EFFECTIVE, f"the file's {key} is {actual}, {usual} by default ({case.value} asked for)"
    return NO_EFFECT, f"the file's {key} is {actual}, {case.value} was asked for"


def _sizes(file: FileActivity, way: str) -> tuple[object, ...]:
    """The system calls of one direction without their sum of bytes, but with the most frequent sizes."""
    made = _all_calls(file, way)
    common = getattr(file.posix, way).common if made.count else ()
    return made.count, made.ranks, made.largest, tuple(common)


def list_calls(activity: Activity) -> tuple[str, ...]:
    """Write what a run did to each of its files, without times and without what was asked for; equal runs are alike.

    Empty where no call beneath the program's own was seen.
    """
    files = [file for file in activity.files if file.posix is not None or file.beneath is not None]
    return tuple(sorted(repr(_fingerprint(file)) for file in files))


def _fingerprint(file: FileActivity) -> tuple[object, ...]:
    ways = []
    for way in _WAYS:
        within = _find_collective(file, way)
        ways.append((_sizes(file, way), _all_calls(file, way).bytes, _key_calls(within), within.messages))
    other = () if file.posix is None else (file.posix.opens, file.posix.syncs)
    places = tuple(sorted((one.name, one.address, *one.chunk, *one.filters) for one in file.datasets))
    told = (*sorted(file.told_layout.items()), *sorted(file.properties.items()))
    acted = tuple(sorted((one.layer, one.key, one.acted) for one in file.asked if one.acted))
    return *ways, other, file.modes, places, told, acted


def _list_sizes(case: Case, file: FileActivity) -> tuple[object, ...]:
    return tuple(_sizes(file, way) for way in case.directions())


def _has_exchanged(case: Case) -> bool:
    return any(_exchange(case, way)[0] for way in case.directions())


@compare_with_others(_list_sizes, otherwise=_has_exchanged)
def fingerprint(case: Case) -> Verdict:
    """Any change in the system calls, for settings that no single number gives away."""
    if case.before is None:
        return UNPROVABLE, "no default run to compare with"
    for way in case.directions():
        changed, words = _exchange(case, way)
        if changed and case.alone:
            return EFFECTIVE, words
        if _sizes(case.file, way) != _sizes(case.before, way):
            now, usual = _all_calls(case.file, way), _all_calls(case.before, way)
            sentence = f"{_describe(now, way)}; by default {_describe(usual, way)}"
            if case.alone:
                return EFFECTIVE, sentence
            return UNPROVABLE, f"{sentence}; other settings changed with it"
    return UNPROVABLE, "the system calls are those of the default, which does not show what happened between the ranks"


def _name_outcomes(case: Case, files: Iterable[FileActivity]) -> list[SettingOutcome]:
    key, layer = case.parameter.setting, case.parameter.carrier.verb
    return [s for file in files for s in file.asked if (s.layer, s.key) == (layer, key)]


@compare_with_others(lambda case, files: sum(s.acted or 0 for s in _name_outcomes(case, files)), whole=True)
def acts(case: Case) -> Verdict:
    """Calls in which the observer did what the setting asks for."""
    named = _name_outcomes(case, case.every)
    told = [s for s in named if s.acted is not None or s.missed is not None]
    acted, missed = sum(s.acted or 0 for s in told), sum(s.missed or 0 for s in told)
    files = f"{len(told)} {'file' if len(told) == 1 else 'files'}"
    if not acted:
        return NO_EFFECT, f"it acted in none of {missed} calls on {files}"
    return EFFECTIVE, f"it acted in {acted} of {acted + missed} calls on {files}"


def _request_sizes(case: Case, file: FileActivity) -> tuple[tuple[int, int], ...]:
    """Sizes of the program's requests and of those beneath, by direction: the largest and the most frequent one."""
    found = []
    for way in _WAYS:
        for made in (getattr(file.upper, way), getattr(file.lower, way)):
            common = max(made.common, key=lambda one: (one[1], one[0]), default=(0, 0))
            found.append((made.largest or 0, common[0]))
    return tuple(found)


_AGREE = 2
"""Runs without a setting that must have had the same requests, before others than theirs count as its effect."""


@compare_with_others(_request_sizes)
def requests(case: Case) -> Verdict:
    """Requests of another size than in all runs without the setting, where those agree: for what has no rule."""
    nothing = UNPROVABLE, "nothing that can be observed from outside tells whether it acts"
    now = _request_sizes(case, case.file)
    without = [_request_sizes(case, file) for file in case.baseline]
    if len(without) < _AGREE or len(set(without)) > 1 or now == without[0]:
        return nothing
    place = next(place for place, (size, usual) in enumerate(zip(now, without[0], strict=True)) if size != usual)
    way, (largest, common), (most, usual) = _WAYS[place // 2], now[place], without[0][place]
    if largest == most:
        sentence = f"most {way} requests are of {format_size(common)}, and by default of {format_size(usual)}"
    else:
        sentence = f"{way} requests are of up to {format_size(largest)}, and by default of up to {format_size(most)}"
    if case.alone:
        return EFFECTIVE, sentence
    switched = [_request_sizes(case, file) for file in case.switched]
    if switched and now not in switched:
        return EFFECTIVE, f"{sentence}; they differ without this setting alone, too"
    return UNPROVABLE, f"{sentence}; other settings changed with it"


@dataclass(frozen=True)
class Rule:
    """A rule that stacks name under ``evidence``.

    Attributes
    ----------
    judge : callable
    facts : str
        What it looks at: ``calls``, ``layout``, ``hdf5`` or ``acts``; empty for nothing.
    """

    judge: Callable[[Case], Verdict]
    facts: str


def _rules(facts: str, **judges: Callable[[Case], Verdict]) -> dict[str, Rule]:
    return {name: Rule(judge, facts) for name, judge in judges.items()}


RULES: dict[str, Rule] = {
    **_rules(
        "calls",
        aggregators=aggregators,
        collective_buffering=collective_buffering,
        collective_buffer_size=collective_buffer_size,
        double_buffer_size=double_buffer_size,
        sieving_buffer_size=sieving_buffer_size,
        data_sieving=data_sieving,
        fingerprint=fingerprint,
    ),
    **_rules("layout", layout=layout, striping=layout),
    **_rules(
        "hdf5",
        hdf5_alignment=alignment,
        hdf5_threshold=threshold,
        hdf5_file=file_property,
        hdf5_metadata=metadata,
        hdf5_addresses=addresses,
        hdf5_chunks=chunks,
        hdf5_filters=filters,
    ),
    **_rules("acts", acts=acts),
    **_rules("", none=requests),
}
"""All rules, by the name that stacks use."""


def check_evidence(parameter: Parameter, where: str) -> None:
    """Refuse a parameter whose rule does not exist, or looks at facts that its carrier does not change.

    Raises
    ------
    UserError
        With the rules that it can name.
    """
    rule = RULES.get(parameter.evidence)
    if rule is None or rule.facts not in ("", *parameter.carrier.proofs):
        usable = [name for name, known in RULES.items() if known.facts in ("", *parameter.carrier.proofs)]
        what = "is not a rule" if rule is None else f"proves no setting of the carrier {parameter.carrier.name}"
        raise UserError(
            f"{where}: parameter {parameter.name}: evidence '{parameter.evidence}' {what}",
            f"choose from {', '.join(usable)}",
        )
