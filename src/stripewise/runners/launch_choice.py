"""What only a launch can carry (environment, MCA, arguments), chosen before it from the last report of the program.

The runtime chooses hints and layouts while the program runs. Other settings are fixed by then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stripewise.catalogue.carriers import ARGUMENT, Setting
from stripewise.catalogue.workload import Workload
from stripewise.documents import explain_validation
from stripewise.errors import StripewiseError, UserError
from stripewise.models.artifact.content import Artifact
from stripewise.models.base import PerformanceModel
from stripewise.models.prescribe.prescriber import Prescriber, describe_switches
from stripewise.models.prescribe.prescription import Prescription, list_settings
from stripewise.models.prescribe.request import PrescriptionRequest, default_of
from stripewise.models.tunables import SetBy, TunableColumn, tunable_columns
from stripewise.observe.sources import observe
from stripewise.observe.workload import Observed


@dataclass(frozen=True)
class LaunchChoice:
    """Settings for the coming launch.

    Attributes
    ----------
    settings : tuple of Setting
        Empty where the defaults stay.
    why : str
        One line for the user; empty where the model has no setting that only a launch can carry.
    report : Path or None
        The run that the choice is based on.
    prescription : Prescription or None
        The answer of the model, with the settings that the runtime can choose as well.
    remarks : tuple of str
        What the user has to do besides.
    """

    settings: tuple[Setting, ...] = ()
    why: str = ""
    report: Path | None = None
    prescription: Prescription | None = None
    remarks: tuple[str, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether the model learned from simulated runs."""
        return self.prescription is not None and self.prescription.simulated

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON."""
        found = self.prescription
        return {
            "settings": {setting.key: setting.value for setting in self.settings},
            "why": self.why,
            "report": None if self.report is None else str(self.report),
            "prescription": None if found is None else found.as_json(),
        }


def last_runs(applied: Path, digest: str) -> Iterator[Path]:
    """Give the reports of a command's runs, the last first.

    Parameters
    ----------
    applied : Path
        The folder in which each run has its own, called MODE-DIGEST-TIME with the time in hexadecimal digits.
    digest : str
        Of :func:`stripewise.engine.folders.command_digest`.
    """
    folders = applied.glob(f"*-{digest}-*")
    for folder in sorted(folders, key=lambda folder: folder.name.rpartition("-")[2], reverse=True):
        if (folder / "report.json").is_file():
            yield folder / "report.json"


def at_launch(model: PerformanceModel) -> list[TunableColumn]:
    """The settings of a model that the runtime cannot choose."""
    return [
        tunable
        for tunable in tunable_columns(model.domain.schema)
        if tunable.set_by is SetBy.SETTING and tunable.parameter is not None and not tunable.parameter.carrier.decided
    ]


def decided_at_open(model: PerformanceModel) -> bool:
    """Whether the runtime can choose any setting of a model."""
    return any(
        # "Collective or not" stands for hints.
        tunable.column.role == "collective" or (tunable.parameter is not None and tunable.parameter.carrier.decided)
        for tunable in tunable_columns(model.domain.schema)
    )


def choose_for_launch(
    model: PerformanceModel, reports: Iterator[Path], words: Mapping[str, str], command: Sequence[str]
) -> LaunchChoice:
    """Ask a model for the settings that only a launch can carry.

    Parameters
    ----------
    model : PerformanceModel
    reports : iterator of Path
        Of earlier runs, the last first; one that cannot be read is passed over.
    words : mapping
        What the user says of the workload, by words of the workload or columns of the model.
    command : sequence of str
        Its words; arguments of the model that stand in it in braces get their default where nothing else is chosen.

    Raises
    ------
    UserError
        If a word is wrong.
    """
    columns = at_launch(model)
    if not columns:
        return LaunchChoice()
    names = ", ".join(tunable.name for tunable in columns)
    defaults = [
        setting
        for tunable in columns
        for setting in list_settings([(tunable, default_of(model.domain, tunable))], None, None, {})
        if setting.carrier is ARGUMENT and any(f"{{{setting.key}}}" in word for word in command)
    ]
    report, seen = _first_readable(reports)
    if report is None or seen is None:
        why = (
            f"no earlier run of this command has left a report, so the defaults stay for {names}. This run is "
            "observed, and the next one can use its report"
        )
        return LaunchChoice(tuple(defaults), why)
    try:
        found = Prescriber(model).prescribe(_request(model, seen, words))
    except UserError as error:
        return LaunchChoice(tuple(defaults), f"the defaults stay for {names}: {error.what} (from {report})", report)
    chosen = [setting for setting in found.plan.settings if not setting.carrier.decided]
    values = {change.name: change.value for change in found.changes}
    remarks = describe_switches([(tunable, values[tunable.name]) for tunable in columns if tunable.name in values])
    if not chosen and not remarks:
        why = f"the defaults stay for {names}: {found.kept or 'the best combination has them'} (from {report})"
        return LaunchChoice(tuple(defaults), why, report, found)
    taken = {setting.target for setting in chosen}
    low, high = found.interval or (1.0, 1.0)
    listed = " ".join(f"{setting.key}={setting.value}" for setting in chosen) or "; ".join(remarks)
    more = "" if len(chosen) == len(found.plan.settings) else " with the settings that the runtime can choose"
    why = (
        f"{listed}: predicted {found.speedup:.2f} times as fast (95% interval {low:.2f} to {high:.2f}){more}, not "
        f"measured (from {report})"
    )
    kept = [setting for setting in defaults if setting.target not in taken]
    # Where nothing is set, the reason has said all.
    return LaunchChoice((*chosen, *kept), why, report, found, tuple(remarks) if chosen else ())


def _first_readable(reports: Iterator[Path]) -> tuple[Path | None, Observed | None]:
    for path in reports:
        # A run that was killed leaves a damaged report, and an earlier one is as good.
        with contextlib.suppress(StripewiseError):
            return path, observe(path)
    return None, None


def _request(model: PerformanceModel, seen: Observed, words: Mapping[str, str]) -> PrescriptionRequest:
    known = {name: text for name, text in words.items() if name in Workload.model_fields}
    context = {name: text for name, text in words.items() if name not in known and name in model.domain.names}
    try:
        declared = Workload.model_validate(known)
    except ValidationError as error:
        raise explain_validation(error, "--workload") from error
    # What an earlier choice set is chosen anew, from the defaults: the same report always gives the same answer.
    seen = replace(seen, in_force=tuple(setting for setting in seen.in_force if setting.carrier.decided))
    return PrescriptionRequest(declared, context=context).with_observed(seen, model.domain)


def with_launch(artifact: Artifact, settings: Sequence[Setting]) -> Artifact:
    """Give an artifact in which the settings of a launch act as the default, so that the runtime decides with them."""
    given = {(setting.carrier.in_artifact, setting.key): setting.value for setting in settings}
    inputs = []
    for entry in artifact.inputs:
        spellings = [value.spelling for value in entry.values]
        value = given.get((entry.carrier, entry.key))
        inputs.append(replace(entry, default=spellings.index(value)) if value in spellings else entry)
    return replace(artifact, inputs=tuple(inputs))
