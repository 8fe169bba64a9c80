"""Every page in both looks and on a narrow screen: no serious finding of axe, no console errors, nothing cut off."""

from __future__ import annotations

import pytest

from tests.system.pages_browser import Watched, audit, log_in
from tests.system.test_pages_use import browser, site  # noqa: F401  fixtures

pytestmark = [pytest.mark.system, pytest.mark.slow]

PAGES = (
    "/", "/?state=failed", "/new", "/new?like={finished}", "/experiments/{finished}", "/experiments/{running}",
    "/experiments/{failed}", "/experiments/{created}", "/experiments/{finished}/runs/3",
    "/compare?id={finished}&id={twin}", "/compare", "/models", "/models/site?workload.nodes=4",
    "/validations/v1", "/campaigns", "/campaigns/{campaign}", "/diagnoses", "/diagnoses/{diagnosis}", "/knobs",
    "/settings", "/docs", "/applications", "/applications?by=tag", "/applications/one?name=writer", "/stacks",
    "/experiments/nope", "/nowhere",
)  # fmt: skip
LOOKS = (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390))


@pytest.mark.parametrize(("look", "width"), LOOKS)
def test_every_page_is_clean(site, browser, look, width):  # noqa: F811
    base, app, made = site
    _, secret = app.state.service.tokens.create(f"{look}-{width}", "admin")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=look)
    page = context.new_page()
    watched = Watched(page)
    faults = {}
    page.goto(f"{base}/login")
    if found := audit(page, width):
        faults["/login"] = found
    log_in(page, base, secret)
    for path in PAGES:
        page.goto(base + path.format(**made))
        watched.settle(page)
        if found := audit(page, width):
            faults[path] = found
        if path == "/experiments/{finished}":
            points = page.locator("#trajectory .point").evaluate_all(
                "all => all.map(one => getComputedStyle(one).fill)"
            )
            # The blue of figures is too dim on a dark page.
            assert ("rgb(0, 114, 178)" in points) == (look == "light")
    context.close()
    assert not faults, faults
    # A page that does not exist is answered with 404, and browsers write that to the console.
    watched.expected = (404,)
    assert watched.errors == []
