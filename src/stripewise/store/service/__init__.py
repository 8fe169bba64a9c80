"""What the service keeps beside experiments: tokens and sessions, jobs for workers, messages, items, an audit log."""

from __future__ import annotations

from stripewise.errors import UserError
from stripewise.store.base import Store
from stripewise.store.sql import SqlStore
from stripewise.store.transactions import Transactions


def database_of(store: Store) -> Transactions:
    """Give the database behind a store.

    Raises
    ------
    UserError
        If it is a journal, which keeps experiments only.
    """
    if not isinstance(store, SqlStore):
        raise UserError(
            f"store {store.url} is not a database, and the service needs one",
            "use sqlite:///FILE.db or postgresql://...",
        )
    return store.database
