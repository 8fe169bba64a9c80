"""The driver of tools that race in a Python of their own: its lines of JSON, with stand-ins for what it imports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "search" / "outside.py"
AXES = [{"name": "a", "count": 4, "ordered": True}, {"name": "b", "count": 3, "ordered": False}]
TORCH = "def manual_seed(seed): pass\ndef set_num_threads(count): pass\n"
HEBO = '''
import pandas
class HEBO:
    """Proposes 0, 1, 2 ... on each axis, and prints as the real one does."""
    def __init__(self, space, scramble_seed):
        self.names, self.known = [axis["name"] for axis in space.axes], []
    def suggest(self):
        print("a word on standard output", flush=True)
        return pandas.DataFrame([[float(len(self.known))] * len(self.names)], columns=self.names)
    def observe(self, rows, costs):
        self.known.append((rows, costs))
'''
SPACE = "class DesignSpace:\n    def parse(self, axes):\n        self.axes = axes\n        return self\n"
FILES = {
    "torch.py": TORCH,
    "hebo/design_space/design_space.py": SPACE,
    "hebo/optimizers/hebo.py": HEBO,
    "hebo/__init__.py": "",
    "hebo/design_space/__init__.py": "",
    "hebo/optimizers/__init__.py": "",
}


@pytest.mark.parametrize("start", [{"a": 3, "b": 1}, None])
def test_a_tool_proposes_and_is_told_by_lines(tmp_path: Path, start: dict[str, int] | None) -> None:
    for name, text in FILES.items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    task = {"axes": AXES, "start": start, "seed": 1, "budget": 4}
    told = [{"levels": {"a": 2, "b": 2}, "cost": 1.5}, {"levels": {"a": 1, "b": 1}, "cost": 0.5}]
    process = subprocess.run(
        [sys.executable, str(SCRIPT), "hebo"],
        input="".join(json.dumps(line) + "\n" for line in (task, *told)),
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    first = start or {"a": 0, "b": 0}
    after = [{"a": count, "b": count} for count in (1, 2)]
    # Two measurements, and a third proposal that nobody answers: the input ends, and so does the tool.
    assert [json.loads(line) for line in process.stdout.splitlines()] == [first, *after]
    assert "a word on standard output" in process.stderr
