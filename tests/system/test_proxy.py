"""The service behind a real reverse proxy, below a path: as Open OnDemand and jupyter-server-proxy show it."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import require

CONFIGURATION = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    # As Open OnDemand does: the path is passed on.
    location /node/n1/8437/ {{ proxy_pass http://127.0.0.1:{kept}; }}
    # As others do: the path is taken off, and named in a header.
    location /tuner/ {{ proxy_pass http://127.0.0.1:{taken}/; proxy_set_header X-Forwarded-Prefix /tuner; }}
  }}
}}
"""


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return found


@contextmanager
def started(*words: str, log: Path, **environment: str) -> Iterator[None]:
    with log.open("w") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, env={**os.environ, **environment})
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def ask(port: int, path: str, **headers: str) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode("utf-8", "replace")


@pytest.mark.parametrize("way", ["path passed on", "path taken off"])
def test_pages_work_below_the_path_of_a_proxy(way: str, tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    require(nginx, "there is no nginx (Debian: apt install nginx-light)")
    port, kept, taken = free_ports(3)
    own, prefix, options = (
        (kept, "/node/n1/8437", ["--base-path", "/node/n1/8437"])
        if way == "path passed on"
        else (taken, "/tuner", ["--proxy", "127.0.0.1"])
    )
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(folder=tmp_path, port=port, kept=kept, taken=taken))
    serve = [
        "-m",
        "stripewise",
        "serve",
        "--open",
        "--workers",
        "0",
        "--host",
        "127.0.0.1",
        "--port",
        str(own),
        *options,
    ]
    home = {"STRIPEWISE_HOME": str(tmp_path / "home"), "STRIPEWISE_STORE": f"sqlite:///{tmp_path}/s.db"}
    log = tmp_path / "serve.log"
    with (
        started(sys.executable, *serve, "--root", str(tmp_path), log=log, **home),
        started(str(nginx), "-c", str(configuration), log=tmp_path / "nginx.log"),
    ):
        deadline = time.monotonic() + 60
        ticket = None
        while ticket is None or ask(port, f"{prefix}/api/health")[0] != 200:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
            ticket = re.search(r"/login(\?ticket=\S+)", log.read_text())
        status, headers, page = ask(port, f"{prefix}/login{ticket[1]}")
        assert status == 200
        assert f"{prefix}/" in page
        cookie = headers["Set-Cookie"]
        assert f"Path={prefix}" in cookie
        status, _, page = ask(port, f"{prefix}/", Cookie=cookie.partition(";")[0])
        assert status == 200
        links = re.findall(r'(?:href|src|action)="(/[^"]*)"', page)
        assert links
        assert [link for link in links if not link.startswith(f"{prefix}/")] == []
        for link in {link for link in links if "/static/" in link}:
            assert ask(port, link)[0] == 200, link
        # Without the cookie nothing is shown.
        assert ask(port, f"{prefix}/")[0] in (303, 401)
