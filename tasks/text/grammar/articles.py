"""Encyclopedia-like articles of 350 to 1200 words about things that do not exist.

Another distribution than the stories, with much of their function vocabulary: names are built
from syllables and belong to one article, where they recur; facts are stated again; lists follow a
rule that holds only inside their article. Knowledge from other articles is of little help, memory
of this one is.
"""

import re
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
from tasks.text.grammar.names import MAKERS


@cache
def words() -> dict[str, Entries]:
    """The word lists of the articles."""
    return {kind: entries(items) for kind, items in load("article_words").items()}


@cache
def subjects() -> dict[str, Subject]:
    """What articles are about, by name; the roles include those of the shared paragraphs."""
    paragraphs = load("article_paragraphs")
    rules = {name: paragraph["text"] for name, paragraph in paragraphs.items()}
    trees: dict[str, Choice] = {}
    result = {}
    for name, subject in load("article_places", "article_things").items():
        roles = dict(subject["roles"])
        # Shared paragraphs bring roles of their own, which the subject need not list.
        for used in dict.fromkeys(re.findall(r"<(\w+)>", subject["text"])):
            roles |= paragraphs[used]["roles"]
        result[name] = Subject(roles, parse(subject["text"], rules, trees))
    return result


@cache
def _subjects() -> list[Subject]:
    return list(subjects().values())


def article(seed: int, index: int) -> str:
    """Article `index` of the corpus `seed`: ASCII paragraphs divided by a line end; pure."""
    stream = draws("article", seed, index)
    choices = _subjects()
    subject = choices[next(stream) % len(choices)]
    return expand(subject.text, bind(subject.roles, words(), MAKERS, stream), stream)
