"""The figure of MAD on constructed runs whose verdicts are known, and states of one size."""

from dataclasses import replace
from typing import Any

import pytest

from bench.records.schema import Cost, RunRecord, read_record
from bench.training.building import build_task, build_to_train
from core.errors import UserError
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Finding
from reproduce.mad import mad
from reproduce.mad.mad import EXPERIMENT, PUBLISHED, STATE, states_of_one_size
from tests.bench.records import make_record
from tests.committed import committed_paths
from tests.configurations import compose
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words
from tests.reproduce.records import wobble

SIZES = ("vocabulary", "length", "noise", "to_copy", "training_examples")
Levels = dict[str, dict[str, float]]
LEVELS: Levels = {
    "in_context_recall": {"gpt2_rope": 0.97, "mamba": 0.95},
    "fuzzy_recall": {"gpt2_rope": 0.4, "mamba": 0.2},
    "selective_copying": {"gpt2_rope": 0.99, "mamba": 0.8},
    "compression": {"gpt2_rope": 0.5, "mamba": 0.52},
    "memorisation": {"gpt2_rope": 0.8, "mamba": 0.9},
}


def run(name: str, model: str, seed: int, accuracy: float, **changes: Any) -> RunRecord:
    tasks: dict[str, Any] = {**dict.fromkeys(SIZES), "data_seed": 0, "synthetic": name}
    preset = changes.pop("preset", "gpu")
    return make_record(
        seed=seed,
        role="final",
        task="mad",
        model=model,
        label=model,
        preset=preset,
        config={
            "tasks": {**tasks, **changes},
            "models": {"width": 64, "layers": 2},
            "training": {"restarts": 1, "steps": 800},
        },
        metrics={"test": {"accuracy": accuracy}},
        per_sequence={"accuracy": [accuracy] * 100},
        cost=Cost(state_bytes=STATE * 2 * 4),
    )


def records(preset: str = "gpu", changed: Levels | None = None) -> list[RunRecord]:
    return [
        run(name, model, seed, level + wobble(seed) / 10, preset=preset)
        for name, of_model in LEVELS.items()
        for model, level in {**of_model, **(changed or {}).get(name, {})}.items()
        for seed in range(3)
    ]


def judge(found: list[RunRecord]) -> dict[str, Finding]:
    selected = EXPERIMENT.select(found)
    return {claim.name: claim.without_control(selected) for claim in EXPERIMENT.claims}


def test_the_published_orders_are_reproduced() -> None:
    found = judge(records("paper"))
    assert {one.verdict for one in found.values()} == {REPRODUCED}, found


@pytest.mark.parametrize(
    ("levels", "claim"),
    [
        ({"in_context_recall": {"gpt2_rope": 0.8}}, "attention recalls"),
        ({"fuzzy_recall": {"gpt2_rope": 0.95}}, "fuzzy recall is harder"),
        ({"fuzzy_recall": {"gpt2_rope": 0.2}}, "fuzzy recall is harder"),
        ({"selective_copying": {"mamba": 0.99}}, "attention copies better"),
        ({"compression": {"mamba": 0.8}}, "compression is alike"),
        ({"memorisation": {"mamba": 0.6}}, "Mamba memorises better"),
    ],
)
def test_other_accuracies_contradict(levels: Levels, claim: str) -> None:
    found = judge(records("paper", levels))
    assert found.pop(claim).verdict == CONTRADICTED
    assert sum(one.verdict == CONTRADICTED for one in found.values()) <= 1


def test_short_trainings_are_not_asked_and_missing_ones_undecided() -> None:
    assert {one.verdict for one in judge(records("smoke")).values()} == {NOT_ASKED}
    laptop = {name for name, one in judge(records("laptop")).items() if one.verdict != NOT_ASKED}
    assert laptop == {"compression is alike"}
    gpu = {name for name, one in judge(records()).items() if one.verdict == NOT_ASKED}
    assert gpu == {"Mamba memorises better"}  # both know all facts of the baseline
    assert {one.verdict for one in judge([]).values()} <= {UNDECIDED, NOT_ASKED}


def test_rows_that_are_not_tuned_leave_an_order_open_and_a_level_not() -> None:
    ranked = replace(EXPERIMENT.claims[-1], control=None).judge(records("paper")).finding
    assert ranked.verdict == UNDECIDED
    assert "Mamba on memorisation is untuned" in ranked.evidence
    level = replace(EXPERIMENT.claims[0], control=None).judge(records("paper")).finding
    assert level.verdict == REPRODUCED


def test_a_changed_size_is_no_baseline_but_part_of_the_score() -> None:
    harder = [
        run(name, model, seed, level, preset="paper", **size)
        for name, model, level, size in (
            ("compression", "mamba", 0.1, {"length": 64}),
            ("memorisation", "mamba", 0.6, {"vocabulary": 8192}),
            ("memorisation", "gpt2_rope", 0.6, {"vocabulary": 8192}),
        )
        for seed in range(3)
    ]
    found = EXPERIMENT.select([*records("paper"), *harder])
    verdicts = [one.without_control(found) for one in EXPERIMENT.claims]
    assert {one.verdict for one in verdicts} == {REPRODUCED}
    # Of 0.9 and 0.6, and of 0.8 and 0.6.
    both = "memorisation 0.750, score of GPT2 with RoPE on memorisation 0.700"
    assert both in verdicts[-1].evidence
    assert EXPERIMENT.table is not None
    lines = EXPERIMENT.table(found).splitlines()
    heads, row = (next(line for line in lines if f"| {one}" in line) for one in ("model", "Mamba"))
    cells = dict(zip(heads.split(" | "), row.split(" | "), strict=True))
    assert cells["numbers kept in a layer"] == "2,048"
    assert cells["compression"].startswith("0.31")  # of 0.52 and 0.1
    assert "noisy recall" not in cells  # it was not run
    assert cells["mean |"] == "none |"


def test_states_of_the_models_that_have_a_setting_are_of_one_size() -> None:
    for preset in ("laptop", "gpu"):
        cell = [
            words
            for words in in_words(EXPERIMENT.plan(preset, None).sweeps)
            if words[2].endswith("=compression")
        ]
        own = [words for words in cell if "models=[" not in words[1]]
        for words in own:
            kept, more = (_numbers_kept(words, preset, longer) for longer in (1, 2))
            if "models=mamba2" in words:  # none of its states is of that size
                assert kept < STATE < more
            elif "models=rwkv7" in words:  # its last input comes on top
                assert kept == STATE + compose([*words, f"preset={preset}"]).models["width"]
            else:
                assert kept == STATE
        assert len(own) == len(states_of_one_size()) == 7


def test_a_width_that_a_card_does_not_know_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mad, "states_of_one_size", lambda: {"gla": ("heads", {64: 1})})
    planned = in_words(EXPERIMENT.plan("laptop", None).sweeps)
    assert ("models=gla", "models.heads=1") in [(words[1], words[-1]) for words in planned]
    with pytest.raises(
        UserError, match="by heads at the widths 64, and MAD at gpu has 128: add it"
    ):
        EXPERIMENT.plan("gpu", None)


def _numbers_kept(words: tuple[str, ...], preset: str, longer: int) -> float:
    """Of each layer, with a state that is so many times as long as the plan has it."""
    key, value = words[-1].removeprefix("models.").split("=")
    configuration = compose([*words, f"preset={preset}", f"models.{key}={int(value) * longer}"])
    model = build_to_train(configuration, build_task(configuration), 0)
    return float(model.state_bytes(128)) / 4 / configuration.models["layers"]  # type: ignore[operator]


def test_a_short_memory_of_another_figure_is_not_the_second_mosaic_s_row() -> None:
    own = read_record(committed_paths("mad/laptop/mad-memory_mosaic_v2-*-s0")[0])
    for window, belongs in ((8, False), (32, True)):
        delays = {"window": window, "delay": window // 4, "longest_delay": window}
        config = {**own.config, "models": {**own.config["models"], **delays}}
        one = own.model_copy(update={"config": config, "role": "final"})
        assert bool(EXPERIMENT.select([one])) == belongs


def test_the_paper_has_all_changes_of_the_suite() -> None:
    cells = {
        tuple(w for w in words if "tasks." in w)
        for words in in_words(EXPERIMENT.plan("paper", None).sweeps)
    }
    # Baselines; 10, 10, 13, 12, 10 and 5 changes.
    assert len(cells) == 6 + 60
    assert ("tasks.synthetic=noisy_recall", "tasks.noise=0.8") in cells
    for words in sorted(cells):
        build_task(compose(["tasks=mad", "models=lstm", "preset=paper", *words]))


def test_every_model_and_the_published_scores_are_drawn() -> None:
    found = EXPERIMENT.select(records())
    picture = EXPERIMENT.draw(found)
    assert rendered(picture)
    panels = [panel for row in picture.rows for panel in row.panels]
    assert [panel.title for panel in panels][:2] == ["in-context recall", "fuzzy recall"]
    traces = {trace.name: trace for trace in panels[0].traces}
    assert list(traces["Mamba"].y) == [pytest.approx(0.95, abs=0.01)]
    shown = next(t for name, t in traces.items() if name.startswith("published"))
    assert dict(zip(shown.x, shown.y, strict=True)) == {
        sorted(PUBLISHED).index(model): score[0] for model, score in PUBLISHED.items()
    }


def test_a_guess_has_its_place_in_every_panel() -> None:
    """Of the committed records; a compressed sequence and a fact are of other vocabularies."""
    baselines = [read_record(path) for path in committed_paths("mad/laptop/mad-uniform-*")]
    panels = EXPERIMENT.draw(EXPERIMENT.select(baselines)).panels
    assert len(panels) == 2
    for panel in panels:
        (guess,) = [trace for trace in panel.traces if trace.name == "a guess"]
        (level,) = guess.y
        assert 0.001 < level < 0.2


def test_a_model_that_says_nothing_of_its_state_keeps_an_unknown_number() -> None:
    silent = [run("compression", "mamba", seed, 0.5) for seed in range(3)]
    silent = [record.model_copy(update={"cost": Cost()}) for record in silent]
    assert EXPERIMENT.table is not None
    assert "| Mamba | unknown | 0.50" in EXPERIMENT.table(silent)
