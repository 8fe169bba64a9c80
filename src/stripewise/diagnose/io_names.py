"""Names by which MPI and I/O libraries know settings: those of the stacks, and further ones of their vendors.

Nothing else in a script is a setting. ``HDF5_VER`` and ``LUSTRE_DIR`` are variables of the script itself.
"""

from __future__ import annotations

from functools import cache

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, MCA
from stripewise.catalogue.meaning import names_of

_HINTS = frozenset(
    {
        # Reserved by the MPI standard, section "Reserved File Hints".
        *("access_style", "collective_buffering", "cb_block_size", "chunked", "chunked_item", "chunked_size"),
        *("file_perm", "io_node_list", "nb_proc", "num_io_nodes"),
        # ROMIO's driver of Blue Gene, and Cray MPICH.
        *("bg_nodes_pset", "overstriping_factor"),
    }
)
_HINT_PREFIXES = ("romio_", "cray_cb_", "panfs_", "IBM_")
"""Names that begin so can only be hints, misspelt ones among them."""
_VARIABLES = frozenset(
    {
        *("ROMIO_HINTS", "ROMIO_PRINT_HINTS", "PNETCDF_HINTS", "PNETCDF_SAFE_MODE", "PNETCDF_VERBOSE_DEBUG_MODE"),
        *("HDF5_USE_FILE_LOCKING", "HDF5_DRIVER", "HDF5_DRIVER_CONFIG", "HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH"),
        *("HDF5_PLUGIN_PRELOAD", "HDF5_MPI_OPT_TYPES", "IBM_largeblock_io"),
    }
)
_VARIABLE_PREFIXES = (
    *("MPICH_MPIIO_", "GPFSMPIO_", "I_MPI_EXTRA_FILESYSTEM", "I_MPI_LUSTRE_", "H5FD_SUBFILING_", "H5FD_IOC_"),
)
"""Beginnings that libraries reserve for their settings of I/O."""
_MCA_FRAMEWORKS = ("io", "fcoll", "fbtl", "fs", "sharedfp", "common_ompio")


def is_hint(name: str) -> bool:
    """Whether an MPI library knows a hint of this name, or it could be nothing but a hint."""
    return name in names_of(HINT) or name in _HINTS or name.startswith(_HINT_PREFIXES)


def is_mca(name: str) -> bool:
    """Whether a parameter of Open MPI belongs to its frameworks for I/O."""
    return (
        name in names_of(MCA) or name.startswith(tuple(f"{one}_" for one in _MCA_FRAMEWORKS)) or name in _MCA_FRAMEWORKS
    )


def is_variable(name: str) -> bool:
    """Whether an I/O library reads an environment variable of this name."""
    return name in names_of(ENVIRONMENT) or name in _VARIABLES or name.startswith(_VARIABLE_PREFIXES)


@cache
def bare_names() -> dict[str, str]:
    """Names of hints and MCA parameters, which no library reads as variables; with the carrier's name."""
    return {name: carrier.name for carrier in (HINT, MCA) for name in names_of(carrier) if not is_variable(name)}
