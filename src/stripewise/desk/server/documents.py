"""What requests and answers hold, with examples, as /openapi.json describes them."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stripewise.catalogue.stack import Stack
from stripewise.requests.experiment import Experiment

if TYPE_CHECKING:
    # Children look at uploaded files, and need no database.
    from stripewise.store.service.jobs import ServiceJob

Identifier = Annotated[str, Field(description="identifier", examples=["51e11ec7"])]
Interval = tuple[float | None, float | None] | None


@functools.cache
def _examples() -> dict[str, Any]:
    text = resources.files("stripewise.desk.server").joinpath("examples.json").read_text("utf-8")
    return dict(json.loads(text))


def _add_example(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add the example of a model, or of the one that it extends, to its schema."""
    found = next((name for name in (cls.__name__ for cls in model.__mro__) if name in _examples()), None)
    if found is not None:
        schema["examples"] = [_examples()[found]]


def describe_stack(stack: Stack) -> dict[str, Any]:
    """Give a stack with its parameters; of many values the first."""
    return {
        "description": stack.description,
        "parameters": [
            {
                "name": parameter.name,
                "kind": parameter.kind.value,
                "values": [str(value) for value in list(parameter.values)[:64]],
                "count": len(parameter.values),
                "default": parameter.default,
                "unit": parameter.unit,
                "role": parameter.role,
                "description": parameter.description,
            }
            for parameter in stack.parameters
        ],
    }


class Document(BaseModel):
    """What an answer holds; ``examples.json`` has an example of each kind, by its name."""

    model_config = ConfigDict(json_schema_extra=_add_example)


class RequestDocument(Document):
    """What a request holds; a key that is not known is an error."""

    model_config = ConfigDict(extra="forbid")


class ObjectiveDocument(BaseModel):
    """What is improved."""

    name: str = Field(examples=["write_bandwidth"])
    direction: Literal["minimize", "maximize"] = Field(examples=["maximize"])
    unit: str = Field(examples=["MiB/s"])


class ExperimentSummary(Document):
    """An experiment as lists have it."""

    id: Identifier
    name: str
    state: Literal["created", "running", "finished", "stopped", "failed"]
    queued: bool = Field(description="waits for a worker")
    command: list[str]
    runner: str
    objective: ObjectiveDocument
    simulated: bool
    default: float | None = Field(description="of the objective; while it runs, the mean so far")
    best: float | None = Field(
        description="proven if confirmed; while it runs, the best single run of the search so far"
    )
    speedup: float | None = Field(description="of the result")
    speedup_ci95: Interval
    confirmed: bool
    trials: int
    runs: int = Field(description="planned")
    ended: int = Field(description="with a result")
    budget: int = Field(description="launches in all")
    elapsed: float | None = Field(description="seconds spent")
    created: float = Field(description="epoch seconds, as all times")
    updated: float
    submitter: str = Field(description="name of the token that asked for it; empty for the command line")
    owner: str = Field(description="the worker or command that carries it on, or did so last")
    error: str = Field(description="why a worker could not carry it on")
    tags: list[str] = Field(description="words that people gave it to find it again")
    remark: str = Field(description="what people wrote about it")


class Detail(ExperimentSummary):
    """One experiment, whole but for its trials."""

    definition: Experiment
    facts: dict[str, Any] = Field(description="what was observed: program, MPI, workload, machine")
    result: dict[str, Any] | None = Field(description="the result document, once there is one")
    notes: list[str]


class ExperimentPage(BaseModel):
    """A page of experiments."""

    total: int = Field(description="without limit and offset", examples=[1])
    items: list[Detail | ExperimentSummary] = Field(description="with whole=true in detail")


class NewExperiment(RequestDocument):
    """A request for an experiment."""

    definition: Experiment
    folder: str | None = Field(default=None, description="absolute folder in which the program starts", max_length=4096)
    start: bool = Field(default=True, description="false: only keep it; resume starts it")
    agreed: bool = Field(default=False, description="agree to a worst case above the site's limits, as --yes")


class Resumption(RequestDocument):
    """How to continue an experiment."""

    agreed: bool = Field(default=False, description="agree to a worst case above the site's limits, as --yes")


class RunDocument(Document):
    """One launch."""

    number: int
    trial: int
    phase: Literal["warmup", "search", "confirmation"]
    state: Literal["pending", "running", "finished", "failed", "pruned"]
    value: float | None
    elapsed: float | None
    started: float | None
    reason: str
    pair: int | None
    arm: str
    folder: str | None = None
    facts: dict[str, Any] | None = Field(default=None, description="what was observed, if asked for with facts=true")


class TrialDocument(BaseModel):
    """A configuration with its runs."""

    number: int = Field(examples=[1])
    role: Literal["default", "reference", "ceiling", "candidate"]
    state: Literal["pending", "running", "finished", "failed", "pruned"]
    configuration: dict[str, Any] = Field(examples=[{"romio_cb_write": "disable"}])
    value: float | None = Field(description="median of the search runs", examples=[71.2])
    tag: str
    runs: list[RunDocument]


class TrialPage(BaseModel):
    """Trials of an experiment in order of asking."""

    total: int = Field(examples=[17])
    items: list[TrialDocument]


class RunPage(BaseModel):
    """Runs of an experiment in order of planning."""

    total: int = Field(examples=[40])
    items: list[RunDocument]


class Log(BaseModel):
    """A piece of a run's output."""

    stream: Literal["stdout", "stderr"] = Field(examples=["stdout"])
    offset: int = Field(description="bytes before this piece", examples=[0])
    size: int = Field(description="bytes in all", examples=[42])
    text: str = Field(description="UTF-8; what is not is replaced", examples=["wrote 32 MiB\n"])


class MessageDocument(BaseModel):
    """Something that a session had to say."""

    number: int = Field(examples=[7])
    kind: str = Field(examples=["note"])
    time: float
    data: dict[str, Any] = Field(examples=[{"text": "run 3 was interrupted and is launched again"}])


class MessagePage(BaseModel):
    """Messages of an experiment in their order."""

    items: list[MessageDocument]


class Done(BaseModel):
    """What was done to an experiment."""

    id: Identifier
    state: str = Field(examples=["running"])
    queued: bool = Field(default=False, examples=[False])
    stopping: bool = Field(default=False, examples=[True])


class JobDocument(Document):
    """Work for a worker."""

    id: Identifier
    kind: Literal["experiment", "campaign", "training", "validation", "evaluation"]
    subject: str
    state: Literal["queued", "running", "done", "failed", "stopped"]
    submitter: str
    created: float
    updated: float
    owner: str
    result: dict[str, Any] | None = Field(description="of a job that has failed: error, its kind")
    error: str


def job_document(job: ServiceJob) -> dict[str, Any]:
    """Give a job as REST has it."""
    return {name: getattr(job, name) for name in JobDocument.model_fields}


class Health(BaseModel):
    """Whether the service can work."""

    status: Literal["ok"] = Field(examples=["ok"])
    version: str = Field(examples=["1.0.0"])
