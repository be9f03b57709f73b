"""Class attributes in the place of a card."""

from typing import Any

import pytest

from bench.config.card_attributes import card_of_class
from bench.config.external import refuse_other_sequences
from core.errors import UserError
from tests.bench.config import a_guest
from tests.configurations import compose


def test_attributes_are_the_card_and_the_defaults() -> None:
    target = f"{a_guest.__name__}.Guest"
    configuration = compose(["tasks=regbench", f"models={target}", "models.depth=3"])
    assert configuration.label == "A guest, labelled"
    assert configuration.model == "Guest"
    assert configuration.models == {"_target_": target, "width": 64, "depth": 3}  # of smoke
    alone = compose(["tasks=state_tracking", f"models={target}"])
    assert alone.models["depth"] == 2


def test_a_task_of_other_sequences_is_refused() -> None:
    configuration = compose(["tasks=regbench", f"models={a_guest.__name__}.Guest"])
    target = configuration.models["_target_"]
    refuse_other_sequences(target, a_guest.TOKENS)
    with pytest.raises(UserError, match=r"takes tokens, .* and this task has real vectors"):
        refuse_other_sequences(target, a_guest.CHANNELS)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("label", 7, "should be a text"),
        ("label", "", "should be a text"),
        ("label", "two\nlines", "should be a text"),
        ("label", "Mämba", "should be a text"),
        ("label", "x" * 81, "should be a text"),
        ("vmap", "no", "should be True or False"),
        ("sequences", "text", "should be 'tokens', 'channels'"),
        ("sequences", (), "should be 'tokens', 'channels'"),
        ("defaults", {"width": object()}, "should be a dictionary of settings"),
        ("defaults", {"a b": 1}, "should be a dictionary of settings"),
        ("defaults", [1], "should be a dictionary of settings"),
        ("unused_parameters", "gate.*", "should be a tuple of patterns"),
    ],
)
def test_a_wrong_attribute_is_a_sentence(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=f"the attribute {name} of 'a.B' is .*{sentence}"):
        card_of_class(type("B", (), {name: value}), "a.B")


def test_methods_and_properties_of_such_names_are_the_class_s_own() -> None:
    own = {"label": lambda self: "x", "defaults": property(lambda self: 1), "sequences": None}
    assert card_of_class(type("B", (), own), "a.B") == {}


@pytest.mark.parametrize(
    ("name", "attributes", "sentence"),
    [
        ("Taken", {"label": "Memory Mosaic"}, "what the model memory_mosaic of this project is"),
        ("Taken", {"label": "GPT2"}, "what the model gpt2 of this project is called"),
        ("Mamba", {}, "could not be told from .* mamba .*such as MyMamba"),
    ],
)
def test_names_of_our_models_are_taken(
    monkeypatch: pytest.MonkeyPatch, name: str, attributes: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setattr(a_guest, name, type(name, (a_guest.Guest,), {**attributes}), raising=False)
    with pytest.raises(UserError, match=sentence):
        compose(["tasks=regbench", f"models={a_guest.__name__}.{name}"])
