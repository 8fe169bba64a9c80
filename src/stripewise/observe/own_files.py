"""Files that Stripewise itself writes of a program: reports of the runtime, records and journals.

Their readers are loaded when one is met.
"""

from __future__ import annotations

from pathlib import Path

from stripewise.formats import JOURNAL_HEADER, RECORD_HEADER, REPORT_FORMAT
from stripewise.observe.activity import Activity
from stripewise.observe.source import Measured, Source, read_text


def _read_report(path: Path) -> list[Activity]:
    from stripewise.observe import from_report, report  # noqa: PLC0415  only what a file needs is loaded

    return [from_report.activity_of(report.read_report(read_text(path), str(path)), str(path))]


def _read_record(path: Path) -> list[Activity]:
    from stripewise.observe import from_record, record_reading  # noqa: PLC0415  as above

    return [from_record.activity_of(record_reading.read_record(path), str(path))]


def _read_journal(path: Path) -> list[Activity]:
    from stripewise.observe import journal  # noqa: PLC0415  as above

    return journal.activities_of(journal.read_journal(read_text(path), str(path)), str(path))


def _measure_journal(path: Path) -> Measured:
    from stripewise.observe import journal, measurements  # noqa: PLC0415  as above

    return Measured(measurements.rows_of_journal(journal.read_journal(read_text(path), str(path))), "journal")


REPORT = Source(
    "report",
    "a report of the runtime",
    "reports",
    lambda beginning: beginning.lstrip().startswith("{") and REPORT_FORMAT in beginning[:4096],
    _read_report,
)
RECORD = Source("record", "a record", "records", lambda beginning: beginning.startswith(RECORD_HEADER), _read_record)
JOURNAL = Source(
    "journal",
    "a journal",
    "journals",
    lambda beginning: beginning.startswith(f"{JOURNAL_HEADER}\n"),
    _read_journal,
    _measure_journal,
)
