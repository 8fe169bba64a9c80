# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""The sections of the page, one a study: text from the results of its steps."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.studies import io_search, shaman

Steps = Mapping[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table, the first column to the left."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def differs(*rows: tuple[str, str, str, str]) -> str:
    """The table that explains differences."""
    text = "| | published | here | what it is |\n|---|---|---|---|\n"
    return text + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def aim(words: str, reached: bool, done: int = 1, of: int = 1) -> str:
    """A line of the list of aims; what is not done whole has reached nothing yet."""
    if done < of:
        return f"- Open, {done} of {of} done: {words}.\n"
    return f"- {'Reached' if reached else 'Not reached'}: {words}.\n"


def percent(value: float | None) -> str:
    """A percentage, or that there is none."""
    return "none" if value is None else f"{value:.1f}%"


def _hundred(value: float | None) -> float | None:
    return None if value is None else 100.0 * value


def result(steps: Steps, name: str) -> Any:
    """Result of a step, or None."""
    return steps[name]["result"] if name in steps else None


# -- 003 -----------------------------------------------------------------------------------------------------------

PUBLISHED_ERRORS = {"2": (6.80, 1.59), "4": (6.25, 1.34), "8": (5.66, 1.19)}
PUBLISHED_BASELINE, PUBLISHED_LINEAR = 28.5, 12.7


def ai_for_io(steps: Steps) -> str:
    """Data sieving."""
    text = (
        "J. Kunkel, *The importance of AI for high-performance I/O* (2019): one process accesses blocks with holes on the porting system of DKRZ; what will data sieving and "
        "striping give, and which should be chosen?\n\n"
    )
    text += differs(
        ("system", "porting system of DKRZ", "site `dkrz-porting`", "simulated"),
        ("patterns", "block and hole sizes, not printed", "17 blocks of 256 B to 16 MiB, 12 holes of 512 B to 1 MiB, reads and writes", "assumed"),
        ("settings", "1 or 2 stripes of 128 KiB or 2 MiB, sieving off or on", "the same", "as printed"),
        ("\"408 configurations\"", "said of configurations; the table of defaults counts 408 best ones", "both: 51 patterns x 8 settings to predict, 408 patterns x 8 settings to choose", "assumed"),
        ("size, repeats", "up to 10 repeats", "64 MiB a run; 10 repeats to predict (medians), 3 to choose", "assumed"),
    )  # fmt: skip
    baseline, found = result(steps, "baseline"), result(steps, "errors")
    if baseline and found:
        mean = baseline["mae"]
        rows: list[Sequence[Any]] = [
            ("mean of all", "", f"{PUBLISHED_BASELINE}", f"{mean:.0f}", "1.00", "1.00", "", "")
        ]
        for model, folds in found.items():
            for k, told in folds.items():
                mae, classes = PUBLISHED_ERRORS.get(k, (None, None)) if model == "tree" else (None, None)
                if model == "linear":
                    mae = PUBLISHED_LINEAR
                rows.append(
                    (
                        model, k, "" if mae is None else f"{mae:.2f}", f"{told['mae']:.1f}",
                        "" if mae is None else f"{mae / PUBLISHED_BASELINE:.3f}", f"{told['mae'] / mean:.3f}",
                        "" if classes is None else f"{classes:.2f}", f"{told['class_error']:.2f}",
                    )
                )  # fmt: skip
        text += "\n### Errors of prediction\n\n"
        text += table(
            ("model", "k", "published MiB/s", "ours MiB/s", "published / mean's", "ours / mean's", "published class error", "ours"),
            rows,
        ) + "\n"  # fmt: skip
        tree = found["tree"]
        both = [k for k in PUBLISHED_ERRORS if k in tree]
        text += aim(
            "the tree's error as a ratio to the baseline's, and its class error, are at most the published ones for k = "
            + ", ".join(both),
            all(
                tree[k]["mae"] / mean <= PUBLISHED_ERRORS[k][0] / PUBLISHED_BASELINE
                and tree[k]["class_error"] <= PUBLISHED_ERRORS[k][1]
                for k in both
            ),
        )
        text += (
            "\nThe simulated system is faster and has larger holes in the landscape (mean "
            f"{baseline['mean']:.0f} MiB/s against 54.7), so errors in MiB/s do not compare; ratios do.\n"
        )
    curve = result(steps, "learning curve")
    if curve:
        text += "\n### Learning curves (inverse k-fold)\n\n"
        text += table(
            ("rows to learn from", *(f"{model}: error MiB/s" for model in curve)),
            [
                (points[0]["training_rows"], *(f"{point['mae']:.1f}" for point in points))
                for points in zip(*curve.values(), strict=True)
            ],
        )
        crossed = [
            t["training_rows"] for t, x in zip(curve["tree"], curve["linear"], strict=True) if t["mae"] < x["mae"]
        ]
        if crossed:
            text += f"\nThe tree is better than the linear model from {crossed[0]} rows on (published: 96).\n"
    choices = result(steps, "choices")
    if choices:
        text += "\n### What a choice is worth\n\n" + _choices(choices)
        depth = choices["by_depth"].get("4")
        if depth:
            text += "\n" + aim(
                f"a tree of depth 4 reaches {depth['arithmetic']:.1f}% in the arithmetic mean (aim 95%)",
                depth["arithmetic"] >= 95.0,
            )
    real = result(steps, "real choices")
    if real:
        campaign = result(steps, "real ROMIO")
        text += f"\n### On real ROMIO (measured)\n\n{campaign['text']}\n\n" + _choices(real)
    causes = result(steps, "causes")
    if causes:
        text += (
            "\n### Causes from time alone (measured)\n\nReads on this machine's disk, classified by their time after a calibration on other sizes and patterns; the truth is `mincore`'s: "
            f"{causes['operations']:,} reads, balanced accuracy {100 * causes['balanced_accuracy']:.1f}%; with `O_DIRECT` "
            f"{100 * causes['direct']['recall']:.1f}% of {causes['direct']['reads']} are called uncached. The study shows such tables without a truth to compare with.\n"
        )
    return text


def _choices(choices: Mapping[str, Any]) -> str:
    rows = [
        (
            "always " + ", ".join(f"{name}={value}" for name, value in static["configuration"].items()),
            f"{static['arithmetic']:.1f}%", f"{static['harmonic']:.1f}%", static["best"], static["worst_of_all"],
        )
        for static in choices["static"]
    ]  # fmt: skip
    rows += [
        (f"tree of depth {depth}", f"{told['arithmetic']:.1f}%", f"{told['harmonic']:.1f}%", "", "")
        for depth, told in choices["by_depth"].items()
    ]
    rows.append(("model `tree`", f"{choices['arithmetic']:.1f}%", f"{choices['harmonic']:.1f}%", "", ""))
    return table(("choice", "arithmetic mean", "harmonic mean", "best for", "worst for"), rows) + (
        f"\nPerformance over the best, {choices['workloads']} patterns, each held out from what chooses. Published for the eight static choices: 58 to 72% and 9 to 16%.\n"
    )


# -- 001 -----------------------------------------------------------------------------------------------------------


def search(steps: Steps) -> str:
    """Genetic search."""
    text = (
        "A. Bagbaba and X. Wang, *Improving the MPI-IO performance of applications with genetic algorithm based auto-tuning* (2021): 10 individuals, 30 generations, "
        "against trying everything, on Vulcan of HLRS.\n\n"
    )
    text += differs(
        ("system", "Vulcan of HLRS", "site `vulcan-like`", "simulated"),
        ("programs", "IOR with 240 and 1,200 cores, MPI-Tile-IO with 64 and 256", "the same patterns; nodes of 24 and 16 processes", "assumed"),
        ("use cases", "two a program, not explained", "blocks of 32 and 64 MiB; elements of 8 and 16 MiB in tiles of 4 x 4", "assumed"),
        ("space", "aggregators and stripes 1 to 16, stripes of 1 to 16 MB, collective buffering in three ways", "every count from 1 to 16, five sizes", "steps assumed"),
        ("default", "not printed", "the site's: 8 stripes of 1 MiB, one aggregator a node", "assumed"),
    )  # fmt: skip
    rows: list[Sequence[Any]] = []
    seeds = 0
    for case in io_search.CASES:
        found = io_search.results(steps, case)
        seeds = max(seeds, len(found))
        for name in ("genetic", "auto", "auto with model") if found else ():
            own = [seed[name] for seed in found]
            speed = statistics.median(entry["final"] for entry in own) / found[0]["default"]
            first = name == "genetic"
            rows.append(
                (
                    case.name if first else "", name, f"{case.tuned / case.default:.2f}" if first else "",
                    f"{speed:.2f}", f"{found[0]['best'] / found[0]['default']:.2f}" if first else "",
                    _middle([entry["runs"] for entry in own]), _middle([entry["runs_to_98_percent"] for entry in own]),
                    _middle([entry["runs_to_genetic"] for entry in own]),
                    f"{statistics.median(entry['seconds'] for entry in own) / 60:.0f} min",
                )
            )  # fmt: skip
    if rows:
        text += f"\nMedians of up to {seeds} seeds. *Exhaustive* is the best of all configurations without noise; each search sees the noise.\n\n"
        text += table(
            ("case", "search", "published speed-up", "ours", "exhaustive", "runs", "runs to 98% of the best", "runs to the genetic end", "simulated time"),
            rows,
        ) + "\n"  # fmt: skip
        text += "![Progress of the searches](studies-search.svg)\n\n"
        told = io_search.summary(steps)
        all_of = told["searches"]
        planned = len(io_search.CASES) * len(io_search.SEEDS)
        fifth, near = told["genetic value in a fifth of its runs"], told["98% of the best in 2% of the runs"]
        text += aim(
            f"`auto` has the genetic search's final value within a fifth of its runs in {fifth} of {all_of} searches",
            fifth == all_of,
            all_of,
            planned,
        )
        text += aim(f"`auto` tries a configuration within 98% of the exhaustive best in 2% of its runs in {near} of {all_of} searches", near == all_of, all_of, planned)  # fmt: skip
    real = result(steps, "real ROMIO")
    if real:
        text += f"\n### On real ROMIO (measured)\n\n{real['text']}\n\n"
        text += table(
            ("search", "searches", "final value, MiB/s", "runs to within 5% of the gap"),
            [
                (name, told["searches"], f"{told['final']:.1f}", told["close"] or "more than the budget")
                for name, told in real["race"].items()
            ],
        )
    return text


def _middle(values: Sequence[int | None]) -> str:
    known = sorted(value for value in values if value is not None)
    if len(known) * 2 <= len(values):
        return "not reached"
    return f"{sorted(known + [10**9] * (len(values) - len(known)))[(len(values) - 1) // 2]}"


# -- 002 -----------------------------------------------------------------------------------------------------------


def accelerator(steps: Steps) -> str:
    """SHAMan."""
    text = (
        "S. Robert, S. Zertal and G. Goret, *SHAMan: an intelligent framework for HPC auto-tuning of I/O accelerators* (2020): an accelerator of small reads with four parameters, tuned for "
        "ninety programs in nine classes by a genetic search of 100 runs, the first 30 a plan.\n\n"
    )
    text += differs(
        ("accelerator", "Atos Small Read Optimizer, not public", "[examples/accelerator](../../examples/accelerator/README.md): real, byte for byte exact", "our own"),
        ("parameters", "names, limits, steps, defaults", "the same; what they mean is ours", "as printed"),
        ("programs", "ninety synthetic ones, random laws not printed", "ninety from a seeded generator", "assumed"),
        ("storage", "a production file system", "0.5 ms a request, 1 GB/s. At first 1.5 ms and 1.2 GB/s: with these the default saved about half the time in a trial of 45 programs, far from the published 1.91%, so they were changed before the searches, after seeing that", "assumed, chosen after a look"),
        ("runs", "a cluster in production, 29 days", "the accelerator's own code over that modelled storage", "simulated"),
    )  # fmt: skip
    sizes = result(steps, "size of the space")
    if sizes:
        text += "\n### Why 606,480 configurations\n\nThe study states 606,480. Its table 1 gives other numbers (computed):\n\n"
        text += table(("reading", "configurations"), [(name, f"{size:,}") for name, size in sizes.items()])
        text += (
            "\nSo the stated number is the grid with a sequence step of 5, not 20, and without the top values, as ranges of Python leave them out: 14 x 38 x 30 x 38. The default sequence length "
            "of 100 agrees: it lies on no step of 20 from 50. Ours has steps of 5 and the top values: 707,265.\n"
        )
    if any(name.startswith("read") for name in steps):
        found = shaman.by_class(steps)
        text += "\n### By class\n\nTime saved against no accelerator, median over the programs of a class, without noise (simulated).\n\n"
        text += table(
            ("class", "programs", "default", "genetic, 100 runs", "auto, 40 runs", "genetic: runs to its best", "auto: runs to its best"),
            [
                (name, told["programs"], *(f"{told[which]:.1f}%" for which in ("default", "genetic", "auto")),
                 f"{told['runs to the best, genetic']:.0f}", f"{told['runs to the best, auto']:.0f}")
                for name, told in found.items()
            ],
        )  # fmt: skip
        whole = found["all"]
        text += (
            f"\nPublished: 1.91% by default, 31.09% tuned, 61 runs to the best in the median. Ours: {whole['default']:.2f}%, {whole['genetic']:.2f}% and {whole['auto']:.2f}%; "
            "the programs and the storage differ, so only the order compares.\n\n"
        )
        classes = {name: told for name, told in found.items() if name != "all"}
        good = sum(told["auto"] >= told["genetic"] for told in classes.values())
        text += aim(f"`auto` with 40 runs is at least as good as the genetic search with 100 in {good} of {len(classes)} classes", good == len(classes), whole["programs"], 90)  # fmt: skip
    real = {name: step["result"] for name, step in steps.items() if name.startswith("real ")}
    if real:
        text += "\n### With the library preloaded (measured)\n\nOne program a class on this machine's disk, shared with other work.\n\n"
        text += table(
            ("class", "reference, s", "default, s", "best, s", "speed-up over the default", "proven", "reads the same"),
            [
                (name.removeprefix("real "), *(f"{(told[which] or {}).get('value') or float('nan'):.3f}" for which in
                 ("reference", "default", "best")), f"{told['speedup'] or 1:.2f}", "yes" if told["confirmed"] else "no",
                 "yes" if told["exact"] else "NO")
                for name, told in real.items()
            ],
        )  # fmt: skip
    return text


# -- 000 -----------------------------------------------------------------------------------------------------------

PUBLISHED_CASES = {"read": (63.0, 82.7, 65.7), "write": (79.0, 92.8, 83.2)}


def networks(steps: Steps) -> str:
    """Neural networks."""
    text = (
        "The study of MPI-IO on Kay of ICHEC with neural networks: 15,360 configurations an operation measured, a network each for reads and writes, and the best prediction used as setting in "
        "1,458 cases an operation with larger files than trained on.\n\n"
    )
    text += differs(
        ("system", "Kay: 16 nodes, 16 OSTs", "site `kay`", "simulated"),
        ("campaign", "table 1; most values not in its text", "campaign `mpi-io-ann`; what is assumed stands in the file", "partly assumed"),
        ("cases", "table 5, not in its text", "4, 8, 16 nodes; 1, 4, 8 processes; files of 64 to 256 GiB; 1, 4, 8 stripes of 1 MiB to 1 GiB; chunks of 0.5 to 4 GiB; both patterns", "assumed"),
        ("network", "256-128-1, Adam, dropout", "the same; batches and epochs", "partly assumed"),
        ("bandwidth", "Darshan's, three repeats", "open to close, three repeats with the site's noise", "simulated"),
    )  # fmt: skip
    models = [name.removeprefix("cases of ") for name in steps if name.startswith("cases of ")]
    scored = [name.removeprefix("accuracy of ") for name in steps if name.startswith("accuracy of ")]
    if scored:
        text += "\n### Prediction accuracy on a fifth of the rows\n\n"
        text += table(
            ("operation", "published", *scored),
            [
                (operation, f"{PUBLISHED_CASES[operation][0]:.0f}%",
                 *(f"{steps['accuracy of ' + name]['result'][operation]['prediction_accuracy']:.1f}%" for name in scored))
                for operation in PUBLISHED_CASES
            ],
        )  # fmt: skip
    if "parallel coordinates" in steps:
        text += "\n![Parallel coordinates of a sample of the campaign](studies-kay.svg)\n"
    if models:
        text += "\n### The best prediction as setting\n\n"
        rows = []
        for operation, (_, improved, gain) in PUBLISHED_CASES.items():
            rows.append((f"{operation}, published", f"{improved}%", f"+{gain}%", "", "", ""))
            for name in models:
                told = result(steps, f"cases of {name}")["operations"][operation]
                true = told["true"]
                rows.append(
                    (f"{operation}, `{name}`", f"{told['improved_percent']:.1f}%", f"{told['overall_gain_percent']:+.1f}%",
                     f"{percent(true['improvable_improved_percent'])} of {true['improvable']}", percent(_hundred(true['share_of_oracle_gain'])),
                     f"{true['of_oracle_percent']:.1f}%")
                )  # fmt: skip
        text += table(
            ("", "cases improved", "gain of the mean", "improved of those an oracle improves by over 5%", "share of the oracle's gain", "of the oracle's bandwidth"),
            rows,
        ) + "\n"  # fmt: skip
        text += (
            "The oracle knows the true value of every setting that a model may choose, and of the case's own. A case whose default is already as good as any cannot be improved: "
            "that is why the third column is the one to look at.\n\n"
        )
        for name in models:
            for operation, (_, improved, _) in PUBLISHED_CASES.items():
                true = result(steps, f"cases of {name}")["operations"][operation]["true"]
                text += aim(
                    f"`{name}`, {operation}: {improved}% of the improvable cases improved and 90% of the oracle's gain "
                    f"({percent(true['improvable_improved_percent'])}, {percent(_hundred(true['share_of_oracle_gain']))})",
                    (true["improvable_improved_percent"] or 0.0) >= improved
                    and (true["share_of_oracle_gain"] or 0.0) >= 0.9,
                )
        text += "\n### Common settings\n\n"
        rows = []
        for name in models:
            for operation in PUBLISHED_CASES:
                for entry in result(steps, f"cases of {name}")["operations"][operation]["common"][:3]:
                    words = ", ".join(f"{key}={value}" for key, value in entry["settings"].items())
                    rows.append(
                        (f"`{name}`, {operation}", words, entry["selected"], f"{entry['improved_percent']:.1f}%")
                    )
        text += table(("", "settings", "chosen", "improved"), rows)
        text += "\nPublished: reads without collective calls in chunks of 1 GiB in 1,332 of 1,458 cases; writes with 16 stripes and without collective calls in all the common ones.\n"
        text += "\n### Time to decide\n\n"
        rows = [("published", "30 s", "under 1 s")]
        for name in models:
            told, cases = result(steps, f"time to decide of {name}"), result(steps, f"cases of {name}")
            if told:
                rows.append(
                    (f"`{name}`, from a cold start (measured)", f"{told['prescribe']:.1f} s, of which {told['start of Python']:.1f} s start Python",
                     f"{1000 * cases['decision_seconds'] / cases['cases']:.1f} ms a case, {cases['cases']:,} at once")
                )  # fmt: skip
        text += table(("", "the first", "each further"), rows)
    return text


# -- 004 and beyond ------------------------------------------------------------------------------------------------


def sctuner(steps: Steps) -> str:
    """Settings that stay good under load."""
    text = (
        "H. Tang and others, *SCTuner: an autotuner addressing dynamic I/O needs on supercomputer I/O subsystems* (2021): each configuration at least 100 times, five-number "
        "summaries, clusters, and the settings that are good throughout.\n\n"
    )
    text += differs(
        ("system", "Summit with Alpine, Cori; 512 nodes for applications", "site `cori-haswell` with 512 nodes", "simulated"),
        ("configurations", "3,328 of IOR", "POSIX, MPI-IO and HDF5; 1 and 16 MiB; collective buffering, alignment, striping", "partly assumed"),
        ("how it was chosen", "", "the third design: `frontier-like` at 32 nodes (in a small trial the setting found there halved HDF5 at 512), then at 512 nodes (no gain over the default, 1.00), then this; both were left after their figures were seen", "chosen after a look"),
        ("load", "production", "the site's noise, fitted to a year of production runs", "simulated"),
    )  # fmt: skip
    for name in ("simulated campaign", "real campaign"):
        told = result(steps, name)
        if not told:
            continue
        text += f"\n### {told['title']}\n\n{told['text']}\n\n"
        text += table(
            ("operation", "configurations", "clusters (published: 6 read, 5 write)", "dependable setting", "its worse quartile over the best", "share of workloads in the best cluster"),
            [
                (operation, own["configurations"], own["clusters"], own["setting"], f"{100 * own['low']:.0f}%", f"{100 * own['best_cluster']:.0f}%")
                for operation, own in told["operations"].items()
            ],
        )  # fmt: skip
    speed = result(steps, "HDF5 speed-ups")
    if speed:
        text += "\n### HDF5 (simulated, 512 nodes)\n\n"
        text += table(
            ("workload", "default, MiB/s", "dependable setting", "speed-up (published: 1.1 to 12)", "best static"),
            [
                (row["workload"], f"{row['default']:,.0f}", row["setting"], f"{row['speedup']:.2f}", f"{row['best']:.2f}")
                for row in speed["rows"]
            ],
        )  # fmt: skip
    for name in ("extractor", "online"):
        told = result(steps, name)
        text += f"\n{told['text']}\n" if told else ""
    missing = [words for name, words in SCTUNER_PARTS.items() if name not in steps]
    if missing:
        text += "\nNot done yet: " + "; ".join(missing) + ".\n"
    return text


SCTUNER_PARTS = {
    "real campaign": "a small campaign with 100 repeats on this machine",
    "extractor": "the pattern extractor's output for an HDF5 program feeding a prescription",
    "online": "the online tuner inside it",
}


def beyond(steps: Steps) -> str:
    """The whole chain."""
    told = result(steps, "simulated chain")
    text = "A chain that none of the five has: a site is profiled, a model trained; a program that was never tuned gets settings without a run, a search of five runs refines them.\n\n"
    if told:
        text += told["text"] + "\n\n"
        text += table(
            ("stage", "runs of the program", "true bandwidth, MiB/s", "over the default", "of the best"),
            [
                (row["stage"], row["runs"], f"{row['value']:,.0f}", f"{row['value'] / told['default']:.2f}", f"{100 * row['value'] / told['best']:.1f}%")
                for row in told["rows"]
            ],
        )  # fmt: skip
    if "real chain" not in steps:
        text += "\nNot done yet: the chain on one real program on the test bed, with the runtime and its online learning at its end.\n"
    return text


SECTIONS: dict[str, tuple[str, Callable[[Steps], str]]] = {
    "ann": ("Neural networks (study 000)", networks),
    "io-search": ("Genetic search (study 001)", search),
    "shaman": ("An accelerator (study 002)", accelerator),
    "ai-for-io": ("AI for I/O (study 003)", ai_for_io),
    "sctuner": ("Good under load (study 004)", sctuner),
    "beyond": ("Beyond: the whole chain", beyond),
}
