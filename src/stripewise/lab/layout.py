"""Where bytes lie: striping over OSTs, and the pieces in which a process touches a file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stripewise.lab.batch import LAYOUTS, Flags, Numbers, RunBatch
from stripewise.lab.site import Site

SEGMENTED, STRIDED, RANDOM, TILE = range(len(LAYOUTS))
_ONE = np.ones(1)


@dataclass(frozen=True, eq=False)
class Striping:
    """How the files of a row lie on OSTs; arrays of shape ``(n,)`` or ``(1,)``.

    Attributes
    ----------
    count : ndarray
        Objects of a file (with overstriping several on one OST).
    size : ndarray
        Bytes on one object before the next takes over.
    osts : ndarray
        OSTs that the run uses.
    load : ndarray
        Bytes on the fullest OST over the bytes of the run, 1 / osts if all are alike.
    """

    count: Numbers
    size: Numbers
    osts: Numbers
    load: Numbers


def striping(site: Site, batch: RunBatch) -> Striping:
    """Find the striping that acts, and the load of the fullest OST by counting.

    A layout set beforehand acts under every driver. The hints ``striping_factor`` and ``striping_unit`` are ROMIO's
    Lustre driver's alone; OMPIO may ignore them (ompi#10132). A unit without a factor asks for all OSTs, as ROMIO's
    Lustre driver does (project notes on the tunables). Byte k of a file lies on object (k // size) mod count.
    """
    most = site.ost.count
    obeys = site.mpi.driver == "romio_lustre" or (site.mpi.driver == "ompio" and site.mpi.ompio_obeys_striping)
    count = batch.stripe_count
    size = np.where(batch.stripe_size > 0, batch.stripe_size, site.defaults.stripe_size)
    if obeys and batch.any_striping_hint:
        factor = np.where(batch.write & (batch.api > 0), batch.striping_factor, 0.0)
        unit = np.where(batch.write & (batch.api > 0), batch.striping_unit, 0.0)
        factor = np.where((factor <= 0) & (unit > 0), -1.0, np.where(unit > 0, factor, np.maximum(factor, 0.0)))
        count = np.where(factor != 0, factor, count)
        size = np.where(unit > 0, unit, size)
    count = np.where(count == 0, site.defaults.stripe_count, count)
    count = np.where(count < 0, most, np.minimum(np.maximum(count, 1.0), most))
    over = batch.overstripe_count
    if over.any():
        count = np.where(over > 0, over, count)
    objects = batch.files * count
    osts = np.minimum(objects, most)
    crowd = np.ceil(objects / most)
    # The first object is the fullest: a stripe of each whole round over all objects, and what the last one begins with.
    whole = np.floor(batch.file_size / (count * size))
    fullest = whole * size + np.minimum(size, batch.file_size - whole * count * size)
    load = np.minimum(1.0, crowd * fullest / batch.bytes)
    return Striping(count, size, osts, np.maximum(load, 1.0 / osts))


@dataclass(frozen=True, eq=False)
class Pieces:
    """How a process touches a file; arrays of shape ``(n,)`` or ``(1,)``.

    Attributes
    ----------
    a_call : ndarray
        Contiguous pieces of one call, 1 where it is contiguous.
    size : ndarray
        Bytes of a piece: the request that the file system sees if nothing gathers it.
    hole : ndarray
        Bytes between two pieces of one call of one process; 0 where a call is one piece.
    run : ndarray
        Bytes that one process touches in a row in the course of all its calls.
    calls : ndarray
        Calls of one process.
    span : ndarray
        Bytes from the first to the last touched over the bytes touched by all: above 1 where holes stay empty.
    interleaved : ndarray of bool
        Whether the ranges of the processes overlap in one collective call, as ROMIO looks at it.
    moved : ndarray
        Bytes that all processes move: overlaps are moved by each neighbour.
    """

    a_call: Numbers
    size: Numbers
    hole: Numbers
    run: Numbers
    calls: Numbers
    span: Numbers
    interleaved: Flags
    moved: Numbers


def pieces(batch: RunBatch) -> Pieces:
    """Work out the pieces of segmented, strided, random and tiled accesses.

    Segmented: each process has a contiguous part. Strided: pieces of all processes take turns. Random: calls in any
    order. Tile: rows of a block of a matrix, with ``overlap`` shared by neighbours. (IOR and mpi-tile-io.)
    """
    segmented = batch.layout == SEGMENTED
    shared = ~batch.file_per_process & (batch.processes > 1)
    moved = batch.bytes
    if batch.overlap.any():
        moved = moved * (1.0 + np.where(shared, batch.overlap, 0.0))
    part = moved / batch.processes
    call = np.minimum(batch.transfer_size, part)
    size = np.where(segmented, call, np.minimum(batch.piece_size, call))
    a_call = np.maximum(1.0, call / size)
    others = np.where(shared, (batch.processes - 1.0) * size, 0.0)
    hole = np.where(batch.hole_size >= 0, batch.hole_size, others)
    stride = size + hole
    # With a hole of its own, processes take turns if all pieces fit in a stride; else each has a range for itself.
    sharers = np.where(shared & (batch.processes * size <= stride), batch.processes, 1.0)
    span = _ONE
    if (batch.hole_size >= 0).any():
        span = np.where((batch.hole_size >= 0) & ~segmented, np.maximum(1.0, stride / (sharers * size)), 1.0)
    own = batch.file_per_process | segmented
    run = np.where(own & (hole * (a_call > 1) == 0) & (batch.layout != RANDOM), part, size)
    interleaved = shared & ~segmented & ((a_call > 1) & (sharers > 1) | (batch.layout == RANDOM))
    return Pieces(a_call, size, np.where(a_call > 1, hole, 0.0), run, part / call, span, interleaved, moved)
