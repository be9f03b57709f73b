"""What the pages show, against arithmetic that is done here once more."""

import random
from dataclasses import replace

import altair as alt
import pytest

from bench.config.groups import card, choices
from bench.records.schema import Examination
from leaderboards.contents import ClaimLine, ModelCurve, OpenBoard, Replication
from leaderboards.tables.builder import build_board
from leaderboards.views import cost, overview
from leaderboards.views.abilities import scale as abilities
from leaderboards.views.charts import ON_DARK
from leaderboards.views.claims import detail, filtered, lines
from leaderboards.views.curves import binned
from leaderboards.views.dots import dots
from leaderboards.views.links import in_app, to_claim, to_table
from leaderboards.views.records import again_lines, record, trust_facts
from leaderboards.views.tables import headline_tables, matching, opening, ordered, unique_names
from leaderboards.views.tables import lines as table_lines
from leaderboards.views.trust import bar
from reproduce.plotting.models import look
from tests.leaderboards.views.conftest import language_board, with_ends

LANGUAGE = "learn a language in context"


def cell_of(board: OpenBoard, model: str, ability: str = LANGUAGE):
    matrix = overview.overview(board).matrix
    place = matrix.abilities.index(ability)
    found = {line.model: line for _, group in matrix.groups for line in group}
    return found[model].cells[place]


def test_a_cell_has_its_rank_and_its_place_between_floor_and_oracle(opened, make_record):
    board = language_board(make_record, {"gpt2": (0.59, 0.6, 0.61), "lstm": (0.39, 0.4, 0.41)})
    first, second = (cell_of(opened(board), model) for model in ("gpt2", "lstm"))
    assert (first.rank, first.score, first.state) == ("1", "50%", overview.SURE)
    assert first.place == pytest.approx((0.6 - 0.2) / (1.0 - 0.2))
    assert (second.rank, second.score) == ("2", "25%")
    assert "rank 1 of 2" in first.words
    assert "GPT2, learn a language in context by RegBench, laptop" in first.words
    row = next(row for row in board.rows if row.model == "gpt2" and row.headline)
    assert first.link == to_table(row, selected="gpt2")


def test_cells_say_what_is_unsure_planned_or_failed(opened, make_record):
    settings = {"preset": "laptop", "task_settings": {"variant": "held_out"}}
    records = with_ends(make_record, **settings)
    records += [
        make_record("gpt2", "GPT2", n, 0.6 + n / 100, study=None, **settings) for n in (0, 1)
    ]
    records.append(make_record("lstm", "LSTM", 0, 0.5, role="final", trials=3, **settings))
    lost = {"outcome": "diverged", "accuracy": None, "cause": "loss is not finite"}
    records.append(make_record("s4d", "S4D", 0, **lost, **settings))
    board = opened(build_board(records))
    states = {model: cell_of(board, model).state for model in ("gpt2", "lstm", "s4d", "mamba")}
    assert states == {
        "gpt2": overview.PALE,
        "lstm": overview.PALE,
        "s4d": overview.FAILED,
        "mamba": overview.PLANNED,
    }
    assert "untuned" in cell_of(board, "gpt2").words
    assert "one seed" in cell_of(board, "lstm").words
    assert "loss is not finite" in cell_of(board, "s4d").words


def test_only_configurations_that_the_card_asks_for_are_in_the_matrix(opened, make_record):
    iid = {"preset": "laptop", "task_settings": {"variant": "iid"}}
    records = [make_record("gpt2", "GPT2", seed, 0.9 + seed / 100, **iid) for seed in (0, 1)]
    assert cell_of(opened(build_board(records)), "gpt2").state == overview.PLANNED


def test_a_new_task_is_in_the_matrix_by_its_own_card(opened, make_record, monkeypatch):
    own = {"headline": {"name": "accuracy"}, "abilities": {"swim": {"floor": 0, "oracle": 1}}}
    cards = {"pool": own}
    monkeypatch.setattr(abilities, "choices", lambda group: list(cards))
    monkeypatch.setattr(abilities, "card", lambda group, name: cards[name])
    abilities.tests.cache_clear()
    try:
        records = [make_record("gpt2", "GPT2", n, 0.5 + n / 4, task="pool") for n in (0, 1)]
        matrix = overview.overview(opened(build_board(records))).matrix
        assert matrix.abilities == ("swim",)
        assert matrix.groups[0][1][0].cells[0].score == "62%"
    finally:
        abilities.tests.cache_clear()


@pytest.mark.parametrize("task", choices("tasks"))
def test_ends_on_cards_are_numbers_or_predictors_of_the_task(task):
    content = card("tasks", task)
    for test in abilities.tests_of(task, content):
        assert test.metric
        assert test.ability in abilities.described()
        for end in (test.floor, test.oracle):
            named = not isinstance(end, str) or end in content["predictors"]
            assert named, f"{task}: {end} is no predictor"


def test_the_sentence_says_who_leads_and_what_is_open(opened, make_record):
    clear = language_board(make_record, {"gpt2": (0.59, 0.6, 0.61), "lstm": (0.39, 0.4, 0.41)})
    said = overview.overview(opened(clear)).sentence
    assert said.startswith("GPT2 leads in language; nothing is measured yet in recall")
    assert "No published claim has a verdict yet." in said
    small = language_board(make_record, {"gpt2": (0.6, 0.61)}, preset="smoke")
    said = overview.overview(opened(small)).sentence
    assert "only a test of the machinery is measured in language" in said[0].lower() + said[1:]
    levels = {"gpt2": (0.5, 0.6, 0.7), "lstm": (0.51, 0.6, 0.69)}
    assert "no single model leads in language (GPT2 or LSTM)" in said_lower(
        opened, make_record, levels
    )


def test_a_model_does_not_lead_its_own_settings(opened, make_record):
    fields = {"preset": "laptop", "task_settings": {"variant": "held_out"}}
    alone = with_ends(make_record, **fields)
    for width, level in ((64, 0.9), (32, 0.7)):
        for seed, aside in enumerate((-0.01, 0.0, 0.01)):
            own = {"role": "final", "trials": 3, "width": width, **fields}
            alone.append(make_record("gpt2", "GPT2", seed, level + aside, **own))
    board = opened(build_board(alone))
    assert "GPT2 is ranked with no other in language" in overview.overview(board).sentence
    rows = board.rows("regbench", preset="laptop", metric="accuracy")
    shown = [line["model"] for line in table_lines(rows, {}) if line["model"].startswith("GPT2")]
    assert shown == ["GPT2 (width=64)", "GPT2 (width=32)"]


def said_lower(opened, make_record, levels):
    said = overview.overview(opened(language_board(make_record, levels))).sentence
    return said[0].lower() + said[1:]


def a_claim(verdict="reproduced", name="n", **changes) -> ClaimLine:
    fields = {
        "figure": "figure9",
        "title": "RegBench",
        "preset": "laptop",
        "source": "Figure 9",
        "sentence": f"The Mosaic is {name}.",
        "tolerance": "difference above 0. Control: the untrained network must fail",
        "evidence": "difference +0.402. The control, the untrained network, fails as it must (+0)",
        "seeds": 3,
        "seeds_needed": None,
        "asked_at": "",
        "cost": "",
        "run_ids": (),
    }
    return ClaimLine(name=name, verdict=verdict, **{**fields, **changes})


def test_the_bar_of_verdicts_has_the_contradicted_first_and_every_one_is_a_link(
    opened, make_record
):
    board = language_board(make_record, {"gpt2": (0.6, 0.61)})
    known = tuple(record.run_id for record in board.records)
    verdicts = ["reproduced"] * 3 + ["contradicted", "not enough evidence", "not asked here"]
    claims = [a_claim(word, f"n{i}", run_ids=known) for i, word in enumerate(verdicts)]
    claims.append(a_claim("contradicted", "small", preset="smoke", figure="table3", run_ids=known))
    board = replace(board, claims=tuple(claims))
    page = overview.overview(opened(board))
    assert [(one.verdict, one.count) for one in page.verdicts] == [
        ("contradicted", 1),
        ("reproduced", 3),
        ("not enough evidence", 1),
        ("not asked here", 1),
    ]
    assert in_app(page.verdicts[0].link) == "claims?verdict=contradicted"
    assert page.contradicted == ((claims[3].sentence, to_claim(claims[3])),)
    assert (
        "3 of 5 published claims are reproduced, 1 contradicted and 1 still open" in page.sentence
    )


def test_a_claim_is_told_with_its_control_and_its_records(opened, make_record):
    board = language_board(make_record, {"gpt2": (0.6, 0.61)})
    run = board.records[0].run_id
    claim = a_claim(run_ids=(run, "elsewhere"))
    found = detail(opened(replace(board, claims=(claim,))), claim)
    assert found.rule == "difference above 0"
    assert found.evidence == "difference +0.402"
    assert found.control[0] == "Control: the untrained network must fail"
    assert found.control[1].startswith("The control, the untrained network, fails")
    assert found.runs == ((run, True), ("elsewhere", False))
    claims = [claim, a_claim("contradicted", "slower", figure="table3")]
    assert filtered(claims, search="MOSAIC slower") == claims[1:]
    assert filtered(claims, figure="figure9", verdict="reproduced") == claims[:1]
    assert lines(claims)[1]["open"] == "claims?claim=table3%2Flaptop%2Fslower"


def test_a_task_opens_on_the_table_with_most_tuned_contenders(opened, make_record):
    small = {"preset": "laptop", "task_settings": {"variant": "held_out"}}
    records = []
    for size, study in ((100, {}), (1000, {"study": None})):
        for model in ("gpt2", "lstm", "mamba")[: 2 if size == 100 else 3]:
            fields = {"size": size, "role": "final", **small, **study}
            records += [make_record(model, model, n, 0.6 + n / 10, **fields) for n in (0, 1)]
    records.append(make_record("s4d", "S4D", 0, 0.9, preset="smoke"))
    table = opening(headline_tables(opened(build_board(records)), "regbench"))
    assert (table.preset, len(table.measured)) == ("laptop", 2)
    assert "training_automata=100" in table.variant


def test_rows_are_ordered_and_found(make_record):
    board = language_board(make_record, {"gpt2": (0.5, 0.51), "lstm": (0.9, 0.91)})
    rows = [row for row in board.rows if row.headline]
    by_name = [row.label for row in ordered(rows, "model")]
    assert by_name == sorted(by_name, key=str.lower)
    assert [row.model for row in matching(rows, "tuned GPT")] == ["gpt2"]


def test_bins_keep_the_mean_and_count_their_points(make_record):
    board = build_board([make_record(seed=0), make_record(seed=1)])
    line: ModelCurve = next(one for one in board.lines if one.metric == "accuracy_by_position")
    short, counts = binned(line, bins=7)
    assert sum(counts) == len(line.x) == 100
    assert len(short.x) == len(counts) == 7
    for values, means in ((line.x, short.x), (line.y, short.y)):
        start = 0
        for n, mean in zip(counts, means, strict=True):
            assert mean == pytest.approx(sum(values[start : start + n]) / n)
            start += n
    assert binned(line, bins=100) == (line, (1,) * 100)


def test_the_frontier_is_what_nobody_beats_for_less(make_record):
    drawn = random.Random(3)
    made = []
    for n in range(12):
        mean = round(drawn.random(), 3)
        seeds = [
            make_record(f"m{n}", f"m{n}", s, mean + s / 1e4, width=8 * (n + 1)) for s in (0, 1)
        ]
        made += seeds
    rows = [row for row in build_board(made).rows if row.headline]
    found = cost.points(rows, "parameters")
    assert len(found) == 12
    for point in found:
        beaten = any(
            other.row.mean >= point.row.mean and other.cost <= point.cost
            for other in found
            if other is not point
        )
        assert (point.frontier == "frontier") == (not beaten)
    made = [
        make_record(name, name, seed, mean + aside, width=width, role="final", trials=3)
        for name, mean, width, spread in (
            ("a", 0.8, 8, 0.01),
            ("b", 0.79, 16, 0.02),
            ("c", 0.3, 24, 0.01),
        )
        for seed, aside in enumerate((-spread, 0.0, spread))
    ]
    rows = [row for row in build_board(made).rows if row.headline]
    frontier = {point.row.model: point.frontier for point in cost.points(rows, "parameters")}
    assert frontier == {"a": "frontier", "b": "possible", "c": ""}  # b's interval reaches a's
    alt.LayerChart.from_dict(cost.cost_chart(found, "parameters"))


def test_dots_are_in_the_order_of_the_table_in_the_colours_of_the_figures(make_record):
    board = language_board(make_record, {"gpt2": (0.5, 0.51), "titans": (0.9, 0.91)})
    rows = [row for row in board.rows if row.headline]
    names = unique_names(rows)
    for dark in (False, True):
        spec = dots(rows, {"GPT2"}, dark)
        points = (
            spec["layer"][0]["data"]["values"] if "data" not in spec else spec["data"]["values"]
        )
        assert [point["name"] for point in points] == names
        assert [point["mean"] for point in points] == [row.mean for row in rows]
        colours = {point["name"]: point["colour"] for point in points}
        assert colours["GPT2"] == look("gpt2").colour
        assert colours["TITANS"] == (ON_DARK if dark else look("titans").colour)
        assert [point["strong"] for point in points] == [name == "GPT2" for name in names]


def test_names_of_rows_are_unique(make_record):
    row = next(row for row in language_board(make_record, {"gpt2": (0.5, 0.51)}).rows)
    published = replace(row, kind="published (printed)", source="Table 3")
    found = unique_names([row, published, published, row])
    assert len(set(found)) == 4


def test_replications_and_own_rows_are_told_as_such(opened, make_record):
    board = language_board(make_record, {"gpt2": (0.6, 0.61)})
    row = next(row for row in board.rows if row.model == "gpt2" and row.headline)
    mine = replace(row, kind="replication", origin="yours", made_from="x" * 64, rank_best=None)
    again = Replication(
        **{name: getattr(row, name) for name in ("task", "preset", "variant", "group", "model")},
        **{name: getattr(row, name) for name in ("label", "setting", "metric", "direction")},
        seed=0,
        data_seed=0,
        run_id=row.run_ids[0],
        other_run_id=row.run_ids[0],
        origin="yours",
        machine="A",
        other_machine="B",
        outcome="ok",
        other_outcome="ok",
        value=0.6,
        other_value=0.5,
        same_numbers=False,
        same_weights=False,
        low=0.58,
        high=0.63,
        outside=True,
    )
    board = replace(board, rows=(*board.rows, mine), replications=(again,))
    found = bar(opened(board))
    assert (found.yours, found.rows) == (1, 1)
    assert (found.replicated.runs, found.replicated.machines, found.replicated.outside) == (1, 2, 1)
    shown = record(opened(board), row.run_ids[0])
    line = again_lines(shown.replications)[0]
    assert (line["board"], line["again"], line["outside what seeds explain"]) == (0.6, 0.5, "yes")
    assert line["difference"] == pytest.approx(-0.1)
    told = table_lines([row, mine], {})
    assert [one["checked"] for one in told] == ["reported", "reported"]
    assert (told[1]["kind"], told[1]["origin"]) == (mine.kind, "yours")
    # The words of read_board: one name for one thing.
    assert {"kind", "origin", "checked", "admitted", "mark", "note", "outcome"} <= told[0].keys()
    assert not {"level", "trust"} & told[0].keys()


def test_a_record_says_what_its_model_was_examined_for(opened, make_record):
    made = make_record("gpt2", "GPT2", 0, 0.5, role="final", preset="laptop")
    passed = Examination(before=("shape", "numbers"), trained=("causal by values",))
    board = opened(build_board([made.model_copy(update={"examination": passed})]))
    told = dict(trust_facts(record(board, made.run_id)))
    assert told["examined before its training"] == "shape, numbers"
    assert told["examined with its trained weights"] == "causal by values"
    older = opened(build_board([made]))
    assert not [name for name, _ in trust_facts(record(older, made.run_id)) if "examined" in name]
