"""Rows from the output of IOR, of whatever form and version."""

from __future__ import annotations

import re
from typing import Any

from stripewise.errors import UserError
from stripewise.measure.ior import IorOutput, IorRow
from stripewise.spec.sizes import parse_size


def ior_row(output: IorOutput, row: IorRow) -> dict[str, Any]:
    """Columns by name of one line of results; None where neither options nor command line tell."""
    options = {re.sub(r"[^a-z]", "", name.lower()): value for name, value in output.options.items()}

    def number(*names: str) -> int | None:
        for name in names:
            match = re.match(r"\s*(\d+)", str(options.get(name, "")))
            if match:
                return int(match[1])
        return None

    tasks = number("tasks", "numtasks", "clients")
    per_node = number("clientspernode", "taskspernode")
    nodes = number("nodes", "numnodes") or (tasks // per_node if tasks and per_node and tasks % per_node == 0 else None)
    segments = number("segments", "segmentcount") or 1
    transfer = row.transfer or _bytes(options.get("transfersize") or options.get("xfersize"))
    block = row.block or _bytes(options.get("blocksize"))
    kind = str(options.get("type", options.get("collective", ""))).lower()
    access = str(options.get("access", "")).lower()
    apart = str(options.get("fileperproc", options.get("fileperprocess", ""))).lower()
    order = str(options.get("orderinginafile", "")).lower()
    # What the options do not say, the command line does.
    flags = set(output.command.split())
    random = (
        order.startswith("random")
        or str(options.get("randomoffset", "0")).lower() in ("1", "true")
        or bool(flags & {"-z", "-Z"})
    )
    said = {"collective": True, "independent": False, "1": True, "0": False, "true": True, "false": False}.get(
        kind.split("-")[0].strip()
    )
    own = (access.startswith("file-per-process") or apart in ("1", "true")) if access or apart else None
    layout = None
    if block and transfer:
        layout = "random" if random else "strided" if segments > 1 and block == transfer else "segmented"
    return {
        "operation": row.access,
        "nodes": nodes,
        "processes": tasks,
        "api": {"mpiio": "mpiio", "posix": "posix", "hdf5": "hdf5"}.get(
            re.sub(r"[^a-z0-9]", "", str(options.get("api", "")).lower().split("(")[0])
        ),
        "file_size": block * segments * tasks if block and tasks else None,
        "transfer_size": transfer,
        "layout": layout,
        "collective": said if said is not None or not flags else "-c" in flags,
        "file_per_process": own if own is not None or not flags else "-F" in flags,
        "bandwidth": row.bandwidth,
    }


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    match = re.match(r"\s*([0-9.]+\s*[A-Za-z]*)", text)
    try:
        return parse_size(re.sub(r"(?i)bytes?$", "", match[1].strip()).strip()) if match else None
    except UserError:
        return None
