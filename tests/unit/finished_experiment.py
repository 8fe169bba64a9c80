"""A finished experiment from tests/fixtures/result.json, as the store gives it."""

import json
from dataclasses import replace
from pathlib import Path

from stripewise.catalogue.configuration import Configuration
from stripewise.facts import Facts
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.store.base import Record
from stripewise.trial import Phase, Role, Run, State, Trial

_FILE = Path(__file__).parent.parent / "fixtures" / "result.json"


def finished(**changes):
    """Give the record and its trials; for ``changes`` see :func:`changed`."""
    data = json.loads(_FILE.read_text("utf-8"))
    record = data["record"]
    experiment = Experiment.model_validate(record["experiment"])
    kept = Record(
        record["id"], experiment, record["state"], record["created"], record["updated"], record["owner"],
        Facts(record["facts"]), Result.from_json(record["result"]),
    )  # fmt: skip
    return changed(kept, **changes), tuple(_trial(entry) for entry in data["trials"])


def changed(record, **changes):
    """Give the record with other entries in its result's JSON; ``a__b`` is the entry ``b`` of ``a``."""
    document = record.result.as_json()
    for path, value in changes.items():
        *outer, last = path.split("__")
        place = document
        for name in outer:
            place = place[name]
        place[last] = value
    return replace(record, result=Result.from_json(document))


def _trial(entry):
    runs = tuple(Run(**{**run, "phase": Phase(run["phase"]), "state": State(run["state"])}) for run in entry["runs"])
    return Trial(entry["number"], Configuration(entry["configuration"]), Role(entry["role"]), runs, entry["tag"])
