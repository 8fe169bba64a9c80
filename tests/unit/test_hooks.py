"""Around a run: what is deleted, what leaves the memory, and what is refused."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.filesystems.base import mount_type
from stripewise.errors import RunFailed, UserError
from stripewise.runners import hooks
from stripewise.runners.batch.script import Work, job_script
from tests.conftest import require

MEMORY = ("tmpfs", "ramfs")


def test_named_files_and_patterns_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    for name in ("out.dat", "part.0", "part.1", "keep.me"):
        (tmp_path / name).write_text("x")
    (tmp_path / "part.d").mkdir()
    assert hooks.delete(["out.dat", "part.?", "absent"], tmp_path) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keep.me", "part.d"]


def test_a_link_stays_and_its_target_goes(tmp_path: Path) -> None:
    target = tmp_path / "fast" / "data"
    target.parent.mkdir()
    target.write_text("x")
    link = tmp_path / "out"
    link.symlink_to(target)
    assert hooks.delete(["out"], tmp_path) == 1
    assert link.is_symlink()
    assert not target.exists()


def by_this_process(pattern: str, cwd: Path, within: list[Path] | None) -> str:
    try:
        hooks.delete([pattern], cwd, within)
    except RunFailed as failure:
        return str(failure)
    return ""


def by_the_jobs_script(pattern: str, cwd: Path, within: list[Path] | None) -> str:
    # A run's folder belongs to one job.
    folder = Path(tempfile.mkdtemp(dir=cwd))
    work = Work(folder, cwd, ("true",), delete=(str(cwd / pattern),), deletes_in=within)
    subprocess.run(["bash", "-c", job_script(work)], check=True)
    said = (folder / "ended").read_text().partition("message ")[2]
    return said.strip()


@pytest.mark.parametrize("deleting", [by_this_process, by_the_jobs_script])
def test_a_pattern_follows_no_planted_link(deleting: Callable[..., str], tmp_path: Path) -> None:
    victim = tmp_path / "home" / "thesis"
    victim.parent.mkdir()
    victim.write_text("x")
    cwd = tmp_path / "it's shared"
    cwd.mkdir()
    (cwd / "out.0001").write_text("x")
    (cwd / "out.last").symlink_to("out.0001")
    assert deleting("out.*", cwd, None) == ""
    assert not (cwd / "out.0001").exists()
    (cwd / "out.9").symlink_to(victim)
    assert "out.9 is a link to another folder or of another user" in deleting("out.*", cwd, None)
    assert victim.exists()
    assert deleting("out.9", cwd, None) == "", "a link that is named is followed"
    assert not victim.exists()


@pytest.mark.parametrize("deleting", [by_this_process, by_the_jobs_script])
def test_no_link_of_another_user_is_followed(deleting: Callable[..., str], tmp_path: Path) -> None:
    """In a folder such as /tmp, anybody could make a link of the name that somebody deletes."""
    require(os.getuid() == 0, "giving a link to another user needs root")
    victim, cwd = tmp_path / "home" / "thesis", tmp_path / "it's shared"
    for folder in (victim.parent, cwd):
        folder.mkdir()
    victim.write_text("x")
    os.chown(cwd, 111, -1)
    for name, target in (("out", "home/thesis"), ("sub", "home"), ("staff", "home/thesis")):
        (cwd / name).symlink_to(Path("..") / target)
        os.chown(cwd / name, 111 if name == "staff" else 222, -1, follow_symlinks=False)
    (cwd / "own").symlink_to("sub")
    for name, link in (("out", "out"), ("sub/thesis", "sub"), ("own/thesis", "sub"), ("own/th*", "sub")):
        said = deleting(name, cwd, None)
        assert f"{link}, on the way to " in said and "is a link of another user" in said
    assert victim.exists()
    for path in (cwd, cwd / "staff"):
        os.chown(path, 65534, -1, follow_symlinks=False)
    cwd.chmod(0o1777)
    assert "is a link of another user" in deleting("staff", cwd, None), "in a container that may be anyone"
    for path in (cwd, cwd / "staff"):
        os.chown(path, 111, -1, follow_symlinks=False)
    assert deleting("staff", cwd, None) == "" and not victim.exists(), "who owns the folder is trusted"


@pytest.mark.parametrize("deleting", [by_this_process, by_the_jobs_script])
def test_a_link_that_is_exchanged_while_it_is_looked_at_is_not_followed(
    deleting: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who can rename in a folder exchanges a link and a file there without end."""
    require(os.getuid() == 0, "giving a link to another user needs root")
    victim, cwd, tools = (tmp_path / name for name in ("thesis", "shared", "bin"))
    victim.write_text("x")
    for folder in (cwd, tools):
        folder.mkdir()
    (cwd / "out").symlink_to(victim)
    os.chown(cwd / "out", 222, -1, follow_symlinks=False)
    read = os.readlink

    def exchange(*given: Any, **named: Any) -> Any:
        target = read(*given, **named)
        (tmp_path / "file").write_text("x")
        (tmp_path / "file").replace(cwd / "out")
        return target

    monkeypatch.setattr(os, "readlink", exchange)
    tool = tools / "readlink"
    tool.write_text(
        f'#!/bin/sh\n/usr/bin/env -i {shutil.which("readlink")} "$@"\n: >{cwd}/file; mv {cwd}/file {cwd}/out\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    assert "is a link of another user" in deleting("out", cwd, None)
    assert victim.exists()


@pytest.mark.parametrize("deleting", [by_this_process, by_the_jobs_script])
@pytest.mark.parametrize("pattern", ["out.1", "sub/file", "sub/f*", "../home/file"])
def test_nothing_is_deleted_outside_the_folders_whatever_becomes_a_link(
    deleting: Callable[..., str], pattern: str, tmp_path: Path
) -> None:
    """The service checks a path when it is asked; links and values of placeholders come later."""
    victim = tmp_path / "home" / "file"
    victim.parent.mkdir()
    victim.write_text("x")
    cwd = tmp_path / "it's root"
    cwd.mkdir()
    (cwd / "sub").symlink_to(victim.parent)
    (cwd / "out.1").symlink_to(victim)
    assert "leads outside the folders of the service" in deleting(pattern, cwd, [cwd])
    assert victim.exists()
    (cwd / "mine").write_text("x")
    assert deleting("mine", cwd, [tmp_path / "other", cwd]) == ""
    assert not (cwd / "mine").exists()


def test_a_file_that_cannot_be_deleted_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").write_text("x")

    def refuse(path: str, *, dir_fd: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(RunFailed, match=r"cannot delete .*out before the run: Permission denied"):
        hooks.delete(["out"], tmp_path)


@pytest.mark.parametrize("pattern", ["*/out", "sub", ".", "*", ""])
def test_folders_and_wide_patterns_are_refused_beforehand(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with pytest.raises(UserError, match=r"hooks\.delete"):
        hooks.check_deletions([pattern], tmp_path)


def test_a_pattern_for_all_files_of_a_folder_is_refused_with_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'out/\*' would delete every file of .*out") as caught:
        hooks.check_deletions(["out/*"], tmp_path)
    assert "as in 'out/*.dat'" in caught.value.fix


def test_sensible_deletions_are_accepted(tmp_path: Path) -> None:
    hooks.check_deletions(["out.dat", "sub/part.*", "/scratch/me/x"], tmp_path)


def resident(path: Path) -> int:
    """Pages of a file that are in memory."""
    size = path.stat().st_size
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    with (
        path.open("r+b") as file,
        mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as view,
    ):
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        assert libc.mincore(address, size, pages) == 0
    return sum(page & 1 for page in pages)


def test_advice_takes_a_files_pages_out_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20))
    require(mount_type(tmp_path) not in MEMORY, f"{tmp_path} lies in memory, whose pages cannot leave it")
    before = resident(path)
    caches = hooks.empty_caches("advise", [path, tmp_path / "absent"])
    assert caches.state == "advised"
    assert before > 0
    assert resident(path) == 0


def test_without_known_files_nothing_is_claimed(tmp_path: Path) -> None:
    assert hooks.empty_caches("advise", [tmp_path / "absent"]).state == "unknown"
    assert hooks.empty_caches("none", []) == hooks.Caches("unknown")


def test_dropping_the_systems_caches_needs_the_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "can_drop_caches", lambda: False)
    with pytest.raises(UserError, match="needs root; use 'advise'"):
        hooks.check_caches("system")
    hooks.check_caches("advise")


def test_caches_that_could_not_be_dropped_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "_DROP", tmp_path / "no" / "such")
    caches = hooks.empty_caches("system", [])
    assert caches.state == "unknown"
    assert "not dropped" in caches.note


def test_a_file_that_lies_in_memory_cannot_be_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").write_text("x")
    monkeypatch.setattr(hooks, "mount_type", lambda path: "tmpfs")
    caches = hooks.empty_caches("advise", [tmp_path / "data"])
    assert caches.state == "unknown"
    assert "lies in memory" in caches.note
