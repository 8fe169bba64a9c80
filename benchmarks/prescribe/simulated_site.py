"""A simulated site for benchmarks: a campaign on it, a model of that, and single runs."""

from __future__ import annotations

from pathlib import Path

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.main import main as command
from stripewise.launch import Launch, Outcome
from stripewise.models.base import PerformanceModel
from stripewise.models.registry import make_model
from stripewise.models.table import read_table
from stripewise.requests.experiment import Experiment
from stripewise.runners.base import Runner
from stripewise.runners.registry import make_runner
from stripewise.trial import Phase


def trained(campaign: str, model: str, folder: Path, seed: int = 0) -> PerformanceModel:
    """Run a campaign (TOML) with ``stripewise site profile`` and train a model on its table."""
    (folder / "campaign.toml").write_text(campaign, "utf-8")
    if command(["site", "profile", str(folder / "campaign.toml"), "--out", str(folder / "site")]):
        raise SystemExit(1)
    return make_model(model).fit(read_table(folder / "site"), seed)


class Site:
    """The runner of an experiment, one run after the other."""

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        self._runner: Runner = make_runner(experiment, folder)
        self._runner.prepare()
        self._number = 0

    def run(self, plan: Plan, configuration: Configuration | None = None) -> Outcome:
        """Run once."""
        self._number += 1
        setting = Configuration({}) if configuration is None else configuration
        self._runner.start(Launch("site", self._number, setting, plan, Phase.SEARCH, timeout=1e9))
        (outcome,) = self._runner.poll(0.0)
        return outcome
