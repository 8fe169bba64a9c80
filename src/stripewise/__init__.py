"""Stripewise tunes the parallel I/O of MPI programs: it measures, proves and applies better settings."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["__version__", "tune"]

if TYPE_CHECKING:
    from stripewise.tuning.api import tune


def __getattr__(name: str) -> Any:
    # Loaded on first use: importing the package stays quick for what needs only its version or one module.
    if name == "tune":
        from stripewise.tuning.api import tune  # noqa: PLC0415  importing stripewise stays fast

        return tune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
