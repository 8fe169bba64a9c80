"""Stripewise tunes the parallel I/O of MPI programs: it measures, proves and applies better settings."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.1.5"

__all__ = ["Client", "Search", "Tuned", "__version__", "floats", "integers", "tune"]

if TYPE_CHECKING:
    from stripewise.api import Search, Tuned, tune
    from stripewise.desk.client import Client
    from stripewise.requests.from_python import floats, integers

_HOMES = {
    **dict.fromkeys(("Search", "Tuned", "tune"), "api"),
    **dict.fromkeys(("floats", "integers"), "requests.from_python"),
    "Client": "desk.client",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: importing the package stays quick for what needs only its version or one module.
    if name in _HOMES:
        return getattr(import_module(f"stripewise.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
