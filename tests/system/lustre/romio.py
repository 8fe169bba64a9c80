"""Fetch Debian's MPICH source, and build its ROMIO, with the Lustre driver, as a library that goes before an MPI's own.

Debian's MPICH, and the one on PyPI, are built without that driver: it wants Lustre's headers. ROMIO uses MPI as any
program does, so its functions (``MPI_File_*``) can be compiled against an installed MPI and preloaded. The headers
beside this file stand for those of Lustre and for what ROMIO's ``configure`` would find out; about 140 files are
compiled, and nothing of MPICH besides. The source is fetched with apt from where the machine gets its packages; it is
never part of the repository.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "romio-lustre"
HEADERS = Path(__file__).parent / "headers"
RELEASE = "bookworm"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PARTS = ("mpi-io", "mpi-io/glue", "mpi-io/glue/default", "adio/common", "adio/ad_ufs", "adio/ad_lustre")
# What is for inside of MPICH, or for an MPI without generalized requests, or in no makefile, or for liblustreapi.
LEFT_OUT = ("mpich_fileutil", "mpir_cst_filesys", "io", "async_list", "req_malloc", "ad_lustre_lock")


class UnavailableError(Exception):
    """The source cannot be had on this machine."""


def source(folder: Path = BUILD) -> Path:
    """Give ROMIO's source in Debian's MPICH package, fetched once.

    Raises
    ------
    UnavailableError
        Where there is no apt, no network, or no such package.
    """
    found = sorted(folder.glob("mpich-*/src/mpi/romio"))
    if found:
        return found[0]
    if not shutil.which("apt-get") or not KEYRING.exists():
        raise UnavailableError("no apt-get with Debian's keys to fetch MPICH's source with")
    private = folder / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (private / name).mkdir(parents=True, exist_ok=True)
    (private / "sources.list").write_text(f"deb-src [signed-by={KEYRING}] {_mirror()} {RELEASE} main\n")
    (private / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{private}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
        f'Dir::State::lists "{private}/lists";\nDir::Cache "{private}/cache";\nAPT::Sandbox::User "root";\n'
        'Acquire::Retries "1";\nAcquire::http::Timeout "20";\n'
    )
    for words in (["update"], ["source", "--download-only", "mpich"]):
        _apt(["apt-get", "-qq", *words], private)
    (archive,) = private.glob("mpich_*.orig.tar.*")
    with tarfile.open(archive) as packed:
        wanted = (member for member in packed if "/src/mpi/romio/" in member.name)
        packed.extractall(folder, members=wanted, filter="data")
    shutil.rmtree(private)
    (found_now,) = folder.glob("mpich-*/src/mpi/romio")
    return found_now


def _mirror() -> str:
    """Where this machine gets Debian's packages."""
    ask = ["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]
    told = subprocess.run(ask, capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in told.splitlines()]
    found = [row[2] for row in rows if row[:2] == [RELEASE, "main"] and len(row) == 3]
    return found[0] if found else "http://deb.debian.org/debian"


def _apt(command: list[str], private: Path) -> None:
    environment = {**os.environ, "APT_CONFIG": str(private / "apt.conf")}
    try:
        done = subprocess.run(
            command, cwd=private, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{' '.join(command)} took more than two minutes") from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["without a word"])[0]
        raise UnavailableError(f"{' '.join(command)} failed: {said}")


def sources(romio: Path) -> list[Path]:
    """The files to compile."""
    found = [file for part in PARTS for file in sorted((romio / part).glob("*.c"))]
    return [file for file in found if not file.name.startswith(LEFT_OUT)]


def build(mpicc: Path, folder: Path = BUILD) -> Path:
    """Build the library with this compiler, or give the one that was built before.

    Raises
    ------
    UnavailableError
        Where the source cannot be had.
    """
    romio = source(folder)
    shown = subprocess.run([mpicc, "-show"], capture_output=True, text=True, check=True).stdout
    recipe = [romio.parents[2].name, shown, *(file.read_text() for file in sorted(HEADERS.rglob("*.h")))]
    made = folder / hashlib.sha256("\n".join(recipe).encode()).hexdigest()[:12]
    library = made / "libromio-lustre.so"
    if library.exists():
        return library
    made.mkdir(parents=True, exist_ok=True)
    compile_all(mpicc, sources(romio), [HEADERS, romio / "adio/include", romio / "mpi-io"], made)
    # Written under another name first: a broken-off build leaves no library.
    # Its own calls of its own functions must not end in the MPI library's ROMIO.
    options = ["-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined"]
    subprocess.run([mpicc, *options, *sorted(made.glob("*.o")), "-o", made / "unfinished.so"], check=True)
    (made / "unfinished.so").rename(library)
    return library


def compile_all(mpicc: Path, files: Iterable[Path], include: Iterable[Path], target: Path) -> None:
    """Compile files to objects of the same name, as many at a time as there are cores."""
    options = ["-O0", "-w", "-fPIC", "-D_GNU_SOURCE", *(f"-I{folder}" for folder in include)]

    def one(file: Path) -> None:
        command = [mpicc, *options, "-c", file, "-o", target / f"{file.stem}.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{file}: {done.stderr}")

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        list(workers.map(one, files))
