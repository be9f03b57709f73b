"""Numbers and counts of docs/findings.md, and of pages that link a table, are the board's."""

import re
from collections import Counter, defaultdict

import pytest

from leaderboards import readme
from leaderboards.contents import Board
from leaderboards.markdown import homes_of, pages
from leaderboards.render import NOT_ASKED
from leaderboards.views.figures import figures_of, most_demanding
from tests.committed import committed_board
from tests.leaderboards.tables_of_pages import tables_on, tables_whatever_the_steps


@pytest.fixture(scope="module")
def board() -> Board:
    return committed_board()


@pytest.fixture(scope="module")
def made(board: Board) -> dict[str, str]:
    return pages(board)


@pytest.fixture(scope="module")
def findings() -> list[str]:
    """What the page of findings says, one text for each point of its list."""
    points = (readme.ROOT / "docs" / "findings.md").read_text().split("\n- ")[1:]
    return [" ".join(point.partition("\n\n")[0].split()) for point in points]


def test_the_counts_of_claims_in_the_findings_are_those_of_the_board(
    board: Board, findings: list[str]
) -> None:
    homes = homes_of(board)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for claim in board.claims:
        if claim.preset == "laptop" and claim.verdict != NOT_ASKED:
            for name in {homes[claim.figure], claim.figure}:  # pages with the name of a task
                counts[name][claim.verdict] += 1
    page, checked = r"\(results/(\w+)\.md(?:#[\w-]+)?\)", 0
    linked = rf"(\d+) of (\d+)(?: claims)? on \[[^]]*\]{page}"
    for text in findings:
        own = counts[re.findall(page, text)[0]]
        said = [  # which counts, how many of them are reproduced, and of how many
            *((own, n, n) for n in re.findall(r"all (?:of )?(\d+) claims(?! of figures)", text)),
            *((own, n, of) for of, n in re.findall(r"of (\d+) claims (\d+) are reproduced", text)),
            *((counts[name], n, of) for n, of, name in re.findall(linked, text)),
        ]
        for found, reproduced, asked in said:
            assert (found["reproduced"], found.total()) == (int(reproduced), int(asked)), text
        for number in re.findall(r"and (\d+) contradicted", text):
            assert own["contradicted"] == int(number), text
        checked += len(said)
    assert checked >= 8


def test_a_finding_that_gives_numbers_names_every_row_of_its_table(
    findings: list[str], made: dict[str, str]
) -> None:
    compared = 0
    for finding in findings:
        numbers = re.findall(r"\d\.\d{3}", finding)
        if not numbers:
            continue
        [page] = re.findall(r"\(results/(\w+\.md)", finding)
        holding = [
            table
            for table in (*tables_on(made[page]), *tables_whatever_the_steps(made[page]))
            if {value for value, _ in table.values()} >= set(numbers)
        ]
        assert holding, f"no table on {page} has all numbers of: {finding}"
        # What diverged has a row, and a sentence for a number.
        trained = [
            {n: v for n, (v, model) in table.items() if model and re.match(r"[-\d]", v)}
            for table in holding
        ]
        assert any(
            # Several settings of one model stand together under its label.
            all(n.partition(" (")[0] in finding and v in numbers for n, v in rows.items())
            for rows in trained
        ), f"a row is missing in: {finding}"
        compared += 1
    assert compared >= 3


def test_numbers_in_the_documentation_are_on_the_page_that_they_link(made: dict[str, str]) -> None:
    compared = 0
    for page in (readme.ROOT / "docs").glob("*.md"):
        for line in page.read_text().splitlines():
            for name in re.findall(r"\(results/(\w+\.md)\)", line):
                values = {value for table in tables_on(made[name]) for value, _ in table.values()}
                numbers = set(re.findall(r"\d\.\d{3}", line))
                assert numbers <= values, f"{page.name}: {numbers - values} are not on {name}"
                compared += len(numbers)
    assert compared > 20


def test_counts_of_claims_in_the_findings_are_those_of_the_board(
    findings: list[str], board: Board
) -> None:
    best = most_demanding(figures_of(board.claims))
    verdicts: dict[str, list[str]] = {}
    for figure in best:
        words = [claim.verdict for claim in figure.claims if claim.verdict != NOT_ASKED]
        home = homes_of(board)[figure.name]
        verdicts.setdefault(home, []).extend(words)
        if figure.name != home:
            verdicts[figure.name] = words
    text = " ".join(findings)
    counts = re.findall(r"(\d+) of (\d+) (?:claims )?on \[[^]]+\]\(results/(\w+)", text)
    assert len(counts) == len(re.findall(r"\d+ of \d+", text))
    for reproduced, total, task in counts:
        assert verdicts[task].count("reproduced") == int(reproduced), task
        assert len(verdicts[task]) == int(total), task
    [(total, numbers)] = re.findall(r"all (\d+) claims of figures ([\d, and]+)", text)
    words = [word for n in re.findall(r"\d+", numbers) for word in verdicts[f"figure{n}"]]
    assert words == ["reproduced"] * int(total)
