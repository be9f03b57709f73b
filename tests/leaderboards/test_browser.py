"""The real page in a real browser, against the records that it was made from."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from leaderboards.app import PAGES
from leaderboards.build import FOLDER
from leaderboards.tables.builder import build_board
from leaderboards.tables.verdicts import FigureVerdicts, JudgedClaim
from reproduce.published.numbers import read_published
from tests.leaderboards.boards import write_board
from tests.leaderboards.conftest import as_searched, record, samples

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the browser is driven by playwright: pip install playwright"
)
Axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
).Axe
pytestmark = pytest.mark.browser

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PATIENCE = 180_000  # milliseconds: a busy machine draws slowly
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LABEL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
HELD_OUT = {"preset": "laptop", "task_settings": {"variant": "held_out"}}
LANGUAGES = [
    record(name.replace(" ", "_"), name, 0, value, role="baseline", **HELD_OUT)
    for name, value in (("uniform over seen letters", 0.2), ("oracle", 1.0))
] + [
    run
    for model, level in (("gpt2", 0.6), ("lstm", 0.4))
    for run in as_searched(
        [
            record(model, model.upper(), seed, level + seed / 100, role="final", **HELD_OUT)
            for seed in range(3)
        ]
    )
]
CAUSE = "<b>loss</b> is [not](javascript:alert(3)) finite <script>alert(4)</script>"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The app, started as a user starts it, on a board of records that no check would let pass."""
    hostile = [record("hostile", LABEL, seed, 0.2 + seed / 100) for seed in range(2)]
    failed = record("failing", "Failing", outcome="diverged", accuracy=None, cause=CAUSE)
    records = [*samples(), *hostile, failed, *LANGUAGES]
    run = next(one.run_id for one in records if one.role == "final")
    verdicts = [
        FigureVerdicts(
            schema_version=1,
            figure="figure9",
            preset="laptop",
            title="RegBench",
            records=[run],
            claims=[
                JudgedClaim(
                    name=verdict,
                    source="Figure 9",
                    sentence=f"It is {verdict}: {CAUSE}",
                    tolerance="difference above 0",
                    verdict=verdict,
                    evidence="difference +0.402",
                    seeds=3,
                )
                for verdict in ("reproduced", "contradicted", "not enough evidence")
            ],
        )
    ]
    board = tmp_path_factory.mktemp("board") / "board.parquet"
    published = read_published(FOLDER.parent / "reproduce" / "published")
    write_board(build_board(records, published, verdicts), board)
    server = subprocess.Popen(
        [sys.executable, "-m", "leaderboards.serve", f"board={board}", "port=0"],
        cwd=FOLDER.parent,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        found = None
        for line in server.stdout:  # ends when the server does
            found = re.search(r"open (http://localhost:\d+)", line)
            if found:  # it is told once the server listens
                break
        assert found, "the server printed no address"
        yield found[1]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


@pytest.fixture
def visit(address):
    """Opens a page of the app in a window, and waits until it is drawn; nothing else is asked for
    anything, and no dialog opens."""
    if BROWSER is None:
        pytest.skip("no browser found: apt-get install chromium")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=QUIET)
        unwanted: list[str] = []

        def open_it(place: str, theme: str = "light", width: int = 1400, height: int = 1000):
            size = {"width": width, "height": height}
            page = browser.new_context(viewport=size, color_scheme=theme).new_page()
            page.on("dialog", lambda one: (unwanted.append(one.message), one.dismiss()))
            page.on("request", lambda one: unwanted.extend(_elsewhere(one.url, address)))
            page.goto(place if place.startswith("http") else address + place, timeout=PATIENCE)
            drawn(page)
            return page

        yield open_it
        browser.close()
        assert not unwanted


def _elsewhere(url, address):
    return [] if url.startswith((address, "data:", "blob:")) else [url]


def drawn(page):
    """Wait until the page's last part is there."""
    page.locator(".mb h1").first.wait_for(timeout=PATIENCE)
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for(
        timeout=PATIENCE
    )
    sync_api.expect(page.locator("[data-testid=stSkeleton]")).to_have_count(0, timeout=PATIENCE)
    return page


def overhang(page):
    """By how many pixels the page is wider than its window."""
    return page.evaluate(
        "Math.max(...[document.documentElement, ...document.querySelectorAll('.stMain')]"
        ".map(part => part.scrollWidth - part.clientWidth))"
    )


def serious(page):
    """What axe finds that keeps somebody out."""
    found = Axe().run(page).response["violations"]
    return [
        (one["id"], node["html"][:200])
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def lies_on_screen(page, selector):
    box = page.locator(selector).first.bounding_box()
    return box is not None and box["y"] + min(box["height"], 40) < page.viewport_size["height"]


def test_the_first_screen_answers_and_three_clicks_lead_to_the_record(visit):
    page = visit("/")
    for part in (".mb .lead", ".mb .stack", ".mb .trust", ".mb .matrix tbody tr + tr"):
        assert lies_on_screen(page, part), part
    assert overhang(page) <= 0
    assert serious(page) == []
    assert page.locator(".mb script, .mb img, .mb b").count() == 0

    # A key reaches a cell, with what it says in words; it leads to the table, that to a record.
    cell = page.locator(".cell.sure").first
    cell.focus()
    assert "RegBench" in cell.get_attribute("aria-label")
    page.keyboard.press("Enter")
    page.wait_for_url("**/task?**", timeout=PATIENCE)
    drawn(page)
    page.get_by_role("link", name="record 1").first.click()
    page.wait_for_url("**/record?**", timeout=PATIENCE)
    drawn(page)
    found = next(one for one in LANGUAGES if one.run_id in page.url)
    shown = page.get_by_role("row", name="accuracy ↑ on test").get_by_role("cell").inner_text()
    assert float(shown) == pytest.approx(found.headline.value, rel=1e-5)
    assert page.get_by_text(found.content_hash()).first.is_visible()


def test_a_copied_address_shows_the_same_and_the_theme_is_the_readers(visit):
    page = visit("/task?preset=smoke&configuration=training_automata%3D100")
    page.get_by_role("combobox", name="Order").click()
    page.get_by_role("option", name="parameters").click()
    page.wait_for_url("**order=parameters**", timeout=PATIENCE)
    drawn(page)
    copied = visit(page.url, theme="dark")
    assert copied.get_by_role("combobox", name="Order").input_value() == "parameters"
    leads = page.locator(".mb .lead").all_inner_texts()
    assert leads
    assert copied.locator(".mb .lead").all_inner_texts() == leads
    ground, dark = (_background(one) for one in (page, copied))
    assert sum(dark) < 200 < 600 < sum(ground)
    assert serious(copied) == []
    # What a record carries is shown as text, and nothing of it runs.
    hostile = visit("/model?model=hostile")
    assert hostile.get_by_role("heading", name=LABEL).is_visible()
    assert hostile.locator(".mb script, .mb img, .mb b").count() == 0


def _background(page):
    painted = page.locator("[data-testid=stApp]").evaluate(
        "app => getComputedStyle(app).backgroundColor"
    )
    return [int(number) for number in re.findall(r"\d+", painted)[:3]]


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_every_page_whole(visit, name):
    page = visit("/" if name == PAGES[0] else f"/{name}", theme="dark", width=390, height=844)
    assert overhang(page) <= 0
    assert serious(page) == []
