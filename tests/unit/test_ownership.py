"""What others can have changed is not used, and what is private is made so, whatever the umask."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import resource
import socket
import stat
import struct
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from stripewise.catalogue.stack import load_stack
from stripewise.desk.cli.main import main
from stripewise.desk.cli.output import write_text
from stripewise.desk.cli.plan_run import plan_in
from stripewise.desk.client.transport import _OverSocket, default_socket
from stripewise.desk.server.commands import _write_secret, data_folder
from stripewise.diagnose.causes.models import load
from stripewise.diagnose.site import TableWriter
from stripewise.engine.folders import folder_alone, make_applied_folder, make_runs_folder
from stripewise.errors import RunFailed, StripewiseError, UserError
from stripewise.models.artifact.file import read_artifact
from stripewise.models.files import Stored, write_model_file
from stripewise.models.registry import load_model
from stripewise.output.html import save_text
from stripewise.ownership import check_above, check_own, checked_model, make_folder
from stripewise.requests.experiment import Experiment
from stripewise.runners.hooks import delete
from stripewise.runners.local.scratch import Scratch
from stripewise.runners.registry import make_runner
from stripewise.store.opening import default_path, open_store
from tests.conftest import require


def test_a_runs_folder_is_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Scratch(tmp_path / "runs" / "ab12" / "7", "x").create({"plan": "text"}, {})
    finally:
        os.umask(before)
    for folder in ("runs", "runs/ab12", "runs/ab12/7"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700


def test_a_folder_is_made_though_another_process_removes_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, path = tmp_path / "runs", tmp_path / "runs" / "7"
    mkdir, removals = Path.mkdir, iter(range(3))

    def removed_before(self: Path, mode: int) -> None:
        if self == path and parent.exists() and next(removals, None) is not None:
            parent.rmdir()
        mkdir(self, mode)

    monkeypatch.setattr(Path, "mkdir", removed_before)
    assert set(make_folder(path)) == {parent, path}
    assert path.is_dir()


@pytest.mark.parametrize("path", ["file/folder", "link", "/proc/stripewise"])
def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(OSError, match=path.rsplit("/", 1)[0]):
        make_folder(tmp_path / path)


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    require(os.getuid() == 0, "giving a file to another user needs root")
    file = tmp_path / "file"
    file.touch(0o600)
    check_own(file, "the file")
    os.chown(file, 65534, 65534)
    with pytest.raises(UserError, match=r"the file .* belongs to another user \(65534\)"):
        check_own(file, "the file")


def test_a_link_of_another_user_does_not_choose_what_is_written(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "needs root: files of others")
    (tmp_path / "passwd").write_text("root")
    link = tmp_path / "my.plan"
    link.symlink_to(tmp_path / "passwd")
    write_text(link, "own link\n")
    assert (tmp_path / "passwd").read_text() == "own link\n"
    os.lchown(link, 12345, 12345)
    with pytest.raises(UserError, match="is a link of another user; choose another file"):
        write_text(link, "stripewise-plan 1\n")
    with pytest.raises(UserError, match="is a link of another user; choose another file with --table"):
        TableWriter(link)
    assert (tmp_path / "passwd").read_text() == "own link\n"


def test_a_link_that_takes_a_files_place_while_it_is_written_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "passwd").write_text("root")
    report, looked = tmp_path / "report.html", Path.is_symlink
    report.touch()

    def exchange(path: Path) -> bool:
        found = looked(path)
        if path == report:
            report.unlink()
            report.symlink_to(tmp_path / "passwd")
        return found

    monkeypatch.setattr(Path, "is_symlink", exchange)
    write_text(report, "<html>\n")
    assert (tmp_path / "passwd").read_text() == "root"


def test_the_kernels_links_and_links_to_special_files_are_written(capfd: pytest.CaptureFixture[str]) -> None:
    write_text(Path("/dev/stdout"), "to a stream\n")
    write_text(Path("/dev/null"), "gone\n")
    assert capfd.readouterr().out == "to a stream\n"


def test_a_pipe_of_another_user_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "needs root: files of others")
    pipe = tmp_path / "a.plan"
    os.mkfifo(pipe)
    os.chown(pipe, 12345, 12345)
    freed = threading.Timer(10, lambda: os.open(pipe, os.O_RDWR))
    freed.start()
    begun = time.monotonic()
    with pytest.raises(UserError, match=r"the plan .* belongs to user 12345"), checked_model(pipe, "plan"):
        pass
    freed.cancel()
    assert time.monotonic() - begun < 9


def test_in_a_container_nobody_owns_what_any_user_of_its_host_has_made(tmp_path: Path) -> None:
    """There the kernel shows one owner for all users that have no number in it, root of the host among them."""
    require(os.geteuid() == 0, "needs root: files of others")
    (tmp_path / "thesis").write_text("x")
    shared, model = tmp_path / "shared", tmp_path / "shared" / "a.model"
    (shared / "me").mkdir(parents=True)
    model.touch()
    (shared / "out").symlink_to(tmp_path / "thesis")
    for path in (shared, shared / "me", shared / "out", model):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    shared.chmod(0o755)
    check_above(shared / "me", "the folder", group=True)
    with checked_model(model):
        pass
    shared.chmod(0o1777)
    with pytest.raises(UserError, match="user 65534 made the folder"):
        check_above(shared / "me", "the folder", group=True)
    with pytest.raises(UserError, match=r"the model .* belongs to user 65534"), checked_model(model):
        pass
    with pytest.raises(RunFailed, match="is a link of another user"):
        delete(["out"], shared)
    assert (tmp_path / "thesis").exists()


def test_what_finds_no_room_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "my.plan"
    write_text(file, "what was there\n")
    file.chmod(0o620)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(UserError, match="File too large"):
            write_text(file, "x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_text() == "what was there\n" and list(tmp_path.iterdir()) == [file]
    write_text(file, "new\n")
    assert file.read_text() == "new\n" and stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_that_others_could_exchange_is_refused(tmp_path: Path) -> None:
    """A library is checked once and loaded hours later: who can rename the folder of builds puts another there."""
    shared, cache = tmp_path / "shared", tmp_path / "shared" / "a" / "native"
    cache.mkdir(parents=True)
    experiment = Experiment(command=["true"], scratch=str(cache))

    def refused(mode: int) -> list[str]:
        shared.chmod(mode)
        found = []
        for check in (
            lambda: check_above(cache, "the folder of built libraries"),
            lambda: make_runs_folder(experiment),
        ):
            try:
                check()
            except UserError as error:
                found.append(error.what)
        return found

    assert [len(refused(mode)) for mode in (0o755, 0o1777, 0o777)] == [0, 0, 2]
    assert all(f"others can write {shared}, and so exchange the folder of" in what for what in refused(0o777))
    require(os.getuid() == 0, "giving a folder to another user needs root")
    os.chown(shared, 0, 12345)
    assert len(refused(0o770)) == 1, "runs may lie in a folder of a group, built libraries may not"
    os.chown(shared, 12345, 0)
    assert refused(0o755) == [f"user 12345 owns {shared}, and could exchange the folder of built libraries {cache}"]


def check_model(path: Path) -> None:
    with checked_model(path):
        pass


def test_what_takes_a_checked_files_place_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Members of a group can exchange names in a folder that they share, also between the check and the reading.
    plan, other = tmp_path / "a.plan", tmp_path / "other"
    model = tmp_path / "a.model"
    stated = os.fstat

    def exchange(opened: int) -> os.stat_result:
        for path in (plan, model):
            other.write_text("stripewise-plan 1\nenv WHO other\n")
            other.replace(path)
        return stated(opened)

    plan.write_text("stripewise-plan 1\nenv WHO owner\n")
    write_model_file(model, Stored({"model": "unknown"}, {}))
    with monkeypatch.context() as patched:
        patched.setattr("stripewise.ownership.os.fstat", exchange)
        assert [setting.value for setting in plan_in(plan).settings] == ["owner"]
    write_model_file(model, Stored({"model": "unknown"}, {}))
    with monkeypatch.context() as patched:
        patched.setattr("stripewise.ownership.os.fstat", exchange)
        with pytest.raises(UserError, match="unknown"):
            load_model(model)
    with pytest.raises(UserError, match=f"^{model} is not a performance model"):
        load_model(model)


def test_models_that_others_can_have_changed_are_refused(tmp_path: Path) -> None:
    shared, model = tmp_path / "shared", tmp_path / "shared" / "model"
    shared.mkdir(0o770)
    model.touch(0o644)
    (shared / "link").symlink_to(model)
    for path in (model, shared / "link"):
        check_model(path)
    for file, mode, says in (
        (model, 0o664, "others can write the model"),
        (model, 0o646, "others can write the model"),
        (shared, 0o777, "others can write the folder"),
    ):
        before = file.stat().st_mode
        file.chmod(mode)
        for read in (load_model, read_artifact):
            with pytest.raises(UserError, match=says):
                read(model)
        file.chmod(before)
    require(os.getuid() == 0, "giving a file to another user needs root")
    os.chown(model, 65534, 65534)
    for path in (model, shared / "link"):
        with pytest.raises(UserError, match="belongs to user 65534, and its folder to another"):
            check_model(path)
    # A folder of that user's own: staff share models so.
    os.chown(shared, 65534, 65534)
    check_model(model)


def test_train_writes_models_that_can_be_used_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        write_model_file(tmp_path / "model", Stored({}, {}))
    finally:
        os.umask(before)
    check_model(tmp_path / "model")


def test_the_default_store_is_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    open_store().close()
    default_path().chmod(0o666)
    with pytest.raises(UserError, match="others can write the store"):
        open_store()


def test_no_token_goes_to_a_socket_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        # Whoever listens is seen as the user that asked for it; here another one asks.
        monkeypatch.setattr("stripewise.desk.client.transport.struct.unpack", lambda *_: (1, 65534, 65534))
        with pytest.raises(UserError, match=r"another user \(65534\) listens on"):
            _OverSocket(str(path), 5.0).connect()


def test_nodes_that_share_a_home_have_sockets_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for node in ("login1.site.org", "login2.site.org"):
        monkeypatch.setattr(os, "uname", lambda node=node: SimpleNamespace(nodename=node))
        names.append(default_socket().name)
    assert names == ["server-login1.sock", "server-login2.sock"]


def test_a_calibration_that_others_can_have_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text("{}")
    path.chmod(0o666)
    with pytest.raises(UserError, match="others can write the calibration"):
        load(path)


def test_a_bare_word_is_an_identifier_whatever_the_folder_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a shared machine the file may be another user's, and a plan can preload a library."""
    monkeypatch.setenv("STRIPEWISE_STORE", f"sqlite:///{tmp_path}/store.db")
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path))
    monkeypatch.delenv("STRIPEWISE_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "romiox").write_text('name = "romiox"\n')
    (tmp_path / "2df67e55").write_text("stripewise-plan 1\nenv LD_PRELOAD /tmp/evil.so\n")
    assert main(["export", "2df67e55"]) == 2
    assert main(["run", "2df67e55", "--", "true"]) == 2
    assert main(["run", "2df67e55", "--server", "unix:/nowhere", "--", "true"]) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("does not exist in sqlite:") == 2
    assert "stripewise service token create" in said, "the service is asked, not the file"
    assert "LD_PRELOAD" not in said
    with pytest.raises(UserError, match="unknown stack 'romiox'"):
        load_stack("romiox")
    assert main(["export", "./2df67e55"]) == 0
    assert "evil" in capsys.readouterr().out


def test_plans_that_others_can_have_changed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "my.plan"
    plan.write_text("stripewise-plan 1\nhint cb_nodes 1\n")
    for command in (["run", str(plan), "--", "true"], ["export", str(plan)]):
        plan.chmod(0o664)
        assert main(command) == 2
        assert "others can write the plan" in " ".join(capsys.readouterr().err.split())
        plan.chmod(0o644)
    before = os.umask(0o002)
    try:
        assert main(["export", str(plan), "-o", str(tmp_path / "copy.plan")]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "copy.plan").stat().st_mode) == 0o644
    require(os.getuid() == 0, "giving a file to another user needs root")
    os.chown(plan, 65534, 65534)
    assert main(["run", str(plan), "--", "true"]) == 2
    assert "belongs to user 65534" in " ".join(capsys.readouterr().err.split())


def test_the_folders_of_a_service_are_its_owners_from_the_outermost_on(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        data_folder(tmp_path / "a/b")
        _write_secret(tmp_path / "c/d/token", "secret")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"a": 0o700, "b": 0o700, "c": 0o700, "d": 0o700, "token": 0o600}


def test_the_private_group_counts_for_nothing_with_others_in_it_or_in_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An access control list shows as rights of the group, whoever it names."""
    own = SimpleNamespace(gr_name=pwd.getpwuid(os.getuid()).pw_name, gr_mem=[])
    monkeypatch.setattr(grp, "getgrgid", lambda number: own)
    shared, cache = tmp_path / "shared", tmp_path / "shared" / "native"
    cache.mkdir(parents=True)
    shared.chmod(0o775)  # made under umask 002
    check_above(cache, "the folder")
    check_own(shared, "the folder")
    own.gr_mem = ["stranger"]
    with pytest.raises(UserError, match="others can write"):
        check_above(cache, "the folder")
    with pytest.raises(UserError, match="others can write the folder"):
        check_own(shared, "the folder")
    own.gr_mem = [own.gr_name]
    check_above(cache, "the folder")
    entries = [(0x01, 7, -1), (0x02, 7, 65534), (0x04, 0, -1), (0x10, 7, -1), (0x20, 0, -1)]
    rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(shared, "system.posix_acl_access", rights)
    except OSError as error:
        require(error.errno != errno.ENOTSUP, "the file system has no access control lists")
        raise
    with pytest.raises(UserError, match="others can write"):
        check_above(cache, "the folder")


def test_a_data_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(0o700)
    assert data_folder(folder) == folder
    folder.chmod(0o1777)
    with pytest.raises(UserError, match="others can write the data folder"):
        data_folder(folder)
    folder.chmod(0o755)
    tmp_path.chmod(0o777)
    with pytest.raises(UserError, match=f"others can write {tmp_path}, and so exchange the data folder .*--data$"):
        data_folder(folder)
    tmp_path.chmod(0o755)
    require(os.getuid() == 0, "giving a folder to another user needs root")
    os.chown(folder, 65534, 65534)
    with pytest.raises(UserError, match=r"the data folder .* belongs to another user"):
        data_folder(folder)


def test_runs_are_not_carried_out_in_a_folder_that_another_user_has_made(tmp_path: Path) -> None:
    """Where everyone may write, another user can take the name of an experiment's folder, and exchange its scripts."""
    require(os.getuid() == 0, "giving a folder to another user needs root")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    experiment = Experiment(command=["true"], setup=[":"])
    make_runner(experiment, shared / "ab12").prepare()
    assert stat.S_IMODE((shared / "ab12").stat().st_mode) == 0o700
    os.chown(shared / "ab12", 65534, 65534)
    with pytest.raises(UserError, match=r"the folder of the runs .* belongs to another user \(65534\)"):
        make_runner(experiment, shared / "ab12").prepare()
    os.chown(shared, 1, 1)
    with pytest.raises(UserError, match=f"others can write {shared}, and so exchange"):
        make_runner(experiment, shared / "cd34").prepare()


def test_a_folder_that_another_user_made_where_everyone_can_holds_no_runs(tmp_path: Path) -> None:
    """Its owner can let this user write in it by an access control list, and exchange what it holds."""
    require(os.getuid() == 0, "giving a folder to another user needs root")
    shared, theirs = tmp_path / "shared", tmp_path / "theirs"
    for folder in (shared, theirs, shared / "project"):
        folder.mkdir()
    shared.chmod(0o1777)
    check_above(shared / "project", "the folder", group=True)
    for folder in (theirs, shared / "project"):
        os.chown(folder, 65533, 65533)
    (theirs / "me").mkdir()
    check_above(theirs / "me", "the folder", group=True)  # whoever can make it there is a user of that folder's owner
    (shared / "project" / "me").mkdir()
    for folder in (shared / "project", shared / "project" / "me"):
        with pytest.raises(UserError, match=f"user 65533 made the folder in {shared} that holds the folder"):
            check_above(folder, "the folder", group=True)
    link = shared / "me"
    link.symlink_to(theirs)
    check_above(link, "the folder", group=True)
    os.chown(link, 65533, 65533, follow_symlinks=False)
    for folder in (link, link / "me"):
        with pytest.raises(UserError, match=f"{link}, on the way to the folder .* is a link of another user"):
            check_above(folder, "the folder", group=True)


def test_what_runs_leave_goes_into_no_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site may say /scratch/$USER, which another user can make before the user has one."""
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path / "scratch" / "me"))
    made, why = make_applied_folder()
    assert (made, why) == (tmp_path / "scratch" / "me" / "applied", "")
    require(os.getuid() == 0, "giving a folder to another user needs root")
    os.chown(made.parent, 65533, 65533)
    made.parent.chmod(0o777)
    elsewhere, why = make_applied_folder()
    assert elsewhere.parent != made.parent and f"others can write {made.parent}" in why
    made.parent.chmod(0o755)
    os.chown(made, 65533, 65533)
    elsewhere, why = make_applied_folder()
    assert elsewhere.parent != made.parent and "belongs to another user (65533)" in why


def test_an_array_writes_through_no_link_in_a_folder_that_another_user_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sbatch", "sacctmgr", "scontrol", "squeue"):
        (tmp_path / name).write_text("#!/bin/sh\necho 7\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    campaign, precious = tmp_path / "small.toml", tmp_path / "precious"
    campaign.write_text(
        'name = "small"\nexecutable = "/bin/true"\noperations = ["write"]\nstacks = ["romio"]\n'
        'launcher = ["srun", "-N", "{nodes}", "-n", "{processes}"]\n'
        '[[workload]]\nname = "nodes"\nrole = "nodes"\nvalues = [1]\n'
        '[[workload]]\nname = "file_size"\nrole = "file_size"\nvalues = ["8 MiB"]\n'
        '[[tunable]]\nname = "romio_cb_write"\nvalues = ["enable", "disable"]\n'
    )
    precious.write_text("precious")
    folder = tmp_path / "kept-array"
    folder.mkdir(0o700)
    (folder / "array.sbatch").symlink_to(precious)
    words = ["site", "profile", str(campaign), "--folder", str(tmp_path), "--journal", str(tmp_path / "kept")]
    words += ["--out", str(tmp_path / "t"), "--array", "1", "--yes"]
    assert main(words) == 0, capsys.readouterr().err
    assert precious.read_text() == "precious" and not (folder / "array.sbatch").is_symlink()
    require(os.getuid() == 0, "giving a folder to another user needs root")
    os.chown(folder, 65534, 65534)
    capsys.readouterr()
    assert main(words) == 2
    assert "belongs to another user (65534)" in capsys.readouterr().err


def test_a_file_that_is_no_regular_one_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="not a regular file"):
        write_model_file(pipe, Stored({}, {}))
    with pytest.raises(StripewiseError, match="not a regular file"):
        save_text(pipe, "text")
    assert main(["tune", "--report", str(pipe), "--", "true"]) == 2
    assert "--report" in capsys.readouterr().err
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_folders_can_be_used_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        make_folder(tmp_path / "a" / "b")
        with folder_alone(tmp_path / "a" / "c") as first, folder_alone(tmp_path / "a" / "c") as second:
            assert first == second, "both are of this process"
    finally:
        os.umask(before)
    for path, mode in (("a", 0o700), ("a/b", 0o700), ("a/c", 0o700), ("a/c/lock", 0o600)):
        assert (tmp_path / path).stat().st_mode & 0o777 == mode
