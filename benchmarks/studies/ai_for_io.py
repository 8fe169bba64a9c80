"""Study 003: data sieving of non-contiguous I/O, its prediction, its prescription, and causes told from time alone.

One process of one node accesses blocks with holes between them; the file has one stripe or two, of 128 KiB or 2 MiB;
data sieving is on or off. The slides say "408 configurations", and their table of eight default choices counts 408 best
ones. So both readings are repeated: 408 configurations (51 patterns times 8 settings) for the errors of prediction, and
408 patterns with 8 settings each for what a choice is worth.
"""

from __future__ import annotations

import csv
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies import class_errors
from benchmarks.studies.steps import Study, stripewise, write_toml

SITE = "dkrz-porting"
KIB, MIB = 1 << 10, 1 << 20
BLOCKS = [256 << i for i in range(17)]
"""256 bytes to 16 MiB: assumed."""
HOLES = [512 << i for i in range(12)]
"""512 bytes to 1 MiB: assumed."""
FEW_HOLES = [4 * KIB, 64 * KIB, MIB]
FILE = 64 * MIB
FOLDS = (2, 4, 8)
DEPTHS = "1-10"
MODELS = ("linear", "tree", "auto")


def campaign(
    hole: int, operations: Sequence[str], blocks: Sequence[int], repeats: int, site: str = SITE
) -> dict[str, Any]:
    """The campaign of one hole size, which is a word of the site's workload."""
    return {
        "name": f"sieving-{hole}",
        "runner": f"sim:{site}@access.hole_size={hole}",
        "stacks": ["lustre", "romio"],
        "operations": list(operations),
        "repeats": repeats,
        "warmup": 0,
        "timeout": 1e6,
        "workload": [
            {"name": "nodes", "values": [1]},
            {"name": "processes_per_node", "values": [1]},
            {"name": "file_size", "values": [FILE]},
            {"name": "layout", "values": ["strided"]},
            {"name": "transfer_size", "values": [32 * MIB]},
            {"name": "piece_size", "values": list(blocks)},
        ],
        "tunable": [
            {"name": "stripe_count", "values": [1, 2]},
            {"name": "stripe_size", "values": [128 * KIB, 2 * MIB]},
            *({"name": f"romio_ds_{way}", "values": ["enable", "disable"]} for way in operations),
        ],
    }


def schema(name: str, operations: Sequence[str], blocks: Sequence[int], holes: Sequence[int]) -> dict[str, Any]:
    """What the columns of the campaigns' tables mean once they are one table."""

    def sizes(column: str, values: Sequence[int]) -> dict[str, Any]:
        ordinal = {"kind": "ordinal", "unit": "B", "scale": "log2"}
        return {"name": column, "role": column if column != "hole_size" else "other", **ordinal, "values": list(values)}

    return {
        "name": name,
        "description": "SIMULATED on a porting system: blocks with holes, one process",
        "source": "python -m benchmarks.studies ai-for-io",
        "license": "CC0-1.0",
        "complete": True,
        "objective": {"column": "bandwidth", "direction": "maximize", "unit": "MiB/s"},
        "context": [
            {"name": "operation", "kind": "categorical", "role": "operation", "values": list(operations)},
            sizes("piece_size", blocks),
            sizes("hole_size", holes),
        ],
        "parameter": [
            {"name": "stripe_count", "kind": "ordinal", "role": "stripe_count", "scale": "log2", "values": [1, 2]},
            sizes("stripe_size", [128 * KIB, 2 * MIB]),
            {"name": "sieving", "kind": "categorical", "role": "data_sieving", "values": ["enable", "disable"]},
        ],
    }


def profiled(
    study: Study,
    name: str,
    operations: Sequence[str],
    blocks: Sequence[int],
    holes: Sequence[int],
    repeats: int,
    site: str = SITE,
) -> Path:
    """Profile every hole size and make one table of the campaigns."""
    form = schema(name, operations, blocks, holes)
    columns = [*(c["name"] for c in (*form["context"], *form["parameter"])), "repeat", "bandwidth"]
    merged = study.work / f"{name}-rows.csv"
    with merged.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore")
        writer.writeheader()
        for hole in holes:
            plan = write_toml(
                study.work / f"{name}-{hole}-campaign.toml", campaign(hole, operations, blocks, repeats, site)
            )
            found = stripewise("site", "profile", plan, "--out", study.work / f"{name}-{hole}")
            with Path(found["table"] if Path(found["table"]).is_absolute() else study.work / found["table"]).open(
                encoding="utf-8", newline=""
            ) as rows:
                for row in csv.DictReader(rows):
                    # A hint at its default is called automatic, which acts as enable.
                    off = row[f"romio_ds_{row['operation']}"] == "disable"
                    writer.writerow({**row, "hole_size": hole, "sieving": "disable" if off else "enable"})
    form_file = write_toml(study.work / f"{name}-schema.toml", form)
    stripewise("site", "table", "import", merged, "--schema", form_file, "--out", study.work / name)
    return study.work / name


def medians(table: Path, out: Path) -> Path:
    """One row a configuration, as the study had: the median of its repeats."""
    runs: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with table.with_suffix(".csv").open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        names = [name for name in reader.fieldnames or () if name not in ("repeat", "bandwidth")]
        for row in reader:
            runs[tuple(row[name] for name in names)].append(float(row["bandwidth"]))
    rows = out.with_name(out.name + "-rows.csv")
    with rows.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*names, "bandwidth"])
        writer.writerows([*key, statistics.median(values)] for key, values in runs.items())
    form = table.with_suffix(".toml")
    stripewise("site", "table", "import", rows, "--schema", form, "--out", out)
    return out


def values_of(table: Path) -> np.ndarray:
    with table.with_suffix(".csv").open(encoding="utf-8", newline="") as stream:
        return np.array([float(row["bandwidth"]) for row in csv.DictReader(stream)])


def baseline(table: Path) -> dict[str, float]:
    """The study's baseline: everything is predicted as the mean."""
    from stripewise.models.validation import measure_class_error  # noqa: PLC0415  loads the models

    values = values_of(table)
    guess = np.full(len(values), values.mean())
    return {
        "rows": len(values),
        "mean": float(values.mean()),
        "mae": float(np.abs(values - guess).mean()),
        "class_error": measure_class_error(values, guess, maximize=True),
    }


def errors(table: Path, models: Sequence[str], folds: Sequence[int], seed: int) -> dict[str, Any]:
    """Errors of models under k-fold cross-validation."""
    found: dict[str, Any] = {}
    for model in models:
        for k in folds:
            told = stripewise("site", "validate", table, "--model", model, "--folds", k, "--seed", seed)["metrics"]
            found.setdefault(model, {})[str(k)] = {key: told[key] for key in ("mae", "class_error", "mape", "r2_log")}
    return found


def simulated(study: Study) -> None:
    """Predict and prescribe on the simulated porting system."""
    blocks = study.size(BLOCKS, BLOCKS[::4])
    holes, few = study.size(HOLES, HOLES[::4]), study.size(FEW_HOLES, FEW_HOLES[:2])
    folds, depths = study.size(FOLDS, (2,)), study.size(DEPTHS, "1-4")
    models = study.size(MODELS, ("linear", "tree"))

    prediction = study.work / "prediction"
    study.step(
        "campaign of prediction",
        lambda: _counted(study, "prediction-runs", ["write"], blocks, few, study.size(10, 2), prediction),
        "simulated",
        (prediction.with_suffix(".csv"),),
        site=f"sim:{SITE}", blocks=blocks, holes=few, repeats=study.size(10, 2), file=FILE,
    )  # fmt: skip
    study.step("baseline", lambda: baseline(prediction), "simulated")
    study.step("errors", lambda: errors(prediction, models, folds, 0), "simulated", models=models, folds=folds, seed=0)
    study.step("class distances", lambda: class_errors.neighbours(prediction), "simulated")
    study.step(
        "learning curve",
        lambda: {
            model: stripewise("site", "validate", prediction, "--model", model, "--inverse", study.size(16, 4))[
                "learning_curve"
            ]
            for model in ("linear", "tree")
        },
        "simulated",
        parts=study.size(16, 4),
    )

    choices = study.work / "choices"
    study.step(
        "campaign of choices",
        lambda: _counted(study, "choices", ["read", "write"], blocks, holes, study.size(3, 2), None),
        "simulated",
        (choices.with_suffix(".csv"),),
        site=f"sim:{SITE}", blocks=blocks, holes=holes, repeats=study.size(3, 2), file=FILE,
    )  # fmt: skip
    study.step(
        "choices",
        lambda: judged_choices(choices, depths, study.size(8, 4)),
        "simulated",
        depths=depths, groups=study.size(8, 4),
    )  # fmt: skip


def _counted(
    study: Study, name: str, operations: Sequence[str], blocks: Sequence[int], holes: Sequence[int], repeats: int,
    out: Path | None,
) -> dict[str, int]:  # fmt: skip
    table = profiled(study, name, operations, blocks, holes, repeats)
    patterns = len(operations) * len(blocks) * len(holes)
    runs = len(values_of(table))
    if out is not None:
        medians(table, out)
    return {"patterns": patterns, "configurations": 8 * patterns, "runs": runs}


def judged_choices(table: Path, depths: str, groups: int) -> dict[str, Any]:
    """What trees of each depth and every static choice are worth for patterns held out; and the mean of all runs."""
    told = stripewise(
        "site", "validate", table, "--model", "tree", "--leave-out", "contexts", "--folds", groups, "--depths", depths
    )["prescription"]
    kept = ("arithmetic", "harmonic", "worst", "workloads", "static", "by_depth")
    return {key: told[key] for key in kept} | {"mean": float(values_of(table).mean())}


def real(study: Study) -> None:
    """Sieve for real with ROMIO, and tell cached reads from uncached ones by their time."""
    from benchmarks.studies import holes  # noqa: PLC0415  needs a compiler and MPI

    table, prediction = study.work / "sieving", study.work / "sieving-medians"
    blocks, gaps = study.size(holes.BLOCKS, holes.BLOCKS[::16]), study.size(holes.HOLES, holes.HOLES[::11])
    repeats, depths, groups = study.size(3, 1), study.size("1-4", "1-2"), study.size(8, 2)
    study.step(
        "real ROMIO",
        lambda: holes.profiled(study, table, blocks, gaps, repeats),
        "measured",
        (table.with_suffix(".csv"),),
        blocks=blocks, holes=gaps, repeats=repeats,
    )  # fmt: skip
    study.step(
        "real errors",
        lambda: {
            "baseline": baseline(medians(table, prediction)),
            "models": errors(prediction, study.size(MODELS, ("linear", "tree")), study.size(FOLDS, (2,)), 0),
        },
        "measured",
        models=study.size(MODELS, ("linear", "tree")), folds=study.size(FOLDS, (2,)), seed=0,
    )  # fmt: skip
    study.step("real choices", lambda: judged_choices(table, depths, groups), "measured", depths=depths, groups=groups)
    folder = Path(tempfile.mkdtemp(prefix="ai-for-io-", dir=study.work))
    try:
        study.step(
            "causes",
            lambda: holes.residency(folder, study.work / "causes", study.size(24, 4)),
            "measured",
            (study.work / "causes" / "causes.html",),
            count=study.size(24, 4), seed=1,
        )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def bed(study: Study, site: Any) -> None:
    """On the test bed: predict, and judge static choices and trees, as with the simulated runs."""
    from benchmarks.studies import sieved  # noqa: PLC0415  needs a compiler and MPI

    table, prediction = study.kept / "sieved", study.work / "sieved-medians"
    folder = site.folder.name
    file, other = (site.bed.ceph.mount(client) / folder / "sieved" for client in (1, 2))
    study.step(
        "bed sieving",
        lambda: sieved.measured(study, file, other, table),
        "measured",
        (table.with_suffix(".csv"),),
        blocks=study.size(sieved.BLOCKS, sieved.BLOCKS[::16]), holes=study.size(sieved.HOLES, sieved.HOLES[::11]),
        pieces=sieved.PIECES,
    )  # fmt: skip
    models, folds = study.size(MODELS, ("linear", "tree")), study.size(FOLDS, (2,))
    study.step(
        "bed sieving errors",
        lambda: {
            "baseline": baseline(medians(table, prediction)),
            "models": errors(prediction, models, folds, 0),
        },
        "measured",
        models=models, folds=folds, seed=0,
    )  # fmt: skip
    study.step("bed sieving clear", lambda: sieved.clear(table), "measured")
    if not study.quick:
        # One repeat alone has no others.
        study.step("bed sieving scatter", lambda: class_errors.scatter(table), "measured")
        study.step("bed sieving oracle", lambda: class_errors.of_medians(table), "measured")
    depths, groups = study.size("1-6", "1-2"), study.size(8, 2)
    study.step(
        "bed sieving choices",
        lambda: judged_choices(table, depths, groups),
        "measured",
        depths=depths, groups=groups,
    )  # fmt: skip
