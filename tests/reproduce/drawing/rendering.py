"""What the test of a figure asks of its picture: that it can be drawn, and what is drawn."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from reproduce.plotting import renderer
from reproduce.plotting.panels import Picture


def draw_without_layout(figure: Figure) -> None:
    """Draw every text, tick and line where it stands: the layout takes four fifths of the time."""
    figure.set_layout_engine("none")
    figure.draw_without_rendering()


def draw(picture: Picture) -> Figure:
    """A picture as matplotlib draws it, without the layout, which test_drawing.py asks for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renderer, "_settle", draw_without_layout)
        return renderer.render(picture)


def rendered(picture: Picture) -> bytes:
    """All that a picture holds, after it was drawn. Of equal pictures the images have equal bytes,
    which is tested in test_drawing.py, and for whole figures in test_regbench.py.
    """
    assert draw(picture).get_figwidth() > 0
    return picture.to_json()


def assert_every_number_is_in_the_dump(figure: Figure, picture: Picture) -> None:
    """No line of a drawn picture has a number that the picture does not hold."""
    known = np.array(sorted({*numbers(json.loads(picture.to_json())), 0.0, 1.0}))
    panels = [panel for panel in picture.panels if not panel.empty]
    axes = [one for one in figure.axes if one.axison and one.get_label() != "<colorbar>"]
    assert len(axes) == len(panels)
    for one, panel in zip(axes, panels, strict=True):
        for line in one.lines:
            drawn = line.get_xdata() if panel.sideways else line.get_ydata()
            assert np.isin(np.asarray(drawn, float), known).all(), line.get_label()


def numbers(content: Any) -> Iterator[float]:
    """All numbers of a parsed JSON file."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        for item in content:
            yield from numbers(item)
    elif isinstance(content, int | float):
        yield float(content)
