"""Programs are inspected without being run."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.carriers.runtime import HDF5
from stripewise.catalogue.plan import Plan
from stripewise.errors import UserError
from stripewise.runners.injection import inject
from stripewise.runners.program.binary import FileKind, find_program, inspect
from stripewise.runners.program.elf import Elf, NotElf, find_library, read_elf
from stripewise.runners.program.mpi import is_mpi_library, library_of_launcher, names_module, script_of
from stripewise.runners.program.target import look
from tests.conftest import require

PATH = {"PATH": os.environ["PATH"]}


def program(path: Path, text: str = "#!/bin/sh\nexit 0\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def compiled(folder: Path, name: str, source: str, *options: str) -> Path:
    require(shutil.which("gcc"), "no gcc")
    (folder / f"{name}.c").write_text(source)
    done = subprocess.run(
        ["gcc", "-o", folder / name, folder / f"{name}.c", *options], capture_output=True, text=True, check=False
    )
    require(done.returncode == 0, f"gcc {' '.join(options)}: {done.stderr.strip()[:200]}")
    return folder / name


def test_a_dynamic_program_can_be_preloaded(tmp_path: Path) -> None:
    path = compiled(tmp_path, "dynamic", "int main(void) { return 0; }")
    found = inspect(path, PATH, tmp_path)
    assert found.kind is FileKind.ELF
    assert found.obstacle == ""
    assert found.elf is not None
    assert found.elf.native
    assert any(name.startswith("libc.") for name in found.elf.needed)


@pytest.mark.parametrize("options", [["-static"], ["-static-pie"]])
def test_static_programs_are_recognised(options: list[str], tmp_path: Path) -> None:
    path = compiled(tmp_path, "static", "int main(void) { return 0; }", *options)
    assert inspect(path, PATH, tmp_path).obstacle == "static"


@pytest.mark.parametrize(("bits", "obstacle"), [(0o4755, "setuid"), (0o2755, "setgid"), (0o2745, "")])
def test_privileged_programs_are_recognised(bits: int, obstacle: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, "privileged", "int main(void) { return 0; }")
    path.chmod(bits)
    require(path.stat().st_mode & 0o7777 == bits, "this file system drops set-id bits")
    assert inspect(path, PATH, tmp_path).obstacle == obstacle


def test_programs_with_capabilities_are_recognised(tmp_path: Path) -> None:
    path = compiled(tmp_path, "capable", "int main(void) { return 0; }")
    try:
        # Version 2 of the attribute, with CAP_NET_RAW permitted.
        os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000000, 1 << 13, 0, 0, 0))
    except OSError as error:
        require(False, f"file capabilities cannot be set here: {error.strerror}")
    assert inspect(path, PATH, tmp_path).obstacle == "capabilities"


def test_a_script_is_judged_by_its_interpreter(tmp_path: Path) -> None:
    shell = inspect(program(tmp_path / "run.sh"), PATH, tmp_path)
    assert (shell.kind, shell.obstacle, shell.interpreter) == (FileKind.SCRIPT, "", ("/bin/sh",))
    python = inspect(program(tmp_path / "run.py", "#!/usr/bin/env -S python3 -u\n"), PATH, tmp_path)
    assert python.interpreter[1:] == ("python3", "-u")


@pytest.mark.parametrize(
    ("line", "by"),
    [
        ("/usr/bin/env -S python3 -u", "python3"),
        ("/usr/bin/env -S A=1 python3 -u x=y", "python3"),
        ("/usr/bin/env python3", "python3"),
        (f"{sys.executable} -u", sys.executable),
        ("/bin/sh", "/bin/sh"),
    ],
)
def test_the_interpreter_of_a_script_is_named_by_its_first_line(tmp_path: Path, line: str, by: str) -> None:
    assert inspect(program(tmp_path / "run", f"#!{line}\n"), PATH, tmp_path).started_by == by


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"echo hello\n", "neither machine code nor a script"),
        (b"#!/no/such/shell\n", "interpreter /no/such/shell does not exist; correct its #! line"),
        (b"#!/bin/bash\r\necho\r\n", "Windows line ends"),
        (b"#!\n", "names no interpreter"),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 8, "broken ELF"),
        (b"#!/usr/bin/env no-such-python\n", "command not found: no-such-python"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_fix(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(UserError, match=message) as caught:
        inspect(path, PATH, tmp_path)
    assert caught.value.fix


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    content = bytearray(Path(sys.executable).resolve().read_bytes())
    machine = 183 if struct.unpack_from("<H", content, 18)[0] != 183 else 62
    struct.pack_into("<H", content, 18, machine)
    path = tmp_path / "foreign"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(UserError, match=r"is built for (aarch64|x86_64), this machine is"):
        inspect(path, PATH, tmp_path)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nonesuch-program", "command not found: nonesuch-program"),
        ("./absent", r"command not found: \./absent"),
        ("./folder", "is a folder, not a program"),
        ("./plain", r"is not executable; chmod \+x \./plain"),
        ("plain", r"command not found: plain; chmod \+x plain, and write \./plain"),
        ("tool", r"command not found: tool; write \./tool"),
        ("./dangling", "it is a link to nothing: nowhere"),
        ("A=b", "variables are set by env: env A=b"),
    ],
)
def test_a_command_that_is_not_there_gets_a_fix(word: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    program(tmp_path / "plain", mode=0o644)
    program(tmp_path / "tool")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(UserError, match=message):
        find_program(word, PATH, tmp_path)


def test_commands_are_found_as_a_shell_finds_them(tmp_path: Path) -> None:
    tool = program(tmp_path / "bin" / "tool")
    assert find_program("tool", {"PATH": str(tmp_path / "bin")}, tmp_path) == tool
    assert find_program("bin/tool", PATH, tmp_path) == tool
    assert find_program("tool", {"PATH": "bin"}, tmp_path) == tool


# -- libraries -------------------------------------------------------------------------------------------------


def library(folder: Path, name: str, *options: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return compiled(
        folder,
        name,
        f"int f{abs(hash(name)) % 1000}(void) {{ return 0; }}",
        "-shared",
        "-fPIC",
        f"-Wl,-soname,{name}",
        *options,
    )


def asking(folder: Path, name: str, needed: Path, *options: str) -> Path:
    keep = "-Wl,--no-as-needed"
    return compiled(
        folder, name, "int main(void) { return 0; }", keep, str(needed), "-Wl,--allow-shlib-undefined", *options
    )


def test_the_library_is_found_by_runpath_and_origin(tmp_path: Path) -> None:
    needed = library(tmp_path / "lib", "libmpi.so.12")
    path = asking(tmp_path, "app", needed, "-Wl,-rpath,$ORIGIN/lib", "-Wl,--enable-new-dtags")
    assert read_elf(path).runpath == ("$ORIGIN/lib",)
    assert find_library(path, is_mpi_library, {}) == (tmp_path / "lib/libmpi.so.12", "libmpi.so.12")


def test_the_search_path_beats_runpath_and_rpath_beats_both(tmp_path: Path) -> None:
    needed = library(tmp_path / "lib", "libmpi.so.12")
    other = library(tmp_path / "other", "libmpi.so.12")
    environment = {"LD_LIBRARY_PATH": str(other.parent)}
    new = asking(tmp_path, "new", needed, f"-Wl,-rpath,{needed.parent}", "-Wl,--enable-new-dtags")
    old = asking(tmp_path, "old", needed, f"-Wl,-rpath,{needed.parent}", "-Wl,--disable-new-dtags")
    assert find_library(new, is_mpi_library, environment)[0] == other
    assert find_library(old, is_mpi_library, environment)[0] == needed


def test_libraries_of_libraries_are_searched(tmp_path: Path) -> None:
    mpi = library(tmp_path / "mpi", "libmpi.so.40")
    middle = library(
        tmp_path / "io",
        "libio.so.1",
        "-Wl,--no-as-needed",
        str(mpi),
        f"-Wl,-rpath,{mpi.parent}",
        "-Wl,--enable-new-dtags",
    )
    path = asking(tmp_path, "app", middle, f"-Wl,-rpath,{middle.parent}", "-Wl,--enable-new-dtags")
    assert find_library(path, is_mpi_library, {})[0] == mpi


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    needed = library(tmp_path / "lib", "libmpi.so.12")
    path = asking(tmp_path, "app", needed, "-Wl,-rpath,/nowhere")
    needed.unlink()
    found, name = find_library(path, is_mpi_library, {})
    # A system-wide MPICH would serve instead.
    assert name == "libmpi.so.12"
    assert found is None or found.parent != tmp_path / "lib"


def test_a_program_without_mpi_asks_for_none(tmp_path: Path) -> None:
    path = compiled(tmp_path, "app", "int main(void) { return 0; }")
    assert find_library(path, is_mpi_library, {}) == (None, "")


@pytest.mark.parametrize("inside", [True, False])
def test_hdf5_in_the_program_itself_is_said_and_its_properties_are_lost(tmp_path: Path, inside: bool) -> None:
    text = "HDF5 library version: 1.10.8" if inside else "HDF5"
    path = compiled(tmp_path, "app", f'const char info[] = "{text}"; int main(void) {{ return 0; }}')
    found = look([str(path)], PATH, tmp_path)
    assert any("h5pcc -shlib" in warning for warning in found.warnings) is inside
    plan = Plan((Setting(HDF5, "alignment", "4096"),))
    program_of_mpi = replace(found.program, abi="mpich", without_mpi="")
    lost = inject(plan, program_of_mpi, Path("/lib/runtime.so"), tmp_path).lost
    assert ["HDF5 is linked into" in entry.wins for entry in lost] == [True] * inside


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("libmpi.so.12", True),
        ("libmpi.so.40.30.1", True),
        ("libmpich.so.12", True),
        ("libmpi_cray.so.12", True),
        ("libmpi_gnu_123.so.12", True),
        ("libmpi_abi.so.1", True),
        ("libmpifort.so.12", False),
        ("libmpi_cxx.so.40", False),
        ("libmpi_usempif08.so.40", False),
        ("libc.so.6", False),
    ],
)
def test_mpi_libraries_are_told_by_their_names(name: str, expected: bool) -> None:
    assert is_mpi_library(name) is expected


def test_a_launcher_in_a_shared_folder_needs_a_telling_name(tmp_path: Path) -> None:
    for name, content in (("libmpi.so.40", "ompi_mpi_comm_world"), ("libmpich.so.12", "MPIR_CVAR_")):
        program(tmp_path / "lib" / name, content)
    plain = program(tmp_path / "bin" / "mpiexec")
    hydra = program(tmp_path / "bin" / "mpiexec.hydra")
    orte = program(tmp_path / "bin" / "orterun")
    assert library_of_launcher(plain) is None
    assert library_of_launcher(hydra) == tmp_path / "lib/libmpich.so.12"
    assert library_of_launcher(orte) == tmp_path / "lib/libmpi.so.40"


def test_the_script_of_a_shell_or_python_is_found(tmp_path: Path) -> None:
    script = program(tmp_path / "job.sh")
    assert script_of(["bash", "-e", "job.sh", "x"], tmp_path) == script
    assert script_of(["/usr/bin/python3", "job.sh"], tmp_path) == script
    assert script_of(["bash", "-c", "job.sh"], tmp_path) is None
    assert script_of(["./app", "job.sh"], tmp_path) is None


def test_a_python_program_uses_mpi4py_if_it_imports_it_itself_or_through_its_own_modules(tmp_path: Path) -> None:
    standard, own = tmp_path / "lib", tmp_path / "own"
    installed = standard / "site-packages"
    sources = {
        standard / "os.py": "",
        standard / "tools.py": "import mpi4py  # no standard library does: it is not read",
        installed / "mpi4py/__init__.py": "",
        installed / "optional/__init__.py": "from . import parallel",
        installed / "optional/parallel.py": "import mpi4py",
        installed / "entry/__init__.py": "",
        installed / "entry/cli.py": "from mpi4py import MPI",
        own / "serial.py": "import json, optional  # mpi4py is not needed",
        own / "plain.py": "import tools",
        own / "direct.py": "def main():\n    from mpi4py import MPI",
        own / "package/__init__.py": "from .comm import world",
        own / "package/comm.py": "import mpi4py.MPI as MPI",
        own / "through.py": "import os.path, package",
        own / "entry-point": "from entry.cli import main",
        own / "broken.py": "import mpi4py from",
    }
    for path, text in sources.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def uses(*words: str) -> bool:
        script = own / words[-1] if (own / words[-1]).is_file() else None
        return names_module(["python3", *words], script, [standard, installed], "mpi4py")

    names = ("serial.py", "plain.py", "direct.py", "through.py", "entry-point", "broken.py")
    assert [uses(name) for name in names] == [False, False, True, True, True, False]
    assert uses("-m", "mpi4py", "gone.py") and uses("-m", "entry.cli") and uses("-c", "import mpi4py")
    assert not uses("-m", "optional") and not uses("-c", "print('mpi4py')")


# -- broken files ----------------------------------------------------------------------------------------------


@example(tail=b"", at=39, patch=b"\x80")  # a table of segments beyond what an address can say
@given(tail=st.binary(max_size=200), at=st.integers(0, 400), patch=st.binary(min_size=1, max_size=4))
def test_no_broken_file_breaks_the_reader(
    tail: bytes, at: int, patch: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "broken"
    content = bytearray(Path(sys.executable).resolve().read_bytes()[:4096] + tail)
    content[at : at + len(patch)] = patch
    path.write_bytes(content)
    try:
        assert isinstance(read_elf(path), Elf)
    except NotElf as error:
        assert str(path) in str(error)
