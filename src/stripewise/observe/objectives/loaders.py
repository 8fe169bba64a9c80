"""Objectives that loaders of Python tell: samples per second, and the time in which their consumer does not wait."""

from __future__ import annotations

from stripewise.errors import RunFailed, UserError
from stripewise.launch import Outcome
from stripewise.observe.activity import LoaderActivity
from stripewise.observe.objectives.base import Conditions, ObjectiveKind


class _OfLoaders(ObjectiveKind):
    """Base of objectives that a module in the program's Python measures."""

    of_loaders = True
    direction = "maximize"

    def check(self, conditions: Conditions) -> None:
        """See :meth:`ObjectiveKind.check`."""
        if conditions.isolated:
            raise UserError(
                f"objective {self.title} is measured in Python: {conditions.isolated}", "leave the option out"
            )

    def loaders(self, outcome: Outcome) -> list[LoaderActivity]:
        """Give the loaders of a run that gave batches.

        Raises
        ------
        RunFailed
            If there are none.
        """
        found = outcome.activity.loaders if outcome.activity is not None else []
        if not (used := [loader for loader in found if loader.batches]):
            raise RunFailed(
                f"no loader was seen, so {self.title} is unknown: the program took no batch from "
                "torch.utils.data.DataLoader, or its Python reads no PYTHONPATH",
                "use --objective elapsed or regex:PATTERN",
            )
        return used


class SampleRate(_OfLoaders):
    """Samples over the time in loaders and between their batches, summed over processes."""

    name = "sample_rate"
    about = "samples over the time in loaders and between their batches (samples/s)"
    unit = "samples/s"
    timed = "from the first batch that is asked for to the last of each epoch, workers that start included"

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        processes: dict[tuple[str, int], list[LoaderActivity]] = {}
        for loader in self.loaders(outcome):
            processes.setdefault((loader.host, loader.pid), []).append(loader)
        return sum(
            sum(one.samples for one in own) / max(1e-9, sum(one.wait + one.busy for one in own))
            for own in processes.values()
        )


class BusyShare(_OfLoaders):
    """Part of the time that the consumer of loaders spends between batches, and not waiting for one."""

    name = "busy_share"
    about = "time between batches over that and the waits for them (%)"
    unit = "%"
    timed = "in the process that takes the batches"
    leaves_room = "an accelerator that works behind the program's back may be busier"

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        used = self.loaders(outcome)
        busy = sum(one.busy for one in used)
        return 100 * busy / max(1e-9, busy + sum(one.wait for one in used))
