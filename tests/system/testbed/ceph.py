"""CephFS on loopback: one monitor, manager and metadata server, and object stores each as slow as they are told to be.

CephFS stripes a file over its object stores (OSDs) as Lustre does over its OSTs: ``stripe_count`` and ``stripe_unit``
of a file's layout are Lustre's stripe count and size, once ``object_size`` is too large to matter.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.system.testbed.processes import BedError, call, end, environment, of_bed, pid_in, wait_until

NAME = "stripewise"
_CGROUP = Path("/sys/fs/cgroup")
_PLACEMENT_GROUPS = 64
_MONITOR = "[v2:127.0.0.1:3300,v1:127.0.0.1:6789]"


def _configuration(folder: Path, fsid: str) -> str:
    """One replica, no authentication, little memory, and objects as large as a file."""
    sections = {
        "global": {
            "fsid": fsid,
            "mon host": _MONITOR,
            "public network": "127.0.0.0/8",
            "ms bind ipv6": "false",
            "auth cluster required": "none",
            "auth service required": "none",
            "auth client required": "none",
            "auth allow insecure global id reclaim": "true",
            "mon warn on insecure global id reclaim": "false",
            "mon warn on insecure global id reclaim allowed": "false",
            "mon warn on pool no redundancy": "false",
            "mon allow pool size one": "true",
            "mon max pg per osd": "500",
            "mon data avail warn": "5",
            # The monitor batches its decisions for clusters of thousands; here each would only wait.
            "paxos propose interval": "0.05",
            "paxos min wait": "0.02",
            "osd pool default size": "1",
            "osd pool default min size": "1",
            "osd pool default pg autoscale mode": "off",
            "osd crush chooseleaf type": "0",
            "osd max object size": str(2 << 30),
            "osd memory target": str(896 << 20),
            "osd memory cache min": str(64 << 20),
            # Reads are to come from the throttled device, not from the page cache below it.
            "bluestore default buffered read": "false",
            "bluefs buffered io": "false",
            "mds cache memory limit": str(256 << 20),
            "run dir": str(folder),
            "keyring": str(folder / "keyring"),
            "pid file": f"{folder}/$type.$id.pid",
            "admin socket": f"{folder}/$type.$id.asok",
            "log file": f"{folder}/log/$type.$id.log",
            "mon cluster log file": f"{folder}/log/cluster.log",
            "mon data": str(folder / "mon"),
            "mgr data": str(folder / "mgr"),
            "mds data": str(folder / "mds"),
            "osd data": f"{folder}/osd/$id",
        },
        "client": {
            "pid file": "",
            "admin socket": f"{folder}/$type.$pid.asok",
            "client oc size": str(64 << 20),
            "client oc max dirty": str(32 << 20),
            "client oc target dirty": str(8 << 20),
            "client oc max objects": "4096",
            "fuse max write": str(1 << 20),
        },
    }
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for name, entries in sections.items()
    )


def _removed(group: Path) -> bool:
    """Try to remove a control group."""
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class Ceph:
    """A file system of its own in a folder.

    Attributes
    ----------
    folder : Path
        Where all state lives.
    osds : int
    rate : float
        What each OSD reads and writes at most, in MB/s; 0 for as fast as the disk.
    size : int
        Of each OSD's sparse image, in bytes.
    mounts : int
        Clients, each with a cache of its own, at :meth:`mount`.
    """

    folder: Path
    osds: int = 4
    rate: float = 50
    size: int = 4 << 30
    mounts: int = 4

    def mount(self, number: int) -> Path:
        """Where client ``number`` (from 1) sees the file system."""
        return self.folder / f"client{number}"

    @property
    def environment(self) -> dict[str, str]:
        """For Ceph's programs."""
        conf = str(self.folder / "ceph.conf")
        return environment(self.folder, CEPH_CONF=conf, CEPH_ARGS=f"--conf {conf}")

    def ceph(self, *words: str) -> str:
        """Ask the monitor."""
        return call(["ceph", *words], env=self.environment, timeout=30)

    def start(self) -> None:
        """Start what does not run yet; state of an earlier start is kept."""
        for name in ("log", "mon", "mgr", "mds", "osd"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "keyring").touch()
        fsid = self.folder / "fsid"
        if not fsid.exists():
            fsid.write_text(str(uuid.uuid4()))
        (self.folder / "ceph.conf").write_text(_configuration(self.folder, fsid.read_text()))
        self._start_monitor(fsid.read_text())
        self._daemon("mgr", "x")
        # Each waits for its device more than it computes.
        with ThreadPoolExecutor(self.osds) as pool:
            list(pool.map(self._start_osd, range(self.osds)))
        if NAME not in self.ceph("fs", "ls"):
            self.ceph("osd", "pool", "create", "meta", "8", "8")
            self.ceph("osd", "pool", "create", "data", str(_PLACEMENT_GROUPS), str(_PLACEMENT_GROUPS))
            self.ceph("fs", "new", NAME, "meta", "data")
        self._daemon("mds", "m")
        wait_until(lambda: "up:active" in self.ceph("mds", "stat"), 60, "the metadata server is active")
        for number in range(1, self.mounts + 1):
            self._mount(number)
        self.mount(1).chmod(0o1777)

    def stop(self) -> None:
        """End every daemon and client; the state stays."""
        for number in range(1, 65):
            path = self.mount(number)
            if os.path.ismount(path):
                call(["umount", path], check=False, timeout=20)
            if os.path.ismount(path):
                call(["umount", "-l", path], check=False)
        # A client takes its leave of the metadata server: without one it would wait for it.
        clients = {int(file.name.split(".")[1]) for file in self.folder.glob("client.*.asok")}
        end(clients & set(of_bed(self.folder.parent)))
        for kinds in (("mds",), ("osd",), ("mgr", "mon")):
            end(pid for kind in kinds for file in self.folder.glob(f"{kind}.*.pid") if (pid := pid_in(file)))
        for line in call(["losetup", "-n", "-O", "NAME,BACK-FILE"]).splitlines():
            device, _, backing = line.strip().partition(" ")
            if backing.strip().startswith(f"{self.folder}/"):
                call(["losetup", "-d", device], check=False)
        for number in range(self.osds):
            # An ended daemon leaves its group only when it has been reaped.
            wait_until(partial(_removed, self._group(number)), 20, f"the control group of OSD {number} is empty")

    def wipe(self) -> None:
        """Stop, and remove all state."""
        if self.folder.exists():
            self.stop()
            shutil.rmtree(self.folder)

    def throttle(self, osd: int, rate: float) -> None:
        """Set what an OSD reads and writes at most, in MB/s; 0 lifts the limit. Takes effect at once."""
        device = (self.folder / "osd" / str(osd) / "block").stat().st_rdev
        which, limit = f"{os.major(device)}:{os.minor(device)}", round(rate * 1e6)
        group = self._group(osd)
        if group.parent == _CGROUP:
            amount = limit or "max"
            (group / "io.max").write_text(f"{which} rbps={amount} wbps={amount}\n")
        else:
            for direction in ("read", "write"):
                (group / f"blkio.throttle.{direction}_bps_device").write_text(f"{which} {limit}\n")

    def _group(self, osd: int) -> Path:
        """The control group of an OSD: of version 1 where blkio is mounted, of version 2 otherwise."""
        parent = _CGROUP / "blkio" if (_CGROUP / "blkio").is_dir() else _CGROUP
        return parent / f"{NAME}-osd{osd}"

    def _start_monitor(self, fsid: str) -> None:
        if pid_in(self.folder / "mon.a.pid"):
            return
        if not (self.folder / "mon" / "store.db").exists():
            monitors = self.folder / "monmap"
            call(["monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", _MONITOR, monitors])
            keyring = ["--keyring", self.folder / "keyring"]
            call(["ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors, *keyring], env=self.environment)
        call(["ceph-mon", "-i", "a"], env=self.environment)
        self.ceph("-s")

    def _daemon(self, kind: str, name: str) -> None:
        if not pid_in(self.folder / f"{kind}.{name}.pid"):
            call([f"ceph-{kind}", "-i", name], env=self.environment)

    def _start_osd(self, number: int) -> None:
        if pid_in(self.folder / f"osd.{number}.pid"):
            return
        home = self.folder / "osd" / str(number)
        home.mkdir(exist_ok=True)
        image = self.folder / "osd" / f"{number}.img"
        if not image.exists():
            with image.open("wb") as stream:
                stream.truncate(self.size)
        device = call(["losetup", "-n", "-O", "NAME", "-j", image]).strip()
        if not device:
            device = call(["losetup", "--direct-io=on", "-f", "--show", image]).strip()
        block = home / "block"
        block.unlink(missing_ok=True)
        block.symlink_to(device)
        if not (home / "ready").exists():
            identity = str(uuid.uuid4())
            self.ceph("osd", "new", identity, str(number))
            call(["ceph-osd", "-i", str(number), "--mkfs", "--osd-uuid", identity], env=self.environment, timeout=120)
        group = self._group(number)
        group.mkdir(exist_ok=True)
        self.throttle(number, self.rate)
        # A shell joins the group before it becomes the daemon, so that no request escapes the throttle.
        entering = f'echo $$ > "{group}/cgroup.procs" && exec ceph-osd -i {number}'
        call(["sh", "-c", entering], env=self.environment)

    def _mount(self, number: int) -> None:
        path = self.mount(number)
        path.mkdir(exist_ok=True)
        if not os.path.ismount(path):
            log = self.folder / "log" / f"client{number}.log"
            with log.open("ab") as stream:
                done = subprocess.run(
                    ["ceph-fuse", str(path)],
                    env=self.environment,
                    stdout=stream,
                    stderr=stream,
                    check=False,
                    timeout=60,
                )
            if done.returncode or not os.path.ismount(path):
                raise BedError(f"client {number} cannot mount: see {log}")

    def primaries(self) -> dict[int, int]:
        """The primary OSD of each placement group of the data pool, by the group's number."""
        pools = json.loads(self.ceph("osd", "dump", "-f", "json"))["pools"]
        pool = next(entry["pool"] for entry in pools if entry["pool_name"] == "data")
        groups = json.loads(self.ceph("pg", "dump", "pgs_brief", "-f", "json"))["pg_stats"]
        found = {}
        for group in groups:
            owner, _, number = group["pgid"].partition(".")
            if int(owner) == pool and group["acting_primary"] >= 0:
                found[int(number, 16)] = group["acting_primary"]
        return found
