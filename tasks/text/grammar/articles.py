"""Encyclopedia-like articles of 350 to 1200 words about things that do not exist.

Another distribution than the stories, with much of their function vocabulary: names are built
from syllables and belong to one article, where they recur; facts are stated again; lists follow a
rule that holds only inside their article. Knowledge from other articles is of little help, memory
of this one is.
"""

from functools import cache

from tasks.text.grammar.expansion import bind, draws, entries, expand, load, parse
from tasks.text.grammar.names import MAKERS
from tasks.text.grammar.stories import Plot


@cache
def words() -> dict[str, list[dict[str, str]]]:
    """The word lists of the articles."""
    return {kind: entries(items) for kind, items in load("article_words").items()}


@cache
def subjects() -> dict[str, Plot]:
    """What articles are about: roles and text by name."""
    known: dict = {}
    rules = load("article_rules")
    return {
        name: Plot(subject["roles"], parse(subject["text"], rules, known))
        for name, subject in load("article_places", "article_things").items()
    }


@cache
def _subjects() -> list[Plot]:
    return list(subjects().values())


def article(seed: int, index: int) -> str:
    """Article `index` of the corpus `seed`: ASCII paragraphs divided by a line end; pure."""
    stream = draws("article", seed, index)
    choices = _subjects()
    subject = choices[next(stream) % len(choices)]
    return expand(subject.text, bind(subject.roles, words(), MAKERS, stream), stream)
