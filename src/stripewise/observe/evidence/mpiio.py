"""Rules for MPI-IO hints: which ranks made which system calls, in what sizes, and what ranks sent one another.

The exchange between ranks makes no system call on the file. It shows in the messages that ROMIO sends within collective
calls, and else in the time that these calls spend outside system calls.
"""

from __future__ import annotations

from collections.abc import Callable

from stripewise.observe.activity import FileActivity, SystemCalls, Within
from stripewise.observe.evidence.comparison import (
    EFFECTIVE,
    NO_EFFECT,
    UNPROVABLE,
    Case,
    Verdict,
    compare_with_others,
    count_sieved,
    find_all,
    find_called,
    find_collective,
    find_independent,
    key_calls,
)
from stripewise.sizes import count_of, format_size


def _driver(case: Case, file: FileActivity) -> str | None:
    return file.driver


@compare_with_others(_driver)
def component(case: Case) -> Verdict:
    """Which MPI-IO implementation opened the file: OMPIO, or one of the drivers of ROMIO."""
    found = case.file.driver
    if not found:
        return UNPROVABLE, "the report does not say which MPI-IO opened the file"
    driver = "" if found == "romio" else f" ({found})"
    opened = f"the file was opened by {'OMPIO' if found == 'ompio' else f'ROMIO{driver}'}"
    return EFFECTIVE if (found == "ompio") == (case.value == "ompio") else NO_EFFECT, opened


def _per_direction(judge: Callable[[Case, str], Verdict]) -> Callable[[Case], Verdict]:
    """Judge the directions that count; an effect in one is an effect."""

    def rule(case: Case) -> Verdict:
        found = [judge(case, way) for way in case.directions()]
        for status in (EFFECTIVE, UNPROVABLE):
            for verdict in found:
                if verdict[0] == status:
                    return verdict
        if found:
            status, sentence = found[0]
        else:
            ways = [way for way in case.parameter.operations if way in case.parameter.counted]
            status, sentence = NO_EFFECT, f"no {' or '.join(ways)} call was made on the file"
        rest = " and ".join(f"{way}s" for way in case.uncounted())
        return status, f"{sentence}; the objective does not measure {rest}" if rest else sentence

    return rule


_UNLIKE = 2.0
"""Times outside system calls differ only if one is more than this times all those of the other side."""
_FEWEST_BASELINES = 3


def compare_exchange(case: Case, way: str) -> tuple[bool | None, str]:
    """Whether the ranks exchanged something else than by default, and how that shows; None if nothing shows it."""
    if case.before is None:
        return None, ""
    now, usual = find_collective(case.file, way).messages, find_collective(case.before, way).messages
    if now or usual:
        sentence = (
            f"{count_of(now, 'message') if now else 'no messages'} between ranks within collective {way}s, "
            f"{usual or 'none'} by default"
        )
        return abs(now - usual) > 0.01 * max(now, usual), sentence
    spent = find_collective(case.file, way).exchange
    known = [seconds for file in case.baseline if (seconds := find_collective(file, way).exchange) is not None]
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
        changed, words = compare_exchange(case, way)
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
    return not find_independent(file, way).count and bool(find_collective(file, way).messages)


_SHARED = "ranks exchanged data in collective {way}s, so other settings may have made these system calls"


def _name_done(way: str) -> str:
    return "wrote" if way == "write" else "read"


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


@_per_direction
@_with_exchange
@compare_with_others(lambda case, file, way: find_collective(file, way).ranks)
def aggregators(case: Case, way: str) -> Verdict:
    """Ranks that made system calls during collective calls."""
    now = find_collective(case.file, way)
    if not now.count:
        return UNPROVABLE, f"no {way} system call was seen during collective calls"
    usual = find_collective(case.before, way).ranks if case.before is not None else None
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
    return key_calls(find_collective(file, way))


@_per_direction
@_with_exchange
@compare_with_others(_during_collective, otherwise=lambda case, way: bool(compare_exchange(case, way)[0]))
def collective_buffering(case: Case, way: str) -> Verdict:
    """Aggregation: fewer ranks, or larger pieces, than the program's own calls."""
    now = find_collective(case.file, way)
    if case.file.modes is None or not case.file.modes.collective_reads + case.file.modes.collective_writes:
        return NO_EFFECT, "the file was used without collective calls"
    if not now.count:
        return UNPROVABLE, f"no {way} system call was seen during collective calls"
    if case.before is None:
        return UNPROVABLE, f"{describe_calls(now, way)}, no default to compare"
    usual = find_collective(case.before, way)
    sentence = f"{describe_calls(now, way)}; by default {describe_calls(usual, way)}"
    if key_calls(now) == key_calls(usual):
        sentence = f"{sentence}, the same"
        changed, words = compare_exchange(case, way)
        if changed and case.value == "disable" and not find_collective(case.file, way).messages:
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


def describe_calls(made: SystemCalls, way: str) -> str:
    """Say which ranks made how many system calls, and of what size."""
    times = "once" if made.count == 1 else f"{made.count} times"
    return f"{_ranks(made.ranks)} {_name_done(way)} {times}, at most {format_size(made.largest)}"


def _was_refilled(case: Case, way: str, made: SystemCalls) -> bool:
    """Whether a rank needed several system calls for one MPI call, on average."""
    calls = find_collective(case.file, way).moving if isinstance(made, Within) else _count_independent(case.file, way)
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
        if key_calls(now) == key_calls(usual):
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
@compare_with_others(lambda case, file, way: find_collective(file, way).largest)
def collective_buffer_size(case: Case, way: str) -> Verdict:
    """Largest system call during collective calls, against the buffer."""
    usual = find_collective(case.before, way) if case.before is not None else None
    return _buffer(case, way, find_collective(case.file, way), usual, "during collective calls")


@_per_direction
@_with_exchange
@compare_with_others(lambda case, file, way: find_collective(file, way).largest)
def double_buffer_size(case: Case, way: str) -> Verdict:
    """As :func:`collective_buffer_size`, for OMPIO: vulcan fills half of the buffer while it writes the other."""
    usual = find_collective(case.before, way) if case.before is not None else None
    now = find_collective(case.file, way)
    part = 2 if case.number is not None and now.largest <= case.number // 2 else 1
    return _buffer(case, way, now, usual, "during collective calls", part)


def _by_ranks(case: Case, file: FileActivity, way: str) -> SystemCalls:
    # Where independent calls were made, collective ones may have gone through the other, collective buffer.
    alone = bool(find_independent(case.file, way).count)
    return find_independent(file, way) if alone else find_collective(file, way)


@_per_direction
@compare_with_others(lambda case, file, way: _by_ranks(case, file, way).largest, without_exchange=True)
def sieving_buffer_size(case: Case, way: str) -> Verdict:
    """Largest system call, against the sieving buffer."""
    if _shares_buffers(case, way):
        return UNPROVABLE, _SHARED.format(way=way)
    usual = None if case.before is None else _by_ranks(case, case.before, way)
    return _buffer(case, way, _by_ranks(case, case.file, way), usual, "by the ranks themselves")


def _sieves(file: FileActivity, way: str) -> bool:
    """Whether ranks sieved by themselves; what they read for others looks alike."""
    return bool(count_sieved(file, way)) and not (way == "read" and _exchanges(file, way))


def _sieving(case: Case, file: FileActivity, way: str) -> tuple[int, ...] | None:
    """What shows sieving: of one setting among others, only what no other one can have made."""
    made = find_all(file, way)
    if not made.count:
        return None
    if case.alone:
        return made.count, made.bytes, made.largest, count_sieved(file, way)
    return bool(count_sieved(file, way)), made.largest < (find_called(file, way).largest or 0)


@_per_direction
@compare_with_others(_sieving, without_exchange=True)
def data_sieving(case: Case, way: str) -> Verdict:
    """Read-modify-write inside write calls; more bytes read than asked for inside read calls."""
    made = find_all(case.file, way)
    if not made.count:
        return UNPROVABLE, f"no {way} system call was seen"
    call = find_called(case.file, way).largest or 0
    pieces = f"largest {way} {format_size(made.largest)} of calls up to {format_size(call)}"
    sieved = count_sieved(case.file, way)
    if way == "write":
        sentence = f"{count_of(sieved, 'read')} inside write calls, {pieces}"
    else:
        asked = find_called(case.file, "read").bytes
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
    before = find_all(case.before, way)
    if (before.count, before.bytes, before.largest) == (made.count, made.bytes, made.largest):
        return NO_EFFECT, f"{sentence}, as by default"
    return (EFFECTIVE, sentence) if sieved and case.alone else (UNPROVABLE, f"{sentence}; other settings changed too")
