"""The site of a board: it holds the app's numbers, leads nowhere else, and nothing in it acts."""

import csv
import io
import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import altair as alt
import pyarrow.parquet as pq
import pytest
import yaml

from leaderboards.build import FOLDER
from leaderboards.contents import KeptBoard, OpenBoard
from leaderboards.site import folder
from leaderboards.site.addresses import from_page, place_of, slug, task_page
from leaderboards.site.assets import ASSETS
from leaderboards.site.site import Site
from leaderboards.site.tasks import task_of
from leaderboards.views import curves, models
from leaderboards.views.charts import chart
from leaderboards.views.columns import cell_text, columns
from leaderboards.views.links import Link, claim_id
from leaderboards.views.overview import overview
from leaderboards.views.tables import AT_FIRST, contents_of, headline_tables, lines, whole
from tests.leaderboards.boards import write_board
from tests.leaderboards.export.sites import LABEL, Read, broken, sample_board, unreached


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("board") / "board.parquet"
    write_board(sample_board(), place)
    return place


@pytest.fixture(scope="module")
def board(path: Path) -> OpenBoard:
    return OpenBoard(path)


@pytest.fixture(scope="module")
def files(path: Path) -> dict[str, bytes]:
    """The site without the libraries, which take seconds: the browser reads those."""
    shared = dict.fromkeys((*ASSETS, folder.LIST), b"")
    return {**shared, **dict(Site(path).own())}


@pytest.fixture(scope="module")
def pages(files: dict[str, bytes]) -> dict[str, Read]:
    return {place: Read(content.decode()) for place, content in files.items() if ".html" in place}


def test_every_address_leads_to_a_place_of_the_site(files: dict[str, bytes]) -> None:
    assert list(broken(files)) == []
    assert ".nojekyll" in files


def test_links_lead_from_the_first_page_to_every_other(files: dict[str, bytes]) -> None:
    assert unreached(files) == set()
    two = {"index.html": b'<a href="a/b.html"></a>', "a/b.html": b"<p></p>", "c.html": b"<p></p>"}
    assert unreached(two) == {"c.html"}


def test_a_link_to_a_page_that_the_site_lacks_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="the site has no page 'history'"):
        place_of(Link("history", ()))


def test_a_broken_link_would_be_found() -> None:
    site = {"index.html": b'<a href="a/b.html#x">', "a/b.html": b'<a href="https://evil.example">'}
    closed = {place: page + b"</a>" for place, page in site.items()}
    assert len(list(broken(closed))) == 2
    assert list(broken({"index.html": b'<a href="none.html"></a>'}))


def test_each_task_model_claim_and_record_has_a_page(
    board: OpenBoard, pages: dict[str, Read]
) -> None:
    assert {f"tasks/{slug(task)}.html" for task in board.tasks()} <= pages.keys()
    assert {f"models/{slug(model)}.html" for model in models.models(board)} <= pages.keys()
    claims = {f"claims/{slug(claim_id(claim))}.html": claim for claim in board.claims()}
    assert len(claims) == len(board.claims()) == 9
    for place, claim in claims.items():
        assert claim.sentence.partition("\u202e")[0] in pages[place].text
    found = [one for task in board.tasks() for one in board.distinct("records", task, "run_id")]
    assert {f"records/{slug(run_id)}.html" for (run_id,) in found} <= pages.keys()


def test_the_first_page_says_what_the_app_says(board: OpenBoard, pages: dict[str, Read]) -> None:
    made, page = overview(board), pages["index.html"]
    assert made.sentence in page.text
    assert board.sha256 in page.text
    cells = [own for tag, own in page.tags if tag == "a" and "cell" in (own.get("class") or "")]
    known = [cell for _, group in made.matrix.groups for line in group for cell in line.cells]
    assert [own["aria-label"] for own in cells] == [cell.words for cell in known if cell]
    address = from_page("index.html")
    assert [own["href"] for own in cells] == [address(cell.link) for cell in known if cell]
    for one in made.verdicts:
        assert f"{one.count} {one.verdict}" in page.text
        assert address(one.link) in page.addresses


def test_every_headline_table_holds_the_numbers_of_the_app(
    board: OpenBoard, pages: dict[str, Read]
) -> None:
    seen = 0
    for task in board.tasks():
        page, address = pages[task_page(task)], from_page(task_page(task))
        anchors = {shown.table.place: shown.anchor for shown in task_of(board, task).tables}
        for table in (whole(board, brief) for brief in headline_tables(board, task)):
            wanted = lines(table.rows, contents_of(board, table.rows), address)
            names = columns(wanted, AT_FIRST)
            head, *rows = page.tables[anchors[table.place]]
            titles = [text for text, _ in head]
            assert titles[:2] == names[:2]
            assert titles[2].startswith(table.metric)
            assert len(rows) == len(wanted) == len(table.rows)
            for row, line in zip(rows, wanted, strict=True):
                for name, (text, order) in zip(names, row, strict=True):
                    _compare(name, line[name], text, order)
                    seen += isinstance(line[name], float)
    assert seen > 100


def _compare(name: str, value: object, text: str, order: str | None) -> None:
    if isinstance(value, float | int):
        assert order is not None
        assert float(order) == value
        assert text == cell_text(name, value)
        if name in ("score", "low", "high"):
            assert float(text) == pytest.approx(value, abs=5.1e-5)
    elif name == "record":
        assert text == ("open" if value else "")
    elif value is None:
        assert text == "–"
    else:
        assert text.isprintable()


def test_numbers_are_written_as_the_columns_ask() -> None:
    assert [
        cell_text("score", 0.12345),
        cell_text("p", 0.0123),
        cell_text("parameters", 1234567),
    ] == [
        "0.1235" if f"{0.12345:.4f}" == "0.1235" else "0.1234",
        "0.012",
        "1,234,567",
    ]
    assert (cell_text("state bytes", 2_500_000), cell_text("steps", None)) == ("2.5 M", "–")
    assert (cell_text("training.lr", 5e-4), cell_text("seeds", 3)) == ("0.0005", "3")


def test_nothing_of_a_record_acts_anywhere(pages: dict[str, Read], files: dict[str, bytes]) -> None:
    own = {"../assets/site.js", "../assets/tables.js", "../assets/vega.js"}
    own |= {name.removeprefix("../") for name in own}
    for place, page in pages.items():
        for tag, attributes in page.tags:
            assert not any(key.startswith("on") for key in attributes), place
            assert tag not in ("b", "iframe", "object", "base", "form"), place
            if tag == "script":
                assert attributes.get("src") in own or attributes["type"] == "application/json"
            if tag == "img":
                assert str(attributes["src"]).rpartition("badges/")[1]
        assert "\u202e" not in files[place].decode()
        assert "\x1b" not in files[place].decode()
    assert LABEL in pages[f"models/{slug('hostile')}.html"].text
    specs = [spec for page in pages.values() for spec in page.specs]
    assert any(LABEL in json.dumps(spec) for spec in specs)
    for place in (place for place in files if place.endswith(".svg")):
        assert ElementTree.fromstring(files[place]).tag.endswith("svg")


def test_a_page_asks_for_what_it_shows_and_lets_nothing_else_in(pages: dict[str, Read]) -> None:
    for place, page in pages.items():
        [policy] = [
            own["content"] for tag, own in page.tags if tag == "meta" and "http-equiv" in own
        ]
        assert policy is not None
        assert policy.startswith("default-src 'none'; script-src 'self' blob:;")
        assert "unsafe-eval" not in policy
        loaded = {
            str(own.get("src")).rpartition("/")[2] for tag, own in page.tags if tag == "script"
        }
        assert ("vega.js" in loaded) == bool(page.specs), place
        has_grid = any(own.get("class") == "grid" for tag, own in page.tags if tag == "table")
        assert ("tables.js" in loaded) == has_grid, place


def test_every_chart_is_one_that_altair_accepts(board: OpenBoard, pages: dict[str, Read]) -> None:
    """One of each kind of a page, by the marks of its layers, and what the app alone draws."""
    found = curves.with_legend_names(
        board.lines("regbench", by_size=False, metric="accuracy_by_position")
    )
    drawn = [(name, line, (1,) * len(line.x)) for name, line in found]
    names = {name: line.model for name, line in found}
    logarithmic = chart(drawn, names, "a title ↑", True)
    specs = pages[task_page("regbench")].specs
    kinds = {json.dumps([layer["mark"] for layer in spec["layer"]]): spec for spec in specs}
    assert len(kinds) > 1
    for spec in (logarithmic, *kinds.values()):
        alt.LayerChart.validate(spec)


def test_rows_lie_beside_their_page(board: OpenBoard, files: dict[str, bytes]) -> None:
    rows = board.rows("regbench")
    table = pq.read_table(io.BytesIO(files["data/regbench.parquet"]))
    assert table["mean"].to_pylist() == [row.mean for row in rows]
    read = list(csv.DictReader(io.StringIO(files["data/regbench.csv"].decode(), newline="")))
    known = [row.mean for row in rows]
    assert [float(row["mean"]) if row["mean"] else None for row in read] == known


def test_a_table_to_cite_has_its_numbers_and_the_hash_of_the_board(
    board: OpenBoard, files: dict[str, bytes]
) -> None:
    shown = task_of(board, "regbench").tables[0]
    latex = files[f"{shown.name}.tex"].decode()
    assert latex.startswith(f"% board {board.sha256}\n")
    body = latex.partition(r"\hline" "\n")[2].partition(r"\hline" "\n")[2].partition(r"\hline")[0]
    cells = [line.removesuffix(r" \\").split(" & ") for line in body.splitlines()]
    assert len(cells) == len(shown.table.rows)
    for line, row in zip(cells, shown.table.rows, strict=True):
        if row.outcome == "ok" and row.mean is not None:
            assert math.isclose(float(line[2]), row.mean, abs_tol=5.1e-5)
    entry = files[f"{shown.name}.bib"].decode()
    assert entry.startswith(f"% board {board.sha256}\n@misc{{memory-bench-")
    assert entry.count("{") == entry.count("}")
    assert "year = {2026}" in entry
    citation = yaml.safe_load(files["CITATION.cff"])
    assert citation["identifiers"][-1]["value"] == f"sha256:{board.sha256}"
    assert (
        citation["title"] == yaml.safe_load((FOLDER.parent / "CITATION.cff").read_text())["title"]
    )


def test_badges_say_who_leads(board: OpenBoard, files: dict[str, bytes]) -> None:
    told = json.loads(files["badges/tasks/regbench.json"])
    ahead = task_of(board, "regbench").tables[0].table.rows
    leaders = {row.label for row in ahead if row.rank_best == 1}
    assert told["schemaVersion"] == 1
    assert told["message"].startswith(f"{min(leaders)} leads" if len(leaders) == 1 else "")
    text = ElementTree.fromstring(files["badges/models/hostile.svg"]).findtext("{*}title")
    assert text is not None
    assert text.startswith(LABEL[:20])


def test_two_boards_of_equal_bytes_give_equal_sites(path: Path, files: dict[str, bytes]) -> None:
    assert dict(Site(path).own()).items() <= files.items()


def test_a_board_that_keeps_answers_gives_those_of_the_board(path: Path) -> None:
    kept, plain = KeptBoard(path), OpenBoard(path)
    some = [row.run_ids[0] for row in plain.rows("regbench", kind="measured")][:3]
    for _ in range(2):
        for where in (
            {},
            {"preset": "smoke"},
            {"kind": ["measured", "reference"]},
            {"rank_best": 1},
        ):
            assert kept.rows("regbench", **where) == plain.rows("regbench", **where)
        assert kept.records("regbench", run_id=some) == plain.records("regbench", run_id=some)
        asked = ("records", "regbench", "run_id", "seed")
        assert kept.distinct(*asked, run_id=some) == plain.distinct(*asked, run_id=some)
        assert kept.rows("nothing") == []
        assert kept.lines("regbench", by_size=True) == plain.lines("regbench", by_size=True)
