"""``stripewise site filters``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.options import JsonOption, check_place
from stripewise.desk.cli.output import console, escape, grid, print_json, say, write_text
from stripewise.diagnose.filters import (
    Expected,
    candidates,
    expect,
    find_best,
    measure,
    measure_folder,
    settings_of,
    take_sample,
)
from stripewise.errors import UserError
from stripewise.observe.sources import open_one
from stripewise.sizes import format_size, parse_size

_TEST_FILE = 32 << 20
_LARGEST_CHUNK = 0xFFFFFFFF
"""HDF5's own limit, in bytes."""


def filters(
    file: Annotated[Path, typer.Argument(help="An HDF5 file that the program has written.", metavar="FILE.h5")],
    dataset: Annotated[
        str | None,
        typer.Option(help="Its path in the file, or a pattern for several: the largest is sampled.", metavar="NAME"),
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option(help="The largest absolute error that reals may have; none otherwise.")
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(help="What storage takes from the whole program in a second, such as 2GiB.", metavar="SIZE"),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Measure that bandwidth: one process writes to this folder.", metavar="DIR")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--from", help="Take it from a report of the runtime.", metavar="REPORT")
    ] = None,
    processes: Annotated[int, typer.Option(help="Processes that write the dataset.", min=1)] = 1,
    collective: Annotated[
        bool, typer.Option("--collective", help="State that all of them write it together, in its own type.")
    ] = False,
    reads: Annotated[float, typer.Option(help="How often data are read for each time they are written.", min=0)] = 0.0,
    plugin: Annotated[
        list[str] | None,
        typer.Option(help="Also try a registered filter: its number, and values behind commas; repeatable."),
    ] = None,
    chunk_size: Annotated[
        str, typer.Option(help="Size of chunks where the program has none.", metavar="SIZE")
    ] = "1 MiB",
    sample: Annotated[str, typer.Option(help="Data to read.", metavar="SIZE")] = "16 MiB",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the plan there.", metavar="FILE.plan")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Say which filter of HDF5 pays for a dataset, from a sample of its data and the bandwidth of the storage."""
    check_place("--output", output, replaced=False)
    if sum(given is not None for given in (bandwidth, folder, report)) != 1:
        raise UserError("the bandwidth of the storage is not known", "give one of --bandwidth, --folder and --from")
    size = parse_size(chunk_size)
    if not 0 < size <= _LARGEST_CHUNK:
        raise UserError(f"--chunk-size {chunk_size} is not possible", "give a size above 0 and below 4 GiB")
    rates = _rates(bandwidth, folder, report)
    taken = take_sample(file, dataset, size, parse_size(sample))
    tried, left = candidates(taken, accuracy, plugin or (), processes)
    measured, lost = measure(taken, tried)
    expected = expect(measured, rates, processes, reads)
    chosen = find_best(expected)
    notes = [*left, *(f"not used, {line}" for line in lost), *_notes(taken.filtered, len(rates), processes, collective)]
    plan = Plan(settings_of(taken, chosen.filter, size, collective, dataset), identifier="filters")
    if output is not None:
        write_text(output, plan.text())
    mean = sum(rates) / len(rates)
    if json_output:
        print_json(
            {
                "dataset": taken.dataset,
                "sampled": taken.share,
                "bandwidth": mean,
                "chosen": chosen.filter.name,
                "filters": [_entry(entry) for entry in expected],
                "plan": plan.text(),
                "notes": notes,
            }
        )
        return
    say(f"{taken.dataset}: {taken.share:.1%} sampled; storage takes {format_size(round(mean))}/s from the program")
    table = grid("filter", ">stored", ">write/s", ">read/s", ">speed-up", ">95% interval", padding=(0, 1, 0, 0))
    for entry in expected:
        # The accuracy is the same in all rows, and eighty columns hold no more.
        name = entry.filter.name.replace(f"accuracy {accuracy!r}", "rounded")
        table.add_row(
            escape(name), f"{entry.ratio:.1%}", _rate(entry.write_rate), _rate(entry.read_rate),
            *(f"{entry.speedup:.2f}", f"{entry.interval.low:.2f} to {entry.interval.high:.2f}"),
        )  # fmt: skip
    console.print(table)
    for note in notes:
        say(f"note: {note}")
    if not chosen.filter.settings:
        say("No filter pays here: the plan changes nothing.")
    else:
        say(f"{chosen.filter.name} pays: expected, not measured with the program.")
    if output is not None:
        say(f"written: {output}")
    if not chosen.filter.settings:
        return
    if output is None:
        say(plan.text(), end="")
    say(f"apply it: stripewise run {'FILE.plan' if output is None else output} -- COMMAND")


def _rates(bandwidth: str | None, folder: Path | None, report: Path | None) -> list[float]:
    if bandwidth is not None:
        rate = parse_size(bandwidth.removesuffix("/s"))
        if not rate:
            raise UserError("--bandwidth 0 is not possible", "give what storage takes in a second, such as 2GiB")
        return [float(rate)]
    if folder is not None:
        return measure_folder(folder, _TEST_FILE)
    assert report is not None
    if not report.is_file():
        raise UserError(f"{report} is not a report", "name the report.json of a run: stripewise run says where it is")
    rate_seen = open_one(report).rates.get("write")
    if not rate_seen:
        raise UserError(f"{report} tells no write bandwidth", "name a report of a run that wrote, or give --bandwidth")
    return [rate_seen * 2**20]


def _notes(filtered: bool, rates: int, processes: int, collective: bool) -> list[str]:
    found = []
    if filtered:
        found.append("the program filters this dataset itself, so a plan changes nothing: change it in the program")
    if processes > 1 and not collective:
        found.append(
            "on files of several ranks filters act only where all writes are collective: add --collective then"
        )
    if rates == 1:
        found.append("the interval counts what differs between blocks, not between measurements of the bandwidth")
    return found


def _entry(entry: Expected) -> dict[str, Any]:
    return {
        "filter": entry.filter.name,
        "settings": dict(entry.filter.settings),
        "ratio": entry.ratio,
        "write_rate": entry.write_rate,
        "read_rate": entry.read_rate,
        "speedup": entry.speedup,
        "speedup_ci95": [entry.interval.low, entry.interval.high],
    }


def _rate(rate: float) -> str:
    return "-" if math.isinf(rate) else format_size(round(rate))
