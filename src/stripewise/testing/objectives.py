"""What every kind of objective must do; subclass it in the tests of a new one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from stripewise.errors import RunFailed, UserError
from stripewise.launch import Outcome
from stripewise.observe.objectives import ObjectiveKind, measure
from stripewise.requests.objective import Objective
from stripewise.trial import State


class ObjectiveContract(ABC):
    """The contract of objectives."""

    @abstractmethod
    def make(self) -> ObjectiveKind:
        """Make the kind, with a text where it needs one."""

    @abstractmethod
    def finished(self, folder: Path) -> tuple[Outcome, float]:
        """Give a finished run, with ``folder`` as its scratch folder if it needs one, and its value."""

    def test_it_says_what_it_is(self) -> None:
        """People choose it by its name and a line; values are compared in a direction."""
        kind = self.make()
        assert kind.name.isidentifier() and kind.title.startswith(kind.name)
        assert kind.about and "\n" not in kind.about
        assert kind.direction in ("minimize", "maximize", None)
        assert kind.column.isidentifier()

    def test_only_the_text_that_it_takes_stands_behind_its_name(self) -> None:
        """A kind without a text refuses one, and a kind that needs one refuses to go without."""
        kind = type(self.make())
        if not kind.text:
            with pytest.raises(UserError):
                kind("text")
        elif not kind.optional:
            with pytest.raises(UserError):
                kind()

    def test_the_value_of_a_run(self, tmp_path: Path) -> None:
        """It is read from what the run left behind."""
        kind = self.make()
        outcome, value = self.finished(tmp_path)
        assert kind.value(outcome) == pytest.approx(value, rel=1e-5)
        assert measure(self._objective(kind), outcome) == pytest.approx(value, rel=1e-5)

    def test_a_run_that_left_nothing_fails_in_one_line(self) -> None:
        """The reason is kept with the run."""
        kind = self.make()
        try:
            value = kind.value(Outcome(0, State.FINISHED, 1.0, 0.0))
        except RunFailed as failure:
            assert failure.what and "\n" not in str(failure)
        else:
            assert math.isfinite(value)

    def test_a_run_that_did_not_finish_has_no_value(self) -> None:
        """Whatever it left behind."""
        with pytest.raises(RunFailed, match="killed"):
            measure(self._objective(self.make()), Outcome(0, State.FAILED, 1.0, 0.0, "killed by signal 9"))

    def test_simulated_values_are_positive(self) -> None:
        """Or there are none."""
        value = self.make().simulated({"read": (2.0**30, 4.0), "write": (2.0**20, 1.0)})
        assert value is None or 0 < value < math.inf

    @staticmethod
    def _objective(kind: ObjectiveKind) -> Objective:
        return Objective(kind.title, kind.direction or "minimize", kind.unit)
