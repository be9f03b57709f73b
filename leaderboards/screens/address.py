"""Controls whose state is in the address, and which say so where the address asks for something
that there is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from core.errors import nearest

BOUND = "query-params"
SWITCHED = ("true", "false")
PAGE = "page"  # where the session keeps which one is drawn
FRAME = "embed"  # how Streamlit's own words begin: embed=true, embed_options=…


def word_of_address(key: str) -> str | None:
    """What the address has for a word that the page knows."""
    _words_asked().add(key)
    return st.query_params.get(key)


def say_strangers() -> None:
    """Name what the address has and the page, which has been drawn, never asked for. What it asked
    for at an earlier visit is no stranger: a control comes and goes with another one."""
    words = _words_asked()
    for key in st.query_params:
        if key not in words and not key.startswith(FRAME):
            hint = nearest(key, words) if words else "it has no controls"
            say(f"This page has nothing to set by '{key}' in the address: {hint}")


def _words_asked() -> set[str]:
    """The words that the page has asked for in this window."""
    known: set[str] = st.session_state.setdefault(f"words of {st.session_state.get(PAGE)}", set())
    return known


def say(sentence: str) -> None:
    """A sentence that a reader must not miss, as plain text."""
    with st.container(border=True):
        st.text(sentence)


def one_of(
    label: str, options: Sequence[str], key: str, default: str | None = None, place: Any = st
) -> str:
    """One of several; the address may name another than the default."""
    index = options.index(default) if default in options else 0
    _follow(key, options[index])
    wanted = word_of_address(key)
    if wanted is not None and wanted not in options:
        say(f"{_unknown(label, wanted, options)} This shows {options[index]}.")
    return str(place.selectbox(label, options, index, key=key, bind=BOUND))


def some_of(
    label: str, options: Sequence[str], key: str, default: Sequence[str], place: Any = st
) -> list[str]:
    """Any of several; the address may name others than the default ones."""
    word_of_address(key)
    for wanted in st.query_params.get_all(key):
        if wanted not in options:
            say(_unknown(label, wanted, options))
    _follow(key, list(default))
    chosen = place.multiselect(label, options, default=list(default), key=key, bind=BOUND)
    return [str(option) for option in chosen]


def _follow(key: str, default: Any) -> None:
    """A control that stands where it stood at first goes with its default, when another control
    changes that: its value is not in the address, where a new window would take the default."""
    first_default = st.session_state.setdefault(f"{key} at first", default)
    if first_default != default:
        if st.session_state.get(key) == first_default:
            st.session_state[key] = default  # a key that is deleted leaves the browser's as it was
        st.session_state[f"{key} at first"] = default


def _unknown(label: str, wanted: str, options: Sequence[str]) -> str:
    hint = nearest(wanted, options)
    return f"{label}: there is no '{wanted}' here; {hint}" + ("" if hint.endswith("?") else ".")


def words(label: str, key: str, place: Any = st) -> str:
    """Words to search for."""
    word_of_address(key)
    return str(place.text_input(label, key=key, bind=BOUND, type="search") or "")


def is_on(label: str, key: str, default: bool = False, place: Any = st) -> bool:
    """A switch."""
    wanted = word_of_address(key)
    if wanted is not None and wanted not in SWITCHED:
        state = SWITCHED[int(not default)]
        say(f"{label}: '{wanted}' is neither true nor false. This shows {state}.")
    _follow(key, default)
    return bool(place.toggle(label, value=default, key=key, bind=BOUND))


def is_dark() -> bool:
    """Whether the reader's theme is dark."""
    return st.context.theme.type == "dark"
