"""``stripewise knobs`` and ``stripewise bundle``."""

import json
import zipfile

import pytest

from stripewise.cli.main import main
from stripewise.spec.experiment import Experiment
from stripewise.store.opening import open_store

SCRIPT = 'export MPICH_MPIIO_HINTS="*:cb_nodes=8"\nexport OMPI_MCA_fcoll=vulcan\nmpirun ./a\n'


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return path


def test_knobs_says_what_is_dead(script, capsys):
    assert main(["knobs", str(script), "--mpi", "openmpi", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dead"] == 1
    assert [(one["line"], one["verdict"]) for one in found["settings"]] == [(1, "dead"), (2, "live")]
    assert main(["knobs", str(script)]) == 0
    assert "only Cray MPICH reads MPICH_MPIIO_HINTS" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--mpi", "lam"], ["--operation", "dance"]])
def test_wrong_words_are_refused_with_the_right_ones(script, words, capsys):
    assert main(["knobs", str(script), *words]) == 2
    assert "mpich" in capsys.readouterr().err or words[0] == "--operation"


def test_a_script_that_is_not_there_is_named(tmp_path, capsys):
    assert main(["knobs", str(tmp_path / "none.sh")]) == 2
    assert "none.sh" in capsys.readouterr().err


def test_bundle_writes_a_zip_file(tmp_path, capsys):
    store = f"sqlite:///{tmp_path}/s.db"
    opened = open_store(store)
    identifier = opened.create(Experiment(name="x", command=["./a"], env={"MY_TOKEN": "s3cret"}))
    opened.close()
    target = tmp_path / "b.zip"
    assert main(["bundle", identifier, "-o", str(target), "--store", store, "--json"]) == 0
    told = {"id": identifier, "file": str(target), "bytes": target.stat().st_size}
    assert json.loads(capsys.readouterr().out) == told
    with zipfile.ZipFile(target) as archive:
        text = archive.read(f"stripewise-{identifier}/experiment.json").decode()
    assert "s3cret" not in text and json.loads(text)["name"] == "x"
    assert main(["bundle", identifier, "-o", str(tmp_path / "no" / "b.zip"), "--store", store]) == 1
    assert "--output" in capsys.readouterr().err
