"""A study as named steps: each has its inputs, is done once, and is kept in a file beside the others' results.

A step is done again where its inputs differ from those that it was done with, or where a step before it was done again.
A study that was interrupted goes on with the first step that is missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results"
WORK = ROOT / "build" / "studies"


class StudyError(RuntimeError):
    """A command of a study ended with an error."""


class OutOfTime(Exception):  # noqa: N818  no error: the same command goes on
    """The time that was given is over, and steps are left."""


class Study:
    """Results of a study, step by step.

    Parameters
    ----------
    name : str
    results : Path
        Folder of the results; ``NAME.json`` is the study's.
    work : Path
        Folder for tables, models and journals, which can be made again.
    quick : bool
        Everything in small, to see that it works; the figures mean nothing.
    until : float
        Time of :func:`time.monotonic` after which no further step begins.

    Attributes
    ----------
    kept : Path
        Folder of measured tables that took long, so that what reads them can be done again without measuring.
    """

    def __init__(
        self, name: str, results: Path, work: Path, quick: bool = False, *, until: float = float("inf")
    ) -> None:
        self.name = name
        self.quick = quick
        self.until = until
        self.file = results / f"{name}.json"
        self.work = work / name
        self.work.mkdir(parents=True, exist_ok=True)
        self.kept = results / "tables"
        self.kept.mkdir(parents=True, exist_ok=True)
        self._stale = False
        self._done: dict[str, Any] = {}
        if self.file.exists():
            kept = json.loads(self.file.read_text("utf-8"))
            self._done = kept["steps"] if kept["quick"] == quick else {}

    def size(self, whole: Any, quick: Any) -> Any:
        """Give the first for a study, the second for a quick look at it."""
        return quick if self.quick else whole

    def step(
        self, name: str, compute: Callable[[], Any], kind: str, makes: tuple[Path, ...] = (), **inputs: Any
    ) -> Any:
        """Give the result of a step, done now or before.

        Parameters
        ----------
        name : str
        compute : callable
            Gives what is to be kept; JSON.
        kind : {"simulated", "measured", "computed"}
            What its figures are.
        makes : tuple of Path
            Files that later steps read: where one of them is missing the step is done again.
        **inputs
            Everything that decides the result.

        Raises
        ------
        OutOfTime
            Where the step is to be done and the study's time is over.
        """
        known = self._done.get(name)
        given = json.loads(json.dumps(inputs))
        if known is not None and known["inputs"] == given and not self._stale and all(map(Path.exists, makes)):
            return known["result"]
        if time.monotonic() >= self.until:
            raise OutOfTime(f"{self.name}: time is over before {name}; the same command goes on there")
        self._stale = self._stale or bool(makes)
        print(f"{self.name}: {name} ...", file=sys.stderr, flush=True)
        wall, processor = time.perf_counter(), _processor()
        result = json.loads(json.dumps(compute()))
        self._done[name] = {
            "kind": kind,
            "inputs": given,
            "seconds": round(time.perf_counter() - wall, 2),
            "processor_seconds": round(_processor() - processor, 2),
            "result": result,
        }
        self._save()
        return result

    def _save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        document = {"study": self.name, "quick": self.quick, "steps": self._done}
        part.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        part.replace(self.file)


def _processor() -> float:
    """Processor seconds of this process and of the children it has waited for."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def stripewise(*words: str | Path, folder: Path | None = None) -> Any:
    """Run a command of Stripewise, as ``stripewise WORDS --json`` would, and give its document.

    Raises
    ------
    StudyError
        With the command, where it does not end with 0.
    """
    from stripewise.desk.cli.main import main  # noqa: PLC0415  loads the engine

    arguments = [str(word) for word in words]
    place = arguments.index("--") if "--" in arguments else len(arguments)
    arguments[place:place] = ["--json"]
    with _inside(folder), contextlib.redirect_stdout(io.StringIO()) as out:
        code = main(arguments)
    if code != 0:
        raise StudyError(f"stripewise {' '.join(arguments)} ended with {code}")
    return json.loads(out.getvalue())


@contextlib.contextmanager
def _inside(folder: Path | None) -> Iterator[None]:
    before = Path.cwd()
    if folder is not None:
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def in_memory(study: Study) -> Iterator[Path]:
    """A folder in memory for a while, where this machine has such; always the same, as a journal asks for it."""
    memory, name = Path("/dev/shm"), hashlib.sha256(str(study.work.absolute()).encode()).hexdigest()[:12]
    folder = (memory if memory.is_dir() else Path(tempfile.gettempdir())) / f"stripewise-study-{name}"
    folder.mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_toml(path: Path, document: Mapping[str, Any]) -> Path:
    """Write a file of tables of plain values, as campaigns and experiments are."""
    lines: list[str] = []
    _table(lines, "", document)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _table(lines: list[str], prefix: str, document: Mapping[str, Any]) -> None:
    for key, value in document.items():
        if not isinstance(value, Mapping) and not _tables(value):
            # JSON's texts, numbers, lists and booleans are TOML's too.
            lines.append(f"{key} = {json.dumps(value)}")
    for key, value in document.items():
        if isinstance(value, Mapping):
            lines.append(f"\n[{prefix}{key}]")
            _table(lines, f"{prefix}{key}.", value)
        elif _tables(value):
            for entry in value:
                lines.append(f"\n[[{prefix}{key}]]")
                _table(lines, f"{prefix}{key}.", entry)


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def summarised(plan: Mapping[str, Any], table: Path, title: str, text: str, *options: str | Path) -> dict[str, Any]:
    """Profile a campaign and give what is dependable in its table.

    Parameters
    ----------
    plan : mapping
        The campaign.
    table : Path
        Where its table goes.
    title, text : str
        Of the page.
    *options
        Of ``profile``.
    """
    file = write_toml(table.with_name(f"{table.name}-campaign.toml"), plan)
    stripewise("site", "profile", file, "--out", table, *options)
    told = stripewise("site", "summarize", table)
    operations = {}
    for name, own in told["operations"].items():
        if not own["consistent"]:
            continue  # each workload has one configuration, or no repeats: there is nothing to compare
        # The most dependable setting that lies in the clusters' best one for the most workloads would be the same pick.
        best = own["consistent"][0]
        words = ", ".join(f"{key}={value}" for key, value in best["configuration"].items() if value is not None)
        by_cluster = max(own["consistent"], key=lambda entry: (entry["best_cluster"], entry["low"]))
        operations[name] = {
            "configurations": len(own["summaries"]),
            "clusters": own["clusters"]["count"] if own["clusters"] else 1,
            "configuration": best["configuration"],
            "setting": words,
            "low": best["low"],
            "best_cluster": best["best_cluster"],
            "picked_by_clusters": by_cluster["best_cluster"] <= best["best_cluster"],
        }
    apis = ", ".join(plan["workload"][0]["values"])
    return {
        "title": title,
        "text": f"{text} {told['rows']:,} runs of {apis}, {plan['repeats']} of each configuration.",
        "rows": told["rows"],
        "operations": operations,
    }
