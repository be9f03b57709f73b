"""The page on models of others: its recipes are what they say, and the first one is executed here;
``nox -s guests`` executes all, with the packages that they need."""

import re
from typing import Any

import pytest
from torch import nn

from bench.config.groups import card, choices
from core.errors import OK
from models.specification import SequenceSpecification
from tests.conftest import ROOT
from tests.guests_page import IMPORT, PAGE, recipes, train

REQUIREMENTS = ROOT / "tests" / "guests_requirements.txt"
OF_THE_ENVIRONMENT = {"torch", "transformers"}
PACKAGES = {  # as they are imported -> as they are installed, where that differs
    "minGRU_pytorch": "minGRU-pytorch",
    "gateloop_transformer": "gateloop-transformer",
    "x_transformers": "x-transformers",
    "yet_another_retnet": "yet-another-retnet",
    "fla": "flash-linear-attention",
}


def test_recipes_are_short_and_their_packages_are_pinned() -> None:
    lines = REQUIREMENTS.read_text().splitlines()
    pinned = {line.partition("==")[0] for line in lines if not line.startswith("#")}
    assert all("==" in line for line in lines if not line.startswith("#"))
    assert len({recipe.file for recipe in recipes()}) == len(recipes()) >= 9
    for recipe in recipes():
        assert 10 <= recipe.lines <= 20, recipe.file
        for name in {*IMPORT.findall(recipe.code)} - OF_THE_ENVIRONMENT:
            assert PACKAGES.get(name, name) in pinned, f"{recipe.file} imports {name}"


def test_no_recipe_is_called_as_a_model_of_this_project_is() -> None:
    names = {text.casefold() for model in choices("models") for text in (model, label_of(model))}
    assert "min_gru" in names
    assert not names & {recipe.class_name.casefold() for recipe in recipes()}


def label_of(model: str) -> str:
    return str(card("models", model).get("label", model))


def test_the_file_of_the_page_trains_with_a_budget_in_an_empty_folder() -> None:
    (recipe,) = (recipe for recipe in recipes() if recipe.file == "net.py")
    done = train(recipe, "models.parameters=50_000")
    assert done.returncode == OK, done.stderr
    assert "GRU of PyTorch on regbench" in done.stdout
    assert re.search(r"models.parameters=50_000 gives models.width=\d+", done.stderr)


@pytest.mark.parametrize("model_type", ["llama", "opt", "falcon"])
def test_a_type_of_hugging_face_has_the_sizes_of_the_recipe_by_whatever_names(
    model_type: str,
) -> None:
    """OPT calls the size of its MLP ``ffn_dim``: with 3,072 it would have eight times as many
    parameters, and no line would say so."""
    model = hugging_face(model_type)
    per_layer = 12 * 64**2  # four maps of attention, and an MLP of four widths, in and out
    embeddings = 2 * (20 + 100) * 64
    count = sum(weight.numel() for weight in model.parameters())
    assert 0.75 * 2 * per_layer < count < 1.35 * (2 * per_layer + embeddings)
    assert f"`{model_type}`" in PAGE.read_text()


def test_a_type_of_hugging_face_that_ignores_a_size_is_refused() -> None:
    with pytest.raises(ValueError, match="ctrl has a size by another name: set that as well"):
        hugging_face("ctrl")


def hugging_face(model_type: str) -> nn.Module:
    """The model that the recipe of the page makes of a type, at a width of 64 and 2 layers."""
    (recipe,) = (recipe for recipe in recipes() if recipe.file == "hugging_face.py")
    names: dict[str, Any] = {}
    exec(recipe.code, names)
    model: nn.Module = names[recipe.class_name](
        SequenceSpecification(100, vocabulary=20), model_type
    )
    return model


def test_every_attribute_that_is_read_is_on_the_page() -> None:
    from bench.config.card_attributes import _KINDS

    table = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert {*_KINDS} == {*table}
