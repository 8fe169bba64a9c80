"""The launches of stripewise-replay, which carries out a record."""

from __future__ import annotations

import glob
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from stripewise.formats import REPLAY_MARK
from stripewise.observe.record import Record
from stripewise.requests.experiment import Replay


@dataclass(frozen=True)
class Replayer:
    """The program that replays a record, with the launcher that starts it.

    Attributes
    ----------
    before : tuple of str
        Launcher and wrappers with their options.
    program : Path
    replay : Replay
        With the folder for its files.
    record : Record
    """

    before: tuple[str, ...]
    program: Path
    replay: Replay
    record: Record

    def within(self, name: str) -> Replayer:
        """Give the replayer with a folder of its own for what has this name."""
        folder = f"{self.replay.folder}-{name}"
        return replace(self, replay=self.replay.model_copy(update={"folder": folder}))

    def delete_folders(self, name: str) -> None:
        """Delete the folders for names that begin so, if replays have marked them as their own."""
        folder = Path(self.replay.folder)
        for mark in folder.parent.glob(f"{glob.escape(folder.name)}-{name}*/{glob.escape(REPLAY_MARK)}"):
            shutil.rmtree(mark.parent, ignore_errors=True)

    def words(self, *parts: Literal["prepare", "calls", "clean"]) -> list[str]:
        """Give the command line of some parts of a replay: what goes before the calls, these, what follows."""
        options = ["--quiet", "--directory", self.replay.folder]
        options += ["--think"] if self.replay.think else []
        for name, most in (("--steps", self.replay.steps), ("--repetitions", self.replay.repetitions)):
            options += [name, str(most)] if most else []
        for part in parts:
            options += ["--only", part]
        return [*self.before, str(self.program), self.replay.record, *options]
