"""The sections that say what was found: verdict, proof, settings, parameters."""

from __future__ import annotations

from stripewise.plots.style import number
from stripewise.report.markup import (
    Html,
    capitalised,
    changes,
    count,
    facts,
    figure,
    fold,
    interval,
    join,
    listing,
    paragraph,
    section,
    table,
    tag,
    value_text,
)
from stripewise.report.reading import Reading
from stripewise.spec.result import Effect, Interval, Summary

STATUS_WORDS = {
    "effective": ("✓", "effective", "its effect was seen in what the program did"),
    "echoed": ("≈", "echoed", "the library reports it back, which proves no effect"),
    "requested": ("…", "requested", "asked for, and nothing was heard of it"),
    "no_effect": ("○", "no effect", "evidence shows that it changed nothing here"),
    "refused": ("✕", "refused", "something else won, or the library did not take it"),
    "unprovable": ("?", "unprovable", "nothing that can be observed would show its effect"),
}


def headline(reading: Reading) -> Html:
    """The verdict in words, then the figures."""
    result = reading.result
    confirmed = result.confirmed
    badge = tag("span", "✓ Gain proven" if confirmed else "Default kept", class_="badge")
    words = join([badge, paragraph(result.verdict, class_="verdict")])
    verdict = tag("div", words, class_="headline", data_proven=str(confirmed).lower())
    cards = [("Default", _measured(result.default, reading.unit))]
    if result.reference:
        cards.append(("Without the component", _measured(result.reference, reading.unit)))
    candidate = result.candidate
    if confirmed:
        cards.append(("Best", _measured(result.best, reading.unit)))
        cards.append(("Speed-up", _speedup(result.speedup, result.speedup_interval)))
    elif candidate and candidate.value is not None:
        cards.append(
            ("Best found, not proven", join([_big(number(candidate.value, reading.unit)), _small("in the search")]))
        )
        if candidate.speedup:
            cards.append(("Its speed-up", _speedup(candidate.speedup, candidate.speedup_interval)))
    grid = tag(
        "dl", join(tag("div", join([tag("dt", name), tag("dd", value)])) for name, value in cards), class_="cards"
    )
    return join([verdict, grid, _why(reading)])


def _big(text: str) -> Html:
    return tag("span", text, class_="big")


def _small(text: str) -> Html:
    return tag("span", text, class_="small")


def _measured(summary: Summary, unit: str) -> Html:
    ends = summary.interval
    spread = f", {ends.percent} interval {interval(ends, 4)}" if ends is not None else ""
    return join([_big(number(summary.value, unit)), _small(f"median of {count(summary.runs, 'run')}{spread}")])


def _speedup(estimate: float, ends: Interval | None) -> Html:
    known = "no interval: too few pairs" if ends is None else f"{ends.percent} interval {interval(ends)}"
    return join([_big(f"{estimate:.3g}×"), _small(known)])


def _why(reading: Reading) -> Html:
    """Why it counts as proven or not, in a sentence or two."""
    result = reading.result
    proof = result.confirmation
    pairs = len(proof.pairs)
    parts = []
    if pairs:
        least = proof.minimum_effect
        parts.append(
            f"A gain is claimed only if the whole interval lies above {least:g}, in {count(pairs, 'pair')} of runs "
            "made for this purpose alone, default and candidate side by side in random order."
        )
    same = proof.same_against_same
    if same:
        told = "shows no gain, as it must" if same.passed else "shows a gain, so the session proves nothing"
        parts.append(f"The default tested against itself {told} (ratio {same.ratio:.3g}).")
    if not result.confirmed and proof.more_budget:
        parts.append(proof.more_budget)
    if result.reason:
        parts.append(f"The experiment ended because {result.reason}.")
    return paragraph(" ".join(parts)) if parts else Html("")


def settings(reading: Reading) -> Html:
    """What the best configuration changes, and the cheapest that is nearly as good."""
    result = reading.result
    shown = result.shown
    if not shown:
        return section("settings", "Settings", paragraph("No configuration was better than the default."))
    title = "The best settings" if result.confirmed else "The best settings found, not proven and not applied"
    default = reading.default
    rows = [
        (tag("code", name), value_text(value, reading.units.get(name, "")),
         value_text(default.get(name, ""), reading.units.get(name, "")))
        for name, value in shown.configuration.items()
        if default.get(name) != value
    ]  # fmt: skip
    parts: list[object] = [table("Parameters that differ from the default", ("Parameter", "Value", "Default"), rows)]
    if not rows:
        parts = [paragraph("Nothing differs from the default.")]
    cheapest = result.cheapest
    if cheapest:
        words = " ".join(changes(cheapest.configuration, default, reading.units)) or "the default"
        parts.append(
            paragraph(
                "Cheaper for the neighbours, and within 5% of the best in the search: ",
                tag("code", words),
                f" ({number(cheapest.value, reading.unit)}).",
            )
        )
    return section("settings", title, *parts)


def trajectory(reading: Reading) -> Html:
    """The figure of all runs."""
    result = reading.result
    failed = sum(failure.count for failure in result.failures)
    description = (
        f"Scatter chart of {count(len(reading.runs), 'run')}: {reading.quantity} of each in order, the default at "
        f"{number(result.default.value, reading.unit)}, {failed} failed. The table of runs holds the values."
    )
    better = "higher" if reading.maximize else "lower"
    said = f"{capitalised(reading.quantity.replace('_', ' '))} of each run; {better} is better. The values are in the "
    caption = join([said, tag("a", "table of runs", href="#runs"), "."])
    return section("trajectory", "How the search went", figure("trajectory", description, caption))


def confirmation(reading: Reading, drawn: set[str]) -> Html:
    """The proof: pairs, interval, points of the protocol."""
    proof = reading.result.confirmation
    if "confirmation" not in drawn:
        why = reading.result.reason or "no candidate was better in the search"
        return section("proof", "Is the gain real?", paragraph(f"No confirmation was run: {why}."))
    pairs = reading.pairs()
    rows = [
        (
            p.pair + 1,
            p.first or "-",
            number(p.default) if p.default is not None else "failed",
            number(p.candidate) if p.candidate is not None else "failed",
            number(p.speedup(reading.maximize)),
        )
        for p in pairs
    ]
    unit = f" ({reading.unit})" if reading.unit else ""
    numbers = table(
        "Pairs of the confirmation",
        ("Pair", "Ran first", f"Default{unit}", f"Candidate{unit}", "Speed-up"),
        rows,
        range(5),
    )
    summary = facts(
        [
            ("Speed-up (median of the pairs' averages)", number(proof.estimate)),
            ("Its interval", interval(proof.interval)),
            ("Geometric mean", number(proof.geometric_mean) if proof.geometric_mean else ""),
            ("One run in ten gains less than", number(proof.p10) if proof.p10 else ""),
            ("Candidates tested", proof.candidates_tested),
        ]
    )
    description = f"Values of default and candidate in {count(len(pairs), 'pair')}, and the speed-up with its interval."
    points = join(
        [
            tag("h3", "Points of the measurement protocol that were kept"),
            listing(proof.kept, "kept"),
            tag("h3", "Points that were not"),
            listing(proof.not_kept, "missed") or paragraph("None."),
        ]
    )
    caption = "Each pair is one run of the default and one of the candidate, next to each other in time."
    drawing = figure("confirmation", description, caption)
    return section("proof", "Is the gain real?", drawing, summary, fold("The pairs as a table", numbers), points)


def effects(reading: Reading) -> Html:
    """The effect ledger."""
    entries = reading.result.effects
    if not entries:
        return section(
            "effects", "Did the settings act?", paragraph("No setting was made, so there is nothing to show.")
        )
    rows = [
        (
            tag("code", entry.name),
            entry.layer,
            entry.requested or "-",
            "the program" if entry.requested_by == "application" else "the plan",
            _overridden(entry),
            entry.echoed or "-",
            _status(entry.status),
            entry.evidence or "-",
        )
        for entry in entries
    ]
    used = {entry.status for entry in entries}
    legend = listing(
        join([_status(status), f": {meaning}"]) for status, (_, _, meaning) in STATUS_WORDS.items() if status in used
    )
    headings = ("Setting", "Layer", "Value", "Asked by", "Overridden by", "Echoed", "Verdict", "Evidence")
    parts = [table("What was asked for and what came of it", headings, rows), legend]
    left_out = reading.result.left_out
    if left_out:
        told = [join([tag("code", name), f": {reason}"]) for name, reason in left_out.items()]
        parts.append(
            fold(f"{count(len(left_out), 'parameter')} that cannot act here and were not searched", listing(told))
        )
    return section("effects", "Did the settings act?", *parts)


def _overridden(entry: Effect) -> str:
    if entry.status != "refused":
        return "nobody"
    return "the program's own hints" if entry.requested_by == "application" else "see the evidence"


def _status(status: str) -> Html:
    symbol, word, _ = STATUS_WORDS.get(status, ("", status, ""))
    return tag("span", f"{symbol} {word}", class_=f"status {status}")


def parameters(reading: Reading, drawn: set[str]) -> Html:
    """Importance and parallel coordinates."""
    result = reading.result
    parts: list[object] = []
    shares = result.importance
    if "importance" in drawn:
        told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if share > 0) or "none measurable"
        parts.append(
            figure(
                "importance", f"Bar chart of the parameters' influence: {told}.", "Shares of what the settings changed."
            )
        )
    if result.importance_note:
        parts.append(paragraph(capitalised(result.importance_note) + "."))
    if "parallel" in drawn:
        tried = sum(trial.value is not None for trial in reading.trials)
        parts.append(
            figure(
                "parallel",
                f"Parallel coordinates of {count(tried, 'configuration')}, coloured by the objective.",
                "Each line is a configuration, coloured from worst to best; the thick line is the one chosen.",
            )
        )
    if "bounds" in drawn:
        shown = count(len(reading.bounded()), "configuration")
        parts.append(
            figure(
                "bounds",
                f"Stacked bars of the simulated time of {shown}: what each bound adds to the next slower one.",
                "Simulated. The top layer of each bar is the bound that acted: lifting it alone would save as much. "
                "Best first, after the default.",
            )
        )
    return section("parameters", "Which parameters matter", *(parts or [paragraph("Too few runs to tell.")]))
