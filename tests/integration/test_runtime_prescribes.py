"""The runtime's decision is what ``stripewise prescribe`` answers, for workloads that are known in part or in full."""

from __future__ import annotations

import functools
import itertools
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stripewise.catalogue.carriers import HINT, LAYOUT
from stripewise.catalogue.workload import Workload
from stripewise.models.artifact.export import to_artifact
from stripewise.models.artifact.file import read_artifact, save_artifact
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import make_model
from stripewise.models.table import Column, ObjectiveColumn, Schema, make_table
from tests.conftest import require
from tests.fixtures.campaigns import GIB, MIB, campaign
from tests.fixtures.decisions import CASES, by_c, by_python, model_of
from tests.fixtures.sparse import CONSTRAINT, buffered, patterns
from tests.integration.building import ROOT, checked, core_library
from tests.integration.runtime_support import PROGRAMS

SETTINGS = ("stripe_count", "stripe_size", "romio_cb_write", "cb_nodes")
PROGRAM = ("stripe_count", "stripe_size", "transfer_size", "collective")


@pytest.fixture(scope="module")
def decide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    require(compiler is not None, "no C compiler")
    program = tmp_path_factory.mktemp("decide") / "decide"
    native, core = ROOT / "native", core_library(tmp_path_factory)
    options = ["-std=gnu11", "-O1", f"-I{native / 'include'}", f"-I{native / 'core'}", f"-Wl,-rpath,{core.parent}"]
    checked([str(compiler), *options, str(PROGRAMS / "decide.c"), str(core), "-o", str(program), "-lm"])
    return program


@functools.cache
def trained(tunables: tuple[str, ...]) -> Any:
    return make_model("boosting", {"rounds": 25}).fit(campaign(tunables=tunables, repeats=1, noise=0.05))


def workloads(seed: int, count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        words: dict[str, Any] = {
            "operation": str(rng.choice(["write", "read"], p=[0.8, 0.2])),
            "nodes": int(rng.choice([2, 3, 4, 8])),
            "processes_per_node": int(rng.choice([1, 2, 4])),
            "file_size": int(rng.choice([1, 3, 8])) * GIB,
            "collective": bool(rng.random() < 0.5),
            "transfer_size": int(rng.choice([1, 16, 256])) * MIB,
        }
        for name in ("file_size", "collective", "transfer_size"):
            if rng.random() < 0.4:
                del words[name]
        found.append(words)
    return found


def spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("tunables", [SETTINGS, PROGRAM], ids=["settings", "program"])
def test_the_same_settings_for_the_same_workload(decide: Path, tmp_path: Path, tunables: tuple[str, ...]) -> None:
    model = trained(tunables)
    save_artifact(to_artifact(model), tmp_path / "model.swm")
    prescriber = Prescriber(model, file_system="lustre")
    changed = 0
    for words in workloads(len(tunables[2]), 24):
        now = {"stripe_count": 1, "stripe_size": MIB}
        given = [f"{name}={spelled(value)}" for name, value in words.items()]
        ranks = words["nodes"] * words["processes_per_node"]
        command = [str(decide), str(tmp_path / "model.swm"), "lustre", *given, f"processes={ranks}"]
        command += [f"now:{name}={value}" for name, value in now.items()]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        verdict, gain, margin, combinations, settings, why = done.stdout.split("\n")[:6]
        expected = prescriber.prescribe(PrescriptionRequest(Workload.model_validate(words), now))
        assert int(combinations) == expected.combinations, words
        assert verdict == ("kept" if expected.kept else "changed"), (words, gain, margin, expected.kept)
        if verdict == "changed":
            changed += 1
            lines = sorted(s.line() for s in expected.plan.settings if s.carrier in (HINT, LAYOUT))
            assert sorted(settings.split(";")) == lines, (words, why)
            assert float(gain) == pytest.approx(expected.gain, rel=1e-6, abs=1e-9)
        else:
            assert settings == ""
    assert changed >= 6


@pytest.mark.parametrize("name", CASES)
def test_golden_cases_are_decided_alike_by_python_and_c(decide: Path, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    save_artifact(to_artifact(model_of(case["model"])), tmp_path / "model.swm")
    golden = case["verdict"], case["settings"]
    assert by_python(case) == golden
    assert by_c(case, decide, tmp_path / "model.swm") == golden


def test_a_new_category_counts_as_every_measured_one_in_python_and_c(decide: Path, tmp_path: Path) -> None:
    columns = [
        Column(name="operation", kind="categorical", role="operation", values=["write", "read"]),
        Column(name="api", kind="categorical", role="api", values=["posix", "hdf5", "pnetcdf"]),
        Column(name="stripe_count", kind="ordinal", role="stripe_count", scale="log2", values=[1, 4, 16], default=1),
    ]
    gains = {"posix": 1.5, "hdf5": 0.9, "pnetcdf": 1.1}
    rows = [
        {"operation": o, "api": a, "stripe_count": c, "bandwidth": 100.0 * gains[a] ** math.log2(c), "repeat": r}
        for o, a, c, r in itertools.product(("write", "read"), gains, (1, 4, 16), range(8))
    ]
    objective = ObjectiveColumn(column="bandwidth", direction="maximize", unit="MiB/s")
    table = make_table(Schema(name="apis", objective=objective, context=columns[:2], parameter=columns[2:]), rows)
    model = make_model("boosting", {"rounds": 60}).fit(table)
    save_artifact(to_artifact(model), tmp_path / "model.swm")
    command = [
        str(decide),
        str(tmp_path / "model.swm"),
        "lustre",
        "operation=write",
        "api=mpiio",
        "now:stripe_count=1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    workload = Workload(operation="write", api="mpiio")
    expected = Prescriber(model, file_system="lustre").prescribe(PrescriptionRequest(workload, {"stripe_count": 1}))
    assert any(
        note == "api = mpiio was never measured: the mean over posix, hdf5, pnetcdf counts" for note in expected.notes
    )
    assert done.stdout.split("\n")[0] == "changed" and not expected.kept
    assert float(done.stdout.split("\n")[1]) == pytest.approx(expected.gain, rel=1e-6)
    # The mean of the three logarithms, and a doubt that holds how far they differ.
    assert expected.gain == pytest.approx(4 * np.mean(np.log([1.5, 0.9, 1.1])), abs=0.1)
    assert expected.deviation > 4 * np.std(np.log([1.5, 0.9, 1.1]), ddof=1)
    many = Prescriber(model, file_system="lustre").everything([PrescriptionRequest(workload, {"stripe_count": 1})])
    assert many[0]["api"] == "mpiio"


def test_what_was_never_measured_is_left_alone(decide: Path, tmp_path: Path) -> None:
    save_artifact(to_artifact(trained(SETTINGS)), tmp_path / "model.swm")
    command = [
        str(decide),
        str(tmp_path / "model.swm"),
        "lustre",
        "operation=append",
        "nodes=2",
        "processes_per_node=1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "undecided" and "never saw operation = append" in done.stdout


SPARSE = {
    "constraint": lambda: patterns([CONSTRAINT]),
    "rows_alone": lambda: patterns([]),
    "large_pieces": lambda: buffered([4 * MIB], 1.3),
    "all_pieces": lambda: buffered([4096, 4 * MIB], 1.3),
}


@pytest.mark.parametrize("name", SPARSE)
def test_neither_prescribes_what_was_not_measured_or_is_expected_to_harm(
    decide: Path, tmp_path: Path, name: str
) -> None:
    model = make_model("boosting", {"rounds": 60}).fit(SPARSE[name]())
    artifact = to_artifact(model)
    assert artifact.expected
    assert bool(artifact.measured) is name.endswith(("constraint", "alone"))
    save_artifact(artifact, tmp_path / "model.swm")
    again = read_artifact(tmp_path / "model.swm")
    assert (again.measured, again.expected) == (artifact.measured, artifact.expected)
    prescriber = Prescriber(model, file_system="lustre")
    harms = 0
    choices = ("write", None), (True, False, None), ("strided", "segmented", None), (4096, 4 * MIB, None)
    for number, (operation, together, layout, piece) in enumerate(itertools.product(*choices)):
        told = {"operation": operation, "collective": together, "layout": layout, "piece_size": piece, "nodes": 4}
        words = {key: value for key, value in told.items() if value is not None}
        words |= {"processes_per_node": 4, "transfer_size": 16 * MIB}
        # Each value of each choice meets both: three is odd.
        now = {"stripe_count": (1, 4)[number % 2]}
        given = [f"{key}={spelled(value)}" for key, value in words.items()]
        given += [f"now:{key}={value}" for key, value in now.items()]
        command = [str(decide), str(tmp_path / "model.swm"), "lustre", *given, "processes=16"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        verdict, gain, _, combinations, settings, why = done.stdout.split("\n")[:6]
        expected = prescriber.prescribe(PrescriptionRequest(Workload.model_validate(words), now))
        assert verdict == ("kept" if expected.kept else "changed"), (words, expected.kept, why)
        lines = sorted(s.line() for s in expected.plan.settings if s.carrier in (HINT, LAYOUT))
        assert sorted(filter(None, settings.split(";"))) == lines, (words, why)
        assert int(combinations) == expected.combinations, words
        if combinations == "0":
            assert "no combination of the settings was measured with this workload" in why
        elif verdict == "changed":
            assert float(gain) == pytest.approx(expected.gain, rel=1e-6, abs=1e-9)
        harms += "hint romio_cb_write disable" in lines and layout == "strided"
    assert bool(harms) is (name in ("large_pieces", "all_pieces"))
