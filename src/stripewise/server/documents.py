"""What requests and answers hold, with examples, as /openapi.json describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stripewise.spec.experiment import Experiment
from stripewise.store.service.jobs import Job

Identifier = Annotated[str, Field(description="identifier", examples=["51e11ec7"])]
Interval = tuple[float | None, float | None] | None


class Objective(BaseModel):
    """What is improved."""

    name: str = Field(examples=["write_bandwidth"])
    direction: Literal["minimize", "maximize"] = Field(examples=["maximize"])
    unit: str = Field(examples=["MiB/s"])


class Summary(BaseModel):
    """An experiment as lists have it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "51e11ec7",
                    "name": "my_app",
                    "state": "finished",
                    "queued": False,
                    "command": ["mpiexec", "-n", "4", "./my_app"],
                    "runner": "local",
                    "objective": {"name": "write_bandwidth", "direction": "maximize", "unit": "MiB/s"},
                    "simulated": False,
                    "default": 25.98,
                    "best": 75.62,
                    "speedup": 2.82,
                    "speedup_ci95": [1.97, 3.65],
                    "confirmed": True,
                    "trials": 17,
                    "runs": 40,
                    "ended": 40,
                    "budget": 40,
                    "elapsed": 82.1,
                    "created": 1790000000.0,
                    "updated": 1790000082.1,
                    "submitter": "ada",
                    "owner": "ada@node1:4711",
                    "error": "",
                }
            ]
        }
    )
    id: Identifier
    name: str
    state: Literal["created", "running", "finished", "stopped", "failed"]
    queued: bool = Field(description="waits for a worker")
    command: list[str]
    runner: str
    objective: Objective
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


class Detail(Summary):
    """One experiment, whole but for its trials."""

    definition: Experiment
    facts: dict[str, Any] = Field(description="what was observed: program, MPI, workload, machine")
    result: dict[str, Any] | None = Field(description="the result document, once there is one")
    notes: list[str]


class ExperimentPage(BaseModel):
    """A page of experiments."""

    total: int = Field(description="without limit and offset", examples=[1])
    items: list[Detail | Summary] = Field(description="with whole=true in detail")


class NewExperiment(BaseModel):
    """A request for an experiment."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "definition": {
                        "name": "my_app",
                        "runner": "sim:kay",
                        "stacks": ["lustre"],
                        "objective": {"name": "write_bandwidth"},
                        "budget": {"runs": 20},
                        "workload": {"operation": "write", "nodes": 2, "processes_per_node": 4, "file_size": "1 GiB"},
                    }
                }
            ]
        },
    )
    definition: Experiment
    folder: str | None = Field(default=None, description="absolute folder in which the program starts", max_length=4096)
    start: bool = Field(default=True, description="false: only keep it; resume starts it")
    agreed: bool = Field(default=False, description="agree to a worst case above the site's limits, as --yes")


class Resumption(BaseModel):
    """How to go on with an experiment."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"agreed": False}]})
    agreed: bool = Field(default=False, description="agree to a worst case above the site's limits, as --yes")


class RunDocument(BaseModel):
    """One launch."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "number": 3,
                    "trial": 1,
                    "phase": "search",
                    "state": "finished",
                    "value": 71.2,
                    "elapsed": 1.9,
                    "started": 1790000010.0,
                    "reason": "",
                    "pair": None,
                    "arm": "",
                    "folder": "/home/ada/.local/state/stripewise/runs/51e11ec7/3",
                    "facts": None,
                }
            ]
        }
    )
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
    role: Literal["default", "reference", "candidate"]
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


class JobDocument(BaseModel):
    """Work for a worker."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "9c0f00d1e2a3b4c5",
                    "kind": "training",
                    "subject": "site",
                    "state": "done",
                    "submitter": "ada",
                    "created": 1790000000.0,
                    "updated": 1790000003.0,
                    "owner": "ada@node1:4711",
                    "result": {"model": "site", "rows": 1152},
                    "error": "",
                }
            ]
        }
    )
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


def job_document(job: Job) -> dict[str, Any]:
    """Give a job as REST has it."""
    return {name: getattr(job, name) for name in JobDocument.model_fields}


class Health(BaseModel):
    """Whether the service can work."""

    status: Literal["ok"] = Field(examples=["ok"])
    version: str = Field(examples=["0.1.0"])
