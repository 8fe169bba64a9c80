"""From a point of a campaign to the command lines that measure it: the benchmark program, IOR, or a user's own."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.filesystems import find_file_system, of_file
from stripewise.catalogue.filesystems.base import mount_type
from stripewise.catalogue.plan import spell
from stripewise.errors import UserError
from stripewise.ownership import everyone_can_write
from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Point, Points
from stripewise.runners.hooks import check_caches
from stripewise.runners.native.build import KERNEL, KERNEL_HDF5, build
from stripewise.runners.native.compiler import compiler_of_launcher
from stripewise.runners.program.command import fill, placeholders, substitute
from stripewise.runners.program.mpi import mpiexec
from stripewise.runners.schedulers.registry import make_scheduler

OBJECTIVES = {
    "kernel": "regex:{operation} bandwidth: ([0-9.]+) MiB/s",
    "ior": "regex:Max {Operation}: +([0-9.]+) MiB/sec",
}
"""Where the programs print the bandwidth of an operation."""


@dataclass(frozen=True)
class RunLines:
    """What a run consists of.

    Attributes
    ----------
    command : tuple of str
        What is measured.
    before, after : tuple of str
        Shell lines around it: they lay out the file and, for a read, write it; afterwards they delete it.
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


def lines(campaign: Campaign, point: Point, settings: tuple[Setting, ...], program: str) -> RunLines:
    """Write the lines of a point's run on this machine.

    Parameters
    ----------
    campaign : Campaign
    point : Point
    settings : tuple of Setting
        See :meth:`~stripewise.requests.campaign_points.Points.settings`; only layouts are looked at.
    program : str
        Path of kernel or IOR.
    """
    path = f"{campaign.files.folder.rstrip('/')}/{campaign.files.name}"
    layout = _layout(settings, path)
    values = make_words(point, path)
    launcher = [substitute(word, values) for word in campaign.launcher]
    if campaign.program == "command":
        body = [word for word, _ in fill(campaign.command, values)]
        own = launcher + body if campaign.launcher else body
        return RunLines(tuple(own), tuple(layout), (_removal(path),))
    arguments = _kernel if campaign.program == "kernel" else _ior
    before = list(layout)
    command = [*launcher, program, *arguments(campaign, point, point.operation, path, there=bool(layout))]
    if point.operation == "read":
        before.append(shlex.join([*launcher, program, *arguments(campaign, point, "write", path, there=bool(layout))]))
        if campaign.files.caches == "advise":
            # dd with no blocks to copy drops a whole file's pages from this node's cache, once they are on the disk.
            before.append(
                f'for f in {shlex.quote(path)} {shlex.quote(path)}.0*; do [ ! -f "$f" ] || '
                'dd of="$f" oflag=nocache conv=notrunc,fdatasync count=0 status=none || true; done'
            )
    return RunLines(tuple(command), tuple(before), (_removal(path),))


def patterns(campaign: Campaign) -> tuple[str, ...]:
    """Files that a run may leave, as patterns in the measured folder."""
    path = f"{campaign.files.folder.rstrip('/')}/{campaign.files.name}"
    return (path, f"{path}.0*")


def make_words(point: Point, path: str) -> Mapping[str, str]:
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
        system = find_file_system(name)
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


def make_ready(campaign: Campaign, points: Points, environment: Mapping[str, str]) -> tuple[Campaign, str]:
    """Check that a campaign's points can be launched.

    Parameters
    ----------
    campaign : Campaign
    points : Points
    environment : mapping
        In which programs are looked for.

    Returns
    -------
    Campaign
        With the launcher that is used and the folder's whole path.
    str
        Path of the benchmark program; empty where the campaign has a command of its own.

    Raises
    ------
    UserError
        If the program, the launcher, the folder or its file system cannot do what is asked.
    """
    for point in points.all:
        check_program(campaign, point)
    if not campaign.files.folder:
        raise UserError(
            "the campaign does not say where the benchmark's file goes", "give --folder, or folder in [files]"
        )
    folder = Path(campaign.files.folder).absolute()
    if not folder.is_dir():
        raise UserError(f"the folder {folder} does not exist", "make it on the file system that is to be measured")
    if everyone_can_write(folder):
        raise UserError(
            f"everyone can write in {folder}, and so lead the benchmark's file elsewhere by a link",
            "make a folder of your own in it, and name that",
        )
    # A job empties the caches of its own node, where it may have the right to.
    check_caches("system" if campaign.files.caches == "system" and campaign.runner != "batch" else "none")
    _check_stripes(points.settings(points.all[0]), folder, environment.get("PATH"))
    launcher = campaign.launcher or _default_launcher(campaign, environment)
    campaign = campaign.model_copy(
        update={"launcher": launcher, "files": campaign.files.model_copy(update={"folder": str(folder)})}
    )
    check_launcher(campaign, points.all)
    if campaign.program == "command":
        return campaign, ""
    return campaign, campaign.executable or _find_program(campaign, points, environment)


def _check_stripes(settings: Sequence[Setting], folder: Path, path: str | None) -> None:
    found = mount_type(folder) or "unknown"
    for system in {find_file_system(s.layer) for s in settings if s.carrier.of_file_system}:
        if of_file(found) is not system:
            raise UserError(
                f"{folder} lies on {found}, which cannot lay out files as {system.label} does",
                "choose a folder on that file system, leave the layout out, or use a simulated site",
            )
        if shutil.which(system.tool, path=path) is None:
            raise UserError(f"laying out files needs the command {system.tool}, which is not installed", "install it")


def _default_launcher(campaign: Campaign, environment: Mapping[str, str]) -> list[str]:
    if campaign.program == "command":
        return []
    path = environment.get("PATH")
    start = make_scheduler(campaign.batch.scheduler).start
    if campaign.runner != "local" and start and shutil.which(start[0], path=path):
        return list(start)
    return [mpiexec(environment), "-n", "{processes}"]


def _find_program(campaign: Campaign, points: Points, environment: Mapping[str, str]) -> str:
    path = environment.get("PATH")
    if campaign.program == "ior":
        found = shutil.which("ior", path=path)
        if found is None:
            raise UserError(
                "IOR is not found",
                "load its module, give executable, or use program = 'kernel', which is built here",
            )
        return found
    compiler = compiler_of_launcher(next(iter(campaign.launcher), None), environment)
    wanted = KERNEL_HDF5 if any(point.workload.api == "hdf5" for point in points.all) else KERNEL
    return str(build(wanted, compiler, environment).path)
