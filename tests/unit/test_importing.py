"""Rows of a table from what other tools left."""

import pytest

from stripewise.observe.journal import JournalPhase
from stripewise.observe.measurements import rows_of_journal


@pytest.mark.parametrize(
    "text, value", [("4", 4), ("0.5", 0.5), ("2.0", 2), ("inf", "inf"), ("nan", "nan"), ("enable", "enable")]
)
def test_a_journals_values_are_numbers_where_a_table_can_hold_them(text: str, value: object) -> None:
    phase = JournalPhase("s", "write", True, False, 4, 1, 1e6, 1.0, settings={"my_hint": text})
    assert rows_of_journal([phase])[0]["my_hint"] == value
