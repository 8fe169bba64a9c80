"""HDF5: what became of the transfers that a program asked for."""

from __future__ import annotations

from collections.abc import Iterator

from stripewise.diagnose.finding import Finding, FindingKind, rule, top, weigh
from stripewise.diagnose.limits import Limit, Thresholds
from stripewise.observe.activity import Activity, FileActivity
from stripewise.sizes import format_size

_FIXES = {
    "datatype_conversion": "Give H5Dwrite and H5Dread memory of the dataset's own type, so that nothing is converted. "
    "Write the members of a compound type together, or give each member a dataset of its own: a member alone makes "
    "HDF5 read and rewrite all the others.",
    "data_transforms": "Leave out H5Pset_data_transform, and transform the data in the program.",
    "filters": "Write filtered datasets with HDF5 1.10.2 or later, all ranks together, or leave out the filters.",
    "not_simple_dataspaces": "Give every rank a simple dataspace; a rank without data selects none of it.",
    "not_contiguous_or_chunked": "Create the dataset contiguous or chunked: compact ones have no collective transfer.",
    "mpi_optimized_types_disabled": "Remove HDF5_MPI_OPT_TYPES=0 from the environment.",
}


def broken(file: FileActivity) -> bool:
    """Whether HDF5 made transfers independently for which the program asked for collective ones."""
    return any(transfers.broken for transfers in file.transfers.values())


@rule(
    "broken-collective",
    "Collective transfers that HDF5 made independently",
    "The program asks for collective transfers, but HDF5 cannot make them so: it moves the data of each rank by "
    "itself, in pieces of its conversion buffer, and may read and rewrite what lies between.",
    "Remove what prevents collective transfers (H5Pget_mpio_no_collective_cause names it); asking for them again does "
    "not help.",
    limits={"broken_share": Limit(0.1, "share", "of a file's collective transfers that HDF5 made independently")},
)
def broken_collective(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for collective transfers that HDF5 carried out independently."""
    found = [file for file in activity.files if broken(file)]
    each = [transfers for file in found for transfers in file.transfers.values()]
    asked, lost = sum(one.collective for one in each), sum(one.broken for one in each)
    if not lost or lost < limits["broken_share"] * asked:
        return
    causes = sorted({cause for one in each for cause in one.broken_by})
    held = sum(max(one.bytes for one in file.transfers.values()) for file in found)
    written, read = (sum(getattr(file.lower, way).bytes for file in found) for way in ("write", "read"))
    share = activity.share(sum(file.seconds for file in found))
    more = (written + read) / held if held else 0.0
    fix = " ".join(_FIXES[cause] for cause in causes if cause in _FIXES)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{lost:,} of {asked:,} collective transfers became independent ({', '.join(causes)}): "
        f"{format_size(written)} were written and {format_size(read)} read for datasets of {format_size(held)}",
        {
            "broken": lost,
            "collective": asked,
            "causes": causes,
            "dataset_bytes": held,
            "written_bytes": written,
            "read_bytes": read,
            "amplification": round(more, 2),
        },
        top({file.path: file.bytes for file in found}),
        share=share,
        fix=fix,
    )
