"""``stripewise knobs`` and ``stripewise experiment bundle``."""

import json
import zipfile

import pytest

from stripewise.desk.cli.main import main
from stripewise.requests.experiment import Experiment
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


HINTED = "#!/bin/sh\nexport ROMIO_HINTS={named}\nmpiexec -n 4 ./a\n"


@pytest.mark.parametrize(
    "named", ["$PWD/my.hints", "$(pwd)/my.hints", "my.hints", '"${SLURM_SUBMIT_DIR}/my.hints"', "FOLDER/my.hints"]
)
def test_the_file_that_the_script_names_is_read(tmp_path, capsys, named):
    script, hints = tmp_path / "job.sh", tmp_path / "my.hints"
    script.write_text(HINTED.format(named=named.replace("FOLDER", str(tmp_path))))
    hints.write_text("# of last year\ncb_nodes 4\nromio_cb_wrte enable\nthree words here\n")
    assert main(["knobs", str(script), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    said = "2 hints; lines without a name and a value, which ROMIO ignores: 1"
    assert told["hints_file"] == {"line": 2, "path": str(hints), "said": said}
    found = [(one["line"], one["file"], one["name"], one["verdict"]) for one in told["settings"]]
    assert found == [(2, str(hints), "cb_nodes", "live"), (3, str(hints), "romio_cb_wrte", "dead")]
    assert main(["knobs", str(script)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "ROMIO_HINTS names" in shown and "line 3 of" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HINTED.format(named="gone"), "this file does not exist here"),
        (". ~no.such.user/env\n" + HINTED.format(named="~no.such.user/h"), "that user is not known here"),
        (HINTED.format(named="$1/hints"), "only the job knows the name"),
        ("cat > $PWD/h <<EOF\ncb_nodes 4\nEOF\n" + HINTED.format(named="$PWD/h"), "the script itself writes it"),
        ("cat > h.$$ <<EOF\ncb_nodes 4\nEOF\nmv -f h.$$ h\n" + HINTED.format(named="$PWD/h"), "itself writes it"),
        (HINTED.format(named="long"), "ROMIO ignores files of 4096 bytes and more"),
    ],
)
def test_a_file_that_is_not_read_is_told_with_the_reason(tmp_path, capsys, text, said):
    (tmp_path / "long").write_text("cb_nodes 4\n" * 400)
    script = tmp_path / "job.sh"
    script.write_text(text)
    assert main(["knobs", str(script), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert said in told["hints_file"]["said"]
    assert all(one["file"] == "" for one in told["settings"])


def test_a_file_that_is_named_after_the_launch_is_dead(tmp_path, capsys):
    (tmp_path / "h").write_text("cb_nodes 4\n")
    script = tmp_path / "job.sh"
    script.write_text("mpiexec -n 4 ./a\nexport ROMIO_HINTS=h\n")
    assert main(["knobs", str(script), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["settings"]
    assert one["verdict"] == "dead" and "after the last program" in one["reason"]


def test_a_setting_is_explained_by_its_name(capsys):
    assert main(["knobs", "romio_ds_write"]) == 0
    out = capsys.readouterr().out
    assert "automatic, enable, disable (default automatic)" in out
    assert "take care: Forced to disable, silently" in out
    assert main(["knobs", "stripe_count", "--json"]) == 0
    assert {"lustre", "cephfs"} <= {one["stack"] for one in json.loads(capsys.readouterr().out)}
    assert main(["knobs", "romio_ds_wirte"]) == 2
    assert "did you mean romio_ds_write or " in capsys.readouterr().err


def test_bundle_writes_a_zip_file(tmp_path, capsys):
    store = f"sqlite:///{tmp_path}/s.db"
    opened = open_store(store)
    identifier = opened.create(Experiment(name="x", command=["./a"], env={"MY_TOKEN": "s3cret"}))
    opened.close()
    target = tmp_path / "b.zip"
    target.write_text("of somebody else")
    target.chmod(0o666)
    assert main(["experiment", "bundle", identifier, "-o", str(target), "--store", store, "--json"]) == 0
    told = {"id": identifier, "file": str(target), "bytes": target.stat().st_size}
    assert json.loads(capsys.readouterr().out) == told
    assert target.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(target) as archive:
        text = archive.read(f"stripewise-{identifier}/experiment.json").decode()
    assert "s3cret" not in text and json.loads(text)["name"] == "x"
    assert main(["experiment", "bundle", identifier, "-o", str(tmp_path / "no" / "b.zip"), "--store", store]) == 1
    assert "--output" in capsys.readouterr().err
