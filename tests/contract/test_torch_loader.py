"""Settings of PyTorch's loaders, with PyTorch itself: the same samples and random numbers, in the same order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stripewise.runners.in_python as hook
from stripewise.catalogue.carriers import PYTHON, Setting
from stripewise.observe.journal import parse_journal, report_of
from stripewise.observe.orders import Order, append_orders
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import Report, read_report_file

pytest.importorskip("torch")
LOADER = "torch.utils.data.DataLoader"
PROGRAM = """
import random, numpy, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
class Samples(Dataset):
    def __init__(self, draw=None): self.draw = draw
    def __len__(self): return 40
    def __getitem__(self, at): return torch.full((3,), float(at)), {{"at": at + (self.draw() if self.draw else 0)}}
class Stream(IterableDataset):
    def __iter__(self): return iter(range(40))
torch.manual_seed(3); random.seed(3); numpy.random.seed(3)
loader = {loader}
for epoch in range(3):
    print([str(batch) for batch in loader], torch.rand(1), random.random(), numpy.random.rand())
"""
ALL = {"num_workers": "2", "prefetch_factor": "4", "persistent_workers": "true"}


def run(folder: Path, loader: str, settings: dict[str, str], **more: object) -> tuple[str, Report]:
    folder.mkdir(exist_ok=True)
    asked = {"set": {f"{LOADER}.{key}": text for key, text in settings.items()}, "watch": [f"{LOADER}."], **more}
    variables = {"STRIPEWISE_PYTHON": json.dumps({**asked, "report": str(folder)})}
    variables["PYTHONPATH"] = str(Path(hook.__file__).parent)
    command = [sys.executable, "-c", PROGRAM.format(loader=loader)]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    assert merge_parts(folder, folder / "report.json")
    return done.stdout, read_report_file(folder / "report.json")


@pytest.mark.parametrize(
    "loader",
    [
        "DataLoader(Samples(), batch_size=8, shuffle=True)",
        "DataLoader(Samples(), batch_size=7, shuffle=True, generator=torch.Generator().manual_seed(1))",
        "DataLoader(TensorDataset(torch.arange(40)), 16, True, drop_last=True)",
        "DataLoader(Samples(), sampler=torch.utils.data.WeightedRandomSampler([1.0] * 40, 20), batch_size=None)",
    ],
)
def test_samples_order_and_random_numbers_stay_with_workers_of_a_loader(tmp_path: Path, loader: str) -> None:
    plain, _ = run(tmp_path / "default", loader, {})
    printed, report = run(tmp_path / "set", loader, ALL)
    assert printed == plain
    (told,) = report.loaders
    assert (told.workers, told.workers_started, told.prefetch, told.iterators) == (2, 2, 4, 3)
    assert {one.outcome for found in report.objects for one in found.settings} == {"applied"}


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        ("DataLoader(Samples(lambda: torch.rand(1)), batch_size=8)", "draws random numbers"),
        ("DataLoader(Samples(numpy.random.default_rng(1).random), batch_size=8)", "draws random numbers"),
        ("DataLoader(Samples(numpy.random.rand), batch_size=8)", "draws random numbers"),
        ("DataLoader(Stream(), batch_size=8)", "iterable"),
    ],
)
def test_a_loader_whose_samples_would_differ_keeps_what_it_has(tmp_path: Path, loader: str, why: str) -> None:
    plain, _ = run(tmp_path / "default", loader, {})
    printed, report = run(tmp_path / "set", loader, ALL)
    assert printed == plain and report.loaders[0].workers == 0
    assert why in next(one.note for one in report.objects[0].settings if one.key.endswith("num_workers"))


def test_a_loader_with_workers_of_its_own_only_reads_further_ahead(tmp_path: Path) -> None:
    loader = "DataLoader(Samples(lambda: torch.rand(1)), batch_size=8, num_workers=1)"
    plain, _ = run(tmp_path / "default", loader, {})
    printed, report = run(tmp_path / "set", loader, ALL)
    assert printed == plain and (report.loaders[0].workers, report.loaders[0].prefetch) == (1, 4)


@pytest.mark.parametrize(
    "loader",
    [
        "DataLoader(Samples(), batch_size=8, shuffle=True)",
        "DataLoader(Samples(), batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(1))",
    ],
)
def test_orders_between_epochs_leave_samples_order_and_random_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader: str
) -> None:
    monkeypatch.setitem(globals(), "PROGRAM", PROGRAM.replace("range(3)", "range(6)"))
    plain, _ = run(tmp_path / "default", loader, {})
    site, workers = f"{LOADER} of Samples in batches of 8", Setting(PYTHON, f"{LOADER}.num_workers", "2")
    ahead = Setting(PYTHON, f"{LOADER}.prefetch_factor", "4")
    wanted = [[], [workers], [workers, ahead], [], [workers]]
    append_orders(tmp_path / "orders", [Order(n, site, "read", one) for n, one in enumerate(wanted, 1)])
    printed, _ = run(tmp_path / "set", loader, {}, orders=[str(tmp_path / "orders"), str(tmp_path / "answers")])
    assert printed == plain
    answers = parse_journal((tmp_path / "answers").read_text("utf-8")).phases
    loaders = [report_of([one]).loaders[0] for one in answers]
    assert [one.order for one in answers] == [1, 2, 3, 4, 5, 0] and not any(one.missed for one in answers)
    assert [(one.workers_started, one.prefetch, one.samples) for one in loaders] == [
        (0, 0, 40), (2, 2, 40), (2, 4, 40), (0, 0, 40), (2, 2, 40), (0, 0, 40)
    ]  # fmt: skip
