"""Every number of the README's table and of the pages in docs/results is the committed board's."""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bench.records.schema import RunRecord
from ground.effects import Effect
from ground.errors import VERIFICATION_FAILED, UserError
from ground.escaping import markdown
from leaderboards import readme
from leaderboards.build import COMMITTED
from leaderboards.contents import Board, ClaimLine, read_board
from leaderboards.markdown import NOT_ASKED, ROWS_IN_README, homes_of, pages, summary
from leaderboards.pages.figures import PRESETS, figures_of, most_demanding
from leaderboards.render import VERDICTS
from leaderboards.tables.builder import build_board
from leaderboards.tables.verdicts import Claim, VerdictFile
from tests.leaderboards.conftest import record
from tests.leaderboards.tables_of_pages import tables_on, tables_whatever_the_steps

LINES = 120
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.fixture(scope="module")
def board() -> Board:
    return read_board(COMMITTED)


@pytest.fixture(scope="module")
def made(board: Board) -> dict[str, str]:
    return pages(board)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The README and its pages, to be spoiled."""
    shutil.copytree(readme.ROOT / "docs" / "results", tmp_path / "docs" / "results")
    shutil.copy(readme.ROOT / "README.md", tmp_path)
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    return tmp_path


def test_readme_and_pages_hold_the_results_of_the_committed_board() -> None:
    assert readme.main(["--check"]) == 0


def test_every_measured_headline_is_on_the_page_of_its_task(
    board: Board, made: dict[str, str]
) -> None:
    for row in board.rows:
        if row.headline and row.kind == "measured" and row.mean is not None:
            assert f"{row.mean:.3f}" in made[f"{row.task}.md"]


def test_every_verdict_is_on_the_page_of_the_task_of_its_records(
    board: Board, made: dict[str, str]
) -> None:
    tasks = {record.run_id: record.task for record in board.records}
    homes = homes_of(board)
    for claim in board.claims:
        page = made[f"{homes[claim.figure]}.md"]
        line = next(line for line in page.splitlines() if f"| {markdown(claim.sentence)} |" in line)
        assert any(word in line for word in VERDICTS)
        assert markdown(claim.evidence) in page
        for task in {tasks[run] for run in claim.run_ids}:  # every other page leads there
            assert f"{claim.figure}-{claim.preset}" in made[f"{task}.md"]


def test_verdicts_come_before_measurements_and_evidence_is_folded(made: dict[str, str]) -> None:
    for name, page in made.items():
        headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
        assert headings in (["Verdicts", "Measurements"], ["Measurements"], ["Verdicts", "Tasks"])
        assert page.count("<details>") == page.count("</details>"), name
        if name != "README.md":
            open_part = re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)
            assert "counts as reproduced" not in open_part


def test_every_link_between_pages_leads_somewhere(made: dict[str, str]) -> None:
    for page in made.values():
        for name, _, anchor in re.findall(r"\]\((\w+\.md)(#([\w-]+))?\)", page):
            assert name in made
            assert not anchor or f'<a id="{anchor}"></a>' in made[name]


def test_the_index_counts_every_claim_once(board: Board, made: dict[str, str]) -> None:
    lines = [line for line in made["README.md"].splitlines() if ".md#" in line]
    counts = [[int(cell) for cell in re.findall(r"(?<=\| )\d+(?= \|)", line)] for line in lines]
    for place, word in enumerate(VERDICTS):
        assert sum(row[place] for row in counts) == sum(c.verdict == word for c in board.claims)


def test_the_counts_of_claims_in_the_findings_are_those_of_the_board(board: Board) -> None:
    homes = homes_of(board)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for claim in board.claims:
        if claim.preset == "laptop" and claim.verdict != NOT_ASKED:
            for name in {homes[claim.figure], claim.figure}:  # pages with the name of a task
                counts[name][claim.verdict] += 1
    _, _, findings = (readme.ROOT / "README.md").read_text().partition("<!-- end of results -->")
    page, checked = r"\(docs/results/(\w+)\.md\)", 0
    linked = rf"(\d+) of (\d+)(?: claims)? on \[[^]]*\]{page}"
    for finding in re.split(r"^- ", findings.partition("\n## ")[0], flags=re.MULTILINE)[1:]:
        text = " ".join(finding.split())
        own = counts[re.findall(page, text)[0]]
        said = [  # which counts, how many of them are reproduced, and of how many
            *((own, n, n) for n in re.findall(r"all (?:of )?(\d+) claims", text)),
            *((own, n, of) for of, n in re.findall(r"of (\d+) claims (\d+) are reproduced", text)),
            *((counts[name], n, of) for n, of, name in re.findall(linked, text)),
        ]
        for found, reproduced, asked in said:
            assert (found["reproduced"], found.total()) == (int(reproduced), int(asked)), text
        for number in re.findall(r"and (\d+) contradicted", text):
            assert own["contradicted"] == int(number), text
        checked += len(said)
    assert checked >= 8


def test_the_readme_counts_each_figure_at_its_most_demanding_preset(board: Board) -> None:
    laptop_of_8 = ("figure8", "laptop")  # without it that figure is run at smoke alone
    kept = tuple(one for one in board.claims if (one.figure, one.preset) != laptop_of_8)
    board = replace(board, claims=kept)
    best = most_demanding(figures_of(board.claims))
    assert len(best) == len({claim.figure for claim in board.claims})
    at = {figure.name: figure.preset for figure in best}
    assert at["figure9"] == "laptop"
    counted = {name: preset for name, preset in at.items() if preset != "smoke"}
    assert 0 < len(counted) < len(at)  # what is run at smoke alone is told apart
    shown = [claim for claim in board.claims if counted.get(claim.figure) == claim.preset]
    judged = [claim for claim in shown if claim.verdict != NOT_ASKED]
    assert f"**{len(judged)} published claims" in summary(board)


def test_what_a_preset_does_not_ask_is_no_verdict(board: Board) -> None:
    def not_asked(claim: ClaimLine) -> ClaimLine:
        cost = "about 3 hours"
        return replace(claim, verdict=NOT_ASKED, asked_at="gpu", cost=cost, seeds_needed=None)

    claims = tuple(not_asked(c) if c.figure == "figure8" else c for c in board.claims)
    mine = [claim for claim in claims if claim.figure == "figure8" and claim.preset == "laptop"]
    best = most_demanding(figures_of(claims))
    counted = [claim for figure in best if figure.preset != "smoke" for claim in figure.claims]
    left_out = sum(claim.verdict == NOT_ASKED for claim in counted)
    made = pages(replace(board, claims=claims))
    shown = summary(replace(board, claims=claims))
    assert f"; for {left_out} more no runs are made yet" in shown
    page = made["wikipedia.md"].partition('id="figure8-laptop"')[2].partition("</details>")[0]
    assert page.count("○ not asked here (preset gpu asks it, with about 3 hours)") == len(mine) > 0
    [line] = [line for line in made["README.md"].splitlines() if "#figure8-laptop" in line]
    assert line.endswith(f"| 0 | 0 | 0 | {len(mine)} |")


def test_verdicts_without_records_are_refused(board: Board) -> None:
    lost = replace(board, claims=tuple(replace(claim, run_ids=()) for claim in board.claims))
    with pytest.raises(UserError, match="name no record of the board"):
        pages(lost)


def test_a_preset_that_somebody_added_comes_after_the_others(board: Board) -> None:
    own = record("gpt2", "GPT2", preset="a_preset_of_mine")
    made = pages(build_board([record("gpt2", "GPT2"), own]))
    assert "`smoke`, `a_preset_of_mine`" in made["README.md"]
    headings = re.findall(r"^### Preset `(\w+)`", made["regbench.md"], re.MULTILINE)
    assert headings == ["smoke", "a_preset_of_mine"]
    claims = [replace(claim, preset="a_preset_of_mine") for claim in board.claims]
    assert {figure.preset for figure in most_demanding(figures_of(board.claims))} <= set(PRESETS)
    added = replace(board, claims=(*board.claims, *claims))
    assert most_demanding(figures_of(added.claims)) == most_demanding(figures_of(board.claims))


PAYLOADS = [
    readme.START,
    readme.END,
    "a | b |\n| c | d |\n\n# e",
    "<script>alert(1)</script></details>",
    "[x](javascript:alert(1)) ![x](https://evil.example)",
    "__x__ **y** `z` $x$ &lt; \\",
]


def hostile(payload: str, place: str) -> Board:
    """A board that holds the payload as label, cause, name of a metric or setting of a record, as
    the variant of a table, or as any text of two verdicts."""
    label = payload if place == "label" else "GPT2"
    if place == "cause":
        return build_board([record("gpt2", label, accuracy=None, outcome="failed", cause=payload)])
    made = [record("gpt2", label, seed, 0.5 + seed / 9) for seed in (0, 1)]
    if place == "label":  # of a row that the sentence on fewer trials names
        tuned: dict[str, Any] = {"role": "final", "trials": 3}
        made = [record("gpt2", label, seed, 0.5 + seed / 9, **tuned) for seed in (0, 1)]
        made += [
            record("lstm", "LSTM", seed, 0.8 + seed / 90, **{**tuned, "trials": 8})
            for seed in (0, 1)
        ]
    if place == "metric":
        headline = made[0].headline.model_copy(update={"name": payload})
        metrics = {"test": {payload: 0.5}}
        made = [one.model_copy(update={"headline": headline, "metrics": metrics}) for one in made]
    if place == "key":
        config = {**made[0].config, "models": {payload: payload}}
        other = {"config": config, "identity": "f" * 64, "run_id": f"regbench-gpt2-{'f' * 12}-s0"}
        made.append(made[0].model_copy(update=other))
    if place == "variant":
        settings = {"training_automata": payload, payload: payload}
        made += [record("gpt2", seed=seed, task_settings=settings) for seed in (0, 1)]
    return build_board(made, verdicts=hostile_verdicts(payload, made) if place == "verdict" else ())


def hostile_verdicts(payload: str, records: Sequence[RunRecord]) -> list[VerdictFile]:
    """One of each kind, of a figure whose every text is the payload."""
    texts = dict.fromkeys(("source", "sentence", "tolerance", "evidence"), payload)
    more: list[dict[str, Any]] = [
        {"verdict": "reproduced", "set": payload, "p": 0.5},
        {"verdict": "contradicted", "effect": Effect(payload, 1.5, payload, 2.0)},
        {"verdict": "not enough evidence", "seeds_needed": 9},
        {"verdict": NOT_ASKED, "asked_at": payload, "cost": payload},
    ]
    claims = [Claim(name=f"{k} {payload}", seeds=2, **texts, **own) for k, own in enumerate(more)]
    run_ids = [one.run_id for one in records]
    parts: dict[str, Any] = {"title": payload, "records": run_ids, "claims": claims}
    return [
        VerdictFile(schema_version=1, figure="figure9", preset=preset, **parts)
        for preset in ("smoke", "laptop")
    ]


@pytest.mark.parametrize("place", ["label", "cause", "metric", "key", "variant", "verdict"])
def test_no_text_of_a_record_is_markdown_and_writing_twice_changes_nothing(place: str) -> None:
    kinds = []
    for payload in ("plain & simple", *PAYLOADS):
        board = hostile(payload, place)
        made, part = pages(board), summary(board)
        page = made["regbench.md"] + made["README.md"]
        kinds.append([_kinds(made["regbench.md"]), _kinds(made["README.md"]), _kinds(part)])
        once = readme.with_results(f"a\n{readme.START}\nb\n{readme.END}\nc\n", part, "README")
        assert readme.with_results(once, part, "README") == once
        assert once.startswith("a\n")
        assert once.endswith("\nc\n")
        assert len(re.findall(r"(?<!\\)<script|(?<!\\):(?=//)", page + part)) == 0
    assert all(kind == kinds[0] for kind in kinds)


def _kinds(page: str) -> list[str]:
    """What a parser of Markdown makes of a page, apart from the texts in it."""
    tokens = [part for token in MARKDOWN.parse(page) for part in (token, *(token.children or ()))]
    return [token.type for token in tokens if token.type not in ("text", "text_special")]


@given(st.lists(st.sampled_from([readme.START, readme.END, "\n", "x"]), max_size=6).map("".join))
def test_a_section_with_markers_does_not_grow(section: str) -> None:
    once = readme.with_results(f"a\n{readme.START}\n{readme.END}\nc\n", section, "README")
    assert readme.with_results(once, section, "README") == once


def test_an_edited_number_is_noticed(copy: Path) -> None:
    readme_file, page = copy / "README.md", copy / "docs" / "results" / "regbench.md"
    assert readme.main(["--check"]) == 0
    page.write_text(page.read_text().replace("0.", "1.", 1))
    text = readme.with_results(readme_file.read_text(), "| GPT2 | 1 | 0.999 |\n", "README.md")
    readme_file.write_text(text)
    with pytest.raises(UserError, match=r"README\.md, docs/results/regbench\.md are not") as found:
        readme.main(["--check"])
    assert found.value.exit_code == VERIFICATION_FAILED
    assert readme.main([]) == readme.main(["--check"]) == 0


def test_the_page_of_a_task_that_is_gone_is_refused_and_then_removed(copy: Path) -> None:
    old = copy / "docs" / "results" / "no_such_task.md"
    old.write_text("# A task that was removed\n")
    with pytest.raises(UserError, match=r"no task with the page docs/results/no_such_task\.md"):
        readme.main(["--check"])
    assert readme.main([]) == 0
    assert not old.exists()


def test_a_readme_without_its_markers_is_refused(copy: Path) -> None:
    (copy / "README.md").write_text(f"no {readme.START} second marker")
    with pytest.raises(UserError, match="must hold the lines"):
        readme.main([])


@pytest.fixture(scope="module")
def findings() -> list[str]:
    """What the README says it found, one text for each point of its list."""
    text = (readme.ROOT / "README.md").read_text()
    section = text.partition("## What was found")[2].partition("\n## ")[0]
    points = section.partition(readme.END)[2].split("\n- ")[1:]
    return [" ".join(point.partition("\n\n")[0].split()) for point in points]


def test_the_readme_is_short_and_says_its_scale(board: Board) -> None:
    text = (readme.ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= LINES
    run = {record.preset for record in board.records}
    for preset, size in re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", text, re.MULTILINE):
        assert ("not run yet" in size) == (preset not in run), preset


def test_the_tables_of_the_readme_say_how_many_rows_they_leave_out(made: dict[str, str]) -> None:
    """In each table of the README and on the page that it names: as many models, the best first. A
    model that has a table to itself is a line, with the number of the page. Most steps first."""
    section = (readme.ROOT / "README.md").read_text().partition(readme.END)[0]
    captions = re.findall(r"^(\*\*RegBench.*)$", section, re.MULTILINE)
    steps = [int(found) for found in re.findall(r"steps=(\d+)", "\n".join(captions))]
    assert steps == sorted(steps, reverse=True)
    [page] = set(re.findall(r" more stand in \[.*\]\(docs/results/(.*)\)", section))
    whose = re.compile(r"(\*\*RegBench.*?\)), accuracy on test: (.*?) (\d\.\d{3}), 95 % interval")
    lines = [line for caption in captions if (line := whose.match(caption))]
    for line in lines:
        [alone] = [own for own in made[page].split("\n\n**") if f"**{own}".startswith(line[1])]
        models = {name: value for name, (value, trained) in tables_on(alone)[0].items() if trained}
        assert models == {line[2]: line[3]}
    together = len(lines)
    tables = [caption for caption in captions if not whose.match(caption)]
    assert tables
    for caption in tables:
        own = section.partition(caption)[2].partition("\n**")[0]
        [shown] = tables_on(own)
        left_out = sum(map(int, re.findall(r"; (\d+) more stand in", own)))
        whole = made[page].partition(caption)[2]
        models = [name for name, (_, trained) in tables_on(whole)[0].items() if trained]
        assert models[: len(shown)] == list(shown)
        assert len(models) == len(shown) + left_out
        together += len(shown)
    assert together == ROWS_IN_README
    assert section.count("Predictors without training: ") == 1


def test_a_finding_that_gives_numbers_names_every_row_of_its_table(
    findings: list[str], made: dict[str, str]
) -> None:
    compared = 0
    for finding in findings:
        numbers = re.findall(r"\d\.\d{3}", finding)
        if not numbers:
            continue
        [page] = re.findall(r"docs/results/(\w+\.md)", finding)
        holding = [
            table
            for table in (*tables_on(made[page]), *tables_whatever_the_steps(made[page]))
            if {value for value, _ in table.values()} >= set(numbers)
        ]
        assert holding, f"no table on {page} has all numbers of: {finding}"
        trained = [{n: v for n, (v, model) in table.items() if model} for table in holding]
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
        verdicts.setdefault(homes_of(board)[figure.name], []).extend(words)
        verdicts[figure.name] = words
    text = " ".join(findings)
    counts = re.findall(r"(\d+) of (\d+) (?:claims )?on \[[^]]+\]\(docs/results/(\w+)", text)
    assert len(counts) == len(re.findall(r"\d+ of \d+", text))
    for reproduced, total, task in counts:
        assert verdicts[task].count("reproduced") == int(reproduced), task
        assert len(verdicts[task]) == int(total), task
    [(total, numbers)] = re.findall(r"all (\d+) claims of figures ([\d, and]+)", text)
    words = [word for n in re.findall(r"\d+", numbers) for word in verdicts[f"figure{n}"]]
    assert words == ["reproduced"] * int(total)
