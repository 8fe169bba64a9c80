"""The form of a new experiment, its dry run, and its start."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from stripewise.catalogue.stack import load_stack, stack_names
from stripewise.catalogue.workload import Workload
from stripewise.desk.server.files import name_stack
from stripewise.desk.server.forms import Input, flatten_fields, make_inputs, nest_fields
from stripewise.desk.server.html import render
from stripewise.desk.server.problems import status_of
from stripewise.desk.server.resource import MOST, Resource
from stripewise.desk.server.resources import experiments
from stripewise.desk.server.service import Here, Service, User
from stripewise.documents import explain_validation, toml_document, toml_value
from stripewise.errors import StripewiseError, UserError
from stripewise.lab.site import site_names
from stripewise.observe.objectives import kinds, parse_objective
from stripewise.requests.campaign import LAUNCHING
from stripewise.requests.experiment import Batch, Confirmation, Experiment, Hooks
from stripewise.runners.schedulers.registry import scheduler_names
from stripewise.search.base import PRESETS, sampler_class, sampler_names
from stripewise.search.policy.pruning import PruningOptions
from stripewise.search.policy.resampling import ResamplingOptions
from stripewise.search.policy.stopping import StoppingOptions

resource = Resource("/new")

_LINES = ("setup", "constraints", "warm_start", "try_first")
_HOOK_LINES = ("before", "after", "delete")
_BASIC = ("command", "folder", "hooks.delete", "objective", "budget.runs")
"""What the form shows first; the rest is folded until somebody has given something of it."""
_PLAIN = {
    ("runner", "local"),
    ("sampler_name", "auto"),
    ("override", "no"),
    ("budget.spend_all", "no"),
    ("agreed", "yes"),
}


def samplers() -> list[dict[str, Any]]:
    """Describe every sampler that can be chosen, with its options as declared; Optuna's where it is installed."""
    found = []
    for name in sampler_names():
        if name == "optuna:NAME":
            found += _optuna()
            continue
        cls = sampler_class(name)
        presets = dict(PRESETS[name][1]) if name in PRESETS else {}
        about = (cls.__doc__ or "").strip().split("\n")[0]
        if presets:
            about = f"preset of {PRESETS[name][0]}: {about}"
        found.append({"name": name, "about": about, "inputs": make_inputs(cls.Options, f"sampler.{name}", presets)})
    return found


def _optuna() -> list[dict[str, Any]]:
    if find_spec("optuna") is None:
        return []
    cls = sampler_class("optuna:TPESampler")
    own = [one for one in make_inputs(cls.Options, "sampler.optuna") if not one.name.endswith(".sampler")]
    name = Input(
        "sampler.optuna.name", "Optuna's sampler", "class name in optuna.samplers", "text", "TPESampler"
    )  # fmt: skip
    return [{"name": "optuna", "about": "a sampler of Optuna", "inputs": [name, *own]}]


def form(service: Service, values: Mapping[str, str]) -> dict[str, Any]:
    """Collect what the form shows."""
    own = [{"name": item.id, "about": item.document["description"]} for item in service.items.page("stack", MOST)]
    return {
        "values": dict(values),
        "stacks": [{"name": name, "about": load_stack(name).description} for name in stack_names()] + own,
        "chosen_stacks": set(values.get("stacks", "").split()),
        "objectives": kinds(),
        "sites": site_names(),
        "samplers": samplers(),
        "workload": make_inputs(Workload, "workload"),
        "batch": [
            one for one in make_inputs(Batch, "batch", choices={"scheduler": scheduler_names()}) if one.kind != "json"
        ],
        "groups": [
            ("Repeats", "When a configuration is run again.", make_inputs(ResamplingOptions, "resampling")),
            ("Pruning", "When a slow run is ended early.", make_inputs(PruningOptions, "pruning")),
            *(
                (f"Stop: {name.replace('_', ' ')}", field.description or "", _rule(name))
                for name, field in StoppingOptions.model_fields.items()
            ),
            ("Confirmation", "How a gain is proven.", make_inputs(Confirmation, "confirmation")),
        ],
        "hooks": [one for one in make_inputs(Hooks, "hooks") if one.kind != "json"],
        "hook_lines": {
            "before": "shell lines before each run",
            "after": "shell lines after each run",
            "delete": "files that the program writes, one a line, removed before each run",
        },
        "advanced": any(
            text.strip() and not name.startswith(_BASIC) and (name, text) not in _PLAIN for name, text in values.items()
        ),
    }


def _rule(name: str) -> list[Input]:
    """The switch of a stopping rule, and its options."""
    found = StoppingOptions.model_fields[name].annotation
    cls = next(one for one in getattr(found, "__args__", ()) if one is not type(None))
    switch = Input(f"stopping.{name}.on", "use this rule", "", "truth", "no")
    return [switch, *make_inputs(cls, f"stopping.{name}")]


def definition_of(given: Mapping[str, str]) -> tuple[Experiment, str | None]:
    """Make the definition and the folder that a filled form describes.

    Raises
    ------
    UserError
        With the field that is wrong.
    """
    fields: dict[str, Any] = {
        name: given[name].strip()
        for name in ("name", "seed", "warmup", "timeout", "scratch", "files", "model")
        if given.get(name, "").strip()
    }
    try:
        fields["command"] = shlex.split(given.get("command", ""), comments=False)
    except ValueError as error:
        raise UserError(f"command: {error}", "close the quotation mark") from error
    runner = given.get("runner", "local")
    fields["runner"] = f"sim:{given.get('site', '')}" if runner == "sim" else runner
    if runner == "other":
        fields["runner"] = given.get("runner_text", "").strip() or "local"
    if runner == "sim":
        fields["command"] = []
    fields["stacks"] = [*given.get("stacks", "").split(), *_split_text(given.get("stack_files", ""))]
    fields["objective"] = _objective(given)
    fields["budget"] = nest_fields(given, "budget")
    fields |= _sampler(given)
    fields |= {name: _split_text(given[name]) for name in _LINES if given.get(name, "").strip()}
    for name in ("resampling", "pruning", "confirmation", "workload", "batch"):
        fields[name] = nest_fields(given, name)
    fields["stopping"] = {
        name: {key: value for key, value in rule.items() if key != "on"}
        for name, rule in nest_fields(given, "stopping").items()
        if rule.get("on") is True
    }
    if "directives" in fields["batch"]:
        fields["batch"]["directives"] = _split_text(fields["batch"]["directives"])
    hooks = nest_fields(given, "hooks")
    fields["hooks"] = hooks | {name: _split_text(str(hooks[name])) for name in _HOOK_LINES if name in hooks}
    if given.get("stdin"):
        # Browsers send text areas with the line ends of the network.
        fields["stdin"] = {"text": given["stdin"].replace("\r\n", "\n")}
    fields["env"] = dict(_pair(text) for text in _split_text(given.get("env", "")))
    fields["parameters"] = _toml(given.get("parameters", ""))
    fields["override"] = given.get("override") == "yes"
    try:
        return Experiment.model_validate(fields), given.get("folder", "").strip() or None
    except ValidationError as error:
        raise explain_validation(error, "the form") from error


def _objective(given: Mapping[str, str]) -> dict[str, Any]:
    name = given.get("objective", "elapsed")
    text = given.get(f"objective_text_{name}", "")
    found: dict[str, Any] = {"name": f"{name}:{text}" if text else name}
    found |= {
        key: given[f"objective_{key}"].strip()
        for key in ("direction", "unit", "program")
        if given.get(f"objective_{key}", "").strip()
    }
    found["subject_to"] = _split_text(given.get("objective_subject_to", ""))
    parse_objective(found["name"], found.get("direction"), found.get("unit"))
    return found


def _sampler(given: Mapping[str, str]) -> dict[str, Any]:
    name = given.get("sampler_name", "auto")
    options = nest_fields(given, f"sampler.{name}")
    if name == "optuna":
        name = f"optuna:{options.pop('name', 'TPESampler')}"
    return {"sampler": name, "sampler_options": options}


def _split_text(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _pair(text: str) -> tuple[str, str]:
    name, equal, value = text.partition("=")
    if not equal or not name.strip():
        raise UserError(f"environment: '{text}' is not NAME=VALUE", "write a variable a line")
    return name.strip(), value


def _toml(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    return toml_document(text, "parameters: this", "write tables as in [cb_nodes]")


def values_of(experiment: Experiment, folder: str, data: Path) -> dict[str, str]:
    """Fill the form with an experiment, so that a clone begins as its original was defined.

    Parameters
    ----------
    data : Path
        The folder of the service, where uploaded stacks are.
    """
    fields = experiment.model_dump(mode="json")
    plain = Experiment()
    own = {"name": experiment.name, "folder": folder, "command": shlex.join(experiment.command)}
    kind, _, rest = experiment.runner.partition(":")
    if experiment.runner in LAUNCHING:
        own["runner"] = experiment.runner
    elif kind == "sim" and rest in site_names():
        own |= {"runner": "sim", "site": rest}
    else:
        own |= {"runner": "other", "runner_text": experiment.runner}
    stacks = [name_stack(data, name) for name in experiment.stacks]
    own["stacks"] = " ".join(name for name in stacks if not name.endswith(".toml"))
    own["stack_files"] = "\n".join(name for name in stacks if name.endswith(".toml"))
    objective, _, text = experiment.objective.name.partition(":")
    own |= {
        "objective": objective,
        f"objective_text_{objective}": text,
        "objective_direction": experiment.objective.direction or "",
        "objective_unit": experiment.objective.unit or "",
        "objective_program": experiment.objective.program,
        "objective_subject_to": "\n".join(experiment.objective.subject_to),
    }
    sampler = "optuna" if experiment.sampler.startswith("optuna:") else experiment.sampler
    own["sampler_name"] = sampler
    own |= flatten_fields(experiment.sampler_options, f"sampler.{sampler}")
    if sampler == "optuna":
        own["sampler.optuna.name"] = experiment.sampler.removeprefix("optuna:")
    own |= flatten_fields(fields["budget"], "budget")
    for name in ("resampling", "pruning"):
        own |= flatten_fields(fields[name], name)
    for name, rule in fields["stopping"].items():
        own |= {f"stopping.{name}.on": "yes"} | flatten_fields(rule or {}, f"stopping.{name}")
    own |= flatten_fields(experiment.confirmation.model_dump(exclude_defaults=True), "confirmation")
    own |= flatten_fields(experiment.workload.model_dump(exclude_none=True), "workload")
    own |= flatten_fields(
        {k: v for k, v in experiment.hooks.model_dump(exclude_defaults=True).items() if k not in _HOOK_LINES}, "hooks"
    )
    batch = experiment.batch.model_dump(exclude_defaults=True)
    own["batch.directives"] = "\n".join(batch.pop("directives", []))
    own |= flatten_fields(batch, "batch")
    own |= {f"hooks.{name}": "\n".join(getattr(experiment.hooks, name)) for name in _HOOK_LINES}
    own |= {name: "\n".join(fields[name]) for name in _LINES}
    own["stdin"] = "" if experiment.stdin is None else experiment.stdin.text or ""
    own["env"] = "\n".join(f"{name}={value}" for name, value in experiment.env.items())
    own["parameters"] = "\n".join(
        f"[{_key(name)}]\n"
        + "".join(f"{k} = {toml_value(v)}\n" for k, v in override.model_dump(exclude_defaults=True).items())
        for name, override in experiment.parameters.items()
    )
    for name in ("seed", "warmup", "timeout", "scratch", "files", "model"):
        if getattr(experiment, name) != getattr(plain, name):
            own[name] = str(getattr(experiment, name))
    own["override"] = "yes" if experiment.override else "no"
    return own


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else toml_value(name)


async def _read_form(request: Request) -> dict[str, str]:
    """What the form holds; of several values of one name (stacks) all, parted by blanks."""
    found: dict[str, list[str]] = {}
    async with request.form(max_fields=1000, max_files=0) as data:
        for name, value in data.multi_items():
            if isinstance(value, str) and name != "csrf_token":
                found.setdefault(name, []).append(value)
    return {name: " ".join(values) for name, values in found.items()}


@resource.page("")
def new(request: Request, service: Here, like: Annotated[str | None, Query(max_length=64)] = None) -> HTMLResponse:
    """Show the form, empty or like another experiment."""
    values: dict[str, str] = {"folder": str(service.settings.folders[0])}
    if like:
        record = service.store.record(like)
        values = values_of(record.experiment, record.facts.folder or "", service.settings.data)
    return render(request, "new.html", title="New experiment", **form(service, values), dry=None, error=None)


@resource.form("/check")
async def check(request: Request, service: Here, user: User) -> HTMLResponse:
    """Show the dry run."""
    given = await _read_form(request)
    try:
        dry = await run_in_threadpool(lambda: experiments.preview(service, *definition_of(given)))
        error = None
    except StripewiseError as found:
        dry, error = None, found
    shown = await run_in_threadpool(form, service, given)
    return render(request, "new.html", title="New experiment", **shown, dry=dry, error=error)


@resource.form("")
async def start(request: Request, service: Here, user: User) -> Response:
    """Start the experiment."""
    given = await _read_form(request)

    def work() -> str:
        definition, folder = definition_of(given)
        return experiments.create(service, definition, folder, user, agreed=given.get("agreed") == "yes").id

    try:
        identifier = await run_in_threadpool(work)
    except StripewiseError as error:
        shown = await run_in_threadpool(form, service, given)
        return render(request, "new.html", status_of(error), title="New experiment", **shown, dry=None, error=error)
    request.state.subject = identifier
    return RedirectResponse(f"/experiments/{identifier}", 303)
