"""What a database's error means."""

import pytest
import sqlalchemy as sa

from stripewise.errors import TransientError
from stripewise.store.transactions import explain, is_disconnected


class ToldError(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__("as the server says it")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("state", "said", "broken"),
    [("57014", "ended a statement", False), ("57P01", "is shutting down", True), ("08006", "connection", True)],
)
def test_a_statement_that_took_too_long_is_no_broken_connection(state: str, said: str, broken: bool) -> None:
    error = sa.exc.OperationalError("SELECT", {}, ToldError(state))
    found = explain(error, "x")
    assert isinstance(found, TransientError) and said in found.what and is_disconnected(error) is broken
