"""All rules of evidence by name, with those of layouts, and of settings that no single number gives away."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePath

from stripewise.catalogue.filesystems import key_of
from stripewise.catalogue.parameter import Parameter
from stripewise.errors import UserError
from stripewise.observe.activity import Activity, Calls, FileActivity, SettingOutcome
from stripewise.observe.evidence import hdf5, mpiio
from stripewise.observe.evidence.comparison import (
    ECHOED,
    EFFECTIVE,
    NO_EFFECT,
    UNPROVABLE,
    WAYS,
    Case,
    Verdict,
    compare_with_others,
    find_all,
    find_collective,
    key_calls,
)
from stripewise.observe.evidence.mpiio import compare_exchange, describe_calls
from stripewise.sizes import count_of, format_size, format_value


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
    said = f"the file's {key} is {_shown(case, actual)}"
    usual = case.before.told_layout.get(key) if case.before is not None else None
    if actual == case.value:
        return EFFECTIVE, said
    asked = _shown(case, case.value)
    if usual is not None and str(usual) != actual and case.number is not None and case.number <= 0:
        return EFFECTIVE, f"{said}, {_shown(case, str(usual))} by default ({asked} asked for)"
    return NO_EFFECT, f"{said}, {asked} was asked for"


def _shown(case: Case, text: str) -> str:
    """Write a value for people: sizes as ``256K``."""
    return format_value(text, case.parameter.unit)


def _sizes(file: FileActivity, way: str) -> tuple[object, ...]:
    """The system calls of one direction without their sum of bytes, but with the most frequent sizes."""
    made = find_all(file, way)
    common = getattr(file.posix, way).common if made.count else ()
    return made.count, made.ranks, made.largest, tuple(common)


def list_calls(activity: Activity) -> tuple[str, ...]:
    """Write what a run did to each of its files, without times and without what was asked for; equal runs are alike.

    Empty where no call beneath the program's own was seen, or those of a file of HDF5 were not.
    """
    files = [file for file in activity.files if file.posix is not None or file.beneath is not None]
    if any(map(_is_unseen, files)):
        return ()
    return tuple(sorted(repr(_fingerprint(file)) for file in files))


def _is_unseen(file: FileActivity) -> bool:
    """Whether HDF5 used a file without MPI-IO: its own system calls are counted nowhere."""
    return file.through_hdf5 and not any(
        getattr(level, way).count for level in (file.mpiio, file.posix) if level is not None for way in WAYS
    )


def _fingerprint(file: FileActivity) -> tuple[object, ...]:
    ways = []
    for way in WAYS:
        within = find_collective(file, way)
        ways.append((_sizes(file, way), find_all(file, way).bytes, key_calls(within), within.messages))
    other = () if file.posix is None else (file.posix.opens, file.posix.syncs)
    places = tuple(sorted((one.name, one.address, *one.chunk, *one.filters) for one in file.datasets))
    told = tuple(sorted(file.told_layout.items()))
    acted = tuple(sorted((one.layer, one.key, one.acted) for one in file.asked if one.acted))
    return *ways, other, file.modes, places, told, acted


def _list_sizes(case: Case, file: FileActivity) -> tuple[object, ...]:
    return tuple(_sizes(file, way) for way in case.directions())


def _has_exchanged(case: Case) -> bool:
    return any(compare_exchange(case, way)[0] for way in case.directions())


@compare_with_others(_list_sizes, otherwise=_has_exchanged)
def fingerprint(case: Case) -> Verdict:
    """Any change in the system calls, for settings that no single number gives away."""
    return _judge_calls(case)


@compare_with_others(_list_sizes, otherwise=_has_exchanged)
def variable(case: Case) -> Verdict:
    """What a library says that its own variable holds, and then any change in calls or exchange."""
    named = _name_outcomes(case, [case.file])
    held = next((one.echoed for one in named if one.echoed is not None), None)
    if why := next((one.note for one in named if one.outcome == "not_applicable"), None):
        return NO_EFFECT, why
    status, sentence = _judge_calls(case)
    if held is None:
        return status, sentence
    key = case.parameter.setting
    library = "UCX" if key.startswith("UCX_") else "libfabric" if key.startswith("FI_") else "the MPI library"
    says = f"{library} holds {_shown(case, held)}"
    return ECHOED if status == UNPROVABLE else status, f"{says}; {sentence}"


_OF_DATASETS = {"chunk_cache": "cache_bytes", "chunk_slots": "cache_slots"}


@compare_with_others(_list_sizes, otherwise=_has_exchanged)
def given(case: Case) -> Verdict:
    """What the open file or its chunked datasets say that they have, and then any change in the system calls."""
    if not case.file.through_hdf5:
        return NO_EFFECT, hdf5.NOT_HDF5
    key = case.parameter.setting
    told = case.file.properties.get(key)
    of_file = f"the file's {key} is {_shown(case, str(told))}"
    kept = [(one.name, getattr(one, _OF_DATASETS[key])) for one in case.file.datasets if key in _OF_DATASETS]
    caches = [(name, size) for name, size in kept if size is not None]
    if told is not None and told != case.value:
        return NO_EFFECT, of_file
    if key in _OF_DATASETS and case.file.datasets and not any(one.chunk for one in case.file.datasets):
        return NO_EFFECT, f"{of_file}, and no dataset has chunks"
    if caches and all(str(size) != case.value for _, size in caches):
        name, size = caches[0]
        return NO_EFFECT, f"{of_file}, and {name} has {size} of its own"
    status, sentence = _judge_calls(case)
    return status, f"{of_file}; {sentence}" if told is not None else sentence


def _judge_calls(case: Case) -> Verdict:
    if case.before is None:
        return UNPROVABLE, "no default run to compare with"
    for way in case.directions():
        changed, words = compare_exchange(case, way)
        if changed and case.alone:
            return EFFECTIVE, words
        if _sizes(case.file, way) != _sizes(case.before, way):
            now, usual = find_all(case.file, way), find_all(case.before, way)
            sentence = f"{describe_calls(now, way)}; by default {describe_calls(usual, way)}"
            if case.alone:
                return EFFECTIVE, sentence
            return UNPROVABLE, f"{sentence}; other settings changed with it"
    if _is_unseen(case.file):
        return UNPROVABLE, "HDF5 used the file without MPI-IO, where no system calls are counted"
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
        return NO_EFFECT, f"it acted in none of {count_of(missed, 'call')} on {files}"
    return EFFECTIVE, f"it acted in {acted:,} of {count_of(acted + missed, 'call')} on {files}"


_NUMBER_OF_FILE = re.compile(r"\d+(?=\D*$)")


def _list_parts(files: Iterable[FileActivity]) -> tuple[tuple[int, int], ...]:
    """List in how many files outputs were written, and by how many processes, the largest number of files first.

    An output's files lie in one folder, and their names differ in their last number.
    """
    outputs: dict[PurePath, list[int]] = {}
    for file in files:
        path = PurePath(file.path)
        if file.upper.write.count and _NUMBER_OF_FILE.search(path.name):
            outputs.setdefault(path.with_name(_NUMBER_OF_FILE.sub("*", path.name)), []).append(file.ranks)
    return tuple(sorted({(len(ranks), sum(ranks)) for ranks in outputs.values()}, reverse=True))


def _describe_parts(found: tuple[tuple[int, int], ...]) -> str:
    count, ranks = found[0] if found else (0, 0)
    return f"in {count_of(count, 'file')} by {count_of(ranks, 'process', 'processes')}"


@compare_with_others(lambda case, files: _list_parts(files), whole=True)
def parts(case: Case) -> Verdict:
    """How many files an output was written in, and by how many processes, where they share its files."""
    now = _list_parts(case.every)
    without = {_list_parts(files) for files in (case.others if case.alone else case.bare)}
    if not now and not any(without):
        return UNPROVABLE, "no output was written in files whose names differ in a number"
    sentence = f"an output was written {_describe_parts(now)}"
    if len(without) != 1:
        return UNPROVABLE, f"{sentence}; no runs without it, all else alike, show what it changed"
    (usual,) = without
    if now == usual:
        return NO_EFFECT, f"{sentence}, as without it"
    return EFFECTIVE, f"{sentence}, and without it {_describe_parts(usual)}"


@compare_with_others(lambda case, file: sum(one.acted or 0 for one in _name_outcomes(case, [file])))
def objects(case: Case) -> Verdict:
    """Calls of a class or function of Python that got the value, which they would not have had without it."""
    told = _name_outcomes(case, [case.file])
    acted, missed = sum(one.acted or 0 for one in told), sum(one.missed or 0 for one in told)
    calls = count_of(acted + missed, f"use of {case.file.path}", f"uses of {case.file.path}")
    if not acted:
        return NO_EFFECT, f"it changed none of {calls}"
    echoed = next((f"; the object says {one.echoed}" for one in told if one.echoed is not None), "")
    return EFFECTIVE, f"it changed {acted} of {calls}{echoed}"


def _list_facts(file: FileActivity) -> dict[str, int]:
    """Give what a report counts of a file, the most telling first, by a sentence for a value and the usual one.

    Sizes come first: a number of calls follows from them where as many bytes are moved.
    """
    facts: dict[str, int] = {}
    for level, word in ((file.upper, "requests"), (file.lower, "requests to the file system")):
        for way in WAYS:
            made: Calls = getattr(level, way)
            common = max(made.common, key=lambda one: (one[1], one[0]), default=(0, 0))
            facts[f"{way} {word} are of up to {{0:size}}, and by default of up to {{1:size}}"] = made.largest or 0
            facts[f"most {way} {word} are of {{0:size}}, and by default of {{1:size}}"] = common[0]
    numbers: dict[str, int] = {}
    for way in WAYS:
        for kind in ("collective", "independent"):
            calls = 0 if file.modes is None else int(getattr(file.modes, f"{kind}_{way}s"))
            numbers[f"{kind} {way} calls"] = calls
    for way in WAYS:
        made = getattr(file.upper, way)
        facts[f"{way} requests move {{0:size}}, and by default {{1:size}}"] = made.bytes
        numbers[f"{way} requests"] = made.count
    numbers |= {"opens": file.upper.opens, "syncs": file.upper.syncs}
    return facts | {_NUMBER.format(name): number for name, number in numbers.items()}


_NUMBER = "the number of {} is {{0:,}}, and by default {{1:,}}"


class _Bytes(int):
    """A number that a sentence may show as a size."""

    def __format__(self, kind: str) -> str:
        return format_size(self) if kind == "size" else int(self).__format__(kind)


_AGREE = 2
"""Runs without a setting that must agree in a fact, before another one counts as the setting's effect."""


def _has_other_files(case: Case) -> bool:
    counts = {len(files) for files in case.others}
    return len(case.others) >= _AGREE and len(counts) == 1 and len(case.every) not in counts


@compare_with_others(lambda case, file: tuple(_list_facts(file).values()), otherwise=_has_other_files)
def differs(case: Case) -> Verdict:
    """Any fact of a report that all runs without the setting agree in, and this one does not: for what has no rule."""
    now = _list_facts(case.file)
    without = [_list_facts(file) for file in case.baseline]
    agreed = [name for name in now if len(without) >= _AGREE and len({one[name] for one in without}) == 1]
    changed = {name: without[0][name] for name in agreed if now[name] != without[0][name]}
    switched = [_list_facts(file) for file in case.switched]
    own = [name for name in changed if switched and now[name] not in {one[name] for one in switched}]
    if changed:
        name = next(iter(own or changed))
        sentence = name.format(_Bytes(now[name]), _Bytes(changed[name]))
        if own and not case.alone:
            return EFFECTIVE, f"{sentence}; they differ without this setting alone, too"
    elif _has_other_files(case):
        sentence = _NUMBER.format("files").format(len(case.every), len(case.others[0]))
    else:
        return UNPROVABLE, "nothing that can be observed from outside tells whether it acts"
    return (EFFECTIVE, sentence) if case.alone else (UNPROVABLE, f"{sentence}; other settings changed with it")


@dataclass(frozen=True)
class Rule:
    """A rule that stacks name under ``evidence``.

    Attributes
    ----------
    judge : callable
    facts : str
        What it looks at: ``calls``, ``layout``, ``hdf5``, ``acts``, ``parts`` or ``objects``; empty for nothing.
    """

    judge: Callable[[Case], Verdict]
    facts: str


def _rules(facts: str, **judges: Callable[[Case], Verdict]) -> dict[str, Rule]:
    return {name: Rule(judge, facts) for name, judge in judges.items()}


RULES: dict[str, Rule] = {
    **_rules(
        "calls",
        component=mpiio.component,
        aggregators=mpiio.aggregators,
        collective_buffering=mpiio.collective_buffering,
        collective_buffer_size=mpiio.collective_buffer_size,
        double_buffer_size=mpiio.double_buffer_size,
        sieving_buffer_size=mpiio.sieving_buffer_size,
        data_sieving=mpiio.data_sieving,
        fingerprint=fingerprint,
        variable=variable,
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
        hdf5_given=given,
    ),
    **_rules("acts", acts=acts),
    **_rules("parts", parts=parts),
    **_rules("objects", objects=objects),
    **_rules("", none=differs),
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
