"""``stripewise diagnose``."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any

import typer

from stripewise.desk.cli.options import JsonOption, ServerOption, StoreOption, check_place, pairs
from stripewise.desk.cli.output import (
    console,
    duration,
    escape,
    fold_text,
    notes,
    overwritten,
    print_json,
    print_rows,
    prose,
    remark,
    say,
)
from stripewise.desk.cli.terminal import desk_of
from stripewise.desk.desk import Desk
from stripewise.diagnose.ceiling import ceiling_for
from stripewise.diagnose.code_examples import LANGUAGES, read_example
from stripewise.diagnose.finding import Finding, Severity
from stripewise.diagnose.over_time import OverTime
from stripewise.diagnose.site import Diagnosis, JobRow, SiteProfile, TableWriter, diagnose, row_of, slowness
from stripewise.errors import StripewiseError, UserError, choose
from stripewise.observe.activity import Activity
from stripewise.observe.ceiling import Ceiling
from stripewise.observe.darshan_logs import LogResult
from stripewise.observe.from_report import activity_of
from stripewise.observe.report import parse_report
from stripewise.output.html import save_text
from stripewise.output.markup import capitalised
from stripewise.sizes import count_of, format_size
from stripewise.store.base import Record
from stripewise.trial import Role

_LEVELS = ("low", "medium", "high")
_STYLES = {"high": "bold red", "medium": "yellow", "low": "cyan", "info": "dim", "ok": "green"}
_FINDINGS = 3
_IDENTIFIER = re.compile(r"[0-9a-f]{3,8}")
_FILES = 10


def run_diagnose(
    logs: Annotated[
        list[Path],
        typer.Argument(
            help="Darshan logs, traces, reports, records, journals, outputs of benchmarks, or folders of them; or an "
            "experiment, of which a run of the default is diagnosed.",
            metavar="LOG|ID",
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option("--report", help="Write an HTML report of one job.", metavar="FILE.html"),
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="Write the settings that fix it as a plan.", metavar="FILE")] = None,
    table: Annotated[
        Path | None, typer.Option(help="Write a CSV file with one row per job.", metavar="FILE.csv")
    ] = None,
    fail_on: Annotated[
        str | None, typer.Option(help="End with exit code 3 on findings of this severity.", metavar="low|medium|high")
    ] = None,
    threshold: Annotated[
        list[str] | None, typer.Option(help="Another value of a threshold; repeatable.", metavar="NAME=VALUE")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="A performance model that predicts one job.", metavar="FILE")
    ] = None,
    ceiling: Annotated[
        Path | None,
        typer.Option(help="A calibration or a campaign's table: how near is one job?", metavar="FILE"),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(help="Nodes of the job, where the log does not hold them, as Darshan's do not.", min=1),
    ] = None,
    files: Annotated[
        bool,
        typer.Option("--files", help="Say which files cost most, and whether each program became faster or slower."),
    ] = False,
    code: Annotated[
        str | None,
        typer.Option(help=f"Show code for the fixes of one job: {', '.join(LANGUAGES)}.", metavar="LANGUAGE"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Logs read at the same time; by default one per core.", min=1)
    ] = None,
    store: StoreOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> int:
    """Say why I/O is slow, and how to fix it, from logs of past runs."""
    level = _severity(fail_on)
    limits = _limits(threshold)
    if code is not None and code not in LANGUAGES:
        raise UserError(f"--code does not know '{code}'", choose(code, LANGUAGES))
    for option, path in (("--report", html), ("--plan", plan), ("--table", table)):
        check_place(option, path, replaced=path != table)
    desk = desk_of(store, server)
    outcome = _Outcome(table)
    over_time = OverTime() if files else None
    with contextlib.closing(outcome):
        for result in _read(desk, logs, workers):
            if result.activity is None:
                text = str(result.error)
                if result.path.suffix == ".csv":
                    text = f"{text.partition('; ')[0]}; for times of operations: stripewise site causes {result.path}"
                outcome.unreadable(text, result.path in logs)
                continue
            outcome.add(diagnose(result.activity.on_nodes(nodes), limits))
            if over_time is not None:
                over_time.add(result.activity)
    if not outcome.profile.jobs:
        raise UserError(*outcome.reason)
    one = outcome.only
    if (html or plan or model or ceiling) and one is None:
        own = "--report, --plan, --model and --ceiling"
        what = f"{count_of(outcome.profile.jobs, 'job')} were read, and {own} are for one"
        raise UserError(what, "name the log of one job")
    expected = None
    if one is not None and model is not None:
        expected = desk.expected(one.activity, model)
        one = one.led_by(expected)
    document = one.as_json() if one is not None else outcome.as_json()
    if expected is not None:
        document["prediction"] = expected
    reached = None if one is None else _find_ceiling(desk, logs, ceiling, one.activity)
    if reached is not None:
        document["ceiling"] = {**reached.model_dump(), "says": reached.says}
    if over_time is not None:
        document["over_time"] = over_time.as_json()
    if one is not None:
        _write(one, document, html, plan)
    if json_output:
        print_json(document)
    else:
        _print_found(outcome, one, plan, code, reached.says if reached is not None else "")
        if expected is not None:
            _print_expected(expected)
        if over_time is not None:
            _print_over_time(over_time)
    _refuse_empty(plan, one)
    if outcome.named_unreadable:
        return 1
    return 3 if level is not None and outcome.worst >= level else 0


def _named_experiment(desk: Desk, logs: Sequence[Path]) -> Record | None:
    """Give the experiment that one word names which is no file, but could be an identifier; None for files."""
    if len(logs) > 1 or logs[0].exists() or not _IDENTIFIER.fullmatch(str(logs[0])):
        return None
    with desk.experiments() as opened:
        return opened.record(str(logs[0]))


def _read(desk: Desk, logs: Sequence[Path], workers: int | None) -> Iterator[LogResult]:
    """Read logs; one word that is no file, but could be an experiment's identifier, names an experiment."""
    record = _named_experiment(desk, logs)
    if record is None:
        return iter(desk.activities(_list_files(logs), workers))
    with desk.experiments() as opened:
        trials = opened.trials(record.id)
    runs = [
        run
        for trial in trials
        for run in trial.runs
        if trial.role is Role.DEFAULT and run.value is not None and run.facts.report is not None
    ]
    if not runs:
        what = f"experiment {record.id} has no report of a run of the default"
        raise UserError(what, "diagnose a log of the program; stripewise run --mode observe writes a report")
    middle = sorted(runs, key=lambda run: run.value or 0.0)[len(runs) // 2]
    if record.result is not None and record.result.confirmed:
        # What no rule sees, other settings may still have shown.
        remark(
            f"stripewise: experiment {record.id} has proven settings that are {record.result.speedup:.3g} times as "
            f"fast as this default: stripewise show {record.id}"
        )
    origin = f"run {middle.number} of experiment {record.id}"
    return iter([LogResult(logs[0], activity_of(parse_report(middle.facts.report or {}), origin))])


def _list_files(logs: Sequence[Path]) -> list[Path]:
    """Give the files and traces to be read; a walk through large folders says how far it is."""
    from stripewise.observe.sources import find  # noqa: PLC0415  the readers of all tools

    looked_at = itertools.count(1)

    def tell() -> None:
        if (number := next(looked_at)) % 1000 == 0 and notes.is_terminal:
            overwritten(f"{count_of(number, 'file')} looked at")

    return list(find(logs, on_file=tell))


def _severity(word: str | None) -> Severity | None:
    if word is None:
        return None
    if word not in _LEVELS:
        raise UserError(f"--fail-on does not know '{word}'", choose(word, _LEVELS))
    return Severity[word.upper()]


def _limits(given: Sequence[str] | None) -> dict[str, float]:
    found = {}
    for name, value in pairs("--threshold", given, "small_share=0.2").items():
        try:
            found[name] = float(value)
        except ValueError:
            raise UserError(
                f"--threshold {name}: '{value}' is not a number", "write small_share=0.2 for instance"
            ) from None
    return found


class _Outcome:
    """What was read so far: one job whole, of many a row each."""

    def __init__(self, table: Path | None) -> None:
        self.profile = SiteProfile()
        self.only: Diagnosis | None = None
        self.worst = Severity.OK
        self.reason: tuple[str, str] = ("nothing could be read", "")
        self.named_unreadable = 0
        self._untold = ""
        self.rows: list[JobRow] = []
        self._writer = TableWriter(table) if table else None

    def add(self, diagnosis: Diagnosis) -> None:
        self._tell()
        row = row_of(diagnosis)
        self.profile.add(diagnosis, row)
        self.only = diagnosis if self.profile.jobs == 1 else None
        self.worst = max(self.worst, diagnosis.worst)
        self.rows.append(row)
        if self._writer:
            self._writer.add(row)
        if notes.is_terminal and self.profile.jobs % 10 == 0:
            overwritten(count_of(self.profile.jobs, "job"))

    def unreadable(self, text: str, named: bool) -> None:
        self._tell()
        self.profile.unreadable += 1
        self.named_unreadable += named
        what, _, fix = text.partition("; ")
        self.reason = (what, fix)
        # Where nothing else could be read, this is what the command ends with, and is not to be said twice.
        self._untold = text

    def _tell(self) -> None:
        if self._untold:
            remark(f"stripewise: {self._untold}")
        self._untold = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "jobs": [{**vars(row), "codes": row.codes.split()} for row in self.rows],
            "site": self.profile.as_json(),
            "worst": self.worst.word,
        }

    def close(self) -> None:
        if self.profile.jobs:
            self._tell()
        if self._writer:
            self._writer.close()


def _write(one: Diagnosis, document: Mapping[str, Any], html: Path | None, plan: Path | None) -> None:
    """Write what was asked for of one job."""
    if html is not None:
        from stripewise.output.diagnosis import render_diagnosis  # noqa: PLC0415  figures are slow to load

        save_text(html, render_diagnosis(document, one.activity, one.plan(), slowness(one)))
    if plan is not None and one.settings():
        save_text(plan, one.plan())


def _refuse_empty(plan: Path | None, one: Diagnosis | None) -> None:
    if plan is not None and one is not None and not one.settings():
        what = "no plan was written, because no finding asks for a setting"
        raise StripewiseError(what, "the fixes above change the program")


def _find_ceiling(desk: Desk, logs: Sequence[Path], path: Path | None, activity: Activity) -> Ceiling | None:
    """Give how near a job is to a ceiling: that of a file, or of its experiment; None where that is not known."""
    if path is not None:
        found = ceiling_for(path, activity)
    else:
        record = _named_experiment(desk, logs)
        known = None if record is None or record.result is None else record.result.ceiling
        if known is None:
            return None
        # As its result says it: what runs of the best exceed is no ceiling for the default either.
        found = known
    return found if found.says else None


def _print_found(
    outcome: _Outcome, one: Diagnosis | None, plan: Path | None, code: str | None, ceiling: str = ""
) -> None:
    """Print a diagnosis of one job with code for its fixes, or the sums of many."""
    if one is None:
        _print_many(outcome)
        return
    _print_one(one, plan, ceiling)
    if code is not None:
        _print_code(one, code)


def _print_one(found: Diagnosis, plan: Path | None, ceiling: str) -> None:
    activity, job = found.activity, found.activity.job
    name = job.name or PurePath(activity.source).name
    seconds = activity.io_time
    time = "the time in I/O is not known" if seconds is None else f"I/O took {duration(seconds)}"
    run = f", {duration(job.elapsed)}" if job.elapsed else ""
    files = count_of(activity.counted.files, "file")
    prose(f"{found.verdict}.", "bold")
    prose(f"{name}: {_count_processes(activity)}{run}, {format_size(activity.bytes)} in {files}; {time}")
    if ceiling:
        prose(ceiling)
    console.print()
    for place, finding in enumerate(found.first, 1):
        style = _STYLES[finding.severity.word]
        title = fold_text(f"{place}. {finding.severity.word}  {finding.kind.title}  ({finding.code})", console)
        console.print(escape(title).replace(finding.severity.word, f"[{style}]{finding.severity.word}[/]", 1))
        for line in _lines(finding):
            prose(f"   {line}")
        console.print()
    for title, rest in (
        ("Also", found.problems[_FINDINGS:]),
        ("To know", [f for f in found.findings if f.severity is Severity.INFO]),
        ("Good", [f for f in found.findings if f.severity is Severity.OK]),
    ):
        if rest:
            console.print(f"{title}:")
            for finding in rest:
                prose(f"  {finding.code} ({finding.severity.word}): {finding.says}")
    for sentence in activity.unseen:
        prose(f"not seen: {sentence}", "dim")
    for module in activity.partial:
        prose(f"partly seen: module {module} ran out of memory while recording", "dim")
    if found.settings():
        written = f"stripewise run {plan} -- COMMAND" if plan else "--plan FILE, then stripewise run FILE -- COMMAND"
        say(f"apply the settings: {written}")


def _count_processes(activity: Activity) -> str:
    """Say how many ranks there were; of a program without MPI, its processes."""
    job, processes = activity.job, len(activity.processes)
    if job.ranks == 1 and (processes > 1 or job.interface):
        return count_of(max(1, processes), "process")
    ranks = count_of(job.ranks, "rank")
    return f"{ranks}, {count_of(processes, 'process')}" if processes > job.ranks else ranks


def _lines(finding: Finding) -> Iterator[str]:
    yield finding.says
    yield f"why: {finding.kind.mechanism}"
    yield f"fix: {finding.fix or finding.kind.fix}"
    for setting in finding.settings:
        yield f"set: {setting.line()}"
    if finding.settings:
        yield f"expected: {finding.expected.says}"
        yield from map(capitalised, finding.expected.reasons)
    if finding.files:
        more = f" and {len(finding.files) - 1} more" if len(finding.files) > 1 else ""
        yield f"file: {finding.files[0]}{more}"
    for line in finding.lines:
        yield f"line: {line}"


def _print_code(found: Diagnosis, language: str) -> None:
    """Show the code of the fixes of all problems, each once."""
    topics = dict.fromkeys(topic for finding in found.problems for topic in finding.examples)
    if not topics:
        console.print("no problem here has code for its fix")
    for topic in topics:
        codes = [one.code for one in found.problems if topic in one.examples]
        console.print()
        console.print(f"code for {', '.join(dict.fromkeys(codes))}:")
        console.print(escape(read_example(topic, language)), highlight=False, soft_wrap=True, end="")


def _print_expected(expected: Mapping[str, Any]) -> None:
    prose(f"expected by {expected['origin']}:")
    for case in expected["expectations"]:
        prose(f"  {case['what']}: {case['says']}")
    for setting in expected["settings"]:
        prose(f"  set: {setting}")
    for note in expected["notes"]:
        prose(f"  note: {note}", "dim")


def _print_many(outcome: _Outcome) -> None:
    profile = outcome.profile
    ill = sum(bool(row.codes) for row in outcome.rows)
    common = profile.codes.most_common(1)
    most = f", most often {common[0][0]} ({count_of(common[0][1], 'job')})" if common else ""
    prose(f"{ill:,} of {count_of(profile.jobs, 'job')} {'has' if ill == 1 else 'have'} problems{most}.", "bold")
    untimed = sum(row.io_time is None for row in outcome.rows)
    console.print(
        f"{count_of(profile.jobs, 'job')}, {format_size(profile.bytes_read)} read, "
        f"{format_size(profile.bytes_written)} written, {duration(profile.io_seconds)} of I/O; "
        f"{profile.unreadable:,} unreadable"
    )
    if untimed:
        console.print(f"the time in I/O of {count_of(untimed, 'job')} is not known")
    for code, jobs in profile.codes.most_common():
        console.print(f"  {code}: {count_of(jobs, 'job')} ({jobs / profile.jobs:.0%})")
    timed = [(row.io_time, row) for row in outcome.rows if row.io_time is not None]
    if timed:
        console.print("most time in I/O:")
    for seconds, row in sorted(timed, key=lambda one: -one[0])[:_FINDINGS]:
        prose(f"  {PurePath(row.source).name}: {duration(seconds)}, {row.worst}: {row.codes or 'no problem'}")


def _print_over_time(found: OverTime) -> None:
    """List the file families with most time, and the trend of each program."""
    files = found.files()
    whole = sum(cost.seconds for cost in files)
    console.print()
    console.print("files by time in I/O, summed over ranks; names that differ in digits together:")
    rows = [
        (cost.name, (duration(cost.seconds), f"{cost.seconds / whole:.0%}" if whole else "-", f"{cost.jobs:,}",
                     format_size(cost.bytes_read), format_size(cost.bytes_written)))
        for cost in files[:_FILES]
    ]  # fmt: skip
    print_rows("file", ("time", "share", "jobs", "read", "written"), rows)
    if len(files) > _FILES:
        console.print(f"and {count_of(len(files) - _FILES, 'more family', 'more families')}; --json lists all")
    trends = found.trends()
    if trends:
        console.print()
        console.print("programs over time, like jobs compared:")
    for trend in trends:
        prose(f"  {trend.program}: {trend.says} ({count_of(trend.jobs, 'job')}, {trend.days})")
