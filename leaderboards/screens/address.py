"""Controls whose state is in the address, and which say so where the address asks for something
that there is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from ground.errors import nearest

BOUND = "query-params"


def say(sentence: str) -> None:
    """A sentence that a reader must not miss, as plain text."""
    with st.container(border=True):
        st.text(sentence)


def one_of(
    label: str, options: Sequence[str], key: str, default: str | None = None, place: Any = st
) -> str:
    """One of several; the address may name another than the default."""
    asked = st.query_params.get(key)
    if asked is not None and asked not in options:
        shown = default or options[0]
        say(
            f"There is no {label.lower()} '{asked}' here: {nearest(asked, options)}. "
            f"This shows {shown}."
        )
    index = options.index(default) if default in options else 0
    return str(place.selectbox(label, options, index, key=key, bind=BOUND))


def some_of(
    label: str, options: Sequence[str], key: str, default: Sequence[str], place: Any = st
) -> list[str]:
    """Any of several; the address may name others than the default ones."""
    unknown = [asked for asked in st.query_params.get_all(key) if asked not in options]
    if unknown:
        say(f"There is no {label.lower()} '{unknown[0]}' here: {nearest(unknown[0], options)}.")
    chosen = place.multiselect(label, options, default=list(default), key=key, bind=BOUND)
    return [str(one) for one in chosen]


def words(label: str, key: str, place: Any = st) -> str:
    """Words to search for."""
    return str(place.text_input(label, key=key, bind=BOUND, type="search") or "")


def is_on(label: str, key: str, default: bool = False, place: Any = st) -> bool:
    """A switch."""
    return bool(place.toggle(label, value=default, key=key, bind=BOUND))


def is_dark() -> bool:
    """Whether the reader's theme is dark."""
    return st.context.theme.type == "dark"
