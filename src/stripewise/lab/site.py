"""Sites: (real or simulated) clusters with their storage, read from TOML.

Every constant has a default, shared by all sites, with its source in the field's description; a site's file gives what
was measured or is known of that system alone. See ``docs/reference/sites.md``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from stripewise.catalogue.filesystems import GENERIC, USUAL, FileSystem
from stripewise.documents import Bundled, parse_document
from stripewise.sizes import parse_size

_SITES = Bundled("site", "lab/sites")
_TIMES = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*+([a-zA-Z/]*+)\s*\Z")
_RATES = {"B/s": 1.0, "kB/s": 1e3} | {
    f"{prefix}{mark}B/s": float(base**power)
    for power, prefix in enumerate("KMGT", start=1)
    for mark, base in (("i", 1024), ("", 1000))
}


def parse_rate(value: Any) -> float:
    """Read bytes a second: a number, or text as ``1.6 GiB/s`` or ``850 MB/s``.

    Raises
    ------
    ValueError
        If it is not a rate, or not above zero.
    """
    number = _quantity(value, _RATES)
    if not 0 < number < math.inf:
        raise ValueError("is not a rate above zero: write bytes a second, or a text as '1.6 GiB/s'")
    return number


def parse_seconds(value: Any) -> float:
    """Read a time: seconds, or text as ``0.4 ms`` or ``2 h``.

    Raises
    ------
    ValueError
        If it is not a time, or below zero.
    """
    number = _quantity(value, _TIMES)
    if not 0 <= number < math.inf:
        raise ValueError("is not a time: write seconds, or a text as '0.4 ms'")
    return number


def _quantity(value: Any, units: Mapping[str, float]) -> float:
    """Read a number, or a text of a number and a unit; NaN where it is neither."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _NUMBER.match(value) if isinstance(value, str) else None
    return float(match[1]) * units.get(match[2], math.nan) if match else math.nan


Rate = Annotated[float, BeforeValidator(parse_rate)]
"""Bytes a second."""
Seconds = Annotated[float, BeforeValidator(parse_seconds)]
"""Seconds."""
Size = Annotated[int, BeforeValidator(parse_size)]
"""Bytes."""
Share = Annotated[float, Field(ge=0, le=1)]
"""A part of one."""
Count = Annotated[int, Field(ge=1)]
"""A whole number above zero."""


class _SiteTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Network(_SiteTable):
    """The ``[network]`` table: between nodes, and from nodes to servers."""

    latency: Seconds = Field(default=1e-3, description="RTT of an RPC through the Lustre stack, unloaded; guess")
    node_write_bandwidth: Rate = Field(description="bytes per second that one node can write; fitted")
    node_read_bandwidth: Rate = Field(description="bytes per second that one node can read; fitted")
    sync_seconds: Seconds = Field(default=18e-6, description="t_sync: one step of a tree over all processes; guess")
    message_seconds: Seconds = Field(default=2e-6, description="o: overhead of one message; guess")


class SiteClient(_SiteTable):
    """The ``[client]`` table: the Lustre client of a node and its memory."""

    core_speed: float = Field(
        default=1.0,
        gt=0,
        description="speed of one core relative to a server core of its time: clock times issue width",
    )
    process_bandwidth: Rate = Field(default=0.95e9, description="B_proc: one process alone, 0.8 to 0.95 GB/s measured")
    call_seconds: Seconds = Field(default=5e-6, description="t_call: one system call through the client; guess")
    piece_seconds: Seconds = Field(default=0.1e-6, description="copying one small piece in memory; guess")
    rpcs_in_flight: Count = Field(default=8, description="max_rpcs_in_flight, per client and OST; Lustre source")
    rpc_size: Size = Field(default=4 << 20, description="largest RPC; Lustre source")
    memory: Size = Field(default=64 << 30, description="RAM of a node")
    memory_bandwidth: Rate = Field(
        default=10e9, description="B_mem: a node copying to or from its page cache; guess, as ARCHER2 without fsync"
    )
    max_dirty: Size | None = Field(
        default=None, description="dirty bytes per OSC; min(2000 MiB, RAM / 8) if not given; Lustre source"
    )
    read_ahead: bool = Field(default=True, description="whether read-ahead is effective")
    cached: Share = Field(default=0.0, description="part of reads that the client's own memory holds")
    read_ahead_mount: Size = Field(default=1 << 30, description="read-ahead of a mount; Lustre source")
    read_ahead_file: Size = Field(default=256 << 20, description="read-ahead of a file; Lustre source")

    @property
    def dirty_limit(self) -> int:
        """Bytes an OSC that may be dirty."""
        return min(2000 << 20, self.memory // 8) if self.max_dirty is None else self.max_dirty


class Oss(_SiteTable):
    """The ``[oss]`` table: object storage servers."""

    count: Count = Field(description="object storage servers")
    bandwidth: Rate = Field(description="bytes per second of one server, whatever its OSTs could do")
    cached: Share = Field(default=0.0, description="part of reads that the servers' memory holds")


class Ost(_SiteTable):
    """The ``[ost]`` table: object storage targets."""

    count: Count = Field(description="object storage targets")
    write_bandwidth: Rate = Field(description="B_ost: one OST, large sequential writes; fitted")
    read_bandwidth: Rate = Field(description="B_ost: one OST, large sequential reads; fitted")
    request_seconds: Seconds = Field(
        default=0.6e-3, description="t_req: fixed cost of a request; fitted, 0.1 to 0.4 ms guessed"
    )
    access_seconds: Seconds = Field(
        default=2.3e-3, description="t_access: mean wait of a read that nothing announced, on disks; fitted"
    )
    arms: Count = Field(default=8, description="disks of an array that can wait at the same time; RAID 6 of 8 + 2")
    flash: bool = Field(
        default=False,
        description="flash has no heads to move: reads do not wait in this way, and streams do not disturb one another",
    )
    streams: float = Field(default=16, gt=0, description="m0: streams an OST serves undisturbed; guess")
    interference: float = Field(default=0.12, ge=0, description="beta: loss per doubling of streams above m0; guess")
    speeds: list[Annotated[float, Field(gt=0)]] = Field(
        default_factory=list, description="c_o: speed of the first OSTs relative to the others; slow ones below 1"
    )


class Mds(_SiteTable):
    """The ``[mds]`` table: metadata."""

    open_seconds: Seconds = Field(default=2e-3, description="t_open: one open; guess")
    rate: float = Field(default=20e3, gt=0, description="opens and creations per second; guess")
    object_seconds: Seconds = Field(default=0.3e-3, description="t_obj: creating one object of a striped file; guess")


class Locks(_SiteTable):
    """The ``[locks]`` table: extent locks (LDLM)."""

    seconds: Seconds = Field(
        default=1.8e-3, description="t_lock: one lock passing to another client; fitted, 1.2 ms guessed"
    )
    growth_writers: Count = Field(default=32, description="conflicting locks above which growth is capped; source")
    growth_bytes: Size = Field(default=32 << 20, description="growth of a lock when capped; Lustre source")
    downward_waiters: Count = Field(
        default=4, description="waiting locks above which a lock no longer grows downwards; Lustre source"
    )


class SiteMpi(_SiteTable):
    """The ``[mpi]`` table: the MPI-IO implementation."""

    driver: Literal["romio_lustre", "romio_ufs", "ompio"] = Field(
        default="romio_lustre", description="romio_lustre, romio_ufs (any other file system) or ompio"
    )
    vendor: Literal["mpich", "cray"] = Field(
        default="mpich",
        description="mpich, or cray: as many aggregators as stripes, reads on whole stripes (intro_mpi)",
    )
    aggregator_bandwidth: Rate = Field(
        default=0.87 * 2**30, description="B_agg: one aggregator; 0.73 to 0.87 GiB/s measured on Edison"
    )
    ompio_obeys_striping: bool = Field(default=False, description="whether OMPIO follows striping hints (ompi#10132)")

    @property
    def io(self) -> str:
        """The MPI-IO implementation, ``romio`` or ``ompio``."""
        return "ompio" if self.driver == "ompio" else "romio"

    @property
    def file_system(self) -> FileSystem:
        """The file system that the driver opens files on."""
        return GENERIC if self.driver == "romio_ufs" else USUAL

    @property
    def file_driver(self) -> str:
        """What an opened file names as its driver."""
        return self.io if self.io == "ompio" else f"{self.file_system.drivers[0]}:"


class Defaults(_SiteTable):
    """The ``[defaults]`` table: what the file system gives a new file."""

    stripe_count: int = Field(default=1, ge=-1, description="OSTs of a new file; -1: all")
    stripe_size: Size = Field(default=1 << 20, description="bytes on one OST before the file continues on the next")


class Slowdown(_SiteTable):
    """``[noise.write]`` and ``[noise.read]``: ln(slowdown) = Normal(mean, sigma) + Bernoulli(p) * Exponential(tau)."""

    mean: float = Field(default=-0.01, description="mean of the normal part")
    sigma: float = Field(default=0.11, ge=0, description="its standard deviation")
    probability: Share = Field(default=0.15, description="p: part of the runs that are delayed as well")
    tau: float = Field(default=0.75, ge=0, description="mean of that delay, in ln(slowdown)")


class Noise(_SiteTable):
    """The ``[noise]`` table; fitted to 12,701 production runs of NERSC Cori and Edison (NERSC/tokio-abcutils)."""

    enabled: bool = Field(default=True, description="whether runs differ from one another")
    write: Slowdown = Slowdown()
    read: Slowdown = Slowdown(sigma=0.14, probability=0.19, tau=0.50)


class Drift(_SiteTable):
    """The ``[drift]`` table: what is common to the runs of a day."""

    enabled: bool = Field(default=False, description="whether days differ from one another")
    correlation: float = Field(default=0.2, ge=0, lt=1, description="AR(1) from day to day; 0 to 0.4 measured")
    sigma: float = Field(default=0.08, ge=0, description="of ln(slowdown) over days")
    step_days: float = Field(default=0.0, ge=0, description="mean days between changes of regime; 0: none")
    step_sigma: float = Field(default=0.3, ge=0, description="of ln(slowdown) over regimes")


class Background(_SiteTable):
    """The ``[background]`` table: load by other users."""

    load: float = Field(default=0.0, ge=0, lt=1, description="mean part of servers and OSTs that others use")
    spread: float = Field(default=0.0, ge=0, description="relative spread of that part from run to run")


class Queue(_SiteTable):
    """The ``[queue]`` table: how long jobs wait, in simulated time."""

    wait: Seconds = Field(default=0.0, description="mean waiting time")
    walltime: Seconds | None = Field(default=None, description="jobs are killed after it; none: never")


class Failures(_SiteTable):
    """The ``[failures]`` table: what may go wrong, only when asked for."""

    node_lost: Share = Field(default=0.0, description="probability that a node is lost in a run")
    ost_slow: Share = Field(default=0.0, description="probability that an OST is slow in a run")
    ost_slow_factor: float = Field(default=0.25, gt=0, le=1, description="speed of a slow OST")


class Site(_SiteTable):
    """A cluster.

    The tables are attributes of the same names. Only the bandwidths of node, server and OST describe the hardware's
    speed; whatever else is not in the site's file is the shared default.
    """

    name: str = Field(description="one word")
    description: str = Field(default="", description="one line")
    source: list[str] = Field(default_factory=list, description="where the figures are from, one text each")
    fitted: list[str] = Field(
        default_factory=list, description="published results that figures were fitted to, and which it cannot confirm"
    )
    nodes: Count = Field(description="compute nodes")
    cores: Count = Field(description="cores of a node: most processes on it")
    network: Network
    client: SiteClient = SiteClient()
    oss: Oss
    ost: Ost
    mds: Mds = Mds()
    locks: Locks = Locks()
    mpi: SiteMpi = SiteMpi()
    defaults: Defaults = Defaults()
    noise: Noise = Noise()
    drift: Drift = Drift()
    background: Background = Background()
    queue: Queue = Queue()
    failures: Failures = Failures()

    @model_validator(mode="after")
    def _consistent(self) -> Site:
        if self.defaults.stripe_size % 65536 or self.defaults.stripe_size == 0:
            raise ValueError("defaults.stripe_size must be a multiple of 64 KiB")
        if self.oss.count > self.ost.count:
            raise ValueError(f"{self.oss.count} servers for {self.ost.count} OSTs")
        if len(self.ost.speeds) > self.ost.count:
            raise ValueError(f"ost.speeds has {len(self.ost.speeds)} entries for {self.ost.count} OSTs")
        return self


def parse_site(text: str, origin: str) -> Site:
    """Read a site from TOML text.

    Raises
    ------
    UserError
        With the file and the place that is wrong.
    """
    return parse_document(Site, text, origin)


def site_names() -> list[str]:
    """List the simulated sites that come with Stripewise."""
    return _SITES.names()


@cache
def _load_bundled(name: str) -> Site:
    return parse_site(*_SITES.find(name))


def load_site(name: str) -> Site:
    """Load a site by name, or from a file if ``name`` is the path of one.

    Raises
    ------
    UserError
        If there is none, or it cannot be read.
    """
    return _load_bundled(name) if name in site_names() else parse_site(*_SITES.find(name))
