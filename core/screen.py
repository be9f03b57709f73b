"""The console that tables are printed on."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from core.escaping import terminal


class _Screen(Console):
    """A console on which a string is a text: styles are given apart from it."""

    def __init__(self, **look: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **look)

    def render_str(self, text: str, **look: Any) -> Text:
        return super().render_str(terminal(text), **look)


def console(soft_wrap: bool = False) -> Console:
    """Standard output; wide where no terminal limits it, so that files and logs are not folded."""
    screen = _Screen(soft_wrap=soft_wrap)
    return screen if screen.is_terminal else _Screen(soft_wrap=soft_wrap, width=160)
