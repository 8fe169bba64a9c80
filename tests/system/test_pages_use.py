"""Every button and form of the pages, driven as people would: by mouse, by keyboard, and without JavaScript."""

from __future__ import annotations

import json
import re
import time
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import expect

from stripewise.catalogue.configuration import Configuration
from stripewise.desk.server.files import campaign_in, folder_of
from stripewise.desk.server.model_jobs import WORK
from stripewise.engine.campaign.book import open_book
from stripewise.engine.campaign.plan import CampaignPlan
from stripewise.requests.campaign_points import Points
from stripewise.requests.experiment import Experiment
from stripewise.trial import Phase, Role, Run, State, Trial
from tests.system.pages_browser import Watched, log_in, opened
from tests.system.pages_service import HOSTILE, put, serving
from tests.unit.reports import recorded

# The machine may be busy with other work.
expect.set_options(timeout=60_000)

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("pages")) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with opened() as found:
        yield found


@pytest.fixture
def page(site, browser):
    """A page of an operator's session; the test fails on any console error, failed answer or foreign request."""
    base, app, _ = site
    _, secret = app.state.service.tokens.create("ada", "admin")
    context = browser.new_context(viewport={"width": 1200, "height": 900}, base_url=base)
    made = context.new_page()
    watched = Watched(made)
    made.watched = watched
    log_in(made, base, secret)
    yield made
    context.close()
    assert watched.errors == []


def leave(page):
    """Let a page fetch all that it shows, and go elsewhere: what it shows is to be deleted."""
    page.watched.settle(page)
    page.goto("/settings")


def test_logging_in_and_out(site, browser):
    base, app, _ = site
    context = browser.new_context(base_url=base)
    page = context.new_page()
    page.goto(f"{base}/settings")
    expect(page).to_have_url(re.compile(r"/login\?next=/settings"))
    page.get_by_label("Token").fill("sw_000000000000_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    _, secret = app.state.service.tokens.create("eve", "viewer")
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{base}/settings")
    # Who may only look sees nothing to press.
    expect(page.get_by_role("link", name="New", exact=True)).to_have_count(0)
    page.goto(f"{base}/experiments/{site[2]['finished']}")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{base}/login")
    page.goto(base)
    expect(page).to_have_url(re.compile("/login"))
    context.close()


def test_overview_filters_sorts_and_compares(site, page):
    _, _, made = site
    expect(page.locator("tbody tr")).to_have_count(6)
    page.get_by_role("navigation", name="States").get_by_role("link", name="failed").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    page.get_by_role("link", name="all 6").click()
    page.get_by_role("link", name="Experiment", exact=True).click()
    expect(page).to_have_url(re.compile("sort=name"))
    for name in ("finished", "twin"):
        page.locator(f"#row-{made[name]} input[type=checkbox]").check()
    page.get_by_role("button", name="Compare the chosen").click()
    page.watched.settle(page)
    expect(page.get_by_text("different MPI libraries")).to_be_visible()
    expect(page.locator(".plot.drawn")).to_have_count(2)
    page.get_by_label("Add").select_option(made["stopped"])
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("columnheader", name="stopped half-way")).to_be_visible()


def test_looks_change_with_the_button_and_are_kept(site, page):
    _, _, made = site
    page.goto(f"/experiments/{made['finished']}")
    page.watched.settle(page)
    button = page.get_by_role("button", name=re.compile("^Look:"))
    colours = {}
    for look in ("light", "dark"):
        button.click()
        expect(page.locator("html")).to_have_attribute("data-theme", look)
        colours[look] = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, "
            "document.querySelector('[data-figure=trajectory]')._fullLayout.font.color]"
        )
    assert colours["light"][0] == "rgb(255, 255, 255)" and colours["dark"][0] == "rgb(20, 24, 29)"
    assert colours["light"][1] != colours["dark"][1]
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_an_experiment_is_designed_tried_dry_started_stopped_resumed_and_deleted(site, page):  # noqa: PLR0915  one walk
    page.get_by_role("link", name="New experiment").click()
    expect(page.get_by_label("Files to delete")).to_be_visible()
    expect(page.get_by_label("Where it runs")).to_be_hidden()
    page.get_by_text("Advanced: where it runs").click()
    page.get_by_label("Name", exact=True).fill("from the page")
    page.get_by_label("Where it runs").select_option("sim")
    page.get_by_label("Simulated cluster").select_option("kay")
    page.get_by_role("checkbox", name=re.compile("^lustre")).check()
    page.get_by_label("Objective", exact=True).select_option("write_bandwidth")
    page.get_by_label("Launches").fill("12")
    for label, value in (("Nodes", "2"), ("Processes per node", "4"), ("File size", "1 GiB")):
        page.get_by_role("group", name="Workload").get_by_label(label, exact=True).fill(value)
    page.get_by_label("Operation", exact=True).select_option("write")
    page.get_by_label("Sampler", exact=True).select_option("genetic")
    expect(page.locator("#f-sampler-genetic-population")).to_be_visible()
    expect(page.locator("#f-sampler-surrogate-regressor")).to_be_hidden()
    page.locator("#f-sampler-genetic-population").fill("0")
    page.get_by_text("Advanced: where it runs").click()
    page.get_by_role("button", name="Dry run").click()
    expect(page.locator("#f-sampler-genetic-population")).to_be_visible()
    # The browser itself refuses what the declaration does, and a folded part opens for it.
    assert page.locator("#f-sampler-genetic-population").evaluate("one => one.validity.rangeUnderflow")
    page.locator("#f-sampler-genetic-population").fill("6")
    page.get_by_role("button", name="Dry run").click()
    dry = page.locator("#dry-run")
    expect(dry).to_contain_text("12 launches")
    # The heading has the focus, below the bar at the top; the cost is beside the buttons until something changes.
    heading = dry.get_by_role("heading", name="Dry run")
    expect(heading).to_be_focused()
    bar = page.locator("header.site").bounding_box()
    assert heading.bounding_box()["y"] >= bar["y"] + bar["height"]
    expect(page.locator("#cost")).to_contain_text("At most 12 launches")
    expect(dry).to_contain_text("distinct configurations")
    expect(dry).to_contain_text("stripe_count")
    expect(page).to_have_url(re.compile("/new$"))
    page.get_by_label("Launches").fill("13")
    expect(page.locator("#cost")).to_have_text("")
    page.get_by_label("Launches").fill("12")
    page.get_by_role("button", name="Start").click()
    expect(page).to_have_url(re.compile("/experiments/[0-9a-f]+$"))
    identifier = page.url.rsplit("/", 1)[1]
    kept = site[1].state.service.store.record(identifier).experiment
    assert (kept.sampler, kept.sampler_options, kept.budget.runs) == ("genetic", {"population": "6"}, 12)
    assert (kept.runner, kept.stacks, kept.workload.file_size) == ("sim:kay", ["lustre"], 1 << 30)
    expect(page.get_by_text("waiting for a worker").first).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    # "Start" where it was stopped before its first run.
    page.get_by_role("button", name=re.compile("^(Resume|Start)$")).click()
    expect(page.get_by_text("waiting for a worker").first).to_be_visible()
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="from the page")).to_be_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile(r"^http://[^/]+/$"))


def test_a_page_whose_form_was_sent_fetches_nothing_more(site, page):
    store, held, asked = site[1].state.service.store, [], []
    original = store.record(site[2]["finished"])
    identifier = put(store, original.experiment, original.facts, store.trials(site[2]["finished"]), "stopped")

    def hold(route):
        held.append(route)

    # Neither is answered for now: what is fetched is to end with the pressing of the button, not with the next page.
    page.route(re.compile(r"/(figures\.json|delete)"), hold)
    page.goto(f"/experiments/{identifier}")
    expect(page.locator(".plot.loading").first).to_be_attached()
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Delete").click()
    page.on("request", lambda request: asked.append(request.url))
    page.once("dialog", lambda dialog: dialog.accept())
    with page.expect_event("requestfailed", lambda request: "figures.json" in request.url):
        page.get_by_role("button", name="Delete").click(no_wait_after=True)
    page.wait_for_timeout(300)
    # What the live page asked for before the button was pressed does not count.
    names = [one.rpartition("/")[2] for one in asked]
    assert names[names.index("delete") :] == ["delete"]
    held[-1].continue_()
    expect(page).to_have_url(re.compile(r"^http://[^/]+/$"))


def test_a_question_that_leads_nowhere_leaves_the_page_alive(site, page):
    page.goto("/models/site")
    page.get_by_role("button", name="Prescribe").click()
    page.wait_for_url(re.compile("#answer"))
    expect(page.locator("#answer")).to_contain_text("the workload is unknown")
    expect(page.locator("#answer")).not_to_contain_text("times as fast")
    page.get_by_role("button", name="Prescribe").click()
    assert page.evaluate("window.stripewise.leaving().aborted") is False


def test_wrong_definitions_are_refused_with_what_to_do(site, page):
    page.goto("/new")
    page.get_by_role("button", name="Start").click()
    page.watched.expected = (422,)
    expect(page.get_by_role("alert")).to_contain_text("The command names no program")
    page.get_by_role("textbox", name="Command", exact=True).fill("mpiexec -n 4 './my app")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("alert")).to_contain_text("quotation")
    expect(page.get_by_role("textbox", name="Command", exact=True)).to_have_value("mpiexec -n 4 './my app")


def test_a_clone_begins_as_its_original_was_defined(site, page):
    _, app, _ = site
    store = app.state.service.store
    original = Experiment.model_validate(
        {
            "name": "whole", "runner": "batch", "command": ["srun", "-n", "4", "./app", "a b"], "stacks": ["romio"],
            "objective": {"name": "regex:rate: ([0-9.]+)", "direction": "maximize", "unit": "MB/s"},
            "budget": {"runs": 33, "seconds": 900}, "sampler": "annealing",
            "sampler_options": {"cooling_factor": 0.9},
            "resampling": {"kind": "simple", "repeats": 2}, "pruning": {"kind": "incumbent", "factor": 3.0},
            "stopping": {"improvement": {"window": 7}}, "confirmation": {"pairs": 9, "minimum_effect": 1.1},
            "parameters": {"cb_nodes": {"values": [1, 2]}}, "constraints": ["cb_nodes <= 2"], "env": {"A": "x=y"},
            "setup": ["module load mpi"], "hooks": {"before": ["sync"], "delete": ["out"]},
            "batch": {"nodes": 2, "exclusive": False, "directives": ["--constraint=x", "--mem=1G"]},
            "seed": 5, "warmup": 2,
            "workload": {"operation": "write", "nodes": 2, "collective": True}, "override": True,
        }
    )  # fmt: skip
    identifier = store.create(original, {"folder": str(app.state.service.settings.data)})
    page.goto(f"/experiments/{identifier}")
    page.get_by_role("link", name="Clone").click()
    page.get_by_role("button", name="Start").click()
    expect(page).to_have_url(re.compile("/experiments/[0-9a-f]+$"))
    clone = store.record(page.url.rsplit("/", 1)[1]).experiment
    for name in Experiment.model_fields:
        given, made_again = getattr(original, name), getattr(clone, name)
        if name in ("sampler_options", "resampling", "pruning", "stopping"):
            given, made_again = (
                json.loads(json.dumps(given), parse_int=str, parse_float=str),
                json.loads(json.dumps(made_again), parse_int=str, parse_float=str),
            )
            made_again = json.loads(json.dumps(made_again).replace('"3"', '"3.0"')) if name == "pruning" else made_again
        assert made_again == given, name
    made = page.url.rsplit("/", 1)[1]
    leave(page)
    for one in (identifier, made):
        app.state.service.jobs.stop(one)
        store.delete(one)


def test_the_experiments_page_answers_to_every_control(site, page):  # noqa: PLR0915  one walk
    _, app, made = site
    page.goto(f"/experiments/{made['finished']}")
    page.watched.settle(page)
    assert page.locator("[data-figure]").count() >= 10
    loaded = page.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".reduce((sum, one) => sum + one.encodedBodySize, 0)"
    )
    assert loaded <= 300 * 1024
    assert page.evaluate("document.documentElement.scrollHeight") <= 4000
    page.get_by_role("radio", name="trials, repeats taken together").check()
    title = "document.querySelector('[data-figure=trajectory]')._fullLayout.xaxis.title.text"
    assert page.evaluate(title) == "trial"
    page.get_by_role("radio", name="each run").check()
    assert page.evaluate(title) == "run"
    page.get_by_text("Each parameter by itself").click()
    expect(page.locator("#by-value .plot.drawn").first).to_be_visible()
    # Brushing by the lists, which is how a keyboard does it.
    page.get_by_text("Every configuration that was tried").click()
    expect(page.locator("[data-figure=parallel].drawn")).to_be_visible()
    whole = page.locator("#brushed").inner_text()
    page.get_by_text("Choose ranges", exact=True).click()
    page.get_by_label("cb_nodes from").select_option(label="4")
    expect(page.locator("#brushed")).to_have_text(re.compile(r"^\d+ of \d+ configurations$"))
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("#brushed")).to_have_text(whole)
    # And along an axis by the mouse.
    place = page.locator("[data-figure=parallel]")
    # Into the middle: the bars at the top would cover it.
    place.evaluate("one => one.scrollIntoView({block: 'center', behavior: 'instant'})")
    spot = page.evaluate(
        "(() => { const g = document.querySelector('[data-figure=parallel]'), l = g._fullLayout,"
        " b = g.querySelector('.nsewdrag').getBoundingClientRect();"
        " return [b.left + l.xaxis.c2p(1), b.top + l.yaxis.c2p(1), b.top + l.yaxis.c2p(0.6)]; })()"
    )
    page.mouse.move(spot[0], spot[1])
    page.mouse.down()
    page.mouse.move(spot[0], spot[2], steps=4)
    page.mouse.up()
    expect(page.locator("#brushed")).to_have_text(re.compile(r"^\d+ of \d+ configurations$"))
    assert page.locator("#next pre").inner_text().startswith(f"stripewise run {made['finished']} ")
    page.locator("#next button.copy").click()
    expect(page.locator("#toast")).to_have_text(re.compile("Cop"))
    page.get_by_role("link", name="Export", exact=True).click()
    expect(page.locator("#apply > details > pre, #apply .copyable").first).to_be_visible()
    with page.expect_download() as found:
        page.get_by_role("link", name="sbatch", exact=True).click()
    assert "#SBATCH" in Path(found.value.path()).read_text() or "export" in Path(found.value.path()).read_text()
    with page.expect_download() as found:
        page.get_by_role("link", name="Undo of hints").click()
    assert Path(found.value.path()).read_text().strip()
    with page.expect_download() as found:
        page.get_by_text("Download", exact=True).click()
        page.get_by_role("link", name="Helpdesk bundle").click()
    with zipfile.ZipFile(found.value.path()) as archive:
        assert any(name.endswith("/result.json") for name in archive.namelist())
    page.get_by_role("link", name="Does it still hold here?").click()
    expect(page.locator("#again + *")).to_contain_text(re.compile("cannot be told|Stale|are as they were", re.I))
    page.locator("#pairs").fill("6")
    page.get_by_role("button", name="Confirm again").click()
    expect(page.get_by_role("heading", name=re.compile("confirm"))).to_be_visible()
    again = page.url.rsplit("/", 1)[1]
    assert app.state.service.store.record(again).experiment.confirmation.pairs == 6
    leave(page)
    app.state.service.jobs.stop(again)
    app.state.service.store.delete(again)


def test_runs_are_filtered_and_show_what_they_printed(site, page):
    _, _, made = site
    page.goto(f"/experiments/{made['finished']}#runs")
    expect(page.locator("#runs tbody tr")).to_have_count(20)
    page.get_by_role("navigation", name="Pages of runs").get_by_role("link", name="next").click()
    expect(page.get_by_role("link", name="Run 25 with its output")).to_be_visible()
    page.get_by_role("navigation", name="States of runs").get_by_role("link", name="failed").click()
    expect(page.locator("#runs .state.failed").first).to_be_visible()
    assert page.locator("#runs .state:not(.failed)").count() == 0
    page.goto(f"/experiments/{made['finished']}/runs/3")
    # What a program prints is text, whatever it looks like.
    expect(page.locator("pre[aria-label=stdout]")).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0
    assert "\\u00" not in page.locator("main").inner_text()


def test_a_running_experiment_is_watched_live(site, page):
    _, app, _ = site
    store = app.state.service.store
    name = "watched"
    identifier = store.create(
        Experiment(name=name, command=["./app"], objective="write_bandwidth", budget=12),
        {"folder": str(app.state.service.settings.data)},
    )
    claim = store.claim(identifier, "ada@node1:1")
    store.update(identifier, claim=claim, state="running")
    page.goto(f"/experiments/{identifier}")
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.get_by_text("No runs yet.")).to_be_visible()
    store.plan(identifier, claim, Trial(0, Configuration({}), Role.DEFAULT), Run(0, 0, Phase.SEARCH))
    store.begin(identifier, claim, 0)
    expect(page.locator("#live-runs .state.running")).to_be_visible()
    store.accept(identifier, claim, Run(0, 0, Phase.SEARCH, State.FINISHED, 100.0, 1.0, time.time()))
    expect(page.locator("#live-runs .state.finished")).to_be_visible()
    expect(page.locator("#live-cards")).to_contain_text("100 MiB/s")
    expect(page.locator("[data-figure=trajectory].drawn")).to_be_visible()
    # A second page shows the overview, and follows as well.
    other = page.context.new_page()
    other.set_default_timeout(60_000)
    other.goto("/")
    row = other.locator(f"#row-{identifier}")
    expect(row).to_contain_text("1 of 12")
    for number in (1, 2):
        trial = Trial(number, Configuration({"cb_nodes": number}))
        store.plan(identifier, claim, trial, Run(number, number, Phase.SEARCH))
        store.begin(identifier, claim, number)
        done = Run(number, number, Phase.SEARCH, State.FINISHED, 100.0 * number + 50, 1.0, time.time())
        store.accept(identifier, claim, done)
    expect(row).to_contain_text("3 of 12")
    expect(row).to_contain_text("2.50×")
    expect(page.locator("#live-cards")).to_contain_text("250 MiB/s")
    store.request_stop(identifier)
    store.update(identifier, claim=claim, state="stopped")
    store.release(claim)
    expect(page.get_by_role("button", name=re.compile("^(Resume|Start)$"))).to_be_visible()
    # It is still followed, but nothing moves.
    expect(page.locator("body[data-connection=live]")).to_be_attached()
    expect(page.locator("#connection")).to_have_text("")
    other.close()
    leave(page)
    store.delete(identifier)


def test_models_are_trained_validated_asked_uploaded_and_deleted(site, page, tmp_path):  # noqa: PLR0915  one walk
    _, app, _ = site
    service = app.state.service
    page.goto("/models")
    page.get_by_label("Name of the model").fill("second")
    page.locator("#train-kind").select_option("linear")
    page.get_by_role("button", name="Train").click()
    expect(page.get_by_text("The model second is being trained")).to_be_visible()
    job = service.jobs.take("test", kinds=("training",))
    service.jobs.finish(job, "done", WORK["training"](job, service.settings.data, service.items, lambda: False))
    # The page follows by itself.
    expect(page.get_by_role("link", name="second").first).to_be_visible()
    page.locator("#val-kind").select_option("linear")
    page.get_by_role("button", name="Validate").click()
    expect(page.get_by_text("A worker is at it")).to_be_visible()
    job = service.jobs.take("test", kinds=("validation",))
    service.jobs.finish(job, "done", WORK["validation"](job, service.settings.data, service.items, lambda: False))
    expect(page.locator("[data-figure=accuracy].drawn")).to_be_visible()
    page.goto("/models/second")
    page.watched.settle(page)
    expect(page.locator("[data-figure=accuracy].drawn")).to_be_visible()
    page.get_by_label("nodes", exact=True).fill("4")
    page.get_by_text("Current settings").click()
    page.get_by_label("romio_cb_write").select_option("disable")
    page.get_by_role("button", name="Prescribe").click()
    expect(page.locator("#answer")).to_contain_text("Predicted")
    expect(page.locator("#answer")).to_contain_text("romio_cb_write")
    page.get_by_label("nodes", exact=True).fill("many")
    page.get_by_role("button", name="Prescribe").click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("nodes", re.I))
    with page.expect_download() as found:
        page.get_by_role("link", name="Download").click()
    page.goto("/models")
    page.locator("#model-name").fill("third")
    page.locator("#model-file").set_input_files(found.value.path())
    page.get_by_role("button", name="Upload the model").click()
    expect(page).to_have_url(re.compile("/models/third$"))
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile("/models$"))
    place = service.settings.data / "table" / "writes"
    page.locator("#table-name").fill("copy")
    page.locator("#table-csv").set_input_files(place / "table.csv")
    page.locator("#table-toml").set_input_files(place / "table.toml")
    page.get_by_role("button", name="Upload the table").click()
    expect(page.get_by_text("Tables kept here")).to_be_visible()
    expect(page.locator("li", has_text="copy")).to_be_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("li", has_text="copy").get_by_role("button", name="Delete").click()
    expect(page.locator("li", has_text="copy")).to_have_count(0)
    broken = tmp_path / "broken"
    broken.write_text("no model")
    page.locator("#model-name").fill("fourth")
    page.locator("#model-file").set_input_files(broken)
    page.get_by_role("button", name="Upload the model").click()
    expect(page.locator("[data-answer].wrong")).to_be_visible()
    page.watched.expected = (422,)


def test_campaigns_begin_from_a_preset_and_show_what_they_measured(site, page):
    _, app, made = site
    page.goto("/campaigns")
    page.get_by_role("link", name="quick", exact=True).last.click()
    text = page.get_by_label("Campaign file (TOML)")
    expect(text).to_have_value(re.compile('name = "quick"'))
    text.fill(text.input_value().replace('runner = "local"', 'runner = "sim:kay"'))
    page.get_by_role("button", name="Start the campaign").click()
    expect(page).to_have_url(re.compile("/campaigns/[0-9a-f]+$"))
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("waiting for a worker")).to_be_visible()
    identifier = page.url.rsplit("/", 1)[1]
    place = folder_of(app.state.service.settings.data, "campaign", identifier)
    plan = CampaignPlan(Points(campaign_in(place))).known({}).runs
    book = open_book(campaign_in(place), (1, 1), place / "journal")
    for planned in plan[:3]:
        trial = Trial(planned.trial, planned.point.values)
        book.plan(trial, Run(planned.number, planned.trial, Phase.SEARCH), new=book.trial(planned.trial) is None)
        book.accept(Run(planned.number, planned.trial, Phase.SEARCH, State.FINISHED, 100.0, elapsed=2.0))
    book.release()
    # The page follows by itself.
    expect(page.locator("#live-campaign")).to_contain_text(f"3 of {len(plan)}")
    expect(page.locator("#live-campaign")).to_contain_text("left, by the time of the runs so far")
    expect(page.locator("[data-figure=points].drawn")).to_be_visible()
    app.state.service.jobs.stop(identifier)
    page.goto("/campaigns")
    page.get_by_label("Campaign file (TOML)").fill("= wrong")
    page.get_by_role("button", name="Start the campaign").click()
    expect(page.get_by_role("alert")).to_contain_text("TOML")
    page.watched.expected = (422,)
    page.goto(f"/campaigns/{made['campaign']}")
    page.watched.settle(page)
    assert page.locator(".plot.drawn").count() >= 2
    tables = page.locator("main caption")
    expect(tables.first).to_contain_text("Best site defaults")
    page.get_by_role("button", name="Train model").click()
    expect(page.get_by_text("The model quick is being trained")).to_be_visible()
    app.state.service.jobs.stop("quick")
    page.goto(f"/campaigns/{made['campaign']}")
    with page.expect_download() as found:
        page.get_by_role("link", name="Table (CSV)").click()
    assert "bandwidth" in Path(found.value.path()).read_text()


def test_a_log_is_uploaded_and_diagnosed(site, page, tmp_path):
    log = tmp_path / "slow.json"
    log.write_text(json.dumps(next(iter(recorded("romio_patterns").values()))))
    page.goto("/diagnoses")
    page.get_by_label("A Darshan log").set_input_files(log)
    page.get_by_role("button", name="Diagnose").click()
    expect(page).to_have_url(re.compile("/diagnoses/[0-9a-f]+$"))
    page.watched.settle(page)
    expect(page.get_by_role("heading", name="What is slow, and why")).to_be_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile("/diagnoses$"))
    wrong = tmp_path / "wrong.darshan"
    wrong.write_text("no log")
    page.get_by_label("A Darshan log").set_input_files(wrong)
    page.get_by_role("button", name="Diagnose").click()
    expect(page.locator("[data-answer].wrong")).to_be_visible()
    page.watched.expected = (422,)


def test_dead_knobs_are_found_in_a_script(site, page):
    _, _, made = site
    page.goto("/knobs")
    page.get_by_label("Job script").fill(
        "export OMPI_MCA_fcoll=vulcan\nexport ROMIO_HINTS=h\n"
        f"cat > h <<E\nromio_cb_wrte enable\nE\nsrun ./a '{HOSTILE}'\n"
    )
    page.get_by_label("MPI library").select_option("mpich")
    page.get_by_label("Evidence of an experiment").select_option(made["finished"])
    page.get_by_role("button", name="Look for dead knobs").click()
    expect(page.locator("#answer")).to_contain_text("2 of 2 settings do nothing")
    expect(page.locator("#answer")).to_contain_text("romio_cb_write")
    page.get_by_label("Job script").fill("echo nothing")
    page.get_by_role("button", name="Look for dead knobs").click()
    expect(page.locator("#answer")).to_contain_text("No I/O setting was found")


def test_tokens_are_made_shown_once_and_revoked(site, page):
    page.goto("/settings")
    page.get_by_label("Name").fill("for the robot")
    page.get_by_label("Role").select_option("viewer")
    page.get_by_label("Days").fill("7")
    page.get_by_role("button", name="Make a token").click()
    secret = page.get_by_label("the secret", exact=True).inner_text()
    assert secret.startswith("sw_")
    page.goto("/settings")
    expect(page.get_by_text(secret)).to_have_count(0)
    row = page.get_by_role("row", name=re.compile("for the robot"))
    page.once("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row", name=re.compile("for the robot")).first).to_contain_text("revoked")
    expect(page.locator("#audit")).to_contain_text("POST /settings/tokens")


def test_a_keyboard_reaches_everything_and_a_narrow_menu_opens(site, page):
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.get_by_role("navigation", name="Pages", exact=True)).to_be_hidden()
    page.locator("details.menu summary").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("navigation", name="Pages", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("navigation", name="Pages", exact=True)).to_be_hidden()


def test_the_form_works_without_javascript(site, browser):
    base, app, _ = site
    _, secret = app.state.service.tokens.create("plain", "operator")
    context = browser.new_context(java_script_enabled=False, base_url=base)
    page = context.new_page()
    log_in(page, base, secret)
    page.goto("/new")
    page.get_by_role("textbox", name="Command", exact=True).fill("./no-such-program")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("textbox", name="Command", exact=True)).to_have_value("./no-such-program")
    context.close()
