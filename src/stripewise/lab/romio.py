"""What ROMIO and OMPIO make of a call: which way it takes, who writes, in how many rounds.

Sources: MPICH's romio/adio (ad_lustre_aggregate.c, ad_lustre_wrcoll.c, ad_lustre_wrstr.c, ad_read_coll.c,
ad_write_str.c), read for the project notes on the simulated cluster; Cray's man page intro_mpi for its library;
ompi_info and ompi#10132 for OMPIO.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from stripewise.lab.batch import Flags, Numbers, RunBatch
from stripewise.lab.layout import Pieces, Striping
from stripewise.lab.site import Site

AUTOMATIC, ENABLE, DISABLE = range(3)
CB_BUFFER = float(16 << 20)
IND_READ_BUFFER = float(4 << 20)
IND_WRITE_BUFFER = float(512 << 10)
OMPIO_BYTES_PER_AGG = float(32 << 20)
OMPIO_SIEVED_PIECE = float(1 << 20)
OMPIO_SIEVED_HOLE = 4096.0


@dataclass(frozen=True, eq=False)
class AccessMethod:
    """The way that a row's calls take; arrays of shape ``(n,)`` or ``(1,)``.

    Attributes
    ----------
    aggregated : ndarray of bool
        Two-phase: a few processes write or read for all.
    aggregators, rounds : ndarray
        How many of them, and the rounds of exchange of the whole run; meaningless where not aggregated.
    hosts : ndarray
        Nodes that they are on.
    buffer : ndarray
        Bytes of an aggregator in a full round.
    sieved : ndarray of bool
        Whether a process' own call of several pieces reads or rewrites whole buffers.
    sieve_buffer : ndarray
        Bytes of such a buffer.
    """

    aggregated: Flags
    aggregators: Numbers
    hosts: Numbers
    rounds: Numbers
    buffer: Numbers
    sieved: Flags
    sieve_buffer: Numbers

    @cached_property
    def any_aggregated(self) -> bool:
        """Whether any row is aggregated."""
        return bool(self.aggregated.any())

    @cached_property
    def all_aggregated(self) -> bool:
        """Whether every row is."""
        return bool(self.aggregated.all())


_NONE = np.zeros(1, dtype=bool)


def choose_way(site: Site, batch: RunBatch, stripes: Striping, parts: Pieces) -> AccessMethod:
    """Decide the way of each row's calls by the rules of the site's driver."""
    aggregated = is_aggregated(site, batch, parts)
    count = hosts = rounds = buffer = np.ones(1)
    if aggregated.any():
        count = aggregators(site, batch, stripes, parts)
        hosts = hosts_of(site, batch, count)
        rounds, buffer = rounds_and_buffer(site, batch, stripes, parts, count)
    sieved, sieve_buffer = sieving(site, batch, stripes, parts)
    return AccessMethod(aggregated, count, hosts, rounds, buffer, sieved & ~aggregated, sieve_buffer)


def on_stripes(site: Site, batch: RunBatch) -> Flags:
    """Say where aggregators own whole stripes: Lustre writes, and with Cray's library reads as well.

    Darshan counted reads of one stripe each by as many processes as stripes on Edison and Cori (NERSC/tokio-abcutils).
    """
    if site.mpi.driver != "romio_lustre":
        return np.zeros(1, dtype=bool)
    return batch.write | (site.mpi.vendor == "cray")


def is_aggregated(site: Site, batch: RunBatch, parts: Pieces) -> Flags:
    """Say whether a collective call goes through aggregators.

    Generic file systems and all reads: only where the processes' ranges interleave, unless the hint says otherwise.
    Lustre writes: also where coll_threshold is 0, its default, or the pieces of the calls are not larger on average.
    ``romio_no_indep_rw`` turns the hint to enable, also from disable. OMPIO: unless fcoll is ``individual``.
    [ADIOI_GEN_SetInfo, ADIOI_LUSTRE_Docollect, ADIOI_GEN_WriteStridedColl]
    """
    able = batch.collective & ~batch.file_per_process & (batch.api > 0) & (batch.processes > 1)
    if not able.any():
        return _NONE
    if site.mpi.driver == "ompio":
        return able & ~batch.ompio_individual
    automatic: Flags = parts.interleaved
    if site.mpi.driver == "romio_lustre":
        small = (batch.coll_threshold == 0) | (parts.size <= batch.coll_threshold)
        automatic = automatic | batch.write & small
    switch = batch.collective_buffering
    wanted = (switch == ENABLE) | batch.no_indep_rw | (switch == AUTOMATIC) & automatic
    result: Flags = able & wanted
    return result


@lru_cache(maxsize=512)
def _largest_divisors(stripes: int) -> NDArray[np.float64]:
    """Largest divisor of ``stripes`` that is at most k, for k from 0 to ``stripes``."""
    table = np.ones(stripes + 1)
    for divisor in range(1, stripes + 1):
        if stripes % divisor == 0:
            table[divisor:] = divisor
    return table


def snap_aggregators(stripe_count: Numbers, wanted: Numbers, co_ratio: Numbers) -> Numbers:
    """Round a number of aggregators as ROMIO's Lustre driver does for collective writes.

    From as many as stripes on, the stripe count times min(wanted // count, co_ratio); below, the largest divisor of the
    stripe count, so that no two aggregators share a stripe. [ADIOI_LUSTRE_Get_striping_info]

    Parameters
    ----------
    stripe_count, wanted, co_ratio : ndarray
        Of shapes that fit together.
    """
    result: Numbers = stripe_count * np.maximum(1.0, np.minimum(wanted // stripe_count, co_ratio))
    if (wanted < stripe_count).any():
        stripes, asked, result = np.broadcast_arrays(stripe_count, wanted, result)
        result = result.copy()
        below = asked < stripes
        for count in set(stripes[below].tolist()):
            rows = below & (stripes == count)
            result[rows] = _largest_divisors(int(count))[np.maximum(1, asked[rows]).astype(np.int64)]
    return result


def aggregators(site: Site, batch: RunBatch, stripes: Striping, parts: Pieces) -> Numbers:
    """Count the processes that do the I/O of collective calls.

    n0 = min(cb_nodes, what cb_config_list allows). By default one a node; with Cray's library as many as stripes,
    spread over nodes. Lustre writes are then snapped. ``romio_min_fdomain_size`` lowers the number where the range of
    one call is small. OMPIO: its parameter, or one for each ``bytes_per_agg`` of a call.
    """
    span = batch.transfer_size * batch.processes * parts.span
    if site.mpi.driver == "ompio":
        each = np.where(batch.ompio_bytes_per_agg > 0, batch.ompio_bytes_per_agg, OMPIO_BYTES_PER_AGG)
        own = np.ceil(span / each)
        asked = np.where(batch.ompio_aggregators > 0, batch.ompio_aggregators, own)
        return np.clip(asked, 1.0, batch.processes)
    cray = site.mpi.vendor == "cray"
    default = stripes.count if cray and site.mpi.driver == "romio_lustre" else batch.nodes
    wanted = np.where(batch.aggregators > 0, batch.aggregators, default)
    most = batch.nodes * _a_host(site, batch)
    n0 = np.maximum(1.0, np.minimum(wanted, most))
    ranges = np.where(batch.min_fdomain_size > 0, np.ceil(span / np.maximum(1.0, batch.min_fdomain_size)), np.inf)
    return np.where(
        on_stripes(site, batch), snap_aggregators(stripes.count, n0, batch.co_ratio), np.minimum(n0, ranges)
    )


def _a_host(site: Site, batch: RunBatch) -> Numbers:
    """Count the processes of a node that may be aggregators: ``cb_config_list``, or one, with Cray's library all."""
    unset = np.inf if site.mpi.vendor == "cray" else 1.0
    allowed = np.where(batch.aggregators_per_node > 0, batch.aggregators_per_node, unset)
    return np.minimum(allowed, batch.processes_per_node)


def hosts_of(site: Site, batch: RunBatch, count: Numbers) -> Numbers:
    """Count the nodes that aggregators are on.

    ROMIO lists them host after host, as many of each as ``cb_config_list`` allows, and where its Lustre driver wants
    fewer it takes the first of the list. Cray's library and OMPIO spread them over nodes. [match_procs in
    cb_config_list.c; ADIOI_LUSTRE_Calc_aggregator]
    """
    spread = site.mpi.vendor == "cray" or site.mpi.driver == "ompio"
    each = np.ones(1) if spread else _a_host(site, batch)
    hosts: Numbers = np.minimum(np.ceil(count / each), batch.nodes)
    return hosts


def rounds_and_buffer(
    site: Site, batch: RunBatch, stripes: Striping, parts: Pieces, count: Numbers
) -> tuple[Numbers, Numbers]:
    """Count the rounds of exchange in the whole run, and the bytes of an aggregator in a full one.

    On whole stripes ceil(span / (A * stripe size)) a call: cb_buffer_size has no effect (mpich#7935). Elsewhere
    ceil(domain / cb_buffer_size) with contiguous domains, on Lustre aligned to stripes. OMPIO's vulcan writes half of
    bytes_per_agg at a time.
    """
    span = batch.transfer_size * batch.processes * parts.span
    if site.mpi.driver == "ompio":
        each = np.where(batch.ompio_bytes_per_agg > 0, batch.ompio_bytes_per_agg, OMPIO_BYTES_PER_AGG) / 2.0
        domain = span / count
    else:
        own = np.where(batch.collective_buffer_size > 0, batch.collective_buffer_size, CB_BUFFER)
        stripe = on_stripes(site, batch)
        each = np.where(stripe, stripes.size, own)
        domain = span / count
        if site.mpi.driver == "romio_lustre":
            domain = np.where(stripe, domain, np.ceil(domain / stripes.size) * stripes.size)
    return np.ceil(parts.calls) * np.ceil(domain / each), np.minimum(each, domain)


def sieving(site: Site, batch: RunBatch, stripes: Striping, parts: Pieces) -> tuple[Flags, Numbers]:
    """Say whether a process' own call of several pieces is sieved, and with what buffer.

    ``automatic`` acts as ``enable``; only ``disable`` takes the naive way. Lustre's strided writes use the stripe size
    in place of ind_wr_buffer_size. [ADIOI_GEN_ReadStrided, ADIOI_LUSTRE_WriteStrided] OMPIO sieves only pieces below
    1 MiB with holes of less than 4 KiB. POSIX calls know no pieces.
    """
    several = (parts.hole > 0) & (batch.api > 0)
    if not several.any():
        return _NONE, np.ones(1)
    if site.mpi.driver == "ompio":
        near = (parts.size < OMPIO_SIEVED_PIECE) & (parts.hole < OMPIO_SIEVED_HOLE)
        cycle = np.where(batch.ompio_cycle_size > 0, batch.ompio_cycle_size, np.inf)
        return several & near & batch.ompio_sieving, np.minimum(cycle, batch.transfer_size)
    default = np.where(batch.write, IND_WRITE_BUFFER, IND_READ_BUFFER)
    buffer = np.where(batch.sieving_buffer_size > 0, batch.sieving_buffer_size, default)
    if site.mpi.driver == "romio_lustre":
        buffer = np.where(batch.write, stripes.size, buffer)
    return several & (batch.data_sieving != DISABLE), buffer
