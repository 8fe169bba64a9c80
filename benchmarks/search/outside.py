# ruff: noqa: PLC0415  each tool is imported only in its own environment
"""Tools that need a Python of their own, driven from the race by lines of JSON.

    PYTHON benchmarks/search/outside.py TOOL

runs in the tool's environment, where Stripewise is not installed. The first line of its input describes the search:
``{"axes": [{"name", "count", "ordered"}], "start": {name: level} or null, "seed", "budget"}``. It prints a proposal,
``{name: level}``, and reads what was measured, ``{"levels": {name: level}, "cost": number}``, until its input ends.

``hebo`` needs HEBO 0.3.6, ``baco`` a checkout of github.com/baco-authors/baco on ``PYTHONPATH``; ``run.py race``
is told their Pythons with ``--python``.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

Levels = dict[str, int]
Measure = Callable[[Levels], tuple[Levels, float]]
"""Takes a proposal; gives the levels that were measured in its place, and their cost."""


def hebo(task: dict[str, Any], measure: Measure) -> None:
    """HEBO with its defaults."""
    import numpy as np
    import pandas as pd
    from hebo.design_space.design_space import DesignSpace
    from hebo.optimizers.hebo import HEBO

    def parameter(axis: dict[str, Any]) -> dict[str, Any]:
        if axis["ordered"]:
            return {"name": axis["name"], "type": "int", "lb": 0, "ub": axis["count"] - 1}
        return {"name": axis["name"], "type": "cat", "categories": list(range(axis["count"]))}

    names = [axis["name"] for axis in task["axes"]]
    optimizer = HEBO(DesignSpace().parse([parameter(axis) for axis in task["axes"]]), scramble_seed=task["seed"])
    proposal = task["start"]
    while True:
        if proposal is None:
            proposal = {name: int(value) for name, value in optimizer.suggest().iloc[0].items()}
        levels, cost = measure(proposal)
        optimizer.observe(pd.DataFrame([[levels[name] for name in names]], columns=names), np.array([[cost]]))
        proposal = None


def baco(task: dict[str, Any], measure: Measure) -> None:
    """BaCO with its defaults: ten random points, and then a Gaussian process."""
    from baco.param import transformations
    from baco.run import optimize
    from baco.util.file import read_settings_file

    transformations.warnings = warnings  # which it uses without an import
    start = task["start"] or {}

    def parameter(axis: dict[str, Any]) -> dict[str, Any]:
        values = list(range(axis["count"])) if axis["ordered"] else [f"v{level}" for level in range(axis["count"])]
        described = {"parameter_type": "ordinal" if axis["ordered"] else "categorical", "values": values}
        return described | ({"parameter_default": values[start[axis["name"]]]} if start else {})

    def level(value: Any) -> int:
        # Categories come as tensors of their places, or by name.
        return int(float(value.item() if hasattr(value, "item") else str(value).removeprefix("v")))

    with tempfile.TemporaryDirectory(prefix="race-baco-") as folder:
        scenario = {
            "application_name": "race",
            "optimization_objectives": ["cost"],
            "optimization_iterations": task["budget"],
            "input_parameters": {axis["name"]: parameter(axis) for axis in task["axes"]},
            "run_directory": folder,
            "output_data_file": str(Path(folder) / "samples.csv"),
        }
        path = Path(folder) / "scenario.json"
        path.write_text(json.dumps(scenario), "utf-8")

        def black_box(point: dict[str, Any]) -> float:
            return measure({name: level(value) for name, value in point.items()})[1]

        optimize(read_settings_file(str(path)), black_box)


TOOLS = {"hebo": hebo, "baco": baco}


def main() -> None:
    warnings.filterwarnings("ignore")
    # What a tool prints must not get between the lines of the protocol.
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lines = iter(sys.stdin.readline, "")
    task = json.loads(next(lines))
    import numpy as np
    import torch

    random.seed(task["seed"])
    np.random.seed(task["seed"])
    torch.manual_seed(task["seed"])
    torch.set_num_threads(1)

    def measure(levels: Levels) -> tuple[Levels, float]:
        print(json.dumps(levels), file=said, flush=True)
        line = next(lines, None)
        if line is None:
            os._exit(0)
        told = json.loads(line)
        return told["levels"], told["cost"]

    TOOLS[sys.argv[1]](task, measure)


if __name__ == "__main__":
    main()
