"""What was made of an experiment's history, kept until the history changes: drawn once, however many watch."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stripewise.store.base import Record

T = TypeVar("T")


def version(record: Record) -> tuple[Hashable, ...]:
    """Give what differs as soon as anything that pages show of an experiment differs."""
    return (record.id, record.updated, record.state, record.trials, record.runs, record.ended)


@dataclass
class _Entry(Generic[T]):
    turn: threading.Lock = field(default_factory=threading.Lock)
    made: list[T] = field(default_factory=list)


class Remembered(Generic[T]):
    """The latest of what was made, by key.

    Parameters
    ----------
    most : int
        Kept at a time; those that were not asked for the longest go first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[T]] = OrderedDict()

    def known(self, key: Hashable) -> T | None:
        """Give what belongs to a key if it is made already."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or not entry.made:
                return None
            self._entries.move_to_end(key)
            return entry.made[0]

    def keep(self, key: Hashable, made: T) -> None:
        """Keep what was made for a key, unless there is something already."""
        self.get(key, lambda: made)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Give what belongs to a key; what is being made for one is waited for by the others."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        with entry.turn:
            if not entry.made:
                entry.made.append(make())
            return entry.made[0]
