"""Invented proper names, built from syllables."""

from tasks.text.grammar.expansion import Bindings, Draws, Maker

_ONSETS = [
    "b",
    "br",
    "c",
    "cl",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "kr",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "qu",
    "r",
    "s",
    "sh",
    "st",
    "t",
    "th",
    "tr",
    "v",
    "w",
    "z",
]
_VOWELS = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ea", "oa"]
_CODAS = ["l", "n", "r", "s", "m", "th", "ck", "nd", "rn", "lt", "x", "sk"]
_TOWN_ENDINGS = [
    "ford",
    "ton",
    "mere",
    "wick",
    "holm",
    "stead",
    "bury",
    "dale",
    "port",
    "haven",
    "gate",
    "field",
]
_RIVER_ENDINGS = ["a", "e", "en", "is", "ow", "ara", "ine"]
_SPECIES_ENDINGS = ["ling", "bill", "tail", "wing", "fin", "foot", "hopper", "snout"]


def _syllable(stream: Draws) -> str:
    onset = _ONSETS[next(stream) % len(_ONSETS)]
    return onset + _VOWELS[next(stream) % len(_VOWELS)]


def _stem(stream: Draws, syllables: int) -> str:
    body = "".join(_syllable(stream) for _ in range(syllables))
    return body + _CODAS[next(stream) % len(_CODAS)]


def _town(stream: Draws) -> Bindings:
    stem = _stem(stream, 1 + next(stream) % 2).capitalize()
    name = stem + _TOWN_ENDINGS[next(stream) % len(_TOWN_ENDINGS)]
    return {"": name, ".people": f"{name}ers"}


def _region(stream: Draws) -> Bindings:
    stem = _stem(stream, 2).capitalize()
    return {"": f"{stem}ia", ".people": f"{stem}ians", ".adjective": f"{stem}ian"}


def _river(stream: Draws) -> Bindings:
    stem = _stem(stream, 1 + next(stream) % 2).capitalize()
    return {"": stem + _RIVER_ENDINGS[next(stream) % len(_RIVER_ENDINGS)]}


def _species(stream: Draws) -> Bindings:
    name = (
        _stem(stream, 1 + next(stream) % 2) + _SPECIES_ENDINGS[next(stream) % len(_SPECIES_ENDINGS)]
    )
    return {"": name, ".s": f"{name}s"}


def _person(stream: Draws) -> Bindings:
    first = _syllable(stream).capitalize() + ("n", "ra", "lo", "mi", "s")[next(stream) % 5]
    last = _stem(stream, 2).capitalize()
    woman = next(stream) % 2
    he, him, his = ("she", "her", "her") if woman else ("he", "him", "his")
    return {
        "": f"{first} {last}",
        ".first": first,
        ".last": last,
        ".he": he,
        ".him": him,
        ".his": his,
        ".man": "woman" if woman else "man",
    }


def _word(stream: Draws) -> Bindings:
    return {"": _syllable(stream) + _syllable(stream)}


MAKERS: dict[str, Maker] = {
    "TOWN": _town,
    "REGION": _region,
    "RIVER": _river,
    "SPECIES": _species,
    "PERSON": _person,
    "WORD": _word,
}
