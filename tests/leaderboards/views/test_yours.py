"""What a build says of one's own rows."""

from bench.records.schema import Cost
from leaderboards.tables.builder import build_board
from leaderboards.views.yours import places_of_yours

NOTHING_SPENT = Cost(parameters=0)


def test_models_that_failed_are_told_by_their_names_and_are_no_predictors(
    opened, make_record
) -> None:
    own = [make_record("gpt2", "GPT2", seed, 0.6 + seed / 100) for seed in (0, 1)]
    own.append(make_record("1_gram", "1-gram", 0, 0.3, role="baseline"))
    refused = {"accuracy": None, "outcome": "failed", "cause": "it sees the future"}
    for name in ("NoBatch", "Peek", "WrongOut"):
        own.append(make_record(name, name, 0, cost=NOTHING_SPENT, **refused))
    diverged = {"accuracy": None, "outcome": "diverged", "cause": "loss is not finite"}
    own.append(make_record("lstm", "LSTM", 0, **diverged))
    title, place, _, *_ = places_of_yours(opened(build_board([], own=own)))
    assert title == "your rows stand in"
    assert place.endswith(
        ": GPT2 (no rank: nothing to rank it with) and 1 predictor without training; "
        "1 diverged: LSTM; 3 failed: NoBatch, Peek, WrongOut"
    )
