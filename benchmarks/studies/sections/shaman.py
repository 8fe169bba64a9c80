# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""Study 002, an accelerator."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.studies import accelerated, shaman
from benchmarks.studies.sections.writing import Aim, Section, Steps, result, results


def section(steps: Steps) -> str:
    """Give its text."""
    page = Section(
        "S. Robert, S. Zertal and G. Goret, *SHAMan: an intelligent framework for HPC auto-tuning of I/O accelerators* (2020), tune an accelerator of small reads with four parameters for "
        "ninety programs in nine classes, by a genetic search of 100 runs, of which the first 30 follow a plan.",
        ("accelerator", "Atos Small Read Optimizer, not public", "[examples/accelerator](../../examples/accelerator/README.md): real, byte for byte exact", "our own"),
        ("parameters", "names, limits, steps, defaults", "the same; their meaning is ours", "as printed"),
        ("programs", "ninety synthetic programs, random distributions not printed", "ninety from a seeded generator", "assumed"),
        ("storage", "a production file system", "0.5 ms per request, 1 GB/s. The first choice was 1.5 ms and 1.2 GB/s. With these, the default saved about half the time in a trial of 45 programs, far from the published 1.91%, so we changed them before the searches, after seeing this result", "assumed, chosen after a trial"),
        ("runs", "a cluster in production, 29 days; 900 runs by its text, though 90 programs of 100 runs are 9,000", "the accelerator's own code on the modelled storage; real runs below", "simulated; measured below"),
    )  # fmt: skip
    sizes = result(steps, "size of the space")
    if sizes:
        page.heading(
            "Why 606,480 configurations", "The study states 606,480. Its table 1 gives different numbers (computed):"
        )
        page.table(("reading", "configurations"), [(name, f"{size:,}") for name, size in sizes.items()])
        page.say(
            "The stated number is therefore the grid with a sequence step of 5, not 20, and without the top values, which ranges in Python exclude: 14 x 38 x 30 x 38. The default sequence length "
            "of 100 agrees with this: steps of 20 from 50 do not reach it. Ours has steps of 5 and the top values: 707,265."
        )
    found = shaman.by_class(steps)
    if found:
        _classes(page, steps, found)
    real = results(steps, "real ")
    if real:
        page.heading(
            "With the library preloaded (measured)",
            "One program per class on a machine of two cores, with its files on a local disk and, after the first run, in memory.",
        )
        _measured(page, "class", list(real.items()))
        off = sum(told["best"].get("is") == "reference" for told in real.values())
        page.say(
            f"An accelerator can save little on reads that memory answers, and fetching more than requested costs time: its default settings slow {_slowed(real.values())} of {len(real)} programs down, and for "
            f"{off} the answer is to switch it off. `tune` tries this by itself, with one run without the component."
        )
    _slow(page, steps)
    served = [one for own in results(steps, f"service {shaman.SERVED}").values() for one in own]
    if served:
        page.heading(
            "Through the service, as jobs of Slurm (measured)",
            f"{len(served)} programs of the class {shaman.SERVED} on the test bed's CephFS, reduced to 1,000 operations on 128 MiB; every run is a job that the service's worker submits.",
        )
        _measured(page, "program", [(str(number), told) for number, told in enumerate(served, 1)])
        off = sum(told["best"].get("is") == "reference" for told in served)
        page.say(
            f"For {off} of {len(served)} programs the answer is to switch the accelerator off: with its default settings it fetches 20 MiB at a time, which costs more than it saves at the test bed's 50 MB/s per OSD, and the program "
            "without it is proven faster. In the study, the default settings also slowed down four of nine classes."
        )
    left = sum(
        end - first
        for first, end in shaman.SERVED_PARTS[1:]
        if f"service {shaman.SERVED} {first}-{end - 1}" not in steps
    )
    if served and left:
        page.say(
            f"Not done yet: the other {left} of the {shaman.SERVED_PARTS[-1][1]} programs of {shaman.SERVED} through the service."
        )
    page.missing(
        steps,
        {f"real {shaman.SERVED}": "real programs on this machine", f"service {shaman.SERVED}": "a class through the service on the test bed"},
    )  # fmt: skip
    return page.text()


def _slow(page: Section, steps: Steps) -> None:
    """Programs tuned with the product's accelerator on slow storage."""
    found = results(steps, "slow disk ")
    if not found:
        return
    classes: dict[str, list[Mapping[str, Any]]] = {}
    for name, told in found.items():
        classes.setdefault(name.split(" ")[0], []).append(told)
    each = statistics.mean(steps[f"slow disk {name}"]["seconds"] for name in found)
    page.heading(
        "With the product's accelerator, on slow storage (measured)",
        f"All {len(found)} programs, reduced to {accelerated.OPERATIONS} operations on files of {accelerated.FILE_SIZE >> 20} MiB at most, so that a run without accelerator takes about a second. They run on a loop device with ext4 that gives the runs "
        f"{accelerated.READS} reads and 500 MB per second, with the stack [`accelerator`](../how-to/programs-without-mpi.md#small-reads), whose own default is off. Each program was tuned twice with 24 launches, warm-up and proof included: by the study's genetic search, with a plan of 8 runs instead of "
        f"30, and by `auto`. Then no accelerator, the study's default settings and both results took turns, three times each. {_load(found.values())}",
    )
    names = ("default", *accelerated.SEARCHES)
    page.table(
        ("class", "programs", *(f"time saved, {name}" for name in names), *(f"proven, {name}" for name in accelerated.SEARCHES)),
        [
            (
                name, len(own), *(f"{statistics.median(saved(told, which) for told in own):.1f}%" for which in names),
                *(f"{sum(bool(told[which]['confirmed']) for told in own)} of {len(own)}" for which in accelerated.SEARCHES),
            )
            for name, own in [*classes.items(), ("all", list(found.values()))]
        ],
    )  # fmt: skip
    ahead = sum(saved(told, "auto") >= saved(told, "genetic") for told in found.values())
    page.say(
        f"{sum(told['exact'] for told in found.values())} of {len(found)} programs read the same bytes in all runs. Where no gain is proven the answer is off, and what it seems to save is scatter. `auto` saves at least as much as the genetic search in {ahead} of {len(found)}. Published for all programs: 1.91% by default and 31.09% tuned. With the published budget of 100 runs, all ninety programs as they are and both searches, "
        f"this would be 18,000 runs: at the {each / 60:.1f} minutes that a program took here for its 48 and 12 runs, about {each / 60 * 18_000 / 60 / 60:.0f} hours. Single runs of 86 of the ninety with the default and two other settings are on [a page of their own](../../benchmarks/notes/accelerator.md). Command: "
        "`python -m benchmarks.studies shaman --disk`, as root."
    )


def saved(told: Mapping[str, Any], which: str) -> float:
    """Percent of the time without accelerator that a way of choosing its settings saves, medians of a program's runs."""
    off, own = (statistics.median(told["seconds"][name]) for name in ("off", which))
    return 100 * (off - own) / off


def _load(found: Iterable[Mapping[str, Any]]) -> str:
    """How busy the machine was."""
    known = [told["load_average"] for told in found if "load_average" in told]
    shared = sum("load_average" not in told for told in found)
    quiet = f"the load average was {min(known):.1f} to {max(known):.1f} for {len(known)}" if known else ""
    busy = f"the machine was shared with other work for {shared} of the programs" if shared else ""
    words = "; ".join(filter(None, (busy, quiet)))
    return f"{words[0].upper()}{words[1:]}."


def _slowed(told: Iterable[Mapping[str, Any]]) -> int:
    return sum(one["default"]["value"] > one["reference"]["value"] for one in told)


def _classes(page: Section, steps: Steps, found: Mapping[str, Mapping[str, float]]) -> None:
    page.heading(
        "By class",
        "The table shows the time saved compared with no accelerator, as the median over the programs of a class, without noise (simulated).",
    )
    page.table(
        ("class", "programs", "default", "genetic, 100 runs", "auto, 40 runs", "genetic: runs to its best", "auto: runs to its best"),
        [
            (name, told["programs"], *(f"{told[which]:.1f}%" for which in ("default", "genetic", "auto")),
             f"{told['runs to the best, genetic']:.0f}", f"{told['runs to the best, auto']:.0f}")
            for name, told in found.items()
        ],
    )  # fmt: skip
    whole = found["all"]
    classes = {name: told for name, told in found.items() if name != "all"}
    good = sum(told["auto"] >= told["genetic"] for told in classes.values())
    slowed = sum(told["default"] < 0 for told in classes.values())
    most = max(
        ((f"`{name}`", told["genetic"] - told["default"]) for name, told in classes.items()), key=lambda row: row[1]
    )
    page.say(
        f"Published: 1.91% by default, 31.09% tuned (29% more in the median), 61 runs to the best as the median. Ours: {whole['default']:.2f}%, {whole['genetic']:.2f}% and {whole['auto']:.2f}%; "
        "the programs and the storage differ, so only the order can be compared. "
        f"{_published(whole)} "
        f"The largest improvement of a class over its default is {most[1]:.1f} points ({most[0]}; published: 97.83%, `read09_large`). The default parameters slow "
        f"{slowed} of {len(classes)} classes down (published: 4 of 9: `read09_large`, `read05_large`, `read05_small`, `read07_medium`). The study prints no other figure of a class; its figures 4 and 5 show the two following."
    )
    page.say("![Time saved by class, by default and tuned](studies-accelerator-saved.svg)")
    page.say("![Runs to the best by class](studies-accelerator-runs.svg)")
    random = shaman.random_by_class(steps)
    lucky = sum(saved >= classes[name]["genetic"] for name, saved in random.items())
    whole_random = len(random) == len(classes)
    page.aims(
        Aim(
            f"`auto` with 40 runs is at least as good as the genetic search with 100 in {good} of {len(classes)} classes",
            good == len(classes),
            "ours; the study has no search but the genetic one",
            f"{good - len(classes)} classes",
            f"at least as good in {lucky} of {len(classes)} classes with 40 runs"
            if whole_random
            else "not computed yet",
            whole_random and lucky == len(classes),
            "simulated",
            int(whole["programs"]),
            90,
        )
    )
    ratio, even, programs = shaman.against(steps)
    page.say(
        f"Program by program, `auto` is at least as good in {even} of {programs}, and its times differ from those of the genetic search by {100 * (ratio - 1):+.1f}% in the geometric mean, with two fifths of the runs. Where it is behind, the space "
        "is the reason: one step on one axis away from the best configuration costs 10% on the worst axis (median of 18 programs, up to 171%; computed), because it decides which reads share a fetch. Neighbours therefore "
        "teach little, and the number of configurations tried decides: about 96 by the genetic search, about 35 by `auto`, which spends its other runs on repeats. Variants of `auto` were tried on other programs of the "
        "generator, and none does better ([notes](../../benchmarks/notes/search-notes.md))."
    )


def _published(whole: Mapping[str, float]) -> str:
    """Which of the published medians ours do not reach."""
    runs = whole["runs to the best, genetic"]
    missed = [f"the time saved by default ({whole['default']:.2f}%)"] if whole["default"] < 1.91 else []
    missed += [f"the time saved after tuning ({whole['genetic']:.2f}%)"] if whole["genetic"] < 31.09 else []
    missed += [f"the runs of the genetic search to its best ({runs:.0f})"] if runs > 61 else []
    return f"Worse than published: {', '.join(missed)}." if missed else "None of them is worse than published."


def _measured(page: Section, what: str, rows: list[tuple[str, Mapping[str, Any]]]) -> None:
    def seconds(told: Mapping[str, Any], which: str) -> str:
        value = f"{told[which]['value']:.3f}" if told[which] and told[which]["value"] else "none"
        return f"{value} (switched off)" if told[which] and told[which].get("is") == "reference" else value

    page.table(
        (what, "reference, s", "default, s", "best, s", "speed-up over the default", "proven", "runs"),
        [
            (name, *(seconds(told, which) for which in ("reference", "default", "best")), f"{told['speedup'] or 1:.2f}",
             "yes" if told["confirmed"] else "no", told["runs"])
            for name, told in rows
        ],
    )  # fmt: skip
    checked = [told["exact"] for _, told in rows if "exact" in told]
    if checked:
        page.say(f"{sum(checked)} of {len(checked)} programs read the same bytes with the accelerator as without it.")
