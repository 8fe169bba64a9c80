"""Show what the product understands of launch lines in a collection of job scripts, for a judgement by hand.

The collection is converged-computing/jobspec-database: its folder ``data`` has one for each owner, with repositories.
They are halved by the first hexadecimal digit of the SHA-256 of ``owner/name`` in lower case::

    python -m benchmarks.field.launch_lines CHECKOUT --seed 35
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from stripewise.runners.program.command import LAUNCHERS
from stripewise.runners.program.shell_commands import list_commands
from stripewise.runners.program.started import understand

_LARGEST = 400_000
_SUFFIXES = {".sh", ".slurm", ".sbatch", ".pbs", ".job", ".bash", ".csh", ".lsf", ".sub", ".qsub"}
_DIRECTIVE = re.compile(r"^#(SBATCH|PBS|BSUB|COBALT|FLUX|PJM|\$ )", re.MULTILINE)
_BEFORE = r"(?:(?:time|exec|nohup|env|\w+=\S*|/usr/bin/time(?: -\w+)*|then|do|else|!|timeout \S+|nice|eval)\s+)*"
_NAMES = "|".join(sorted(map(re.escape, LAUNCHERS), key=len, reverse=True))
_LAUNCH = re.compile(rf"\s*{_BEFORE}(?:\S*/)?(?:{_NAMES}|mpirun\.\w+|mpiexec\.\w+|yod)(?=\s)")


def is_even(owner: str, name: str) -> bool:
    """Whether a repository belongs to the half on which the product is developed."""
    return int(hashlib.sha256(f"{owner}/{name}".lower().encode()).hexdigest()[0], 16) % 2 == 0


def list_lines(checkout: Path, *, odd: bool = False) -> list[str]:
    """Give the different launch lines of a half, sorted."""
    found: set[str] = set()
    for repository in sorted((checkout / "data").glob("*/*")):
        if repository.is_dir() and is_even(*repository.parts[-2:]) is not odd:
            for path in sorted(repository.rglob("*")):
                found.update(_lines_of(path))
    return sorted(found)


def _lines_of(path: Path) -> Iterator[str]:
    if not path.is_file() or path.stat().st_size > _LARGEST:
        return
    text = path.read_text("utf-8", "replace").replace("\r\n", "\n")
    if not (text.startswith("#!") or _DIRECTIVE.search(text[:20_000]) or path.suffix in _SUFFIXES):
        return
    for line in re.sub(r"\\\n\s*", " ", text).split("\n"):
        if not line.lstrip().startswith("#") and _LAUNCH.match(line):
            yield line.strip()


def words_of(line: str) -> list[str] | None:
    """Give the words of the line's launch; None where it has none, as an assignment."""
    launch = re.compile(rf"(?:\S*/)?(?:{_NAMES}|mpirun\.\w+|mpiexec\.\w+|yod)")
    for words in list_commands(line)[0]:
        if any(launch.fullmatch(word) for word in words[:6]):
            return words
    return None


def main() -> None:
    """Print a sample of lines with what is understood, and how many have remarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--odd", action="store_true", help="the other half, on which nobody develops")
    given = parser.parse_args()
    lines = list_lines(given.checkout, odd=given.odd)
    remarked: Counter[bool] = Counter()
    for line in lines:
        if (words := words_of(line)) is not None:
            remarked[bool(understand(words).remarks)] += 1
    print(f"{len(lines):,} lines; launches without remarks: {remarked[False]:,}, with remarks: {remarked[True]:,}")
    random.seed(given.seed)
    for number, line in enumerate(random.sample(lines, min(given.number, len(lines)))):
        print(f"{number} {line}")
        words = words_of(line)
        if words is None:
            print("    no launch")
            continue
        found = understand(words)
        for one in found.programs:
            print(f"    = {one.describe()}")
        for remark in found.remarks:
            print(f"    ! {remark}")


if __name__ == "__main__":
    main()
