"""A Slurm of several nodes on one host: munge, slurmctld and a slurmd a node, each in its own mount namespace."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.testbed.processes import BedError, call, end, environment, pid_in, wait_until

_PORT = 17000


@dataclass(frozen=True)
class Slurm:
    """A cluster of its own in a folder.

    Attributes
    ----------
    folder : Path
        Where all state lives.
    nodes : int
        Named n1, n2, ...; all answer on loopback, under the host's own name.
    cpus : int
        That a node claims to have; together they may be more than the host has.
    memory : int
        That a node claims to have, in MB.
    binds : dict of int to (Path, Path)
        For each node, a folder that is to be seen, in its processes alone, at another place.
    extra : tuple of str
        Further lines of slurm.conf.
    """

    folder: Path
    nodes: int = 4
    cpus: int = 2
    memory: int = 4000
    binds: dict[int, tuple[Path, Path]] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """For Slurm's programs."""
        return environment(self.folder.parent, SLURM_CONF=str(self.folder / "slurm.conf"))

    def start(self) -> None:
        """Start what does not run yet, and wait until every node is ready."""
        for name in ("state", "spool", "log"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        key = self.folder / "munge.key"
        if not key.exists():
            key.touch(0o600)
            key.write_bytes(secrets.token_bytes(1024))
        (self.folder / "slurm.conf").write_text(self._configuration())
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        self._start_munge(key)
        self.start_controller()
        for number in range(1, self.nodes + 1):
            self.start_node(number)
        wait_until(lambda: self.ready() == self.nodes, 30, f"{self.nodes} Slurm nodes are ready")

    def ask(self, *words: str, timeout: float = 10) -> str:
        """Call one of Slurm's programs; what a failing one printed is given too."""
        return call(words, env=self.environment, timeout=timeout, check=False)

    def submit(self, script: Path, *options: str, env: Mapping[str, str], folder: Path | None = None) -> Job:
        """Submit a batch job, with this environment and in this folder."""
        told = call(["sbatch", "--parsable", *options, script], env=env, folder=folder)
        return Job(self, told.strip().partition(";")[0])

    def ready(self) -> int:
        """How many nodes take jobs."""
        told = self.ask("sinfo", "-h", "-t", "idle,mix,alloc", "-o", "%D").split()
        return sum(int(word) for word in told if word.isdigit())

    def start_controller(self) -> None:
        """Start the controller, with what it knew of jobs and nodes."""
        if not pid_in(self.folder / "slurmctld.pid"):
            call(["slurmctld"], env=self.environment)
        wait_until(lambda: "UP" in self.ask("scontrol", "ping"), 20, "slurmctld answers")

    def stop_controller(self) -> None:
        """End the controller; jobs go on, and nobody can ask for them."""
        pid = pid_in(self.folder / "slurmctld.pid")
        end([pid] if pid else [], grace=10)

    def start_node(self, number: int) -> None:
        """Start one node's daemon."""
        name = f"n{number}"
        if pid_in(self.folder / f"slurmd.{name}.pid"):
            return
        (self.folder / "spool" / name).mkdir(exist_ok=True)
        line = f"exec slurmd -N {name}"
        if number in self.binds:
            source, target = self.binds[number]
            target.mkdir(parents=True, exist_ok=True)
            line = f'mount --bind "{source}" "{target}" && {line}'
        call(["unshare", "--mount", "sh", "-c", line], env=self.environment)

    def stop_node(self, number: int) -> None:
        """End one node's daemon, as a crash of the node would."""
        pid = pid_in(self.folder / f"slurmd.n{number}.pid")
        end([pid] if pid else [], grace=0.2)

    def stop(self) -> None:
        """Cancel all jobs and end every daemon; the state stays."""
        if pid_in(self.folder / "slurmctld.pid"):
            self.ask("scancel", "--user", "root", timeout=15)
            wait_until(lambda: not self.ask("squeue", "-h", timeout=15).strip(), 30, "no job is left in Slurm's queue")
        for pattern in ("slurmd.n*.pid", "slurmctld.pid", "munged.pid"):
            end([pid for file in self.folder.glob(pattern) if (pid := pid_in(file))], grace=5)

    def _start_munge(self, key: Path) -> None:
        if pid_in(self.folder / "munged.pid"):
            return
        command = ["munged", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.sock", "--num-threads=2"]
        command += [f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/log/munged.log"]
        call([*command, f"--seed-file={self.folder}/munge.seed"], env=self.environment)

    def _configuration(self) -> str:
        here, at = socket.gethostname(), self.folder
        entries = {
            "ClusterName": "stripewise",
            "SlurmctldHost": f"{here}(127.0.0.1)",
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={at}/munge.sock",
            "CredType": "cred/munge",
            "MailProg": "/bin/true",
            "SlurmctldPort": _PORT,
            # MPICH names its shared memory after the job, and killed jobs leave theirs: no bed repeats a number.
            "FirstJobId": 1 + secrets.randbelow(1_000_000),
            "SlurmctldPidFile": at / "slurmctld.pid",
            "SlurmdPidFile": f"{at}/slurmd.%n.pid",
            "SlurmctldLogFile": at / "log" / "slurmctld.log",
            "SlurmdLogFile": f"{at}/log/slurmd.%n.log",
            "StateSaveLocation": at / "state",
            "SlurmdSpoolDir": f"{at}/spool/%n",
            "SlurmdParameters": "config_overrides",
            # Neither cgroups nor binding: the nodes share the host's cores.
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            # PMIx hangs slurmstepd where all nodes are one host.
            "MpiDefault": "pmi2",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CPU_Memory",
            "DefMemPerCPU": 500,
            "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=1,sched_interval=1,bf_interval=1",
            "JobAcctGatherType": "jobacct_gather/linux",
            "JobAcctGatherFrequency": 1,
            "JobCompType": "jobcomp/filetxt",
            "JobCompLoc": at / "log" / "jobcomp.txt",
            "MinJobAge": 600,
            "KillWait": 2,
            "OverTimeLimit": 0,
            "ReturnToService": 2,
            "PropagateResourceLimitsExcept": "ALL",
        }
        ports = f"[{_PORT + 1}-{_PORT + self.nodes}]"
        node = f"NodeName=n[1-{self.nodes}] NodeHostname={here} NodeAddr=127.0.0.1 Port={ports} CPUs={self.cpus}"
        lines = [f"{key}={value}" for key, value in entries.items()]
        lines += [f"{node} RealMemory={self.memory} State=UNKNOWN"]
        lines += ["PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP OverSubscribe=NO", *self.extra]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Job:
    """A batch job. To wait for one, ``sbatch --wait`` looks after ten seconds and then every half minute."""

    slurm: Slurm
    number: str

    def poll(self) -> int | None:
        """Give its exit code, once it has ended; never 0 for one that was cancelled or lost."""
        said = self.slurm.ask("scontrol", "show", "job", "-o", self.number)
        if "Invalid job id" in said:
            raise BedError(f"Slurm has forgotten job {self.number}")
        told = dict(word.partition("=")[::2] for word in said.split())
        state = told.get("JobState", "PENDING")
        if state in ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING"):
            return None
        return 0 if state == "COMPLETED" else int(told["ExitCode"].partition(":")[0]) or 1

    def wait(self, timeout: float) -> int:
        """Wait for its end, and give its exit code."""
        wait_until(lambda: self.poll() is not None, timeout, f"job {self.number} has ended", every=0.3)
        code = self.poll()
        assert code is not None
        return code


def installed() -> bool:
    """Whether Slurm's daemons are on this host (Debian keeps them in sbin)."""
    places = os.environ.get("PATH", "").split(":")
    return all(any(Path(place, name).exists() for place in places) for name in ("slurmctld", "slurmd", "munged"))
