"""The page on models of others: its recipes are what they say, and the first one is executed here;
``nox -s guests`` executes all, with the packages that they need."""

from __future__ import annotations

import re

from core.errors import OK
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


def test_the_file_of_the_page_trains_with_a_budget_in_an_empty_folder() -> None:
    (recipe,) = (recipe for recipe in recipes() if recipe.file == "net.py")
    done = train(recipe, "models.parameters=50_000")
    assert done.returncode == OK, done.stderr
    assert "GRU of PyTorch on regbench" in done.stdout
    assert re.search(r"models.parameters=50_000 gives models.width=\d+", done.stderr)


def test_every_attribute_that_is_read_is_on_the_page() -> None:
    from bench.config.card_attributes import _KINDS

    table = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert {*_KINDS} == {*table}
