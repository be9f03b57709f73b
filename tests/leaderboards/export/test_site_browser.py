"""An exported site in a real browser, opened from its folder: it asks nobody for anything."""

from pathlib import Path

import pytest

from leaderboards import export
from tests.leaderboards.boards import write_board
from tests.leaderboards.export.sites import LABEL, sample_board
from tests.leaderboards.test_browser import BROWSER, PATIENCE, QUIET, serious, sync_api

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, as the command writes it, libraries included."""
    folder = tmp_path_factory.mktemp("site")
    write_board(sample_board(), folder / "board.parquet")
    assert export.main([str(folder / "site"), f"board={folder / 'board.parquet'}"]) == 0
    return folder / "site"


@pytest.fixture
def visit(site: Path):
    """Opens a page in a window; whatever is asked of others, every dialog and error is kept."""
    if BROWSER is None:
        pytest.skip("no browser found: apt-get install chromium")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=QUIET)
        unwanted: list[str] = []

        def open_it(place: str, theme: str = "light", width: int = 1400):
            size = {"width": width, "height": 900}
            page = browser.new_context(viewport=size, color_scheme=theme, offline=True).new_page()
            page.on("dialog", lambda one: (unwanted.append(one.message), one.dismiss()))
            page.on("pageerror", lambda one: unwanted.append(str(one)))
            page.on("console", lambda one: unwanted.extend(_errors(one)))
            page.on("request", lambda one: unwanted.extend(_elsewhere(one.url)))
            page.goto(f"{site.as_uri()}/{place}", timeout=PATIENCE)
            return page

        yield open_it
        browser.close()
        assert not unwanted


def _errors(message) -> list[str]:
    # The page's policy stops axe, which wants to read style sheets again.
    by_axe = "connect-src" in message.text
    return [message.text] if message.type == "error" and not by_axe else []


def _elsewhere(address: str) -> list[str]:
    return [] if address.startswith(("file:", "blob:", "data:")) else [address]


def test_a_visit_leads_from_the_overview_to_a_table_that_sorts_and_its_charts(visit) -> None:
    page = visit("index.html")
    assert serious(page) == []
    page.get_by_role("link", name="RegBench").last.click()
    page.wait_for_url("**/tasks/regbench.html", timeout=PATIENCE)
    table = page.locator("table.dataTable").first
    table.wait_for(timeout=PATIENCE)
    score = table.locator("tbody td:nth-child(3)")
    head = table.locator("thead th").nth(2)
    for order in ("ascending", "descending"):
        # By a key, and until the page says so: charts that are drawn meanwhile move what a
        # pointer aims at, and a busy machine sorts later than it takes the key.
        head.get_by_role("button").focus()
        page.keyboard.press("Enter")
        sorted_head = table.locator(f"thead th:nth-child(3)[aria-sort={order}]")
        sorted_head.wait_for(timeout=PATIENCE)
        shown = [float(text) for text in score.all_inner_texts() if text != "–"]
        assert len(shown) > 2
        assert shown == sorted(shown, reverse=order == "descending")
    chart = page.locator("figure.chart svg").first
    chart.wait_for(timeout=PATIENCE)
    assert chart.locator("path").count() > 5
    page.locator("summary", has_text="accuracy_by_position").first.focus()
    page.keyboard.press("Enter")
    page.locator("details[open] figure.chart svg").first.wait_for(timeout=PATIENCE)
    assert serious(page) == []


def test_a_phone_in_the_dark_shows_hostile_texts_as_they_are(visit) -> None:
    for place in ("index.html", "models/hostile.html", "claims/index.html", "tasks/regbench.html"):
        page = visit(place, theme="dark", width=390)
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0
        if "models" in place:
            page.locator("table.dataTable").first.wait_for(timeout=PATIENCE)
            assert page.get_by_role("heading", name=LABEL).is_visible()
