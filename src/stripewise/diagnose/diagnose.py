"""From one job's activity to its findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.expectation import Proposal
from stripewise.catalogue.plan import Plan
from stripewise.diagnose.finding import RULES, Finding, Severity
from stripewise.diagnose.limits import Thresholds
from stripewise.observe.activity import Activity
from stripewise.plugins import import_all

ENTRY_POINTS = "stripewise.findings"
"""Modules of other packages whose import registers rules."""
_FIRST = 3


@dataclass(frozen=True)
class Diagnosis:
    """What was found in one job.

    Attributes
    ----------
    activity : Activity
    findings : tuple of Finding
        The one that matters most first.
    """

    activity: Activity
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Findings that call for a change."""
        return tuple(finding for finding in self.findings if finding.severity >= Severity.LOW)

    @property
    def first(self) -> tuple[Finding, ...]:
        """The three that matter most."""
        return self.problems[:_FIRST]

    @property
    def worst(self) -> Severity:
        """The greatest severity."""
        return max((finding.severity for finding in self.findings), default=Severity.OK)

    def settings(self) -> tuple[Setting, ...]:
        """All settings that the problems ask for; of two values of one key the more important finding's counts."""
        chosen: dict[tuple[str, str, str], Setting] = {}
        for finding in self.problems:
            for setting in finding.settings:
                chosen.setdefault((setting.carrier.name, setting.layer, setting.key), setting)
        return tuple(chosen.values())

    def led_by(self, prediction: Mapping[str, Any]) -> Diagnosis:
        """Let a model decide on the settings that it knows: a proposal of another value for one of them goes.

        The model was measured on a site; what proposals are expected to gain is known of stacks in general.

        Parameters
        ----------
        prediction : mapping
            As :meth:`stripewise.diagnose.prediction.SettingsPrediction.as_json` gives it.
        """
        chosen = {line.rpartition(" ")[0]: line for line in prediction["decided"]}

        def agreed(finding: Finding) -> Finding:
            against = [s for s in finding.settings if chosen.get(s.target, s.line()) != s.line()]
            if not against:
                return finding
            lines = ", ".join(setting.line() for setting in against)
            fix = f"{finding.fix or finding.kind.fix} ({lines} is not proposed: the model expects no gain of it here)"
            return replace(finding, proposal=Proposal(), fix=fix)

        return replace(self, findings=tuple(agreed(finding) for finding in self.findings))

    def plan(self) -> str:
        """Write the settings as a plan; empty where there are none."""
        settings = self.settings()
        return Plan(settings, identifier="diagnosis").text() if settings else ""

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        job = self.activity.job
        return {
            "source": self.activity.source,
            "kind": self.activity.kind,
            "version": self.activity.version,
            "job": job.model_dump(),
            "bytes": self.activity.bytes,
            "io_seconds": self.activity.io_time,
            "io_time_of_run": self.activity.io_share,
            "seen": self.activity.seen,
            "unseen": self.activity.unseen,
            "partial": self.activity.partial,
            "worst": self.worst.word,
            "findings": [finding.as_json() for finding in self.findings],
            "settings": [setting.line() for setting in self.settings()],
        }


def diagnose(activity: Activity, limits: Mapping[str, float] | None = None) -> Diagnosis:
    """Look for every kind of finding.

    Parameters
    ----------
    activity : Activity
    limits : mapping, optional
        Thresholds to replace, by the names of :data:`stripewise.diagnose.limits.LIMITS`.

    Raises
    ------
    UserError
        For a threshold that does not exist, or a module of another package that cannot be loaded.
    """
    import_all("findings", ENTRY_POINTS)
    thresholds = Thresholds(limits)
    found = [finding for _, look in RULES.values() for finding in look(activity, thresholds)]
    found.sort(key=lambda finding: (-finding.severity, -finding.share, finding.code))
    return Diagnosis(activity, tuple(found))
