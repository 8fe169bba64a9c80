"""From a point of a campaign to the command lines that measure it: the benchmark program, IOR, or a user's own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from stripewise.carriers import Setting
from stripewise.errors import UserError
from stripewise.filesystems import named
from stripewise.runner.program.command import placeholders, substitute
from stripewise.spec.campaign import Campaign
from stripewise.spec.campaign_points import Point
from stripewise.spec.plan import spell

OBJECTIVES = {
    "kernel": "regex:{operation} bandwidth: ([0-9.]+) MiB/s",
    "ior": "regex:Max {Operation}: +([0-9.]+) MiB/sec",
}
"""Where the programs print the bandwidth of an operation."""


@dataclass(frozen=True)
class Lines:
    """What a run consists of.

    Attributes
    ----------
    command : tuple of str
        What is measured.
    before, after : tuple of str
        Shell lines round it: the file is laid out and, for a read, written before, and deleted after.
    """

    command: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


def check_program(campaign: Campaign, point: Point) -> None:
    """Refuse a point that the campaign's program cannot carry out.

    Raises
    ------
    UserError
        With what it cannot do, and what to use instead.
    """
    workload, program = point.workload, campaign.program
    if program == "command":
        return
    if workload.file_size is None:
        raise UserError(f"campaign {campaign.name} gives no file_size", "add it as a [[workload]]")
    if workload.api not in (None, "posix", "mpiio", "hdf5"):
        name = "the benchmark program" if program == "kernel" else "IOR"
        raise UserError(f"no backend of {name} is known here for {workload.api}", "use posix, mpiio or hdf5")
    pieces = workload.layout == "tile" or (workload.piece_size or point.transfer) != point.transfer
    if program == "ior" and pieces:
        raise UserError("IOR writes neither tiles nor pieces smaller than a transfer", "use program = 'kernel'")


def lines(campaign: Campaign, point: Point, settings: tuple[Setting, ...], program: str) -> Lines:
    """Write the lines of a point's run on this machine.

    Parameters
    ----------
    campaign : Campaign
    point : Point
    settings : tuple of Setting
        See :meth:`~stripewise.spec.campaign_points.Points.settings`; only layouts are looked at.
    program : str
        Path of kernel or IOR.
    """
    path = f"{campaign.files.folder.rstrip('/')}/{campaign.files.name}"
    layout = _layout(settings, path)
    values = words(point, path)
    launcher = [substitute(word, values) for word in campaign.launcher]
    if campaign.program == "command":
        body = [substitute(word, values) for word in campaign.command]
        own = launcher + body if campaign.launcher else body
        return Lines(tuple(own), tuple(layout), (_removal(path),))
    arguments = _kernel if campaign.program == "kernel" else _ior
    before = list(layout)
    command = [*launcher, program, *arguments(campaign, point, point.operation, path, there=bool(layout))]
    if point.operation == "read":
        before.append(shlex.join([*launcher, program, *arguments(campaign, point, "write", path, there=bool(layout))]))
        if campaign.files.caches == "advise":
            # dd with no blocks to copy drops a whole file's pages from this node's cache, once they are on the disk.
            before.append(
                f"for f in {shlex.quote(path)} {shlex.quote(path)}.0*; do [ ! -f $f ] || "
                "dd of=$f oflag=nocache conv=notrunc,fdatasync count=0 status=none || true; done"
            )
    return Lines(tuple(command), tuple(before), (_removal(path),))


def patterns(campaign: Campaign) -> tuple[str, ...]:
    """Files that a run may leave, as patterns in the measured folder."""
    path = f"{campaign.files.folder.rstrip('/')}/{campaign.files.name}"
    return (path, f"{path}.0*")


def words(point: Point, path: str) -> Mapping[str, str]:
    """What the placeholders of a launcher or a command stand for."""
    workload = point.workload
    return {
        **{name: spell(value) for name, value in point.values.items()},
        "processes": str(point.processes),
        "nodes": str(workload.nodes or 1),
        "processes_per_node": str(workload.processes_per_node or 1),
        "operation": point.operation,
        "file": path,
    }


def check_launcher(campaign: Campaign, points: tuple[Point, ...]) -> None:
    """Refuse a launcher that could not start what the workload asks for.

    Raises
    ------
    UserError
        If it does not say the number of ranks or of nodes where that varies or is more than one.
    """
    text = [*campaign.launcher, *campaign.command]
    named = placeholders(text)
    ranks, nodes = {point.processes for point in points}, {point.workload.nodes or 1 for point in points}
    shown = " ".join(campaign.launcher)
    if len(ranks) > 1 and not named & {"processes", "processes_per_node"}:
        raise UserError(f"the number of ranks varies, but launcher '{shown}' has no {{processes}}", "put it in")
    if nodes != {1} and not named & {"nodes", "processes_per_node"}:
        raise UserError(
            f"the workload asks for up to {max(nodes)} nodes, but launcher '{shown}' has no {{nodes}}",
            "for instance launcher = 'srun -N {nodes} -n {processes} --ntasks-per-node {processes_per_node}'",
        )


def _removal(path: str) -> str:
    quoted = shlex.quote(path)
    return f"rm -f {quoted} {quoted}.0*"


def _layout(settings: tuple[Setting, ...], path: str) -> list[str]:
    """Commands that make the file, empty, with its layout."""
    layouts: dict[str, dict[str, str]] = {}
    for setting in settings:
        if setting.carrier.of_file_system:
            layouts.setdefault(setting.layer, {})[setting.key] = setting.value
    lines = []
    for name, layout in layouts.items():
        system = named(name)
        for key, value in layout.items():
            if why := system.refused(key, value, layout):
                raise UserError(f"{key} {value} {why}", "leave that tunable out")
        lines += system.for_file(layout, path)
    return lines


def _kernel(campaign: Campaign, point: Point, operation: str, path: str, *, there: bool) -> list[str]:
    workload = point.workload
    api = workload.api or "mpiio"
    found = ["--api", api, f"--{operation}", "--file", path]
    layout = workload.layout or "segmented"
    found += ["--layout", layout]
    if layout == "tile":
        found += ["--size", str(workload.file_size)]
    else:
        found += ["--block", str(point.share), "--transfer", str(point.transfer or min(point.share or 0, 1 << 20))]
        if layout == "strided" and workload.piece_size is not None:
            found += ["--piece", str(workload.piece_size)]
    found += ["--collective"] if workload.collective and api != "posix" else []
    found += ["--file-per-process"] if workload.file_per_process else []
    if operation == "write":
        found += ["--fsync"] if campaign.files.sync else []
        return [*found, "--existing" if there else "--keep"]
    # What another rank wrote: on several nodes it cannot come from the reader's own memory.
    return [*found, "--keep", "--reorder"] if point.processes > 1 else [*found, "--keep"]


def _ior(campaign: Campaign, point: Point, operation: str, path: str, *, there: bool) -> list[str]:
    workload = point.workload
    transfer = point.transfer or min(point.share or 0, 1 << 20)
    share = point.share or transfer
    strided = workload.layout == "strided"
    block, segments = (transfer, share // transfer) if strided else (share, 1)
    found = ["-a", {"posix": "POSIX", "hdf5": "HDF5"}.get(workload.api or "", "MPIIO"), f"-{operation[0]}", "-k"]
    found += ["-t", str(transfer), "-b", str(block), "-s", str(segments), "-o", path]
    found += ["-z"] if workload.layout == "random" else []
    found += ["-c"] if workload.collective and workload.api != "posix" else []
    found += ["-F"] if workload.file_per_process else []
    if operation == "write":
        found += ["-e"] if campaign.files.sync else []
        return [*found, "-E"] if there else found
    return [*found, "-C"] if point.processes > 1 else found
