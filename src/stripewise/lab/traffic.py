"""What clients and servers exchange in a row: bytes, requests, windows, and what caches spare."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from stripewise.lab.batch import Flags, Numbers, RunBatch
from stripewise.lab.layout import RANDOM, Pieces, Striping
from stripewise.lab.romio import AccessMethod, on_stripes
from stripewise.lab.site import Site

PAGE = 4096.0
"""Bytes of a page, the unit of client caches and the least that a server is asked for."""
NONE = np.zeros(1)
_ALWAYS = np.ones(1, dtype=bool)


@dataclass(frozen=True, eq=False)
class Row:
    """All that is known of a row before times are computed; see :func:`traffic` for the derived arrays.

    Attributes
    ----------
    site, batch, stripes, parts, way
        What the earlier steps found.
    disk, node : ndarray
        Bytes a second of an OST and of a node in the row's direction.
    sent : ndarray
        Bytes between clients and servers in the row's direction.
    read_first : ndarray
        Bytes that a write reads before, to fill holes.
    request : ndarray
        q, bytes of an RPC.
    clients, processes : ndarray
        Nodes that talk to servers, and processes on one of them that do.
    pairs : ndarray
        Pairs of a client and an OST that have an RPC window.
    ahead : ndarray of bool
        Whether read-ahead, or writing behind, keeps the window full.
    continues : ndarray of bool
        Whether a client's next request on an object begins where its last one ended.
    uncached_client, uncached_server : ndarray
        Parts of the bytes that must cross the network, and that must come from disks.
    """

    site: Site
    batch: RunBatch
    stripes: Striping
    parts: Pieces
    way: AccessMethod
    disk: Numbers
    node: Numbers
    sent: Numbers
    read_first: Numbers
    request: Numbers
    clients: Numbers
    processes: Numbers
    pairs: Numbers
    ahead: Flags
    continues: Flags
    uncached_client: Numbers
    uncached_server: Numbers


@dataclass(frozen=True, eq=False)
class Exchange:
    """What one way of doing calls, alone or together, sends: part of a :class:`Row`, arrays as there.

    Attributes
    ----------
    sent, read_first, clients, processes, pairs, ahead, continues : ndarray
        As of the row; ``read_first`` before it is known whether the row writes.
    run : ndarray
        Bytes in a row that one process hands to the file system.
    """

    sent: Numbers
    read_first: Numbers
    run: Numbers
    clients: Numbers
    processes: Numbers
    pairs: Numbers
    ahead: Flags
    continues: Flags


def traffic(site: Site, batch: RunBatch, stripes: Striping, parts: Pieces, way: AccessMethod) -> Row:
    """Work out what clients and servers exchange, by the way that each row's calls take."""
    write = batch.write
    if way.all_aggregated:
        made = _exchange_together(site, batch, stripes, parts, way)
    elif not way.any_aggregated:
        made = _exchange_alone(site, batch, stripes, parts, way)
    else:
        made = _mix_exchanges(
            way.aggregated,
            _exchange_together(site, batch, stripes, parts, way),
            _exchange_alone(site, batch, stripes, parts, way),
        )
    q = np.minimum(np.minimum(site.client.rpc_size, made.run), np.where(stripes.count > 1, stripes.size, np.inf))
    c1 = np.where(batch.client_cached < 0, site.client.cached, batch.client_cached)
    c2 = np.where(batch.server_cached < 0, site.oss.cached, batch.server_cached)
    c1, c2 = np.where(write, 0.0, c1), np.where(write, 0.0, c2)
    return Row(
        *(site, batch, stripes, parts, way),
        disk=np.where(write, site.ost.write_bandwidth, site.ost.read_bandwidth),
        node=np.where(write, site.network.node_write_bandwidth, site.network.node_read_bandwidth),
        sent=made.sent,
        read_first=np.where(write, made.read_first, 0.0),
        request=q,
        clients=made.clients,
        processes=made.processes,
        pairs=made.pairs,
        ahead=made.ahead if site.client.read_ahead else made.ahead & write,
        continues=made.continues,
        uncached_client=1.0 - c1,
        uncached_server=np.maximum(0.0, 1.0 - c1 - c2),
    )


def _exchange_together(site: Site, batch: RunBatch, stripes: Striping, parts: Pieces, way: AccessMethod) -> Exchange:
    """What aggregators send: each byte once, whatever overlaps.

    Where holes stay empty they read the whole range first, unless ds_in_coll is off: then each piece is a request. [S]
    """
    sparse = parts.span > 1
    filled = sparse & batch.ds_in_coll
    split = batch.write & sparse & ~batch.ds_in_coll
    sent = batch.bytes * np.where(split, 1.0, parts.span)
    run = np.where(split, np.maximum(parts.size, PAGE), way.buffer)
    clients = way.hosts
    owned = np.maximum(way.aggregators, stripes.count)
    ranges = way.aggregators * np.minimum(np.maximum(way.buffer / stripes.size, 1.0), stripes.count)
    return Exchange(
        sent=sent,
        read_first=np.where(filled, sent, 0.0),
        run=run,
        clients=clients,
        processes=np.ceil(way.aggregators / clients),
        pairs=np.minimum(np.where(on_stripes(site, batch), owned, ranges), clients * stripes.osts),
        ahead=_ALWAYS,
        continues=~split & (run > PAGE),
    )


def _exchange_alone(site: Site, batch: RunBatch, stripes: Striping, parts: Pieces, way: AccessMethod) -> Exchange:
    """What processes send for themselves.

    Sieving moves whole buffers, that start at a piece, and for writes reads them first. The naive way moves pages:
    pieces nearer than a page gather, others are requests of their own. [S, M: Kunkel et al. 2015]
    """
    holes, sieved = parts.hole > 0, way.sieved
    sent, first, run, near = parts.moved, NONE, np.maximum(parts.run, PAGE), parts.hole < PAGE
    stretch = run
    if holes.any():
        stride = parts.size + parts.hole
        paged = np.maximum(parts.size, PAGE)
        naive = np.where(holes, np.where(near, stride, paged) / parts.size, 1.0)
        gathered = np.minimum(stride, np.maximum(way.sieve_buffer, parts.size)) / parts.size
        sent = parts.moved * np.where(sieved, gathered, naive)
        first = np.where(sieved, sent, 0.0)
        run = np.where(holes, np.where(near, np.inf, paged), run)
        adjoining = np.where(parts.hole < way.sieve_buffer, np.inf, way.sieve_buffer)
        stretch = np.where(sieved, adjoining, run)
        run = np.where(sieved, way.sieve_buffer, run)
    # The next request on an object goes on where the last one ended if what is touched in a row reaches that far.
    next_one = np.where(stripes.count > 1, stripes.count * stripes.size, np.minimum(run, site.client.rpc_size))
    files = np.where(batch.file_per_process, batch.processes_per_node, 1.0)
    reach = np.where(batch.file_per_process, files * stripes.count, np.ceil(parts.moved / batch.nodes / stripes.size))
    foreseen = (batch.layout != RANDOM) | (parts.size >= site.client.rpc_size)
    return Exchange(
        sent=sent,
        read_first=first,
        run=run,
        clients=batch.nodes,
        processes=batch.processes_per_node,
        pairs=batch.nodes * np.minimum(np.maximum(reach, 1.0), stripes.osts),
        ahead=batch.write | ((near | sieved) & foreseen),
        continues=stretch >= 2.0 * next_one,
    )


def _mix_exchanges(aggregated: Flags, together: Exchange, alone: Exchange) -> Exchange:
    """Take each row's own of the two."""
    return Exchange(
        **{
            field.name: np.where(aggregated, getattr(together, field.name), getattr(alone, field.name))
            for field in fields(Exchange)
        }
    )
