"""Controls whose state is in the address, and which say so where the address asks for something
that there is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from ground.errors import nearest

BOUND = "query-params"
SWITCHED = ("true", "false")


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
    asked = st.query_params.get(key)
    if asked is not None and asked not in options:
        say(f"{_unknown(label, asked, options)} This shows {options[index]}.")
    return str(place.selectbox(label, options, index, key=key, bind=BOUND))


def some_of(
    label: str, options: Sequence[str], key: str, default: Sequence[str], place: Any = st
) -> list[str]:
    """Any of several; the address may name others than the default ones."""
    for asked in st.query_params.get_all(key):
        if asked not in options:
            say(_unknown(label, asked, options))
    _follow(key, list(default))
    chosen = place.multiselect(label, options, default=list(default), key=key, bind=BOUND)
    return [str(one) for one in chosen]


def _follow(key: str, default: Any) -> None:
    """A control that stands where it stood at first goes with its default, when another control
    changes that: its value is not in the address, where a new window would take the default."""
    known = st.session_state.setdefault(f"{key} at first", default)
    if known != default:
        if st.session_state.get(key) == known:
            st.session_state[key] = default  # a key that is deleted leaves the browser's as it was
        st.session_state[f"{key} at first"] = default


def _unknown(label: str, asked: str, options: Sequence[str]) -> str:
    hint = nearest(asked, options)
    return f"{label}: there is no '{asked}' here; {hint}" + ("" if hint.endswith("?") else ".")


def words(label: str, key: str, place: Any = st) -> str:
    """Words to search for."""
    return str(place.text_input(label, key=key, bind=BOUND, type="search") or "")


def is_on(label: str, key: str, default: bool = False, place: Any = st) -> bool:
    """A switch."""
    asked = st.query_params.get(key)
    if asked is not None and asked not in SWITCHED:
        shown = SWITCHED[int(not default)]
        say(f"{label}: '{asked}' is neither true nor false. This shows {shown}.")
    _follow(key, default)
    return bool(place.toggle(label, value=default, key=key, bind=BOUND))


def is_dark() -> bool:
    """Whether the reader's theme is dark."""
    return st.context.theme.type == "dark"
