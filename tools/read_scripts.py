"""Read every file of a collection of job scripts, and report crashes and times.

``make soak SCRIPTS=PATH`` runs it over a checkout, such as one of converged-computing/jobspec-database.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from stripewise.diagnose.knobs import Surroundings, review_script
from stripewise.errors import UserError

_MOST_SECONDS = 1.0
_LARGEST = 1 << 20


def main(words: list[str]) -> int:
    """Read the scripts below a folder; fail if one crashes or takes longer than a second of processor time."""
    if not words or not words[0]:
        print("scripts: skipped, because no checkout is named; give its path by make soak SCRIPTS=PATH")
        return 0
    folder = Path(words[0])
    if not folder.is_dir():
        print(f"scripts: {folder} is not a folder; name a checkout", file=sys.stderr)
        return 2
    verdicts: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    slow: list[tuple[float, Path]] = []
    for path in sorted(one for one in folder.rglob("*") if one.is_file() and ".git" not in one.parts):
        data = path.read_bytes()
        if b"\0" in data or len(data) > _LARGEST:
            outcomes["no text, or too large"] += 1
            continue
        begun = time.process_time()
        try:
            review = review_script(data.decode("utf-8", errors="replace"), Surroundings(mpi=""))
            verdicts.update(one.verdict for one in review.settings)
            outcomes["read"] += 1
        except UserError as refused:
            outcomes["refused"] += 1
            print(f"{path}: {refused}")
        except Exception:
            outcomes["crashed"] += 1
            print(f"{path}: {traceback.format_exc()}")
        slow.append((time.process_time() - begun, path))
        if len(slow) % 1000 == 0:
            print(f"{len(slow):,} files read", flush=True)
    for seconds, path in sorted(slow, reverse=True)[:10]:
        print(f"{seconds:.2f} s: {path}")
    print("files: " + ", ".join(f"{number:,} {word}" for word, number in sorted(outcomes.items())))
    print("settings: " + ", ".join(f"{number:,} {word}" for word, number in sorted(verdicts.items())))
    late = sum(seconds > _MOST_SECONDS for seconds, _ in slow)
    print(f"longer than {_MOST_SECONDS:g} s: {late:,}")
    return 1 if late or outcomes["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
