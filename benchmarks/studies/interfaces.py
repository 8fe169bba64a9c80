# ruff: noqa: E501  texts of the page
"""Study 004 for real: POSIX, MPI-IO and HDF5 on this machine; a profile of one run prescribes, and the program tunes itself."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.studies.steps import Study, StudyError, in_memory, stripewise, summarised, write_toml

HERE = Path(__file__).resolve().parent
KIB, MIB = 1 << 10, 1 << 20
RANKS = 2
BYTES = 4 * MIB
"""Of one checkpoint, by all ranks."""
MPICC = "mpicc.mpich"
MPIEXEC = ["mpiexec.mpich", "-n", str(RANKS)]
HDF5 = ["-I/usr/include/hdf5/mpich", "-L/usr/lib/x86_64-linux-gnu/hdf5/mpich", "-lhdf5"]
TUNABLES: dict[str, list[Any]] = {
    "romio_cb_write": ["automatic", "disable"],
    "romio_cb_read": ["automatic", "disable"],
    "hdf5_coll_metadata_write": [False, True],
    "hdf5_alignment": [1, MIB],
}
HELD = 4096
"""Bytes a piece of the program that is prescribed for and tunes itself."""


def built(work: Path, mpicc: str | Path = MPICC, *, hdf5: bool = True) -> Path:
    """Compile the program; by default with Debian's MPICH and its parallel HDF5."""
    program = work / "interfaces"
    command = [str(mpicc), "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(HERE / "interfaces.c")]
    command += ["-DWITH_HDF5", *HDF5] if hdf5 else []
    if shutil.which(mpicc) is None:
        raise StudyError(f"{mpicc} is missing: apt-get install libmpich-dev libhdf5-mpich-dev")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StudyError(f"{' '.join(command)}: {done.stderr.strip()}")
    return program


def campaign(program: Path, apis: Sequence[str], pieces: Sequence[int], repeats: int) -> dict[str, Any]:
    """Every interface and size of a piece, with collective buffering and what HDF5 does about metadata and alignment."""
    return {
        "name": "sctuner-real",
        "program": "command",
        "launcher": MPIEXEC,
        "command": [str(program), "{api}", "{operation}", "{file}", "{piece_size}", "{pieces}", "1"],
        "stacks": ["romio", "hdf5"],
        "operations": ["write", "read"],
        "objective": "regex:bandwidth: ([0-9.]+) MiB/s",
        "direction": "maximize",
        "unit": "MiB/s",
        "repeats": repeats,
        "constraints": [f"piece_size * pieces == {BYTES // RANKS}"],
        "workload": [
            {"name": "api", "values": list(apis)},
            {"name": "processes_per_node", "values": [RANKS]},
            {"name": "file_size", "values": [BYTES]},
            {"name": "layout", "values": ["strided"]},
            {"name": "piece_size", "values": list(pieces)},
            {"name": "pieces", "role": "other", "values": sorted(BYTES // RANKS // piece for piece in pieces)},
            {"name": "collective", "values": [True]},
        ],
        "tunable": [
            {"name": name, "values": values, **({"operations": ["write"]} if name.startswith("hdf5") else {})}
            for name, values in TUNABLES.items()
        ],
    }


class Program:
    """The program under the runtime, its phases timed by itself.

    Parameters
    ----------
    study : Study
    folder : Path
        Where it writes.
    piece, total : int
        Bytes of a piece, and of a checkpoint by all ranks.
    """

    def __init__(self, study: Study, folder: Path, piece: int = HELD, total: int = BYTES) -> None:
        self._program, self._folder = built(study.work), folder
        self._piece, self._pieces = piece, total // RANKS // piece
        self._library = stripewise("site", "native", "build", "--mpicc", shutil.which(MPICC) or MPICC)["library"]

    def run(self, phases: int, environment: Mapping[str, str], settings: Sequence[str] | None = None) -> list[float]:
        """Seconds of each phase of an HDF5 program that writes checkpoints; ``settings`` are lines of a plan."""
        words = {"LD_PRELOAD": self._library, **environment}
        if settings is not None:
            plan = self._folder / "plan"
            plan.write_text("\n".join(["stripewise-plan 1", *settings, ""]), "utf-8")
            words |= {"STRIPEWISE_MODE": "apply", "STRIPEWISE_PLAN": str(plan)}
        command = [*MPIEXEC, "env", *(f"{name}={value}" for name, value in words.items()), str(self._program), "hdf5"]
        command += ["write", str(self._folder / "chk"), str(self._piece), str(self._pieces), str(phases)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STRIPEWISE_")}
        done = subprocess.run(command, capture_output=True, text=True, env=clean, check=False, timeout=900)
        if done.returncode or "stripewise:" in done.stderr:
            raise StudyError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        for file in self._folder.glob("chk*"):
            file.unlink()
        return [float(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("phase ")]


def real(study: Study) -> None:
    """Measure and summarise; then one observed run prescribes, and the program learns while it runs."""
    apis, pieces = study.size(["posix", "mpiio", "hdf5"], ["hdf5"]), [4 * KIB]
    repeats, phases, rounds = study.size(100, 1), study.size(60, 5), study.size(5, 1)
    table, model = study.work / "interfaces-table", study.work / "interfaces.model"
    with in_memory(study) as folder:
        study.step(
            "real campaign",
            lambda: summarised(
                campaign(built(study.work), apis, pieces, repeats),
                table,
                "On this machine (measured)",
                f"{RANKS} ranks of MPICH write and read {BYTES // MIB} MiB in interleaved pieces, collectively, to files in memory.",
                "--folder", folder, "--journal", study.work / "interfaces-journal",
            ),
            "measured",
            (table.with_suffix(".csv"),),
            apis=apis, pieces=pieces, repeats=repeats, tunables=TUNABLES,
        )  # fmt: skip
        study.step(
            "extractor",
            lambda: _prescribed(Program(study, folder), study.work, table, model, study.size("auto", "boosting")),
            "measured",
            (model,),
            piece=HELD, model=study.size("auto", "boosting"),
        )  # fmt: skip
        study.step(
            "online",
            lambda: online(Program(study, folder), study.work, model, study.size(statics(), _few()), phases, rounds),
            "measured",
            phases=phases, rounds=rounds, seed=0,
        )  # fmt: skip


def _prescribed(program: Program, work: Path, table: Path, model: Path, kind: str) -> dict[str, Any]:
    """Observe one run with default settings; what its report shows is all that the prescription is asked with."""
    stripewise("site", "train", table, "--model", kind, "--out", model)
    report = work / "report.json"
    program.run(1, {"STRIPEWISE_MODE": "observe", "STRIPEWISE_REPORT": str(report)})
    told = stripewise("prescribe", model, "--from", report)
    declared = write_toml(work / "declared.toml", {"workload": _declared()})
    known = stripewise("prescribe", model, "--workload", declared)
    (file,) = (entry for entry in json.loads(report.read_text("utf-8"))["files"] if entry["hdf5"])
    sets = [entry for entry in file["hdf5"]["datasets"] if entry["write"]["calls"]]
    return {
        "datasets": len(sets),
        "collective": sum(entry["write"]["collective"] for entry in sets),
        "selections": sorted({name for entry in sets for name, count in entry["write"]["selections"].items() if count}),
        "bytes": sum(entry["write"]["bytes"] for entry in sets),
        "workload": told["workload"],
        "settings": told["settings"],
        "declared_settings": known["settings"],
        "speedup": told["speedup"],
    }


def _declared() -> dict[str, Any]:
    return {
        "operation": "write", "processes_per_node": RANKS, "file_size": BYTES, "layout": "strided", "piece_size": HELD,
        "collective": True, "api": "hdf5",
    }  # fmt: skip


def statics() -> dict[str, list[str]]:
    """Lines of a plan for every setting of a writer."""
    found = {}
    for buffering in TUNABLES["romio_cb_write"]:
        for together in TUNABLES["hdf5_coll_metadata_write"]:
            for alignment in TUNABLES["hdf5_alignment"]:
                lines = [f"hint romio_cb_write {buffering}"] if buffering != "automatic" else []
                lines += ["hdf5 coll_metadata_write true"] if together else []
                lines += [f"hdf5 alignment {alignment}"] if alignment > 1 else []
                found[", ".join(lines) or "default"] = lines
    return found


def _few() -> dict[str, list[str]]:
    """The default and the last, for a quick look."""
    return {name: lines for place, (name, lines) in enumerate(statics().items()) if place in (0, 7)}


def online(
    program: Program, work: Path, model: Path, plans: Mapping[str, Sequence[str]], phases: int, rounds: int
) -> dict[str, Any]:
    """The best static setting is known from turns of all; then it, the default and mode online take turns."""
    artifact = work / "interfaces.swm"
    stripewise("prescribe", model, "--artifact", artifact)
    shuffle = random.Random(0)
    swept: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(rounds):
        for name in shuffle.sample(list(plans), len(plans)):
            # The first phase also loads the libraries.
            swept[name] += program.run(max(3, phases // 6), {}, plans[name])[1:]
    best = min(swept, key=lambda name: statistics.median(swept[name]))
    learning = {"STRIPEWISE_MODE": "online", "STRIPEWISE_MODEL": str(artifact)}
    kept = []
    for _ in range(rounds):
        totals = {}
        for name in shuffle.sample(["default", "best", "online"], 3):
            online = name == "online"
            lines = None if online else plans[best if name == "best" else name]
            totals[name] = sum(program.run(phases, learning if online else {}, lines))
        kept.append(totals)
    return {
        "phases": phases,
        "best": best,
        "medians": {name: statistics.median(values) for name, values in swept.items()},
        "rounds": kept,
        "over_best": statistics.median(totals["online"] / totals["best"] for totals in kept),
        "over_default": statistics.median(totals["default"] / totals["online"] for totals in kept),
    }
