"""A finished experiment from tests/fixtures/result.json, as the store gives it."""

import copy
import json
from pathlib import Path

from stripewise.spec.configuration import Configuration
from stripewise.spec.experiment import Experiment
from stripewise.spec.trial import Phase, Role, Run, State, Trial
from stripewise.store.base import Record

_FILE = Path(__file__).parent.parent / "fixtures" / "result.json"


def finished(**changes):
    """Give the record and its trials; ``changes`` replace entries of the result."""
    data = json.loads(_FILE.read_text("utf-8"))
    record = data["record"]
    result = {**copy.deepcopy(record["result"]), **changes}
    experiment = Experiment.model_validate(record["experiment"])
    return (
        Record(
            record["id"], experiment, record["state"], record["created"], record["updated"], record["owner"],
            record["facts"], result,
        ),
        tuple(_trial(entry) for entry in data["trials"]),
    )  # fmt: skip


def _trial(entry):
    runs = tuple(Run(**{**run, "phase": Phase(run["phase"]), "state": State(run["state"])}) for run in entry["runs"])
    return Trial(entry["number"], Configuration(entry["configuration"]), Role(entry["role"]), runs, entry["tag"])
