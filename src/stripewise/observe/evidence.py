"""Rules that tell from a report whether a setting acted. Each parameter names its rule (``evidence`` in stack files).

A rule compares what really happened to the file (which ranks wrote, in what sizes, how the file lies) with what was
asked for. It says ``effective`` or ``no_effect`` only where the facts leave no other reading, and ``effective`` only
where they differ from those of runs without the setting (:func:`compared`); all else is ``unprovable``. An echo of a
hint is never evidence: ROMIO echoes hints that its driver ignores. The exchange between ranks makes no system call on
the file. It shows in the messages that ROMIO sends within collective calls, and else in the time that these calls spend
outside system calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stripewise.catalogue.filesystems import key_of
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.plan import spell
from stripewise.errors import UserError
from stripewise.observe import evidence_hdf5 as hdf5
from stripewise.observe.evidence_case import EFFECTIVE, NO_EFFECT, UNPROVABLE, Case, Verdict, compared
from stripewise.observe.report_file import FileReport, Operation, Posix, SettingOutcome, SystemCalls
from stripewise.sizes import format_size


def posix(file: FileReport, way: str) -> Posix:
    """The system calls of one direction."""
    made: Posix = getattr(file.posix, way)
    return made


def largest_call(file: FileReport, way: str) -> int:
    """Bytes of the largest MPI call of one direction."""
    operations: list[Operation] = file.moved(way)
    return max((operation.max_size or 0 for operation in operations), default=0)


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
    now, usual = case.file.messages(way), case.before.messages(way)
    if now or usual:
        sentence = f"{now or 'no'} messages between ranks within collective {way}s, {usual or 'none'} by default"
        return abs(now - usual) > 0.01 * max(now, usual), sentence
    spent = case.file.exchange_seconds(way)
    known = [seconds for file in case.baseline if (seconds := file.exchange_seconds(way)) is not None]
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


def _done(way: str) -> str:
    return "wrote" if way == "write" else "read"


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


@_per_direction
@_with_exchange
@compared(lambda case, file, way: posix(file, way).during_collective.ranks)
def aggregators(case: Case, way: str) -> Verdict:
    """Ranks that made system calls during collective calls."""
    now = posix(case.file, way).during_collective
    if not now.count:
        return UNPROVABLE, f"no {way} system call was seen during collective calls"
    usual = posix(case.before, way).during_collective.ranks if case.before is not None else None
    sentence = f"{_ranks(now.ranks)} {_done(way)} during collective calls, {case.value} asked for"
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


def _during_collective(case: Case, file: FileReport, way: str) -> tuple[int, ...]:
    share = posix(file, way).during_collective
    return share.count, share.bytes, share.ranks, share.max_size


@_per_direction
@_with_exchange
@compared(_during_collective, otherwise=lambda case, way: bool(_exchange(case, way)[0]))
def collective_buffering(case: Case, way: str) -> Verdict:
    """Aggregation: fewer ranks, or larger pieces, than the program's own calls."""
    now = posix(case.file, way).during_collective
    if not case.file.collective.calls:
        return NO_EFFECT, "the file was used without collective calls"
    if not now.count:
        return UNPROVABLE, f"no {way} system call was seen during collective calls"
    if case.before is None:
        return UNPROVABLE, f"{_describe(now, way)}, no default to compare"
    usual = posix(case.before, way).during_collective
    sentence = f"{_describe(now, way)}; by default {_describe(usual, way)}"
    if _same(now, usual):
        sentence = f"{sentence}, the same"
        changed, words = _exchange(case, way)
        if changed and case.value == "disable" and not case.file.messages(way):
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


def _describe(share: SystemCalls, way: str) -> str:
    times = "once" if share.count == 1 else f"{share.count} times"
    return f"{_ranks(share.ranks)} {_done(way)} {times}, at most {format_size(share.max_size)}"


def _same(a: SystemCalls, b: SystemCalls) -> bool:
    return (a.count, a.bytes, a.ranks, a.max_size) == (b.count, b.bytes, b.ranks, b.max_size)


def _buffer(case: Case, way: str, now: SystemCalls, usual: SystemCalls | None, calls: str, part: int = 1) -> Verdict:
    """A buffer's size acts where the buffer was filled, or where the default one would have been too small."""
    size, default, largest = case.number, case.parameter.default, now.max_size
    if size is None or not isinstance(default, int):
        return UNPROVABLE, f"'{case.value}' is not a size"
    size, default = size // part, default // part
    if not largest:
        return UNPROVABLE, f"no {way} system call was seen {calls}"
    sentence = f"largest {way} {calls} was {format_size(largest)} with a buffer of {format_size(size)}"
    if usual is not None:
        sentence += f", {format_size(usual.max_size)} by default"
        if _same(now, usual):
            return NO_EFFECT, f"{sentence}: the same system calls"
    if largest > size:
        return NO_EFFECT, f"{sentence}: larger than the buffer, so something else set it"
    if size < default:
        if largest == size:
            return EFFECTIVE, f"{sentence}: the buffer was full"
        return NO_EFFECT, f"{sentence}: never filled, so the default {format_size(default)} acts alike"
    if largest > default:
        return EFFECTIVE, f"{sentence}: more than the default {format_size(default)} holds"
    return NO_EFFECT, f"{sentence}: the default {format_size(default)} would have held it"


@_per_direction
@_with_exchange
@compared(lambda case, file, way: posix(file, way).during_collective.max_size)
def collective_buffer_size(case: Case, way: str) -> Verdict:
    """Largest system call during collective calls, against the buffer."""
    usual = posix(case.before, way).during_collective if case.before is not None else None
    return _buffer(case, way, posix(case.file, way).during_collective, usual, "during collective calls")


@_per_direction
@_with_exchange
@compared(lambda case, file, way: posix(file, way).during_collective.max_size)
def double_buffer_size(case: Case, way: str) -> Verdict:
    """As :func:`collective_buffer_size`, for OMPIO: vulcan fills half of the buffer while it writes the other."""
    usual = posix(case.before, way).during_collective if case.before is not None else None
    now = posix(case.file, way).during_collective
    part = 2 if case.number is not None and now.max_size <= case.number // 2 else 1
    return _buffer(case, way, now, usual, "during collective calls", part)


def _by_ranks(case: Case, file: FileReport, way: str) -> SystemCalls:
    # Where independent calls were made, collective ones may have gone through the other, collective buffer.
    alone = bool(posix(case.file, way).during_independent.count)
    return posix(file, way).during_independent if alone else posix(file, way).during_collective


@_per_direction
@compared(lambda case, file, way: _by_ranks(case, file, way).max_size)
def sieving_buffer_size(case: Case, way: str) -> Verdict:
    """Largest system call, against the sieving buffer."""
    usual = None if case.before is None else _by_ranks(case, case.before, way)
    return _buffer(case, way, _by_ranks(case, case.file, way), usual, "by the ranks themselves")


def _sieved(file: FileReport, way: str) -> int:
    """Reads inside write calls; of reads, whether more was read than asked for."""
    if way == "write":
        return file.posix.read.during_write.count
    asked = sum(operation.bytes for operation in file.moved("read"))
    made = file.posix.read
    return int(made.bytes > asked * 1.01 or made.max_size > largest_call(file, way))


def _sieving(case: Case, file: FileReport, way: str) -> tuple[int, ...] | None:
    """What shows sieving: of one setting among others, only what no other one can have made."""
    made = posix(file, way)
    if not made.count:
        return None
    if case.alone:
        return made.count, made.bytes, made.max_size, _sieved(file, way)
    return bool(_sieved(file, way)), made.max_size < largest_call(file, way)


@_per_direction
@compared(_sieving)
def data_sieving(case: Case, way: str) -> Verdict:
    """Read-modify-write inside write calls; more bytes read than asked for inside read calls."""
    made = posix(case.file, way)
    if not made.count:
        return UNPROVABLE, f"no {way} system call was seen"
    call = largest_call(case.file, way)
    pieces = f"largest {way} {format_size(made.max_size)} of calls up to {format_size(call)}"
    sieved = _sieved(case.file, way)
    if way == "write":
        sentence = f"{sieved} reads inside write calls, {pieces}"
    else:
        asked = sum(operation.bytes for operation in case.file.moved("read"))
        sentence = f"{format_size(made.bytes)} read for {format_size(asked)} asked for, {pieces}"
    if case.value in ("disable", "false"):
        if sieved:
            return NO_EFFECT, sentence
        if made.max_size >= call:
            return NO_EFFECT, f"{sentence}: a call was one piece anyway"
        return EFFECTIVE, f"{sentence}: piece by piece"
    if case.before is None:
        return UNPROVABLE, sentence
    before = posix(case.before, way)
    if (before.count, before.bytes, before.max_size) == (made.count, made.bytes, made.max_size):
        return NO_EFFECT, f"{sentence}, as by default"
    return (EFFECTIVE, sentence) if sieved and case.alone else (UNPROVABLE, f"{sentence}; other settings changed too")


def _layout_key(case: Case) -> str:
    """The layout's name for the setting; carriers of hints have others."""
    if case.parameter.evidence == "layout":
        return case.parameter.setting
    key = key_of(case.parameter.setting)
    return key.name if key is not None else case.parameter.role


def _laid_out(case: Case, file: FileReport) -> str | None:
    found = (file.layout or {}).get(_layout_key(case))
    return None if found is None else str(found)


@compared(_laid_out)
def layout(case: Case) -> Verdict:
    """What the file system says of the file, whatever the carrier calls it."""
    key, found = _layout_key(case), case.file.layout
    if found is None or key not in found:
        return UNPROVABLE, f"the file system does not tell the file's {key}"
    actual = str(found[key])
    usual = (case.before.layout or {}).get(key) if case.before is not None else None
    if actual == case.value:
        return EFFECTIVE, f"the file's {key} is {actual}"
    if usual is not None and str(usual) != actual and case.number is not None and case.number <= 0:
        return EFFECTIVE, f"the file's {key} is {actual}, {usual} by default ({case.value} asked for)"
    return NO_EFFECT, f"the file's {key} is {actual}, {case.value} was asked for"


def _prints(case: Case, file: FileReport) -> tuple[object, ...]:
    made = [posix(file, way) for way in case.directions()]
    return tuple((one.count, one.ranks, one.max_size, tuple(one.sizes)) for one in made)


def _exchanged(case: Case) -> bool:
    return any(_exchange(case, way)[0] for way in case.directions())


@compared(_prints, otherwise=_exchanged)
def fingerprint(case: Case) -> Verdict:
    """Any change in the system calls, for settings that no single number gives away."""
    if case.before is None:
        return UNPROVABLE, "no default run to compare with"
    for way in case.directions():
        changed, words = _exchange(case, way)
        if changed and case.alone:
            return EFFECTIVE, words
        now, usual = posix(case.file, way), posix(case.before, way)
        if (now.count, now.ranks, now.max_size, now.sizes) != (usual.count, usual.ranks, usual.max_size, usual.sizes):
            sentence = f"{_describe(now, way)}; by default {_describe(usual, way)}"
            if case.alone:
                return EFFECTIVE, sentence
            return UNPROVABLE, f"{sentence}; other settings changed with it"
    return UNPROVABLE, "the system calls are those of the default, which does not show what happened between the ranks"


def _named(case: Case, files: Iterable[FileReport]) -> list[SettingOutcome]:
    key, layer = case.parameter.setting, case.parameter.carrier.verb
    return [s for file in files for s in file.settings if (s.layer, s.key) == (layer, key)]


@compared(lambda case, files: sum(s.acted or 0 for s in _named(case, files)), whole=True)
def acts(case: Case) -> Verdict:
    """Calls in which the observer did what the setting asks for."""
    named = _named(case, case.every)
    told = [s for s in named if s.acted is not None or s.missed is not None]
    acted, missed = sum(s.acted or 0 for s in told), sum(s.missed or 0 for s in told)
    files = f"{len(told)} {'file' if len(told) == 1 else 'files'}"
    if not acted:
        return NO_EFFECT, f"it acted in none of {missed} calls on {files}"
    return EFFECTIVE, f"it acted in {acted} of {acted + missed} calls on {files}"


def none(case: Case) -> Verdict:
    """Nothing that can be observed gives it away."""
    return UNPROVABLE, "nothing that can be observed from outside tells whether it acts"


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
        hdf5_alignment=hdf5.alignment,
        hdf5_threshold=hdf5.threshold,
        hdf5_file=hdf5.file_property,
        hdf5_metadata=hdf5.metadata,
        hdf5_addresses=hdf5.addresses,
        hdf5_chunks=hdf5.chunks,
        hdf5_filters=hdf5.filters,
    ),
    **_rules("acts", acts=acts),
    **_rules("", none=none),
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


def legal(parameter: Parameter, value: str) -> bool:
    """Whether a categorical parameter knows a value, as its carrier spells it: ROMIO ignores misspelt ones silently."""
    if parameter.kind not in (Kind.CATEGORICAL, Kind.BOOLEAN):
        return True
    return value.lower() in {spell(known).lower() for known in parameter.values}
