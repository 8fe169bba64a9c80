"""The MPI library of a program: which, where, which version, which binary interface.

Which modules a Python program imports, as its source says; nothing of it is run.
"""

from __future__ import annotations

import ast
import functools
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path, PurePath

from stripewise.catalogue.told import Told
from stripewise.errors import UserError
from stripewise.interpreter import PROBING, Probing, ask, python
from stripewise.runners.program.binary import Binary, FileKind, find_program
from stripewise.runners.program.command import text_at
from stripewise.runners.program.elf import contains, find_library
from stripewise.runners.program.kept import keep
from stripewise.shell import SHELLS

_FROZEN, _LAST_BYTES = b"MEI\014\013\012\013\016", -(64 << 10)
"""What PyInstaller 6.22 writes behind the archive of modules (PyInstaller/archive/readers.py), and where."""
_MOST_FILES = 500
_MOST_BYTES = 1 << 20
_INSTALLED = ("site-packages", "dist-packages")


def names_module(program: Sequence[str], script: Path | None, folders: Sequence[Path], module: str) -> bool:
    """Say whether a Python program imports a module, itself or through modules of its own.

    Imports are followed through the program's folder and all others in which its Python finds modules. Of installed
    packages only the modules that the program itself imports are read: much of what they can do is optional. The
    standard library imports no MPI, so its modules are not read.

    Parameters
    ----------
    program : sequence of str
        The interpreter, or the script, and its arguments.
    script : Path or None
        The program's source, where it is a file.
    folders : sequence of Path
        ``sys.path`` of the program's Python.
    module : str
    """
    options = [] if script is not None and Path(program[0]).name == script.name else list(program[1:])
    option = next((word for word in options if word in ("-c", "-m")), None)
    if script is None and option is None:
        return False
    places = [*([script.parent] if script is not None else []), *folders]
    standard = {folder for folder in folders if (folder / "os.py").is_file()}
    waiting: list[tuple[str, Path | None]] = []
    if script is not None:
        waiting.append((_read_text(script), script))
    elif option == "-c":
        waiting.append((" ".join(options[options.index("-c") + 1 :][:1]), None))
    else:
        name = " ".join(options[options.index("-m") + 1 :][:1])
        if name.partition(".")[0] == module:
            return True
        waiting += [(_read_text(path), path) for path in _files(f"{name}.__main__", places)]
    seen: set[Path] = set()
    while waiting and len(seen) < _MOST_FILES:
        text, path = waiting.pop()
        names = _imports(text, path, places)
        if any(name.partition(".")[0] == module for name in names):
            return True
        if path is not None and path != script and any(part in _INSTALLED for part in path.parts):
            continue
        for name in names:
            for file in _files(name, places):
                if file not in seen and not _is_standard(file, standard):
                    seen.add(file)
                    waiting.append((_read_text(file), file))
    return False


def _is_standard(file: Path, standard: set[Path]) -> bool:
    """Whether a file is of the standard library, whose folder may hold installed packages too."""
    return not standard.isdisjoint(file.parents) and not any(part in _INSTALLED for part in file.parts)


def _read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""


def _imports(text: str, path: Path | None, places: Sequence[Path]) -> set[str]:
    """The full names that a source imports; of a relative import as its place in the folders says."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level and path is not None:
                base = ".".join([*_package(path, node.level, places), *([base] if base else [])])
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)} - {""}
    return found


def _package(path: Path, level: int, places: Sequence[Path]) -> tuple[str, ...]:
    """The package that is ``level`` dots above a module."""
    folder = path.parents[level - 1] if level <= len(path.parents) else path.parent
    return next((folder.relative_to(place).parts for place in places if folder.is_relative_to(place)), ())


def _files(name: str, places: Sequence[Path]) -> Iterator[Path]:
    """The files that are run to import a module: its packages' and its own."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        place = Path(*parts[:end])
        found = (folder / file for folder in places for file in (place / "__init__.py", place.with_suffix(".py")))
        if (first := next((path for path in found if path.is_file()), None)) is not None:
            yield first


_LIBRARY = re.compile(
    r"^lib(mpi|mpich|mpi_mt|mpi_dbg|mpi_dbg_mt|mpi_cray|mpi_gnu\w*|mpi_intel\w*|mpi_amd\w*|mpi_nvidia\w*|mpi_abi)"
    r"\.so(\.\d+)*$"
)
_SAFE_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "OPAL_PREFIX", "I_MPI_ROOT")
_PROBE_SECONDS = 20.0
_PROBE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
text, length = ctypes.create_string_buffer(1 << 16), ctypes.c_int()
library.MPI_Get_library_version(text, ctypes.byref(length))
version, subversion = ctypes.c_int(), ctypes.c_int()
library.MPI_Get_version(ctypes.byref(version), ctypes.byref(subversion))
print(f"{version.value}.{subversion.value}")
print(text.value.decode("utf-8", "replace"), flush=True)

import json
number, provided, pointer, missing = ctypes.c_int, ctypes.c_int(), ctypes.c_void_p, ctypes.c_int(0)
if not text.value.startswith((b"Open MPI", b"MPICH Version")) or library.MPI_T_init_thread(0, ctypes.byref(provided)):
    sys.exit()
kinds = {0x4C000405: number, 0x4C000101: ctypes.c_char}
named = {"int": number, "char": ctypes.c_char, "c_bool": ctypes.c_bool, "unsigned": ctypes.c_uint}
named |= {"unsigned_long": ctypes.c_ulong, "unsigned_long_long": ctypes.c_ulonglong}
for name, kind in named.items():
    try:
        kinds[ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_" + name))] = kind
    except ValueError:
        pass
count, told = number(), {}
library.MPI_T_cvar_get_num(ctypes.byref(count))
for index in range(count.value):
    name, length, kind = ctypes.create_string_buffer(512), number(512), pointer()
    others = [number() for _ in range(3)]
    handle, elements, held = pointer(), number(), ctypes.create_string_buffer(8192)
    if library.MPI_T_cvar_get_info(
        index, name, ctypes.byref(length), ctypes.byref(others[0]), ctypes.byref(kind), ctypes.byref(pointer()), None,
        ctypes.byref(missing), ctypes.byref(others[1]), ctypes.byref(others[2]),
    ) or library.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(elements)):
        continue
    type_ = kinds.get(kind.value)
    if type_ is None or elements.value > 4096 or library.MPI_T_cvar_read(handle, held):
        continue
    value = held.value.decode("utf-8", "replace") if type_ is ctypes.c_char else int(type_.from_buffer(held).value)
    told[name.value.decode("utf-8", "replace")] = str(value)[:200]
print()
print(json.dumps(told))
"""
# The program's own Python may be too old for -P: the working folder is taken off the path before anything is imported.
_MPI4PY = """
import sys
sys.path[:] = filter(None, sys.path)
from importlib.util import find_spec
found = find_spec("mpi4py.MPI") if find_spec("mpi4py") else None
print(found.origin if found else "", *sys.path, sep="\\n")
"""
_OWN_SETTINGS, _SITE_SETTINGS = ".openmpi/mca-params.conf", "etc/openmpi-mca-params.conf"
"""Where Open MPI reads settings, in the user's folder and in its own."""
_COMPONENTS = "openmpi"
"""The folder of Open MPI's components, beside its library."""
_LIBRARY_FOLDERS = ("lib", "lib64", "lib/release", f"lib/{platform.machine()}-linux-gnu")
_FAMILIES = {"mpich": ("hydra", "mpich"), "openmpi": ("orte", "prte", "ompi", "openmpi")}
_SCRIPT_LIMIT = 1 << 20
SESSIONS = ("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base")
"""Variables for the folder in which the launchers of Open MPI 4 and 5 make their session folders, on every node.

Launchers of version 4 share one a user and host: the last to end removes it, and one that begins in that moment fails.
Those of version 5 name theirs by the process number: a launch that was killed leaves it behind, and a later one with
the same number fails. So each launch needs a folder of its own.
"""
_VERSION = "the version of the MPI library"
WITH_LAUNCHER = "installed with"
"""How :attr:`Mpi.found_by` begins where the launcher led to the library, and nothing in the program did."""


@dataclass(frozen=True)
class Mpi:
    """An MPI library.

    Attributes
    ----------
    path : Path
        The library, links followed.
    abi : str
        ``mpich`` (with all that share its interface: Intel, Cray, MVAPICH), ``openmpi``, ``standard`` (the interface
        of MPI 5), or ``other``.
    version : str
        In one line, as ``MPICH 4.2.1``.
    standard : str
        The MPI standard's version, as ``4.1``.
    io : str or None
        ``romio`` or ``ompio``, as chosen without the settings of a plan.
    found_by : str
        What led to it, for people.
    told : Told
        Its settings, as it lists them itself; empty where it was not asked.
    """

    path: Path
    abi: str
    version: str = ""
    standard: str = ""
    io: str | None = None
    found_by: str = ""
    told: Told = field(default_factory=Told)


def is_mpi_library(name: str) -> bool:
    """Say whether a library's file name is that of an MPI."""
    return bool(_LIBRARY.match(name))


def needs_sessions(mpi: Mpi | None, names: Iterable[str]) -> bool:
    """Say whether a launch needs a session folder of its own; see :data:`SESSIONS`.

    Parameters
    ----------
    mpi : Mpi or None
    names : iterable of str
        The names of the variables and the words of the launch. The user may have chosen the folder with one of them:
        parameters for local and for remote nodes exclude the one for all nodes.
    """
    return mpi is not None and mpi.abi == "openmpi" and not any("tmpdir_base" in name for name in names)


# ROMIO looks file systems up by these prefixes of a path; its library holds those of the drivers it was built with.
_DRIVERS = ("LUSTRE", "UFS", "NFS", "GPFS", "PANFS", "XFS", "DAOS", "IME", "PVFS2", "TESTFS")


def list_drivers(path: Path) -> list[str]:
    """Give the drivers that the ROMIO of an MPI library was built with; none if that does not show."""
    return [name for name in _DRIVERS if contains(path, f"\0{name.lower()}:\0".encode())]


def lacks_driver(mpi: Mpi | None, names: Sequence[str]) -> bool:
    """Say whether a ROMIO was built without some drivers; no, where it may load them or name them otherwise."""
    if not names or mpi is None or mpi.io != "romio" or mpi.abi not in ("mpich", "standard"):
        return False
    if contains(mpi.path, b"I_MPI_") or contains(mpi.path, b"CRAY ADIO"):
        return False
    built = list_drivers(mpi.path)
    return bool(built) and not any(one.startswith(tuple(names)) for one in built)


def describe(
    path: Path,
    environment: Mapping[str, str],
    found_by: str = "",
    mca: Mapping[str, str] | None = None,
    probing: Probing = PROBING,
) -> Mpi:
    """Find out about an MPI library by asking it for its version, in a process of its own.

    Parameters
    ----------
    path : Path
    environment : mapping
        The program's, for the libraries that it needs and for the choice of Open MPI's component.
    found_by : str
    mca : mapping, optional
        Parameters of Open MPI given on the command line.
    probing : Probing
        Where nothing may be started, the library is not loaded and its version stays unknown.
    """
    real = path.resolve()
    safe = tuple((name, environment[name]) for name in _SAFE_ENVIRONMENT if name in environment)
    standard, version, told = _ask(real, safe) if probing.allows(_VERSION) else ("", "", Told())
    abi = _abi(real, version)
    if abi == "openmpi":
        chosen = (mca or {}).get("io") or environment.get("OMPI_MCA_io", "")
        io: str | None = "romio" if chosen.startswith("romio") or chosen.startswith("^ompio") else "ompio"
    else:
        io = "romio" if abi in ("mpich", "standard") else None
    return Mpi(real, abi, version, standard, io, found_by, told)


@functools.lru_cache(maxsize=32)
def _ask(path: Path, environment: tuple[tuple[str, str], ...]) -> tuple[str, str, Told]:
    def find() -> list[str]:
        answer = _run_probe(python("-c", _PROBE, str(path), alone=True), dict(environment))
        # The version comes first: a library that fails while it lists its settings has still told it.
        lines = answer.stdout.splitlines() if answer is not None else []
        if answer is None or len(lines) < 2:
            return []
        listed = lines[-1] if answer.returncode == 0 and lines[-1].startswith("{") else "{}"
        return [lines[0], _shorten_lines(lines[1:]), listed]

    depends = [f"{name}={value}" for name, value in environment if name not in ("PATH", "TMPDIR")]
    told_in = (Path(folder) / _OWN_SETTINGS for name, folder in environment if name == "HOME")
    files = [path, path.parent / _COMPONENTS, path.parent.parent / _SITE_SETTINGS, *told_in]
    found = keep(["library", str(path), *depends], find, files)
    if not found:
        return "", "", Told()
    standard, version, listed = found
    return standard, version, Told(version, json.loads(listed))


def _run_probe(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str] | None:
    """What a probe printed; None if it could not be started or hangs."""
    try:
        return ask(command, _PROBE_SECONDS, environment, cwd)
    except (OSError, subprocess.TimeoutExpired):
        return None


def _shorten_lines(lines: Sequence[str]) -> str:
    first = lines[0].strip()
    if match := re.match(r"(MPICH|MVAPICH\S*|CRAY MPICH) [Vv]ersion\s*:?\s*(\S+)", first):
        return f"{match[1]} {match[2]}"
    return first.split(", package")[0][:120]


def _abi(path: Path, version: str) -> str:
    if path.name.startswith("libmpi_abi."):
        return "standard"
    if "Open MPI" in version:
        return "openmpi"
    return "mpich" if re.search(r"MPICH|MVAPICH|Intel", version) else _abi_by_content(path)


@functools.lru_cache(maxsize=64)
def _abi_by_content(path: Path) -> str:
    def find() -> list[str]:
        if contains(path, b"ompi_mpi_comm_world"):
            return ["openmpi"]
        return ["mpich" if contains(path, b"MPIR_CVAR_") or contains(path, b"I_MPI_") else "other"]

    return keep(["interface", str(path)], find, [path])[0]


def find_mpi(
    program: Sequence[str],
    binary: Binary,
    launcher: Path | None,
    *,
    environment: Mapping[str, str],
    cwd: Path,
    mca: Mapping[str, str] | None = None,
    probing: Probing = PROBING,
) -> tuple[Mpi | None, str]:
    """Find the MPI library that a program will use.

    Parameters
    ----------
    program : sequence of str
        The program and its arguments.
    binary : Binary
        The program's file.
    launcher : Path or None
        The launcher's file.
    environment, cwd, mca
        Of the program.
    probing : Probing
        Whether the library and the program's Python may be asked.

    Returns
    -------
    tuple of (Mpi or None, str)
        The library; and the name of a library that the program asks for and that is not there, empty otherwise.
    """
    missing = ""
    if binary.kind is FileKind.ELF and binary.elf is not None and not binary.elf.static:
        path, missing = find_library(binary.path, is_mpi_library, environment)
        if path is not None:
            return describe(path, environment, f"asked for by {binary.path.name}", mca, probing), ""
        if missing:
            return None, missing
    started_by = binary.started_by or program[0]
    interpreter = PurePath(started_by).name
    script = binary.path if binary.kind is FileKind.SCRIPT else script_of(program, cwd)
    if interpreter.startswith("python"):
        path, folders = _of_mpi4py(started_by, environment, cwd, probing)
        # A launcher starts programs of MPI; what has none must import mpi4py, which may be there for others.
        if path is not None and (launcher is not None or names_module(program, script, folders, "mpi4py")):
            return describe(path, environment, "used by mpi4py", mca, probing), ""
    text, name = _text_of(program, script)
    if text and (launcher is None or not interpreter.startswith("python")):
        for word in _programs_in(text, environment, cwd):
            path, _ = find_library(word, is_mpi_library, environment)
            if path is not None:
                return describe(path, environment, f"asked for by {word.name}, named in {name}", mca, probing), ""
    if launcher is not None:
        path = library_of_launcher(launcher)
        if path is not None:
            return describe(path, environment, f"{WITH_LAUNCHER} {launcher}", mca, probing), ""
    return None, missing


def _of_mpi4py(
    name: str, environment: Mapping[str, str], cwd: Path, probing: Probing
) -> tuple[Path | None, list[Path]]:
    """Give the library below mpi4py in a Python, and the folders in which that Python finds modules."""
    if probing.allows(f"where {name} finds its modules"):
        module, *names = _ask_python(name, environment, cwd) or [""]
        folders = [Path(folder) for folder in names]
    else:
        folders = _usual_folders(name, environment, cwd)
        found = (path for folder in folders for path in sorted((folder / "mpi4py").glob("MPI.*so")))
        module = str(next(found, ""))
    library = find_library(Path(module), is_mpi_library, environment)[0] if module else None
    return library, folders


def _ask_python(name: str, environment: Mapping[str, str], cwd: Path) -> list[str]:
    """Ask a Python where mpi4py is, and in which folders it finds modules."""

    def find() -> list[str]:
        answer = _run_probe([name, "-c", _MPI4PY], environment, cwd)
        return [] if answer is None else answer.stdout.splitlines()

    try:
        program = find_program(name, environment, cwd)
    except UserError:
        return find()
    if not contains(program, b"\x7fELF", 4):
        # A script chooses a Python by what only it knows.
        return find()
    depends = [f"{one}={value}" for one, value in sorted(environment.items()) if one.startswith(("PYTHON", "LD_"))]
    home = environment.get("HOME", "")
    files = [program, *(folder / "pyvenv.cfg" for folder in (program.parent, program.parent.parent))]
    files += [Path(home) / ".local/lib"] if home else []
    # Relative folders of PYTHONPATH are of the working folder.
    question = ["modules", str(program), str(cwd), home, *depends]
    return keep(question, find, files, lambda answer: [Path(one) for one in answer if one])


def _usual_folders(name: str, environment: Mapping[str, str], cwd: Path) -> list[Path]:
    """Give the folders in which a Python usually finds modules, without asking it."""
    try:
        program = find_program(name, environment, cwd)
    except UserError:
        return []
    given = [cwd / folder for folder in environment.get("PYTHONPATH", "").split(":") if folder]
    prefix = program.parent.parent
    prefixes = [prefix] if (prefix / "pyvenv.cfg").is_file() else [prefix, program.resolve().parent.parent]
    patterns = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages")
    installed = [path for one in dict.fromkeys(prefixes) for pattern in patterns for path in sorted(one.glob(pattern))]
    return [*given, *installed]


def script_of(program: Sequence[str], cwd: Path) -> Path | None:
    """Give the script that a shell or Python is asked to run, if it is a file."""
    name = PurePath(program[0]).name
    if name not in SHELLS and not name.startswith("python"):
        return None
    for word in program[1:]:
        if word in ("-c", "-m"):
            return None
        if not word.startswith("-"):
            path = cwd / word
            return path if path.is_file() else None
    return None


def why_isolated(program: Sequence[str], binary: Binary | None = None) -> str:
    """Say why a Python that is started so runs nothing that stands in ``PYTHONPATH``; empty if it does."""
    if binary is not None and binary.interpreter:
        first = list(dropwhile(lambda word: not PurePath(word).name.startswith("python"), binary.interpreter))
        program = [*first, program[0]] if first else program
    elif binary is not None and contains(binary.path, _FROZEN, _LAST_BYTES):
        return f"{program[0]} was frozen by PyInstaller and reads no PYTHONPATH, so nothing can be set in its Python"
    if not PurePath(program[0]).name.startswith(("python", "pypy")):
        return ""
    words = iter(program[1:])
    for word in words:
        if not word.startswith("-") or word in ("-", "--") or word[1:2] in ("-", "c", "m"):
            break
        letters = re.match(r"-([bBdEhiIOPqsSuvVx]*)", word)
        if found := next((letter for letter in (letters[1] if letters else "") if letter in "IES"), ""):
            return f"{program[0]} -{found} runs no sitecustomize of PYTHONPATH, so nothing can be set in it"
        if word in ("-W", "-X"):
            next(words, "")
    return ""


_STARTS_PYTHON = re.compile(
    r"""(?:^|[\s;&|(/'"`])((?:python|pypy)[0-9.]*)\s+(-[A-Za-z]+)|(sys\.executable)["',\s]+(-[A-Za-z]+)"""
)


def why_children_isolated(program: Sequence[str], script: Path | None) -> str:
    """Say which Python that a script starts runs nothing that stands in ``PYTHONPATH``; empty if none is seen."""
    text, name = _text_of(program, script)
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        for found in _STARTS_PYTHON.finditer(line):
            started, option = (found[1], found[2]) if found[1] else ("python", found[4])
            if why := why_isolated([started, option]):
                return f"{name} starts a child: {why}"
    return ""


def _text_of(program: Sequence[str], script: Path | None) -> tuple[str, str]:
    """Give the text that a script's interpreter reads, from a file or from the command line, and its name."""
    if script is None:
        at = text_at(program)
        return ("", "") if at is None else (program[at], " ".join(program[:at]))
    try:
        return script.read_text("utf-8", "replace")[:_SCRIPT_LIMIT], script.name
    except OSError:
        return "", ""


def _programs_in(text: str, environment: Mapping[str, str], cwd: Path) -> Iterator[Path]:
    """Give the programs that a script names, a file each once; launchers among them come last."""
    words = dict.fromkeys(re.findall(r"[\w./+-]+", re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)))
    launchers: list[Path] = []
    for word in words:
        if "/" in word:
            path = cwd / word
        else:
            found = shutil.which(word, path=environment.get("PATH", ""))
            if found is None:
                continue
            path = Path(found)
        if path.is_file():
            yield path
            launchers.append(path)
    for path in launchers:
        beside = library_of_launcher(path) if path.name.startswith(("mpi", "orte", "prte")) else None
        if beside is not None:
            yield beside


def mpiexec(environment: Mapping[str, str]) -> str:
    """Find the launcher to use where nobody names one.

    Raises
    ------
    UserError
        If there is none.
    """
    # As for the compiler: an MPI that was installed into Python's environment is there on purpose.
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.is_file() else shutil.which("mpiexec", path=environment.get("PATH"))
    if found is None:
        raise UserError("no mpiexec is found", "name the launcher, as 'srun -n 4', or load an MPI module")
    return found


def library_of_launcher(launcher: Path) -> Path | None:
    """Give the MPI library in the installation of a launcher.

    Where several MPIs share a folder (``/usr``) only one whose family the launcher's name tells can be picked.
    """
    real = launcher.resolve()
    families = {name for name, words in _FAMILIES.items() if any(w in f"{launcher.name} {real.name}" for w in words)}
    for prefix in dict.fromkeys((launcher.parent.parent, real.parent.parent)):
        found = [
            path
            for folder in _LIBRARY_FOLDERS
            for path in sorted((prefix / folder).glob("libmpi*.so.*"))
            if is_mpi_library(path.name) and not path.name.startswith("libmpi_abi")
        ]
        for path in found:
            if len(families) == 1 and _abi(path.resolve(), "") in families:
                return path
        if found and len({_abi(path.resolve(), "") for path in found}) == 1 and not families:
            return found[0]
    return None
