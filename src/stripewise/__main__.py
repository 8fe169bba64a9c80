"""``stripewise``, and ``python -m stripewise``."""

import os
import resource
import sys
from collections.abc import Sequence
from importlib import import_module

_NEEDED = (192 + 32 * (os.cpu_count() or 1)) << 20
"""Bytes of address space of the libraries that this package loads. OpenBLAS has some for each core, and ends the
process where it gets less."""


def main() -> None:
    """Carry out a command. Where ``ulimit`` leaves too little memory for that, ``run`` starts the program as it is."""
    words = sys.argv[1:]
    least = min(_limit(kind) for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    if words[:1] == ["run"] and "--" in words[:-1] and least < _NEEDED:
        _start_as_it_is(words, least)
    import_module("stripewise.desk.cli").main()


def _limit(kind: int) -> float:
    soft, _ = resource.getrlimit(kind)
    return float("inf") if soft == resource.RLIM_INFINITY else soft


def _start_as_it_is(words: Sequence[str], limit: float) -> None:
    foreground, errors = import_module("stripewise.runners.local.foreground"), import_module("stripewise.errors")
    own, command = words[: words.index("--")], words[words.index("--") + 1 :]
    if not {"-q", "--quiet"} & set(own):
        sys.stderr.write(
            f"stripewise: nothing is set or observed: ulimit leaves {limit / 2**20:.0f} MiB of memory, and Stripewise "
            f"needs {_NEEDED >> 20}\n"
        )
    sys.stderr.flush()
    try:
        foreground.take_place(command)
    except errors.CannotExecute as error:
        sys.stderr.write(f"stripewise: {error}\n")
        sys.exit(error.of_shell)


if __name__ == "__main__":
    main()
