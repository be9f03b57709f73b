"""Invented proper names, built from syllables. Each maker draws one name and its features."""

from functools import cache

from tasks.text.grammar.expansion import Bindings, Draws, Maker, load


@cache
def _syllables() -> dict[str, list[str]]:
    return load("syllables")


def _part(kind: str, stream: Draws) -> str:
    choices = _syllables()[kind]
    return choices[next(stream) % len(choices)]


def _syllable(stream: Draws) -> str:
    return _part("onset", stream) + _part("vowel", stream)


def _stem(stream: Draws, syllables: int) -> str:
    return "".join(_syllable(stream) for _ in range(syllables)) + _part("coda", stream)


def _compound(kind: str, stream: Draws) -> str:
    return _stem(stream, 1 + next(stream) % 2) + _part(kind, stream)


def _town(stream: Draws) -> Bindings:
    name = _compound("town", stream).capitalize()
    return {"": name, ".people": f"{name}ers"}


def _region(stream: Draws) -> Bindings:
    name = f"{_stem(stream, 2)}ia".capitalize()
    return {"": name, ".people": f"{name}ns", ".adjective": f"{name}n"}


def _capitalised(kind: str) -> Maker:
    return lambda stream: {"": _compound(kind, stream).capitalize()}


def _common(kind: str) -> Maker:
    def make(stream: Draws) -> Bindings:
        name = _compound(kind, stream)
        return {"": name, ".s": f"{name}s"}

    return make


def _person(stream: Draws) -> Bindings:
    first = (_syllable(stream) + _part("first_name", stream)).capitalize()
    last = _stem(stream, 2).capitalize()
    # One draw for all pronouns, so that they agree.
    he, him, his, man = [("he", "him", "his", "man"), ("she", "her", "her", "woman")][
        next(stream) % 2
    ]
    return {
        "": f"{first} {last}",
        ".first": first,
        ".last": last,
        ".he": he,
        ".him": him,
        ".his": his,
        ".himself": f"{him}self",
        ".man": man,
    }


def _word(stream: Draws) -> Bindings:
    return {"": _syllable(stream) + _syllable(stream)}


MAKERS: dict[str, Maker] = {
    "TOWN": _town,
    "REGION": _region,
    "PERSON": _person,
    "WORD": _word,
    "RIVER": _capitalised("river"),
    "PEAK": _capitalised("peak"),
    "FESTIVAL": _capitalised("festival"),
    "SPECIES": _common("species"),
    "PLANT": _common("plant"),
    "MACHINE": _common("machine"),
}
