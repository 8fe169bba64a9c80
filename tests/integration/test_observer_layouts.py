"""Files that programs without MPI create are laid out, on pretended CephFS and Lustre (by our own statfs and lfs)."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import LAYOUT, Setting
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.engine.effects import verdicts
from stripewise.observe.from_report import activity_of
from stripewise.observe.left import PREFIX
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import Report, read_report_file
from stripewise.runners.injection import Guidance, prepare
from tests.integration.building import ROOT, checked, once
from tests.integration.test_observer import accelerator  # noqa: F401  a fixture

Create = Callable[..., Report]
FIXTURES = ROOT / "tests" / "fixtures"
CEPH, LUSTRE, BEEGFS = "00c36400", "0bd00bd0", "19830326"
STRIPES = "cephfs stripe_count=4,cephfs stripe_unit=65536,cephfs object_size=4194304"

# Every way to create a file, each with a file of its own; then what must be left alone.
CREATES = """
import ctypes, os, tempfile
c = ctypes.CDLL(None)
c.fopen.restype = ctypes.c_void_p
os.umask(0o027)
os.mkdir("folder")
os.symlink("folder", "link")
folder = os.open("folder", os.O_RDONLY)
def put(fd, text=b"text"):
    os.write(fd, text); os.close(fd)
put(os.open("folder/open", os.O_CREAT | os.O_WRONLY, 0o664))
put(os.open("openat", os.O_CREAT | os.O_RDWR, 0o666, dir_fd=folder))
put(os.open("link/through", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
put(c.creat(b"folder/creat", 0o644))
for name, mode in ((b"w", b"w"), (b"a", b"a+b"), (b"wx", b"wx")):
    stream = ctypes.c_void_p(c.fopen(b"folder/fopen-" + name, mode))
    c.fputs(b"text", stream); c.fclose(stream)
assert not c.fopen(b"folder/fopen-w", b"wx")
put(os.open("folder/exclusive", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
put(c.mkstemp(ctypes.create_string_buffer(b"folder/madeXXXXXX")))
put(os.open("folder/read-only", os.O_CREAT | os.O_WRONLY, 0o400))
with open("folder/old", "w") as old: old.write("old")
put(os.open("folder/old", os.O_CREAT | os.O_WRONLY, 0o666), b"new")
try: os.open("folder/exclusive", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
except FileExistsError: pass
else: raise SystemExit(1)
put(os.open("folder/other.txt", os.O_CREAT | os.O_WRONLY, 0o666))
assert open("folder/fopen-w").read() == open("folder/open").read() == "text"
"""
NEW = {"open": 0o640, "openat": 0o640, "through": 0o600, "creat": 0o640, "fopen-w": 0o640, "fopen-a": 0o640}
EXCLUSIVE = {"fopen-wx": 0o640, "exclusive": 0o640, "made": 0o600}
UNUSUAL = {"read-only": 0o400}


@pytest.fixture
def create(accelerator: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Create:  # noqa: F811
    """Create files on a pretended file system, and read the report."""

    def build(folder: Path) -> None:
        checked(["cc", "-shared", "-fPIC", FIXTURES / "preloads" / "pretended_fs.c", "-o", folder / "fs.so", "-ldl"])

    pretended = once(tmp_path_factory, "pretended-fs", build) / "fs.so"

    def run(layout: str, magic: str, files: str = "*", program: str = CREATES, **more: str) -> Report:
        given = {
            "LD_PRELOAD": f"{accelerator}:{pretended}",
            "PRETEND_MAGIC": magic,
            "STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}",
            "STRIPEWISE_LAYOUT": layout,
            "STRIPEWISE_POSIX_FILES": files,
            "PATH": f"{FIXTURES / 'bin'}:{os.environ['PATH']}",
        }
        words = [sys.executable, "-S", "-E", "-c", program]
        done = subprocess.run(
            words, env={**os.environ, **given, **more}, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert merge_parts(tmp_path, tmp_path / "report.json")
        return read_report_file(tmp_path / "report.json")

    return run


def made(tmp_path: Path) -> dict[str, int]:
    """The permissions of the files that the program made; of one with a name that was made up without its end."""
    files = [path for path in (tmp_path / "folder").iterdir() if path.suffix != ".layout"]
    return {path.name if path.name[:4] != "made" else "made": stat.S_IMODE(path.stat().st_mode) for path in files}


def laid(tmp_path: Path) -> set[str]:
    names = {path.stem for path in (tmp_path / "folder").glob("*.layout")}
    return {"made" if name.startswith("made") else name for name in names}


def test_cephfs_lays_out_every_new_file_that_is_chosen(create: Create, tmp_path: Path) -> None:
    report = create(f"{STRIPES},lustre stripe_count=2,cephfs none=1,stripes", CEPH, "*/folder/[!o.]*")
    expected = {**NEW, **EXCLUSIVE, **UNUSUAL}
    del expected["open"], expected["openat"]
    assert laid(tmp_path) == set(expected)
    assert {name: mode for name, mode in made(tmp_path).items() if name in expected} == expected
    (file,) = [file for file in report.files if file.path.endswith("/folder/through")]
    assert file.layout == {
        "file_system": "cephfs", "stripe_count": 4, "stripe_unit": 65536, "object_size": 4194304,
    }  # fmt: skip
    told = {setting.key: setting for setting in file.settings}
    assert told["cephfs stripe_count"].outcome == "applied" and told["cephfs stripe_count"].acted == 1
    other = told["lustre stripe_count"]
    assert (other.layer, other.outcome, other.missed) == ("layout", "not_applicable", 1)
    assert report.processes[0].settings_misread == 2
    setting = Setting(LAYOUT, "stripe_count", "4", "cephfs")
    (effect,) = verdicts(Space(load_stack("cephfs").parameters), [setting], [activity_of(report, "report")], [])
    assert effect.status == "unprovable"
    assert effect.evidence == "the file's stripe_count is 4; no run without it was observed"


def test_what_exists_keeps_its_layout_and_the_default_is_told(create: Create, tmp_path: Path) -> None:
    report = create(STRIPES, CEPH, "*/old")
    (file,) = [file for file in report.files if file.path.endswith("/old")]
    stripes = next(setting for setting in file.settings if setting.key == "cephfs stripe_count")
    assert (stripes.acted, stripes.missed, laid(tmp_path)) == (1, 1, {"old"})
    assert (tmp_path / "folder/old").read_text() == "new"
    (tmp_path / "told").write_text("")
    (tmp_path / "told.layout").write_text("stripe_count=1 stripe_unit=4194304 object_size=4194304")
    opens = "import os; os.open('told', os.O_CREAT | os.O_RDWR)"
    (file,) = [file for file in create("", CEPH, program=opens).files if file.path.endswith("/told")]
    assert file.layout is not None and file.layout["stripe_count"] == 1 and not file.settings
    (file,) = [file for file in create(STRIPES, CEPH, "told", program=opens).files if file.settings]
    assert {(setting.acted, setting.note) for setting in file.settings} == {(0, "the file exists")}


KEEPS_ERRNO = """
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
c.fopen.restype = ctypes.c_void_p
open("there", "w").write("text")
ctypes.set_errno(0)
assert c.open(b"there", os.O_CREAT | os.O_RDWR, 0o666) >= 0 and ctypes.get_errno() == 0
assert c.fopen(b"there", b"a") and ctypes.get_errno() == 0
"""


def test_an_open_that_succeeds_leaves_errno_alone(create: Create) -> None:
    (file,) = [file for file in create(STRIPES, CEPH, "there", program=KEEPS_ERRNO).files if file.settings]
    assert file.opens == 3


def test_a_file_system_that_refuses_does_not_stop_the_program(create: Create, tmp_path: Path) -> None:
    report = create("cephfs stripe_count=99", CEPH)
    told = {(setting.outcome, "failed" in setting.note) for file in report.files for setting in file.settings}
    assert told == {("refused", True)} and made(tmp_path) == {
        **NEW, **EXCLUSIVE, **UNUSUAL, "old": 0o640, "other.txt": 0o640
    }  # fmt: skip


def test_lustre_files_are_created_by_lfs_with_the_permissions_of_the_program(create: Create, tmp_path: Path) -> None:
    report = create("lustre stripe_count=4,lustre stripe_size=1048576", LUSTRE, "*/folder/[!o]*")
    chosen = {name for name in NEW if name not in ("open", "openat")}
    assert laid(tmp_path) == chosen
    assert {name: mode for name, mode in made(tmp_path).items() if name in NEW} == NEW
    by_name = {Path(file.path).name: file for file in report.files}
    layout = by_name["creat"].layout
    assert layout is not None and (layout["file_system"], layout["stripe_count"]) == ("lustre", 4)
    notes = {name: by_name[name].settings[0].note for name in ("fopen-wx", "read-only")}
    assert notes == {
        "fopen-wx": "the application creates the file exclusively",
        "read-only": "the file is created with unusual permissions",
    }


def test_a_file_that_is_put_in_the_place_of_a_new_one_keeps_its_permissions(create: Create, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "lfs").write_text(
        f'#!/bin/sh\nfor path in "$@"; do :; done\n[ $1 = setstripe ] && ln -s {tmp_path}/own "$path"\n'
    )
    (tools / "lfs").chmod(0o700)
    (tmp_path / "own").write_text("text")
    (tmp_path / "own").chmod(0o600)
    path = f"{tools}:{os.environ['PATH']}"
    report = create("lustre stripe_count=4", LUSTRE, "*/new", "open('new', 'a').write('x')", PATH=path)
    assert (tmp_path / "new").is_symlink() and stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o600
    ((setting,),) = [file.settings for file in report.files if file.settings]
    told = (setting.outcome, setting.acted, setting.note)
    assert told == ("refused", 0, "the permissions of the new file could not be set")


def test_calls_that_create_nothing_end_as_without_layouts(create: Create, tmp_path: Path) -> None:
    program = """
import ctypes, os, resource
c = ctypes.CDLL(None, use_errno=True)
c.fopen.restype = ctypes.c_void_p
for path in (None, ctypes.c_void_p(16)):
    assert c.open(path, os.O_CREAT | os.O_WRONLY, 0o600) == -1 and ctypes.get_errno() == 14
    assert c.openat(-100, path, os.O_CREAT | os.O_WRONLY, 0o600) == -1 and ctypes.get_errno() == 14
    assert not c.fopen(path, b"w") and ctypes.get_errno() == 14
assert c.open(b"x" * 5000, os.O_CREAT | os.O_WRONLY, 0o600) == -1 and ctypes.get_errno() == 36
assert c.open(b"only-path", os.O_CREAT | os.O_PATH, 0o600) == -1 and ctypes.get_errno() == 2
open("new", "w").write("x")
next = os.dup(0)
os.close(next)
resource.setrlimit(resource.RLIMIT_NOFILE, (next, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
assert c.open(b"no-room", os.O_CREAT | os.O_WRONLY, 0o600) == -1 and ctypes.get_errno() == 24
"""
    create("lustre stripe_count=4", LUSTRE, program=program)
    assert (tmp_path / "new.layout").exists()
    assert not (tmp_path / "only-path").exists() and not (tmp_path / "no-room").exists()


def test_many_processes_that_create_one_file_get_one_layout(create: Create, tmp_path: Path) -> None:
    program = """
import os
for _ in range(8):
    if os.fork() == 0:
        fd = os.open("shared", os.O_CREAT | os.O_WRONLY, 0o666)
        os.pwrite(fd, b"x" * 10, 10 * (os.getpid() % 100))
        os._exit(0)
while True:
    try: os.wait()
    except ChildProcessError: break
"""
    report = create("lustre stripe_count=4", LUSTRE, program=program)
    (file,) = [file for file in report.files if file.path.endswith("/shared")]
    assert (tmp_path / "shared.layout").exists() and file.layout and file.layout["stripe_count"] == 4
    assert sum(setting.acted or 0 for setting in file.settings) == 1


def test_beegfs_is_left_to_its_own_command(create: Create, tmp_path: Path) -> None:
    report = create("beegfs stripe_count=4", BEEGFS, program="open('new', 'w').write('x')")
    ((setting,),) = [file.settings for file in report.files if file.settings]
    assert (setting.outcome, setting.acted, setting.note[:34]) == (
        "not_applicable",
        0,
        "BeeGFS sets layouts on folders: ru",
    )


def test_a_plan_reaches_the_observer(accelerator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr("stripewise.runners.injection.accelerator_for", lambda _environment: accelerator)
    settings = (Setting(LAYOUT, "stripe_count", "4", "lustre"), Setting(LAYOUT, "stripe_count", "4", "beegfs"))
    ready = prepare(Plan(settings, files="*.h5"), ["true"], tmp_path / "run", guidance=Guidance(allow=("pool",)))
    environment = ready.injection.environment
    assert environment["STRIPEWISE_LAYOUT"] == "lustre stripe_count=4"
    assert (environment["STRIPEWISE_POSIX_FILES"], environment["STRIPEWISE_LAYOUT_ALLOW"]) == ("*.h5", "pool")
    (lost,) = ready.injection.lost
    assert "the observer cannot lay out files of beegfs" in lost.wins
