"""The whole test bed: Slurm's nodes with a CephFS client each."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.system.testbed import PACKAGES
from tests.system.testbed.ceph import Ceph
from tests.system.testbed.processes import BedError, end, of_bed
from tests.system.testbed.slurm import Slurm

_LOCK = Path("/run/lock/stripewise-testbed.lock")
_OWNER = Path("/run/lock/stripewise-testbed")


@dataclass(frozen=True)
class Bed:
    """A cluster of four nodes in a folder.

    Attributes
    ----------
    folder : Path
        On a local disk; the OSDs' images grow in it.
    nodes : int
    rate : float
        Of each OSD, in MB/s. The sum should stay below 250 MB/s: above, the host is the bottleneck.
    """

    folder: Path
    nodes: int = 4
    rate: float = 50

    @cached_property
    def ceph(self) -> Ceph:
        """The file system."""
        return Ceph(self.folder, rate=self.rate, mounts=self.nodes)

    @cached_property
    def slurm(self) -> Slurm:
        """The batch system; on each node the file system is at :attr:`shared`."""
        binds = {number: (self.ceph.mount(number), self.shared) for number in range(1, self.nodes + 1)}
        return Slurm(self.folder / "slurm", self.nodes, binds=binds)

    @property
    def shared(self) -> Path:
        """Where jobs see the file system, on every node; outside jobs it is :meth:`Ceph.mount`."""
        return self.folder / "shared"

    @property
    def environment(self) -> dict[str, str]:
        """For whoever talks to the cluster."""
        # All nodes are one host. With each of its interfaces, UCX's address is longer than Slurm's PMI2 reads at once:
        # MPI_Init of MPICH hangs or fails.
        return {**self.ceph.environment, **self.slurm.environment, "UCX_NET_DEVICES": "lo"}

    def up(self) -> None:
        """Start everything that does not run yet."""
        if os.geteuid() != 0:
            raise BedError("the test bed mounts file systems and limits devices: it needs root")
        missing = [
            name for name in ("ceph-mon", "ceph-osd", "ceph-fuse", "slurmctld", "munged") if not shutil.which(name)
        ]
        if missing:
            packages = " ".join(PACKAGES)
            raise BedError(f"{', '.join(missing)} is not installed: apt-get install --no-install-recommends {packages}")
        with self._alone():
            # The ports are fixed: a second bed would talk to the first one's daemons.
            elsewhere = _OWNER.read_text() if _OWNER.exists() else ""
            if elsewhere not in ("", str(self.folder)) and of_bed(Path(elsewhere)):
                raise BedError(f"a test bed is already up in {elsewhere}: end it first (--folder {elsewhere} down)")
            self.folder.mkdir(parents=True, exist_ok=True)
            _OWNER.write_text(str(self.folder))
            self.ceph.start()
            # Jobs see the file system here; a process outside a node sees an empty folder.
            self.shared.mkdir(exist_ok=True)
            self.slurm.start()

    def down(self) -> None:
        """End everything, and make sure of it; all state is removed."""
        if not self.folder.exists():
            return
        with self._alone():
            self.slurm.stop()
            self.ceph.stop()
            end(of_bed(self.folder))
            _OWNER.unlink(missing_ok=True)
        shutil.rmtree(self.folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep two starts or stops from meeting."""
        with _LOCK.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
