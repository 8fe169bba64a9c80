"""``stripewise site causes``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.desk.cli.options import JsonOption, check_place
from stripewise.desk.cli.output import console, number, print_json, say
from stripewise.diagnose.causes.analysis import Causes, Timing, analyse, read_timings
from stripewise.diagnose.causes.models import Calibration, load
from stripewise.output.html import save_text
from stripewise.sizes import count_of, format_size


def run_causes(
    times: Annotated[
        Path,
        typer.Argument(
            help="A CSV file with operation, size, seconds and, where known, offset; or a log or trace of DXT.",
            metavar="TIMINGS",
        ),
    ],
    calibration: Annotated[
        Path | None, typer.Option(help="The site's calibration, by site calibrate.", metavar="FILE.json")
    ] = None,
    html: Annotated[Path | None, typer.Option("--report", help="Write an HTML report.", metavar="FILE.html")] = None,
    json_output: JsonOption = False,
) -> None:
    """Say who answered reads and writes (memory, cache or storage) from the time alone that each of them took."""
    check_place("--report", html)
    timings = read_timings(times)
    site = load(calibration) if calibration else None
    found = analyse(timings, site)
    document = {"source": str(times), "operations": len(timings), **found.as_json()}
    if html is not None:
        save_text(html, _page(document, timings, found, site))
    if json_output:
        print_json(document)
        return
    say(f"{times}: {count_of(len(timings), 'operation')}")
    _print(found, calibration is not None)


def _print(found: Causes, calibrated: bool) -> None:
    for way, counts in found.counts.items():
        total = sum(counts.values())
        spent = sum(found.seconds[way].values())
        console.print(f"{way}s: {total:,} in {number(spent, 's')}")
        for name, count in sorted(counts.items(), key=lambda item: -item[1]):
            console.print(
                f"  {name}: {count / total:.1%} of the operations, {found.seconds[way][name] / spent:.0%} of the time"
            )
        for place, own in found.places[way].items() if len(found.places[way]) > 1 else ():
            parts = ", ".join(f"{name} {part / sum(own.values()):.0%}" for name, part in Counter(own).most_common())
            console.print(f"  {place} ({sum(own.values()):,}): {parts}")
        console.print(f"  best case, all from the cache: {number(found.best[way], 's')}")
    if not calibrated:
        console.print("not calibrated: classes need --calibration FILE (make one with stripewise site calibrate)")
    for anomaly in found.anomalies:
        say(
            f"anomaly ({anomaly.cause}): {anomaly.says}; {count_of(anomaly.count, 'operation')}, "
            f"{anomaly.ratio:.1f} times as long"
        )
    if found.factors:
        console.print("clusters of repeated operations:")
    for factor in found.factors:
        where = f", {factor.condition}" if factor.condition else ""
        tail = "" if factor.cluster.peak else " (a tail)"
        console.print(
            f"  {factor.operation} {format_size(factor.size)}: {number(factor.cluster.seconds * 1e6, 'us')} "
            f"({factor.cluster.share:.0%}){where}{tail}"
        )
    if found.rules is not None:
        low, high = found.rules.edges
        console.print(
            f"rules (slow up to {number(low, 'MiB/s')}, fast above {number(high)}; balanced accuracy "
            f"{found.rules.accuracy:.0%}):"
        )
        for line in found.rules.text.splitlines():
            say(f"  {line}")


def _page(document: dict[str, Any], timings: Sequence[Timing], found: Causes, site: Calibration | None) -> str:
    from stripewise.output.diagnosis import causes_page  # noqa: PLC0415  figures are slow to load

    classes: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for timing, name in zip(timings, found.classes or ["operation"] * len(timings), strict=True):
        classes[timing.operation][name].append((timing.size, timing.seconds))
    sizes = sorted({timing.size for timing in timings})
    models = {
        way: {name: [(size, float(model.time(size))) for size in sizes] for name, model in of.items()}
        for way, of in (site.models if site else {}).items()
    }
    often = None
    if found.factors:
        (way, size), _ = Counter((timing.operation, timing.size) for timing in timings).most_common(1)[0]
        often = way, size, [timing.seconds for timing in timings if (timing.operation, timing.size) == (way, size)]
    return causes_page(document, classes, models, often)
