"""Run MPI-IO calls through ROMIO's Lustre driver, see what became of them, and ask Stripewise what should."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stripewise.catalogue.workload import Workload
from stripewise.lab.batch import Access, RunBatch
from stripewise.lab.layout import pieces, striping
from stripewise.lab.romio import choose_way
from stripewise.lab.site import Site, load_site
from stripewise.lab.traffic import Row, traffic
from tests.system.lustre import romio

HERE = Path(__file__).parent
KIB, MIB = 1 << 10, 1 << 20
OSTS = 24
ALL = 0xFFFF
"""The stripe count that stands for all targets, and the first target that stands for any."""
# Waiting ranks sleep: there are more of them than cores.
SLEEPY = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "8"}
SLEEPY["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"


@dataclass(frozen=True)
class Case:
    """One call of every rank on one file; see calls.c."""

    name: str
    way: str = "write_all"
    layout: str = "strided"
    pieces: int = 16
    piece: int = 8 * KIB
    hole: int = 0
    hints: Mapping[str, object] = field(default_factory=dict)

    @property
    def line(self) -> str:
        words = [self.name, self.way, self.layout, self.pieces, self.piece, self.hole]
        return " ".join(map(str, [*words, *(f"{key}={value}" for key, value in self.hints.items())]))

    def bytes_of_file(self, ranks: int) -> int:
        stride = ranks * self.piece + self.hole if self.layout == "strided" else ranks * (self.piece + self.hole)
        return self.pieces * stride


@dataclass
class Seen:
    """What became of a file.

    Attributes
    ----------
    info : dict
        Hints as MPI_File_get_info gives them.
    asked : list of tuple
        Layouts set by the driver: stripe count, stripe size, first target, as they reached the file system.
    opens : list of int
        Ranks, in the order in which they opened it.
    writes, reads : dict
        Rank to the (offset, size) of its transfers, in their order.
    right : bool
        Whether what the ranks read was what had been written.
    """

    info: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[int, int, int]] = field(default_factory=list)
    opens: list[int] = field(default_factory=list)
    writes: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    reads: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    right: bool = True

    def transfers(self, operation: str) -> dict[int, list[tuple[int, int]]]:
        return self.writes if operation == "write" else self.reads


def content(size: int) -> bytes:
    """What calls.c writes."""
    return bytes((offset * 7 + offset // 251) & 0xFF for offset in range(size))


@dataclass
class Driver:
    """The driver, and a folder that it takes for Lustre."""

    mpicc: Path
    folder: Path

    def __post_init__(self) -> None:
        self.library = romio.build(self.mpicc)
        self.fake, self.calls = self.folder / "fake_lustre.so", self.folder / "calls"
        options = ["-O1", "-Wall", "-Wextra", "-Werror", f"-I{romio.HEADERS}"]
        for command in (
            [*options, "-shared", "-fPIC", HERE / "fake_lustre.c", "-o", self.fake, "-ldl"],
            [*options, HERE / "calls.c", "-o", self.calls],
        ):
            subprocess.run([self.mpicc, *command], check=True)

    def environment(self, place: Path, nodes: int, before: Iterable[Path] = ()) -> dict[str, str]:
        """Variables of a program whose files in ``place`` are to lie on Lustre."""
        place.mkdir(exist_ok=True)
        return {
            **SLEEPY,
            "FAKE_LUSTRE": str(place.resolve()),
            "FAKE_LOG": str(place / "fake.log"),
            "FAKE_OSTS": str(OSTS),
            "FAKE_NODES": str(nodes),
            "LD_PRELOAD": ":".join(map(str, [*before, self.library, self.fake])),
        }

    def run(
        self,
        place: Path,
        cases: Iterable[Case],
        ranks: int,
        nodes: int = 1,
        before: Iterable[Path] = (),
        **environment: str,
    ) -> dict[str, Seen]:
        """Run all cases in one job, in a folder of their own; ``before`` is preloaded before ROMIO."""
        given = {**self.environment(place, nodes, before), **environment}
        listed = place / "cases"
        listed.write_text("".join(f"{case.line}\n" for case in cases))
        words = [str(self.mpicc.parent / "mpiexec"), "-n", str(ranks), "env", *(f"{k}={v}" for k, v in given.items())]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STRIPEWISE_")}
        done = subprocess.run(
            [*words, str(self.calls), str(listed)],
            cwd=place,
            env=clean,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        found: dict[str, Seen] = defaultdict(Seen)
        for line in done.stdout.splitlines():
            name, *rest = line.split()
            if rest == ["wrong"]:
                found[name].right = False
            else:
                found[name].info = dict(word.split("=", 1) for word in rest)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        log = place / "fake.log"
        for line in log.read_text().splitlines():
            rank, what, first, second, third, name = line.split(maxsplit=5)
            if what == "setstripe":
                found[name].asked.append((int(first), int(second), int(third)))
            elif what == "open":
                found[name].opens.append(int(rank))
            else:
                found[name].transfers(what)[int(rank)].append((int(first), int(second)))
        log.unlink()
        return found


def place() -> Site:
    """A site with as many targets as the pretended file system, and MPICH's own ROMIO."""
    site = load_site("edison")
    assert site.ost.count == OSTS
    mpi = site.mpi.model_copy(update={"driver": "romio_lustre", "vendor": "mpich"})
    return site.model_copy(update={"mpi": mpi})


def predicted(case: Case, ranks: int, nodes: int) -> Row:
    """What the simulated cluster makes of a case: arrays of one row."""
    operation = case.way.split("_")[0]
    strided = case.layout == "strided"
    # A process' own holes: the other processes' pieces as well where they take turns.
    hole = case.hole + (ranks - 1) * case.piece if strided else case.hole
    workload = Workload(
        operation="write" if operation == "write" else "read",
        nodes=nodes,
        processes_per_node=ranks // nodes,
        file_size=ranks * case.pieces * case.piece,
        transfer_size=case.pieces * case.piece,
        piece_size=case.piece if hole else case.pieces * case.piece,
        layout="strided" if hole else "segmented",
        collective=case.way.endswith("_all"),
        api="mpiio",
    )
    batch = RunBatch.make(workload, operation, dict(case.hints), Access(hole_size=hole) if hole else None)
    site = place()
    stripes, parts = striping(site, batch), pieces(batch)
    return traffic(site, batch, stripes, parts, choose_way(site, batch, stripes, parts))
