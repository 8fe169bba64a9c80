"""The runtime's journal as activities: one for each start of a program, with a file for each site."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.observe.activity import (
    Activity,
    ActivityJob,
    ActivityTotals,
    Calls,
    Counted,
    FileActivity,
    Level,
    Modes,
)
from stripewise.observe.from_report import DIRECTIONS, file_layout, sum_of
from stripewise.observe.journal import JournalPhase

_UNSEEN = (
    "a journal has the bytes and the time of each phase, but no single calls: their sizes and order are not judged",
    "a journal names file families: files whose names differ in digits only count as one",
)


def activities_of(phases: Sequence[JournalPhase], source: str) -> list[Activity]:
    """Give each start of a program as an activity.

    Parameters
    ----------
    phases : sequence of JournalPhase
        At least one.
    source : str
        Where they came from. Of several starts, each has its number behind it.
    """
    starts: dict[tuple[str, float], list[JournalPhase]] = {}
    for phase in phases:
        starts.setdefault((phase.program, phase.launch), []).append(phase)
    if len(starts) == 1:
        return [_activity(phases, source)]
    return [_activity(own, f"{source} (run {number})") for number, own in enumerate(starts.values(), 1)]


def _activity(phases: Sequence[JournalPhase], source: str) -> Activity:
    sites = {phase.site: [one for one in phases if one.site == phase.site] for phase in phases}
    files = sorted((_file(site, own) for site, own in sites.items()), key=lambda file: -file.seconds)
    ended, began = max(phase.time for phase in phases), phases[0].launch
    levels = [file.mpiio for file in files if file.mpiio is not None]
    return Activity(
        source=source,
        kind="journal",
        counts_opens_once=True,
        planned=any(phase.settings for phase in phases),
        job=ActivityJob(
            executable=phases[0].program,
            ranks=max(phase.ranks for phase in phases),
            nodes=max(phase.nodes for phase in phases),
            elapsed=max(0.0, ended - began) if began else 0.0,
            started=began or None,
        ),
        seen=["MPI-IO"],
        unseen=list(_UNSEEN),
        io_seconds=sum(phase.seconds for phase in phases),
        summed_seconds=sum(file.seconds for file in files),
        totals=ActivityTotals(mpiio=sum_of(levels)),
        counted=Counted(files=len(files), shared=sum(file.ranks > 1 for file in files)),
        files=files,
    )


def _file(site: str, phases: Sequence[JournalPhase]) -> FileActivity:
    first, last = phases[0], phases[-1]
    together = sum(int(phase.moved) for phase in phases if phase.collective)
    return FileActivity(
        path=site,
        file_system=last.workload.get("file_system"),
        ranks=max(phase.ranks for phase in phases),
        nodes=max(phase.nodes for phase in phases),
        mpiio=Level(**{way: _calls(phases, way) for way in DIRECTIONS}, opens=len(phases)),
        modes=Modes(collective_bytes=together, independent_bytes=sum(int(phase.moved) for phase in phases) - together),
        layout=file_layout(last.layout),
        view_contiguous=False if any(phase.strided for phase in phases) else None,
        driver=first.driver or None,
    )


def _calls(phases: Sequence[JournalPhase], way: str) -> Calls:
    own = [phase for phase in phases if phase.operation == way]
    return Calls(
        bytes=sum(int(phase.moved) for phase in own), seconds=sum(phase.seconds * phase.ranks for phase in own)
    )
