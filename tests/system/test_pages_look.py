"""Every page in both looks and on a narrow screen: no serious finding of axe, no console errors, nothing cut off."""

from __future__ import annotations

import pytest

from tests.system.pages_browser import Watched, audit, log_in, opened
from tests.system.pages_service import serving

pytestmark = [pytest.mark.system, pytest.mark.slow]

PAGES = (
    "/", "/?state=failed", "/new", "/new?like={finished}", "/experiments/{finished}", "/experiments/{running}",
    "/experiments/{failed}", "/experiments/{created}", "/experiments/{finished}/runs/3",
    "/compare?id={finished}&id={twin}", "/compare", "/models", "/models/site?workload.nodes=4",
    "/validations/v1", "/campaigns", "/campaigns/{campaign}", "/diagnoses", "/diagnoses/{diagnosis}", "/knobs",
    "/settings",
    "/experiments/nope",
)  # fmt: skip
LOOKS = (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("pages")) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with opened() as found:
        yield found


@pytest.mark.parametrize(("look", "width"), LOOKS)
def test_every_page_is_clean(site, browser, look, width):
    base, app, made = site
    _, secret = app.state.service.tokens.create(f"{look}-{width}", "operator")
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
    context.close()
    assert not faults, faults
    # A page that does not exist is answered with 404, and browsers write that to the console.
    watched.expected = (404,)
    assert watched.errors == []
