"""Where a rank of a record stands in an open file: its view and its own pointer."""

from __future__ import annotations

from dataclasses import dataclass

from stripewise.formats import RECORD_LINES


@dataclass
class Position:
    """Where a rank stands in a file, from the open on.

    Attributes
    ----------
    displacement : int
        Bytes of the file before the view.
    etype : int
        Bytes of the unit in which the program counts offsets.
    type : int
        Number of the view's type in the group; -1 without one.
    pointer : int
        Bytes of the view before the rank's own pointer.
    """

    displacement: int = 0
    etype: int = 1
    type: int = -1
    pointer: int = 0

    def follow(self, name: str, numbers: tuple[int, ...]) -> None:
        """Take a call that changes the view or the pointer, and moves no bytes; others change nothing."""
        if name == "set_view":
            _, self.displacement, self.etype, self.type = numbers
            self.pointer = 0
        elif name == "seek":
            self.pointer = numbers[1] * self.etype

    def start(self, name: str, numbers: tuple[int, ...]) -> int:
        """Give the first byte of the view that a call moves, and go on behind the last if it moves the pointer."""
        if "offset" in RECORD_LINES[name]:
            return numbers[1] * self.etype
        start = self.pointer
        self.pointer += numbers[-1]
        return start
