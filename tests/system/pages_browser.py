"""Debian's chromium, driven by Playwright; what the tests of the pages share."""

from __future__ import annotations

import contextlib
import os
import shutil
from importlib import resources

import pytest

REQUIRED = os.environ.get("STRIPEWISE_REQUIRE_ALL") == "1"
_PATIENCE = 60_000


@contextlib.contextmanager
def opened():
    """Start the browser; without one the test is skipped, or fails where everything is required."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is not installed")
    found = shutil.which("chromium")
    if found is None:
        _missing("there is no chromium (Debian: apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def _missing(why):
    if REQUIRED:
        pytest.fail(why)
    pytest.skip(why)


class Watched:
    """Collects what a page writes to the console as errors, and requests to other machines."""

    def __init__(self, page):
        self._told = []
        self.expected = ()
        page.set_default_timeout(_PATIENCE)
        page.on("console", lambda message: self._told.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._told.append(str(error)))
        page.on("request", self._asked)
        page.on("response", self._answered)

    @property
    def errors(self):
        """What was written, without the answers that a test expects (``expected``: their status)."""
        status = tuple(str(one) for one in self.expected)
        return [
            text
            for text in self._told
            if not (status and text.startswith(status)) and not any(f"status of {one}" in text for one in status)
        ]

    def _asked(self, request):
        local = request.url.startswith(("http://127.0.0.1", "data:", "blob:"))
        if not local:
            self._told.append(f"asked another machine: {request.url}")

    def _answered(self, response):
        if response.status >= 400:
            self._told.append(f"{response.status} {response.url}")

    def settle(self, page):
        """Wait until the figures of a page are drawn."""
        # Not wait_for_function, which would need the eval that the pages' policy forbids.
        if page.locator("[data-figures]").count():
            page.locator("body[data-drawn=yes]").wait_for(state="attached")
            for name in page.locator(".plot.drawn").all():
                name.locator(".main-svg").first.wait_for(state="attached")


def log_in(page, base, secret):
    """Exchange a token for a session."""
    page.goto(f"{base}/login")
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{base}/")


def audit(page, width):
    """Say what axe finds serious or critical, and whether anything is wider than the screen.

    A page that loads itself again, because its experiment has changed, is looked at once more.
    """
    from playwright.sync_api import Error

    try:
        return _audit(page, width)
    except Error as error:
        if "navigation" not in str(error):
            raise
        page.wait_for_load_state()
        return _audit(page, width)


def _audit(page, width):
    script = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
    page.evaluate(script)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [
        f"{one['id']}: {node['target']} {node['html'][:120]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]
    wide = page.evaluate("document.documentElement.scrollWidth")
    return serious + ([f"{wide} pixels wide"] if wide > width else [])
