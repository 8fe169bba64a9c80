"""Mechanisms of the Lustre client, its servers and its disks, one function each.

Notation of the project notes: P processes on N nodes, F bytes, S stripes of ss bytes, x a request. Every function takes
a :class:`~stripewise.lab.traffic.Row` and gives seconds (or a rate), of shape ``(n,)`` or ``(1,)``. [S] read in
source, [M] measured, [G] a guess to be fitted; the constants themselves are in :mod:`stripewise.lab.site`.

What no row of a batch needs is not computed: with one row numpy's calls cost more than its arithmetic.
"""

from __future__ import annotations

import numpy as np

from stripewise.lab.batch import Numbers
from stripewise.lab.layout import SEGMENTED
from stripewise.lab.romio import on_stripes
from stripewise.lab.site import Site
from stripewise.lab.traffic import NONE, Row


def harmonic(n: Numbers) -> Numbers:
    """Give the n-th harmonic number: the mean of the largest of n exponential times, over the mean of one."""
    result: Numbers = np.where(n <= 1, 1.0, np.log(n) + 0.5772156649 + 0.5 / n)
    return result


def client_seconds(row: Row) -> Numbers:
    """2. Client: F / (N * min(B_node, ppn * B_proc)); and a process' own calls and copies, one by one. [M, G]."""
    site, batch = row.site, row.batch
    speed = site.client.core_speed
    process = site.client.process_bandwidth * speed
    rate = row.clients * np.minimum(row.node, row.processes * process)
    first = row.clients * np.minimum(site.network.node_read_bandwidth, row.processes * process)
    wire = row.sent * row.uncached_client / rate + row.read_first / first
    count = row.parts.moved / row.parts.size / batch.processes
    calls = np.where(row.way.sieved, row.sent / batch.processes / row.way.sieve_buffer, count)
    cost = (calls * site.client.call_seconds + np.where(row.way.sieved, count, 0.0) * site.client.piece_seconds) / speed
    own = (row.sent + row.read_first) / batch.processes / process + cost
    return np.where(row.way.aggregated, wire, np.maximum(wire, own))


def window_seconds(row: Row) -> Numbers:
    """3. RPC window of a client and OST: rate <= rif * q / (RTT + q / B_node), q = min(RPC, ss, coalesced x). [S].

    Reads have no more under way than read-ahead asks for: of a mount, and of each file. [S]
    """
    site, client = row.site, row.site.client
    files = np.where(row.batch.file_per_process, row.batch.processes_per_node, 1.0)
    asked = row.clients * np.minimum(client.read_ahead_mount, files * client.read_ahead_file)
    window = row.pairs * client.rpcs_in_flight * row.request
    window = np.where(row.batch.write, window, np.minimum(window, asked))
    return row.sent * row.uncached_client / window * (site.network.latency + row.request / row.node)


def latency_seconds(row: Row) -> Numbers:
    """Requests of one process that wait for one another.

    Sieving: reads cost n_buf * t_req beyond their bytes; writes a lock for each buffer where there are several clients.
    Buffers that do not adjoin are reads that nothing announced. Naive reads with holes, and all reads without effective
    read-ahead: n * (RTT + t_req + q / B), with the disk's access time in the latter. So sieving wins while a hole takes
    less time to transfer than a request. [notes 8 and 9; S; Kunkel et al. 2015]
    """
    site, batch, way = row.site, row.batch, row.way
    if way.all_aggregated:
        return NONE
    own = row.sent / batch.processes
    step = site.network.latency + site.ost.request_seconds
    buffers = own / way.sieve_buffer
    adjoining = (row.parts.hole < way.sieve_buffer) & site.client.read_ahead
    first = np.where(adjoining, np.where(batch.write, 0.0, site.ost.request_seconds), step)
    sieving = buffers * (first + np.where(batch.write & (batch.nodes > 1), site.network.latency, 0.0))
    serial = own / row.request * (step + unannounced_seconds(site) + row.request / row.disk)
    alone = np.where(way.sieved, sieving, 0.0) + np.where(row.ahead, 0.0, serial)
    return np.where(way.aggregated, 0.0, alone * row.uncached_client)


def unannounced_seconds(site: Site) -> float:
    """Mean wait of a read that read-ahead has not announced: heads must move on disks, not on flash. [G, fitted]."""
    return 0.0 if site.ost.flash or site.client.read_ahead else site.ost.access_seconds


def server_seconds(row: Row) -> Numbers:
    """4. OSS: F / (n_oss * B_oss), over the servers whose OSTs are used. [M]."""
    servers = np.minimum(row.site.oss.count, row.stripes.osts)
    return (row.sent * row.uncached_client + row.read_first) / (servers * row.site.oss.bandwidth)


def target_seconds(row: Row, speeds: Numbers | None) -> Numbers:
    """5. OST: load / (B_ost * c_o * g * H) on the fullest, slowest OST in use.

    g = q / (q + B_ost * t_req) is the part of the time in which bytes move, the rest goes to the requests themselves. A
    request that goes on where the last one on its object ended costs no t_req: of m streams that go on, that is one
    request in m.
    H = 1 / (1 + beta * max(0, log2(m / m0))) what m streams on one disk array leave, 1 on flash. A read that nothing
    announced keeps one of the array's disks waiting for t_access. [M, G]
    """
    site = row.site
    slowest = 1.0 if speeds is None else np.minimum.accumulate(speeds)[row.stripes.osts.astype(np.int64) - 1]
    writers = np.where(row.way.aggregated, row.way.aggregators, row.batch.processes)
    streams = writers / row.stripes.osts
    heads = np.ones(1)
    if not site.ost.flash:
        heads = 1.0 + site.ost.interference * np.maximum(0.0, np.log2(streams / site.ost.streams))
    # 1 / (B * g) = 1 / B + t_req / q: bandwidth and requests add up.
    going_on = np.where(row.continues, 1.0 / np.maximum(1.0, streams), 0.0)
    request = site.ost.request_seconds * (1.0 - going_on) / row.request
    wait = np.where(row.batch.write | row.ahead, 0.0, unannounced_seconds(site) / site.ost.arms / row.request)
    written = row.sent * row.uncached_server * (1.0 / row.disk + request + wait)
    first = row.read_first * (1.0 / site.ost.read_bandwidth + request)
    return row.stripes.load * (written + first) * heads / slowest


def lock_seconds(row: Row) -> Numbers:
    """6. Extent locks (LDLM) of a shared file that several clients write.

    Each passing of a lock on an object takes t_lock. Segmented: one a client, two while few wait, as locks then grow
    downwards too, or one for each 32 MiB above 32 writers, as growth is capped there. Taking turns: one for each piece.
    Aggregators on whole stripes own their objects, unless co_ratio lets several write to one. [S: ldlm_extent.c]

    A call that spans several objects holds all their locks at once, and each request waits until the slowest of the
    other clients has given back what conflicts: t_lock * H_N. The processes of a client queue for it. [G, fitted to
    VPIC-IO on Cori, NERSC/tokio-abcutils]
    """
    site, batch, stripes, parts, way = row.site, row.batch, row.stripes, row.parts, row.way
    several = batch.write & ~batch.file_per_process & (batch.nodes > 1)
    if not several.any():
        return NONE
    owner = batch.bytes / stripes.count  # bytes of an object
    growth = np.where(batch.processes > site.locks.growth_writers, owner / site.locks.growth_bytes, 0.0)
    # A lock that also grew downwards holds what its lower neighbour writes next: it passes twice.
    passes = np.where(batch.nodes - 1.0 <= site.locks.downward_waiters, 2.0, 1.0)
    segmented = np.maximum(batch.nodes * passes, growth)
    piece = np.where(way.sieved, way.sieve_buffer, parts.size)
    chunk = np.where(piece <= stripes.size, piece, np.maximum(stripes.size, piece / stripes.count))
    turns = np.where(way.sieved, row.sent, parts.moved) / stripes.count / chunk
    alone = np.where(batch.layout == SEGMENTED, segmented, np.maximum(turns, 1.0))
    shared_object = (way.aggregators > stripes.count) | ~on_stripes(site, batch)
    together = np.where(shared_object, batch.bytes / stripes.count / np.minimum(way.buffer, stripes.size), 0.0)
    switches = np.where(way.aggregated, together, alone)
    queue = switches * site.locks.seconds

    spans = (parts.size > stripes.size) & (stripes.count > 1) & (batch.layout != SEGMENTED) & ~way.aggregated
    if not spans.any():
        return np.where(several, queue, 0.0)
    off = batch.misaligned | (batch.api >= 2) & (batch.hdf5_alignment < stripes.size)
    held = np.minimum(np.ceil(parts.size / stripes.size) + off, stripes.count)
    taken = parts.moved / parts.size / batch.nodes * held
    convoy = np.where(spans, taken * site.locks.seconds * harmonic(batch.nodes), 0.0)
    return np.where(several, np.maximum(queue, convoy), 0.0)


def round_seconds(row: Row) -> Numbers:
    """7. Two-phase: R * (t_sync * log2 P + messages * o + ss / B_agg), and what the rounds themselves wait for.

    An aggregator gets from a buffer's pieces as many messages as there are senders. Several on one node share its
    bandwidth, or that of its memory for what it holds. Where holes are filled, the buffer is read before. Without
    read-ahead a round ends when the slowest of A aggregators has its bytes: n requests one after the other wait
    t_access * (1 + (H_A - 1) / sqrt(n)) each, which is t_access * H_A for one. [S; M: 0.73 to 0.87 GiB/s an aggregator
    on Edison]
    """
    site, batch, way = row.site, row.batch, row.way
    if not way.any_aggregated:
        return NONE
    speed = site.client.core_speed
    sync = site.network.sync_seconds * np.log2(np.maximum(2.0, batch.processes))
    messages = np.minimum(batch.processes, np.maximum(1.0, way.buffer / row.parts.size))
    fixed = (sync + messages * site.network.message_seconds) / speed
    own = site.mpi.aggregator_bandwidth * speed
    held = np.minimum(own, site.client.memory_bandwidth * speed / row.processes)
    each = row.uncached_client / np.minimum(own, row.node / row.processes) + (1.0 - row.uncached_client) / held
    bytes_each = row.sent / way.aggregators
    # Empty holes that are not filled: every piece is a call of its own.
    count = np.where(batch.write & (row.parts.span > 1) & ~batch.ds_in_coll, bytes_each / row.parts.size, 0.0)
    first = row.read_first / way.aggregators / np.minimum(own, site.network.node_read_bandwidth / row.processes)
    packing = batch.bytes / row.parts.size / way.aggregators * site.client.piece_seconds / speed
    total = way.rounds * fixed + bytes_each * each + first + packing + count * site.client.call_seconds / speed
    if not site.client.read_ahead:
        requests = np.maximum(1.0, way.buffer / row.request)
        spread = 1.0 + (harmonic(way.aggregators) - 1.0) / np.sqrt(requests)
        wait = site.network.latency + row.request / row.disk + unannounced_seconds(site) * spread
        total = total + np.where(batch.write, 0.0, way.rounds * requests * wait * row.uncached_client)
    return np.where(way.aggregated, total, 0.0)


def compute_write_behind(row: Row) -> Numbers:
    """9. Give the part of the bytes that clients may keep dirty: all that fits max_dirty an OSC, without fsync. [S]."""
    allowed = row.batch.write & ~row.batch.fsync
    if not allowed.any():
        return NONE
    room = row.site.client.dirty_limit * row.pairs
    return np.where(allowed, np.minimum(1.0, room / row.sent), 0.0)


def memory_seconds(row: Row, kept: Numbers) -> Numbers:
    """9. What memory holds moves at B_mem: dirty pages of writes, cached pages of reads. [G]."""
    share = np.where(row.batch.write, kept, 1.0 - row.uncached_client)
    if not share.any():
        return NONE
    speed = row.site.client.core_speed
    rate = row.clients * row.site.client.memory_bandwidth * speed
    return row.sent * share / rate


def open_seconds(row: Row) -> Numbers:
    """10. t_open + P / rate + S * t_obj to create; a file each: files / rate.

    With ``romio_no_indep_rw`` only aggregators open the file. HDF5 reads its metadata here: each operation by every
    process, or by one and then told to all if metadata operations are collective. [M, G]
    """
    site, batch = row.site, row.batch
    mds = site.mds
    deferred = batch.no_indep_rw & row.way.aggregated
    opens = np.where(deferred, row.way.aggregators, batch.processes)
    create = np.where(batch.write & ~batch.file_per_process, row.stripes.count * mds.object_seconds, 0.0)
    opening = mds.open_seconds + opens / mds.rate + create
    if not batch.any_metadata:
        return opening
    every = batch.processes / mds.rate
    told = site.network.sync_seconds * np.log2(np.maximum(2.0, batch.processes)) / site.client.core_speed
    each = site.network.latency + np.where(batch.hdf5_collective_metadata, told, every)
    return opening + np.where(batch.write, 0.0, batch.metadata_operations * each)


def close_seconds(row: Row) -> Numbers:
    """10. One RPC and P / rate; HDF5 writes its metadata here.

    Operations gather in blocks of meta_block_size, 512 bytes each; a block is an RPC under a lock, unless metadata
    writes are collective. [G]
    """
    site, batch = row.site, row.batch
    deferred = batch.no_indep_rw & row.way.aggregated
    closes = np.where(deferred, row.way.aggregators, batch.processes)
    closing = site.network.latency + closes / site.mds.rate
    if not batch.any_metadata:
        return closing
    blocks = np.ceil(batch.metadata_operations * 512.0 / np.maximum(512.0, batch.hdf5_meta_block_size))
    contended = (batch.nodes > 1) & ~batch.hdf5_collective_metadata
    each = site.network.latency + np.where(contended, site.locks.seconds, 0.0)
    return closing + np.where(batch.write, blocks * each, 0.0)
