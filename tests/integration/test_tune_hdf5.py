"""`stripewise tune --stack hdf5` on a parallel HDF5 program, from the search to the file that its result makes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from stripewise.desk.cli.main import main
from stripewise.observe.report import parse_report
from tests.integration.building import cache_home, checked, native_parts
from tests.integration.conftest import Mpi
from tests.integration.forked import finished
from tests.integration.hdf5_support import HDF5_PARTS, debian_mpi, differences, hdf5_options
from tests.integration.runtime_support import PROGRAMS

USUAL = {"hdf5_alignment": 1, "hdf5_alignment_threshold": 1, "hdf5_coll_metadata_write": False}
BEST = {"hdf5_alignment": 65536, "hdf5_alignment_threshold": 4096, "hdf5_coll_metadata_write": True}
# What the program says of its file is the objective, so that the best settings are known: no clock decides.
EXPERIMENT = r"""
sampler = "exhaustive"
[objective]
name = "regex:score (\\d+)"
direction = "maximize"
[parameters.hdf5_alignment]
values = ["64 KiB"]
[parameters.hdf5_alignment_threshold]
values = ["4 KiB"]
[parameters.hdf5_meta_block_size]
exclude = true
[parameters.hdf5_mdc_size]
exclude = true
[parameters.hdf5_chunk_shape]
exclude = true
[parameters.hdf5_file_space_strategy]
exclude = true
[parameters.hdf5_file_space_page_size]
exclude = true
"""
LARGE = ("large0", "large1", "large2", "large3")
Stripewise = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def mpi() -> Mpi:
    return debian_mpi("mpich")


@pytest.fixture(scope="module")
def program(mpi: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("program") / "hdf5_patterns"
    checked([mpi.mpicc, "-O1", PROGRAMS / "hdf5_patterns.c", *hdf5_options(mpi), "-o", built])
    return built


@pytest.fixture
def cache(mpi: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    native_parts(tmp_path_factory, mpi.mpicc, *HDF5_PARTS)
    return cache_home(tmp_path_factory)


@pytest.fixture
def stripewise(tmp_path: Path, cache: Path) -> Stripewise:
    """Give the command, with a home of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STRIPEWISE")}
    environment |= {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_STATE_HOME": str(tmp_path / "state")}
    environment["XDG_CACHE_HOME"] = str(cache)

    def run(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        if words[0] in ("show", "export"):
            # What launches nothing is done in this process, which has loaded everything already.
            output = io.StringIO()
            with mock.patch.dict(os.environ, environment, clear=True), contextlib.redirect_stdout(output):
                assert main([*map(str, words)]) == code
            return subprocess.CompletedProcess(words, code, output.getvalue(), "")
        done = finished(list(map(str, words)), environment, tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


def tuned(stripewise: Stripewise, tmp_path: Path, command: list[str], *options: object) -> dict[str, Any]:
    """The result of a search over what EXPERIMENT leaves of the stack."""
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(EXPERIMENT)
    words = ["tune", experiment, "--stack", "hdf5", "--delete", tmp_path / "data.h5", "--json", *options]
    return dict(json.loads(stripewise(*words, "--", *command).stdout))


def plain(command: list[str], file: Path, target: Path) -> Path:
    """The file as the program makes it by itself, under another name."""
    file.unlink(missing_ok=True)
    subprocess.run(command, capture_output=True, check=True)
    return file.rename(target)


def places(file: Path) -> dict[str, int]:
    """Where datasets lie, as h5dump says."""
    told = subprocess.run(["h5dump", "-p", "-H", str(file)], capture_output=True, text=True, check=True).stdout
    found = re.findall(r'DATASET "(\w+)".*?OFFSET (\d+)', told, re.S)
    return {name: int(offset) for name, offset in found}


def is_tuned(file: Path) -> bool:
    found = places(file)
    return all(found[name] % 65536 == 0 for name in LARGE) and found["small"] % 65536 != 0


def test_settings_are_searched_proven_and_applied(
    mpi: Mpi, program: Path, stripewise: Stripewise, tmp_path: Path
) -> None:
    file = tmp_path / "data.h5"
    words = [str(program), str(file), "scored"]
    command = [*mpi.mpiexec(2), *words]
    usual = plain(command, file, tmp_path / "usual.h5")
    assert not any(place % 65536 == 0 for place in places(usual).values())

    result = tuned(stripewise, tmp_path, command, "--budget", 24, "--pairs", 6)
    assert result["confirmed"] and (result["default"]["value"], result["best"]["value"]) == (11, 17)
    assert result["best"]["configuration"] == BEST
    assert result["settings"] == dict.fromkeys(BEST, "effective")
    evidence = {effect["name"]: effect["evidence"] for effect in result["effects"]}
    assert evidence["hdf5_alignment"] == "4 of 4 datasets start at a multiple of 64 KiB, 0 of 4 by default"
    assert evidence["hdf5_alignment_threshold"] == "1 dataset below 4 KiB is not at a multiple of 64 KiB"
    assert re.fullmatch(r"\d+ collective write calls of MPI, \d+ by default", evidence["hdf5_coll_metadata_write"])
    assert "reads only" in result["left_out"]["hdf5_chunk_cache"]

    assert "--to plan|shell|sbatch\n" in stripewise("show", result["experiment"]).stdout

    # Each run had just the settings of its trial: HDF5 itself was asked for them.
    identifier = result["experiment"]
    shown = json.loads(stripewise("show", identifier, "--json").stdout)
    assert len(shown["trials"]) == 6, "each configuration that differs"
    for trial in shown["trials"]:
        wanted = {**USUAL, **trial["configuration"]}
        for run in trial["runs"]:
            report = json.loads((Path(run["folder"]) / "report.json").read_text())
            (seen,) = [entry for entry in parse_report(report).files if entry.path == str(file)]
            assert seen.hdf5 is not None
            has = {key: seen.hdf5.properties[key.removeprefix("hdf5_")] for key in BEST}
            assert has == {key: str(value).lower() for key, value in wanted.items()}

    # Applied from the store, from the plan and from the lines of a shell, it makes that file, and no other content.
    plan, lines = tmp_path / "best.plan", tmp_path / "settings.sh"
    stripewise("export", identifier, "--to", "plan", "-o", plan)
    stripewise("export", identifier, "--to", "shell", "-o", lines)
    library = json.loads(stripewise("site", "native", "build", "--mpicc", mpi.mpicc, "--json").stdout)["library"]
    launch = f'{shlex.join(mpi.mpiexec(2))} env LD_PRELOAD="$STRIPEWISE_LIBRARY" {shlex.join(words)}'
    script = f"export STRIPEWISE_LIBRARY={shlex.quote(library)}; . {shlex.quote(str(lines))}; {launch}"
    for way in (identifier, plan, script):
        file.unlink()
        if way is script:
            subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True)
        else:
            assert "score 17" in stripewise("run", way, "--", *command).stdout
        assert is_tuned(file), way
        assert differences(usual, file) == ""
    hints = json.loads(stripewise("export", identifier, "--to", "hints", "--json").stdout)
    assert "alignment=65536 is not an MPI-IO hint" in hints["cannot"]


def test_a_setting_that_the_library_took_and_that_does_nothing_is_told_so(
    mpi: Mpi, program: Path, stripewise: Stripewise, tmp_path: Path
) -> None:
    """On a file of one rank HDF5 says that metadata is written collectively, and there is nobody to write it with."""
    command = [*mpi.mpiexec(1), str(program), str(tmp_path / "data.h5"), "scored"]
    result = tuned(stripewise, tmp_path, command, "--budget", 12, "--pairs", 0)
    assert result["candidate"]["configuration"] == BEST
    expected = dict.fromkeys(BEST, "effective") | {"hdf5_coll_metadata_write": "no_effect"}
    assert result["settings"] == expected
    assert result["ineffective"] == ["hdf5_coll_metadata_write"]
    (effect,) = [effect for effect in result["effects"] if effect["status"] == "no_effect"]
    assert (effect["echoed"], effect["evidence"]) == ("true", "the file was opened by one rank")


def test_a_program_without_hdf5_ends_in_one_line(mpi: Mpi, stripewise: Stripewise, tmp_path: Path) -> None:
    built = tmp_path / "strided"
    checked([mpi.mpicc, PROGRAMS / "strided.c", "-o", built])
    command = [*mpi.mpiexec(2), str(built), str(tmp_path / "file")]
    done = stripewise("tune", "--stack", "hdf5", "--budget", 12, "--", *command, code=2)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("stripewise: ")]
    assert "no parameter of hdf5 can act on this program: hdf5_alignment acts on files used through hdf5" in line
    assert "used through mpiio" in line
