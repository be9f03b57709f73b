"""Short stories about children and animals, 60 to 250 words of simple English.

After the stories of Eldan & Li (TinyStories, 2023) in kind, not in text: each has a goal, an
obstacle, an attempt and an ending that depends on what was said before.
"""

from functools import cache

from tasks.text.grammar.expansion import (
    Choice,
    Entries,
    Subject,
    bind,
    draws,
    entries,
    expand,
    load,
    parse,
)


@cache
def words() -> dict[str, Entries]:
    """The word lists of the stories."""
    return {kind: entries(items) for kind, items in load("story_words").items()}


@cache
def plots() -> dict[str, Subject]:
    """The plots by name."""
    trees: dict[str, Choice] = {}
    rules = load("story_rules")
    return {
        name: Subject(plot["roles"], parse(plot["text"], rules, trees))
        for name, plot in load("story_plots", "story_questions").items()
    }


@cache
def _plots() -> list[Subject]:
    return list(plots().values())


def story(seed: int, index: int) -> str:
    """Story `index` of the corpus `seed`: one paragraph of ASCII text; a pure function."""
    # The plot is the first draw, its roles the next ones, then every choice in the order of the
    # text.
    stream = draws("story", seed, index)
    choices = _plots()
    plot = choices[next(stream) % len(choices)]
    return expand(plot.text, bind(plot.roles, words(), {}, stream), stream)
