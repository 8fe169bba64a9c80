"""From a request to an experiment that a worker carries on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stripewise.server.policy import check_experiment
from stripewise.server.problems import Refused
from stripewise.server.service import Service
from stripewise.spec.experiment import Experiment
from stripewise.store.base import Record
from stripewise.store.service.tokens import Token
from stripewise.tuning.definition import with_options


def prepared(service: Service, definition: Experiment, folder: str | None) -> tuple[Experiment, Path]:
    """Check a definition as ``tune`` does, and against the rules of the service.

    Raises
    ------
    UserError
        If something in it is wrong.
    Refused
        If the service does not allow it.
    """
    place = Path(folder) if folder else service.settings.data
    if folder and not place.is_dir():
        # Asked only within the service's folders, so that nothing is learned about others.
        check_experiment(definition, place, service.settings)
        raise Refused(422, "folder: there is no such folder", "make it first")
    check_experiment(definition, place, service.settings)
    return with_options(definition, command=definition.command), place


def create(
    service: Service,
    definition: Experiment,
    folder: str | None,
    user: Token,
    *,
    start: bool = True,
    agreed: bool = False,
) -> Record:
    """Keep an experiment, and hand it to the workers; ``agreed``: to a cost above the site's limits as well."""
    experiment, place = prepared(service, definition, folder)
    identifier = service.store.create(experiment, {"folder": str(place), "submitter": user.name})
    if start:
        service.jobs.submit("experiment", identifier, user.name, {"agreed": agreed})
    return service.store.record(identifier)


def resume(service: Service, identifier: str, user: Token, *, agreed: bool = False) -> Record:
    """Hand an experiment that was stopped, has failed or was never begun to the workers.

    Raises
    ------
    Refused
        If it is finished, or at work.
    """
    record = service.store.record(identifier)
    if record.state == "finished":
        raise Refused(409, f"experiment {record.id} is finished", "clone it to run it again")
    # A stop that was just asked for may still be at work: the job waits until the experiment is let go.
    if record.state == "running" and not service.store.stop_requested(record.id):
        raise Refused(409, f"experiment {record.id} is running", "there is nothing to resume")
    check_experiment(record.experiment, Path(record.facts.folder or service.settings.data), service.settings)
    service.jobs.submit("experiment", record.id, user.name, {"agreed": agreed})
    return service.store.record(record.id)


def stop(service: Service, identifier: str) -> Record:
    """Ask for a stop, and withdraw the experiment from the workers if none has it yet.

    Raises
    ------
    Refused
        If it neither runs nor waits.
    """
    record = service.store.record(identifier)
    withdrawn = service.jobs.stop(record.id)
    record = service.store.record(record.id)
    if record.state == "running":
        service.store.request_stop(record.id)
    elif not withdrawn:
        raise Refused(409, f"experiment {record.id} is {record.state}, not running", "there is nothing to stop")
    return record


def delete(service: Service, identifier: str) -> str:
    """Delete an experiment that does not run.

    Raises
    ------
    Refused
        If it runs.
    """
    record = service.store.record(identifier)
    if record.state == "running":
        raise Refused(409, f"experiment {record.id} is running", "stop it first")
    service.jobs.stop(record.id)
    service.store.delete(record.id)
    service.jobs.forget(record.id)
    return record.id


def clone(
    service: Service, identifier: str, changes: dict[str, Any], user: Token, *, start: bool, agreed: bool = False
) -> Record:
    """Keep a new experiment like another, with some fields changed."""
    record = service.store.record(identifier)
    fields = {**record.experiment.model_dump(mode="json"), **changes}
    definition = Experiment.model_validate(fields)
    return create(service, definition, record.facts.folder, user, start=start, agreed=agreed)
