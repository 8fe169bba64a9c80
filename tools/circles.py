"""Find circles of imports in Python and of includes in C: ``python tools/circles.py``; ends with 1 where there is one.

An import counts wherever it stands: at the top of a module, inside a function, or under ``TYPE_CHECKING``. In C,
``name.c`` and ``name.h`` of one folder are one module. It depends on the modules whose headers it includes, and on
those of its folder whose functions it names.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Graph = dict[str, set[str]]


def python_graph(root: Path) -> Graph:
    """Modules of the package, the benchmarks and the tests, each with the modules that it imports."""
    modules: dict[str, Path] = {}
    for base, folder in ((root / "src", "src/stripewise"), (root, "benchmarks"), (root, "tests"), (root, "tools")):
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: set(_imports(name, path, modules)) - {name} for name, path in modules.items()}


def _imports(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    # A script of the benchmarks imports its neighbours by their bare names.
    neighbour = f"{package}." if name.startswith("benchmarks.") else ""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (
                found for alias in node.names for found in (alias.name, neighbour + alias.name) if found in modules
            )
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            source = ".".join(part for part in (above, node.module or "") if part)
            for base in dict.fromkeys((source, neighbour + source) if not node.level else (source,)):
                for alias in node.names:
                    found = f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base
                    if found in modules:
                        yield found


def c_graph(root: Path) -> Graph:
    """Modules of the native sources, each with the modules whose headers it includes or whose functions it calls."""
    sources = {
        path: _without_comments(path.read_text(encoding="utf-8")) for path in sorted((root / "native").rglob("*.[ch]"))
    }
    headers = {path.name: _c_name(path, root) for path in sources if path.suffix == ".h"}
    # Functions of one folder only: a program in another folder may define a function of the same name.
    homes = {
        (path.parent, name): _c_name(path, root)
        for path, text in sources.items()
        for name in re.findall(
            r"^(?!static\b|typedef\b|return\b)\w[\w \t*]*?\b(\w+)\([^;{}]*\)\s*\{", text, re.MULTILINE
        )
    }
    graph: Graph = {}
    for path, text in sources.items():
        name = _c_name(path, root)
        needs = {
            headers.get(header, name)
            for header in re.findall(r'^\s*#\s*include\s+"(?:[^"]*/)?([^"/]+)"', text, re.MULTILINE)
        }
        if path.suffix == ".c":
            needs |= {homes.get((path.parent, word), name) for word in set(re.findall(r"\b\w+\b", text))}
        graph.setdefault(name, set()).update(needs - {name})
    return graph


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def _c_name(path: Path, root: Path) -> str:
    return str(path.relative_to(root).with_suffix(""))


def circles(graph: Graph) -> list[frozenset[str]]:
    """Give the strongly connected components with more than one module (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph.get(name, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            members = stack[stack.index(name) :]
            del stack[-len(members) :]
            if len(members) > 1:
                found.append(frozenset(members))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def main() -> int:
    """Print each circle."""
    found = [circle for graph in (python_graph(ROOT), c_graph(ROOT)) for circle in circles(graph)]
    for circle in found:
        print("circle of imports: " + ", ".join(sorted(circle)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
