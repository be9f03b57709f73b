"""A context-free grammar over features that are drawn once for each document.

A rule file maps names to texts. In a text

- `[one|two|]` is a choice of alternatives with equal chances; choices nest and may be empty;
- `<name>` stands for another rule;
- `{A}` is the value of role A and `{A.his}` one of its features, `{^A}` the same with a capital;
- `//` ends a paragraph; other white space only separates words.

Roles are drawn before the text is expanded, so that all that a document says about a role agrees:
the colour that a ball has in the first sentence is the colour that it has in the last.

Randomness is SHAKE-128 in counter mode: draw n of a document is a function of (kind of document,
seed, index, n) alone, hence the same on every platform, Python version and hash seed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import shake_128
from itertools import count
from pathlib import Path
from struct import unpack
from typing import Any, NamedTuple

import yaml

Draws = Iterator[int]
Bindings = dict[str, str]
Entries = list[Bindings]
Maker = Callable[[Draws], Bindings]

_DRAWS_PER_BLOCK = 128
_TOKENS = re.compile(r"[\[\]|]|<[a-z_]+>|\{\^?[\w.]+\}|[^\[\]|<>{}]+")
_RANGE = re.compile(r"(?:(\w+)\+)?(\d+)\.\.(\d+)(?:\*(\d+))?")
_SUM = re.compile(r"(\w+)\+(\w+)")
# A line end before "|" or "]" is layout, a blank there belongs to the alternative.
_BEFORE_BAR = re.compile(r"\s*\n\s*(?=[|\]])")
# "an" before a vowel, but "a unit", "a useful", "a one".
_INDEFINITE = re.compile(r"\b([Aa]) (?=[aeiAEIO]|o(?!ne\b)|[uU](?!ni|se|su|ti))")


class Slot(NamedTuple):
    """A place for the value of a feature; `capital` puts its first letter in upper case."""

    feature: str
    capital: bool


class Choice(NamedTuple):
    """Alternatives, one of which is taken; each is a sequence of parts."""

    alternatives: list[list[Any]]


class Subject(NamedTuple):
    """What a document is about: its roles, and the tree of what is said about them."""

    roles: dict[str, str]
    text: Choice


def draws(kind: str, seed: int, index: int) -> Draws:
    """An endless stream of integers in [0, 2^32) that belongs to document `index` of `seed`."""
    for block in count():
        key = f"{kind}/{seed}/{index}/{block}".encode()
        # Little-endian, whatever the machine.
        yield from unpack(f"<{_DRAWS_PER_BLOCK}I", shake_128(key).digest(4 * _DRAWS_PER_BLOCK))


def load(*names: str) -> dict[str, Any]:
    """The union of the YAML files of these names beside this module."""
    merged: dict[str, Any] = {}
    for name in names:
        text = (Path(__file__).parent / f"{name}.yaml").read_text(encoding="ascii")
        # The C parser where it is built in: the same data, faster.
        merged |= yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return merged


def entries(words: list[Any]) -> Entries:
    """A word list as bindings: each entry is a word, or `words` that share further features."""
    result: Entries = []
    for item in words:
        if isinstance(item, str):
            result.append({"": item})
        else:
            features = {f".{key}": value for key, value in item.items() if key != "words"}
            result += [{"": word, **features} for word in item["words"]]
    return result


def parse(text: str, rules: Mapping[str, str], known: dict[str, Choice]) -> Choice:
    """The tree of a rule's text; `known` keeps the trees of the rules that it refers to."""
    text = _BEFORE_BAR.sub("", text)
    top = Choice([[]])
    stack = [top]
    position = 0
    for match in _TOKENS.finditer(text):
        token = match.group()
        # Tokens must touch: whatever none of them matches is a mistake in the rule.
        if match.start() != position:
            raise ValueError(f"cannot read the rule at: {text[position : position + 40]!r}")
        position = match.end()
        parts = stack[-1].alternatives[-1]
        if token == "[":
            choice = Choice([[]])
            parts.append(choice)
            stack.append(choice)
        elif token == "]":
            stack.pop()
            if not stack:
                break
        elif token == "|":
            stack[-1].alternatives.append([])
        elif token[0] == "<":
            name = token[1:-1]
            # Parsed once for each name, and shared as a subtree.
            if name not in known:
                known[name] = parse(rules[name], rules, known)
            parts.append(known[name])
        elif token[0] == "{":
            parts.append(Slot(token.strip("{^}"), token[1] == "^"))
        else:
            parts.append(token)
    if position != len(text) or stack != [top]:
        raise ValueError(f"unbalanced brackets in the rule that begins: {text[:40]!r}")
    return top


def bind(
    roles: Mapping[str, str],
    words: Mapping[str, Entries],
    makers: Mapping[str, Maker],
    stream: Draws,
) -> Bindings:
    """Draw a value for each role; two roles of a document never have the same value.

    A role is the name of a word list or of a maker; or a range of integers, `3..9`, `100..900*50`
    (in steps of 50), `Y+3..9` (that much above role Y); or a sum of roles, `Y+D`; or another name
    of role P, `=P`.
    """
    bindings: Bindings = {}
    taken: set[str] = set()
    for role, source in roles.items():
        if source in words:
            choices = words[source]
            entry = choices[next(stream) % len(choices)]
            # Drawn again until it is new: two roles never share a value.
            while entry[""] in taken:
                entry = choices[next(stream) % len(choices)]
        elif source in makers:
            entry = makers[source](stream)
            while entry[""] in taken:
                entry = makers[source](stream)
        elif source[0] == "=":
            other = source[1:]
            same = {k: v for k, v in bindings.items() if k == other or k.startswith(f"{other}.")}
            bindings |= {role + feature[len(other) :]: value for feature, value in same.items()}
            continue
        else:
            bindings[role] = _number(source, bindings, stream)
            continue
        taken.add(entry[""])
        for feature, value in entry.items():
            bindings[role + feature] = value
    return bindings


def _number(source: str, bindings: Bindings, stream: Draws) -> str:
    if summands := _SUM.fullmatch(source):
        return str(sum(int(bindings[summand]) for summand in summands.groups()))
    match = _RANGE.fullmatch(source)
    if match is None:
        raise ValueError(f"no word list, maker or range is called {source!r}")
    base, low, high, step = match.groups()
    unit = int(step or 1)
    # Both ends are possible: low, low + unit, …, at most high.
    value = int(low) + unit * (next(stream) % ((int(high) - int(low)) // unit + 1))
    return str(value + (int(bindings[base]) if base else 0))


def expand(choice: Choice, bindings: Bindings, stream: Draws) -> str:
    """The text of a tree, with one blank between words and paragraphs divided by a line end."""
    pieces: list[str] = []
    _expand(choice, bindings, stream, pieces)
    text = " ".join("".join(pieces).split()).replace(" // ", "\n")
    return _INDEFINITE.sub(r"\1n ", text)


def _expand(choice: Choice, bindings: Bindings, stream: Draws, pieces: list[str]) -> None:
    alternatives = choice.alternatives
    number = len(alternatives)
    # Without a choice nothing is drawn: a fixed text moves no later draw.
    for part in alternatives[next(stream) % number] if number > 1 else alternatives[0]:
        if type(part) is str:
            pieces.append(part)
        elif type(part) is Slot:
            value = bindings[part.feature]
            pieces.append(value[0].upper() + value[1:] if part.capital else value)
        else:
            _expand(part, bindings, stream, pieces)
