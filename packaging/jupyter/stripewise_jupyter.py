"""Entry of jupyter-server-proxy: Stripewise's pages beside a user's notebooks, in the launcher of JupyterLab."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def setup() -> dict[str, Any]:
    """Describe the process to jupyter-server-proxy, which starts it on first use and ends it with the server."""
    return {
        "command": [
            "stripewise", "serve", "--host", "127.0.0.1", "--port", "{port}", "--base-path", "{base_url}stripewise",
            "--root", str(Path.home()),
        ],
        # The paths of the service begin with --base-path: pass them on as they come.
        "absolute_url": True,
        "timeout": 60,
        "new_browser_tab": True,
        "launcher_entry": {"title": "Stripewise"},
    }  # fmt: skip
