"""The real page in a real browser, against the records that it was made from."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from leaderboards.board import build_board
from leaderboards.build import FOLDER
from leaderboards.contents import write_board
from published.numbers import read_published

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the browser is driven by playwright: pip install playwright"
)
pytestmark = pytest.mark.browser

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LABEL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
CAUSE = "<b>loss</b> is [not](javascript:alert(3)) finite <script>alert(4)</script>"


@pytest.fixture
def address(sample_records, make_record, tmp_path):
    """The app, started as a user starts it, on a board of records that no check would let pass."""
    hostile = [make_record("hostile", LABEL, seed, 0.2 + seed / 100) for seed in range(2)]
    failed = make_record("failing", "Failing", outcome="diverged", accuracy=None, cause=CAUSE)
    board = tmp_path / "board.parquet"
    published = read_published(FOLDER.parent / "published")
    write_board(build_board([*sample_records, *hostile, failed], published), board)
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


@pytest.mark.skipif(BROWSER is None, reason="no browser found: apt-get install chromium")
def test_numbers_on_the_page_are_those_of_the_records(address, sample_records):
    values = [
        record.metrics["test"]["accuracy"]
        for record in sample_records
        if record.label == "GPT2" and record.config["tasks"]["training_automata"] == 100
    ]
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=QUIET)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        dialogs: list[str] = []
        elsewhere: list[str] = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda r: (
                None if r.url.startswith((address, "data:", "blob:")) else elsewhere.append(r.url)
            ),
        )
        page.goto(address, timeout=60_000)
        row = page.locator(".mb tr", has=page.get_by_text("GPT2", exact=True))
        shown = float(row.locator("td.number").inner_text(timeout=60_000))
        assert shown == pytest.approx(sum(values) / len(values), abs=5e-5)
        assert page.locator(".mb-badge").inner_text() == "regbench · preset smoke"

        # What a record carries is shown as text, and nothing of it runs.
        assert page.get_by_text(LABEL, exact=True).is_visible()
        assert page.get_by_text(f"diverged in 1 of 1 seeds: {CAUSE}", exact=True).is_visible()
        assert page.locator(".mb script, .mb img, .mb b").count() == 0

        # The seeds of a row lead to its record, with the number of the file.
        row.locator("a").click()
        first = next(r for r in sample_records if r.label == "GPT2")
        cell = page.get_by_role("row", name="accuracy ↑ on test").get_by_role("cell")
        shown = float(cell.inner_text(timeout=60_000))
        assert shown == pytest.approx(first.headline.value, rel=1e-5)
        page.get_by_text(first.content_hash()).first.wait_for(timeout=60_000)

        for view in ("By position", "By training size"):
            page.get_by_role("radio", name=view).or_(page.get_by_role("button", name=view)).click()
            page.locator(
                "[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg"
            ).first.wait_for(timeout=60_000)
        assert not dialogs
        assert not elsewhere
        browser.close()
