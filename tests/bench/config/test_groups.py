"""Who contends where, from the cards of models."""

import pytest

from bench.config import groups
from bench.config.groups import choices, contenders
from core.errors import UserError
from tests.configurations import compose


def test_every_contender_composes_with_its_task_and_a_larger_preset_loses_none() -> None:
    for task in ("regbench", "multi_query_recall", "bigram", "babistories", "three_moons"):
        smoke, laptop = (set(contenders(task, preset)) for preset in ("smoke", "laptop"))
        assert {"memory_mosaic", "gpt2"} <= smoke <= laptop
        for model in laptop:
            words = [f"tasks={task}", f"models={model}", "preset=laptop"]
            assert compose(words).sweep.models == sorted(laptop)


def test_cards_name_tasks_and_presets_that_there_are() -> None:
    for name in choices("models"):
        for task, preset in groups.card("models", name).get("contends", {}).items():
            assert task.partition(".")[0] in choices("tasks")
            assert preset in groups.PRESETS


def test_a_part_of_a_task_has_its_contenders_but_for_cards_with_a_word_of_its_own() -> None:
    task, part = (set(contenders(name, "laptop")) for name in ("regbench", "regbench.table3"))
    assert task - part == {"titans"}
    assert "gla" in part - task
    assert set(contenders("regbench.nothing", "laptop")) == task
    assert "titans" in contenders("regbench.table3", "gpu")


def test_a_file_that_is_dropped_in_contends_from_its_preset_on(tmp_path, monkeypatch) -> None:
    for name, preset in {"new": "laptop", "odd": "huge"}.items():
        text = f"_target_: package.Class\ncard: {{label: New, contends: {{regbench: {preset}}}}}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.setitem(groups.GROUPS, "models", tmp_path)
    groups.own_file.cache_clear()
    groups._contends.cache_clear()
    groups._by_cards.cache_clear()
    try:
        with pytest.raises(UserError, match="from the preset 'huge' on, which is none of"):
            contenders("regbench", "smoke")
        (tmp_path / "odd.yaml").unlink()
        assert contenders("regbench", "smoke") == ()
        assert contenders("regbench", "laptop") == ("new",)
    finally:
        groups.own_file.cache_clear()
        groups._contends.cache_clear()
        groups._by_cards.cache_clear()


def test_a_file_without_a_class_is_named_in_a_sentence(tmp_path, monkeypatch) -> None:
    for group, words in {
        "models": ["tasks=regbench", "models=odd"],
        "tasks": ["tasks=odd", "models=gpt2"],
    }.items():
        with monkeypatch.context() as here:
            folder = tmp_path / group
            folder.mkdir()
            (folder / "odd.yaml").write_text("card: {label: Odd}\nwidth: 8\n")
            here.setitem(groups.GROUPS, group, folder)
            with pytest.raises(
                UserError, match=f"^{group}/odd.yaml names no class: give it a line"
            ):
                compose(words)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("card: {contends: smoke}", "the key 'contends' in the card of models/odd.yaml is 'smoke'"),
        ("card: {contends: null}", "of models/odd.yaml is None, and should hold keys"),
        ("card: {contends: {regbenhc: smoke}}", "'regbenhc', which is no task: did you mean"),
        ("card: {contends: {regbench.table33: smoke}}", "did you mean 'regbench.table3'"),
        ("card: {contends: {bigram.table3: smoke}}", "'bigram.table3', no part of a task: "),
        ("card: {contend: {regbench: smoke}}", "unknown key 'contend': did you mean 'contends'?"),
        ("card: [1]", "the card of models/odd.yaml is"),
        ("- 1", "models/odd.yaml is"),
        ("a: 1\na: 2", "models/odd.yaml, line 2, column 1: expected each key once"),
        ("\tx: 1", "models/odd.yaml, line 1, column 1: no value or key begins with this"),
        ("card: \xff", "models/odd.yaml is no UTF-8 text: byte 6 is 0xff"),
        (
            "a: 1\nb: {c: 1 d: 2}",
            "odd.yaml, line 2, column 11: expected ',' or '}' after the { of line 2, column 4",
        ),
        ("b: [1, 2\nc: 3", "line 2, column 2: expected ',' or ']' after the [ of line 1, column 4"),
        ("a: b: c", "line 1, column 5: there is a ':' where a value is under way"),
    ],
)
def test_a_damaged_card_is_named_in_a_sentence(
    content: str, sentence: str, tmp_path, monkeypatch
) -> None:
    (tmp_path / "odd.yaml").write_bytes(content.encode("latin-1"))
    monkeypatch.setitem(groups.GROUPS, "models", tmp_path)
    caches = (groups.own_file, groups._by_cards, groups._contends)
    for cached in caches:
        cached.cache_clear()
    try:
        with pytest.raises(UserError) as found:
            contenders("regbench", "smoke")
        assert sentence in str(found.value)
    finally:
        for cached in caches:
            cached.cache_clear()
