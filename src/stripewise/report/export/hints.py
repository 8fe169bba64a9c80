"""ROMIO's hints file."""

from __future__ import annotations

from collections.abc import Iterable

from stripewise.report.export.request import Export, Request, no, scope
from stripewise.spec.parameter import Apply

HINTS_LIMIT = 4096
"""Bytes of a hints file that ROMIO reads."""

_PNETCDF = "use the shell export, which sets PNETCDF_HINTS"
_LUSTRE_HINTS = {"stripe_count": "striping_factor", "stripe_size": "striping_unit", "start_ost": "start_iodevice"}


def hints(request: Request) -> Export:
    """The file that ``ROMIO_HINTS`` names."""
    pairs, cannot = as_hints(request)
    lines, refused = hint_lines(pairs)
    left = [s for s in request.plan.settings if s.apply not in (Apply.HINT, Apply.STRIPING)]
    return Export(
        "".join(lines),
        "unset ROMIO_HINTS\nrm -f stripewise.hints\n",
        [
            *cannot,
            *refused,
            *(no(s, "is no MPI-IO hint") for s in left),
            *(no(s, f"is read by PnetCDF alone: {_PNETCDF}") for s in request.pnetcdf),
            *scope(request.plan),
        ],
        'save as stripewise.hints, then: export ROMIO_HINTS="$PWD/stripewise.hints" (a whole path, readable on rank 0)',
        "the program's own MPI_Info wins over this file; this file replaces /etc/romio-hints. An unreadable file is "
        "passed over in silence. Open MPI's OMPIO does not read it.",
        "stripewise.hints",
    )


def as_hints(request: Request) -> tuple[list[tuple[str, str]], list[str]]:
    """The plan's hints, and Lustre striping as the reserved hints that ROMIO's Lustre driver takes at creation."""
    pairs = [(s.key, s.value) for s in request.hints]
    cannot: list[str] = []
    stripes = request.stripes
    counted = stripes.get("stripe_count", "")
    for setting in request.plan.of(Apply.STRIPING):
        hint = _LUSTRE_HINTS.get(setting.key) if setting.layer == "lustre" else None
        if hint is None:
            cannot.append(no(setting, "has no hint; use the lfs export"))
        elif setting.key == "stripe_size" and not counted:
            cannot.append(no(setting, "alone would make ROMIO ask for all OSTs; use the lfs export"))
        elif setting.key == "stripe_count" and counted == "-1" and "stripe_size" not in stripes:
            cannot.append(no(setting, "alone is ignored by ROMIO; use the lfs export"))
        else:
            pairs.append((hint, setting.value))
            if hint == "start_iodevice":
                pairs.append(("romio_lustre_start_iodevice", setting.value))  # its name before MPICH 4.2
    return pairs, cannot


def hint_lines(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Lines of a hints file, and what does not fit there."""
    lines: list[str] = []
    cannot: list[str] = []
    size = 0
    for key, value in pairs:
        line = f"{key} {value}\n"
        if len(value.split()) != 1:
            cannot.append(f"{key}={value}: ROMIO ignores a line of its hints file whose value has white space")
        elif size + len(line.encode()) >= HINTS_LIMIT:
            cannot.append(f"{key}={value}: ROMIO reads less than {HINTS_LIMIT} bytes of a hints file")
        else:
            size += len(line.encode())
            lines.append(line)
    return lines, cannot
