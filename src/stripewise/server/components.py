"""What can be chosen: stacks, samplers with their options, runners, models, policies, and so on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stripewise.errors import UserError
from stripewise.model.registry import model_class, model_names
from stripewise.objectives import usages
from stripewise.prescribe.policies import policy_names
from stripewise.report.export import TARGETS
from stripewise.runner.registry import RUNNERS
from stripewise.search.pruning import PruningOptions
from stripewise.search.registry import sampler_class, sampler_names
from stripewise.search.resampling import ResamplingOptions
from stripewise.search.stopping import StoppingOptions
from stripewise.spec.campaign import preset_names
from stripewise.spec.site import site_names
from stripewise.spec.stack import load_stack, stack_names


@functools.cache
def components() -> dict[str, Any]:
    """Give all that can be chosen; options are JSON schemas."""
    return {
        "stacks": [stack(name) for name in stack_names()],
        "samplers": [found for name in sampler_names() if (found := _optioned(name, sampler_class))],
        "resampling": ResamplingOptions.model_json_schema(),
        "pruning": PruningOptions.model_json_schema(),
        "stopping": StoppingOptions.model_json_schema(),
        "runners": list(RUNNERS),
        "sites": list(site_names()),
        "objectives": usages(),
        "models": [found for name in model_names() if (found := _optioned(name, model_class))],
        "policies": list(policy_names()),
        "campaigns": list(preset_names()),
        "exports": list(TARGETS),
    }


def stack(name: str) -> dict[str, Any]:
    """Give a stack with its parameters."""
    loaded = load_stack(name)
    return {
        "name": name,
        "description": getattr(loaded, "description", ""),
        "parameters": [
            {
                "name": parameter.name,
                "kind": str(getattr(parameter.kind, "value", parameter.kind)),
                "values": [str(value) for value in list(parameter.values)[:64]],
                "count": len(parameter.values),
                "default": parameter.default,
                "unit": parameter.unit,
                "role": parameter.role,
                "description": parameter.description,
            }
            for parameter in loaded.parameters
        ],
    }


def _optioned(name: str, find: Callable[[str], Any]) -> dict[str, Any] | None:
    """Give a name with its options; None for what needs a package that is not installed, or names a family."""
    try:
        return {"name": name, "options": find(name).Options.model_json_schema()}
    except UserError:
        return None
