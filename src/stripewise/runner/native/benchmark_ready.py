"""What must be there before the first point of a campaign that launches programs: launcher, folder, program."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stripewise.carriers import Setting
from stripewise.errors import UserError
from stripewise.filesystems import named
from stripewise.runner.hooks import check_caches
from stripewise.runner.native import benchmark_lines
from stripewise.runner.native.build import KERNEL, KERNEL_HDF5, build
from stripewise.runner.native.compiler import ask_compiler, find_compiler
from stripewise.runner.program.environment import file_system
from stripewise.runner.program.mpi import describe, library_of_launcher
from stripewise.spec.campaign import Campaign
from stripewise.spec.campaign_points import Points

_STEP = ["srun", "-N", "{nodes}", "-n", "{processes}", "--ntasks-per-node", "{processes_per_node}"]


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
        benchmark_lines.check_program(campaign, point)
    if not campaign.files.folder:
        raise UserError("nothing says where the benchmark's file shall lie", "give --folder, or folder in [files]")
    folder = Path(campaign.files.folder).absolute()
    if not folder.is_dir():
        raise UserError(f"the folder {folder} does not exist", "make it on the file system that is to be measured")
    # A job empties the caches of its own node, where it may have the right to.
    check_caches("system" if campaign.files.caches == "system" and campaign.runner != "batch" else "none")
    _check_stripes(points.settings(points.all[0]), folder, environment.get("PATH"))
    launcher = campaign.launcher or _default_launcher(campaign, environment)
    campaign = campaign.model_copy(
        update={"launcher": launcher, "files": campaign.files.model_copy(update={"folder": str(folder)})}
    )
    benchmark_lines.check_launcher(campaign, points.all)
    if campaign.program == "command":
        return campaign, ""
    return campaign, campaign.executable or _find_program(campaign, points, environment)


def _check_stripes(settings: Sequence[Setting], folder: Path, path: str | None) -> None:
    found = file_system(folder) or "unknown"
    for system in {named(s.layer) for s in settings if s.carrier.of_file_system}:
        if not system.is_type(found):
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
    if campaign.runner != "local" and shutil.which("srun", path=path):
        return list(_STEP)
    # As for the compiler: an MPI that was installed into Python's environment is there on purpose.
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.is_file() else shutil.which("mpiexec", path=path)
    if found is None:
        raise UserError("no mpiexec is found", "give launcher, as 'srun -n {processes}', or load an MPI module")
    return [found, "-n", "{processes}"]


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
    named = shutil.which(campaign.launcher[0], path=path) if campaign.launcher else None
    # Debian's mpiexec.mpich stands beside an mpicc of whichever MPI was chosen as the system's.
    library = library_of_launcher(Path(named)) if named else None
    mpi = describe(library, environment) if library is not None else None
    beside = Path(named).parent / "mpicc" if named else None
    if mpi is None and beside is not None and beside.is_file():
        compiler = ask_compiler(beside, environment)
    else:
        compiler = find_compiler(mpi, Path(named) if named else None, environment)
    wanted = KERNEL_HDF5 if any(point.workload.api == "hdf5" for point in points.all) else KERNEL
    return str(build(wanted, compiler, environment).path)
