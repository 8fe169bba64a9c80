"""docs/reference/rest.md lists every operation of /openapi.json, and no other.

``STRIPEWISE_WRITE_DOCS=1 python -m pytest tests/integration/test_docs_rest.py`` writes its tables anew.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from stripewise.desk.server.guard import ADMINS_ONLY, OPERATORS_ONLY, PUBLIC, SAFE, VIEWERS_MAY_POST
from stripewise.desk.server.problems import CODES
from tests.unit.service import running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "rest.md"
BEGIN, END = "<!-- operations: written from /openapi.json -->", "<!-- end of operations -->"


def who(method: str, path: str) -> str:
    path = path.replace("/api/v1", "/api", 1)
    if path in PUBLIC:
        return "anybody"
    if path.startswith(ADMINS_ONLY):
        return "admin"
    if path.startswith(OPERATORS_ONLY):
        return "operator"
    return "viewer" if method in SAFE or path in VIEWERS_MAY_POST else "operator"


def tables(document: dict[str, Any]) -> str:
    by_tag: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            parameters = [p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"]
            query = f" ({', '.join(f'`{name}`' for name in parameters)})" if parameters else ""
            about = " ".join(operation["description"].split())
            about = about.split(". ")[0].rstrip(".").replace("|", "\\|")
            row = f"| `{method.upper()} {path}` | {who(method.upper(), path)} | {about}{query} |"
            by_tag.setdefault(operation["tags"][0], []).append(row)
    parts = [
        f"### {tag[0].upper()}{tag[1:]}\n\n| request | who | what it does (query) |\n|---|---|---|\n" + "\n".join(rows)
        for tag, rows in sorted(by_tag.items())
    ]
    return "\n\n".join(parts)


def test_every_operation_is_documented(tmp_path: Path) -> None:
    with running(tmp_path) as served:
        made = tables(served.app.openapi())
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    kept, _, after = rest.partition(END)
    if os.environ.get("STRIPEWISE_WRITE_DOCS"):
        PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}", "utf-8")
    else:
        assert kept.strip() == made, "run it with STRIPEWISE_WRITE_DOCS=1"
    assert all(f"`{code}`" in before for code in CODES.values())
