"""Pictures as data, their look, and how they are drawn, on constructed panels."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from matplotlib.textpath import TextPath
from pydantic import ValidationError

from bench.config.groups import choices, model_groups, with_guests
from bench.records.schema import Curve
from core.errors import UserError
from reproduce.claims.grammar import Runs, metric
from reproduce.drawing.frame import failures
from reproduce.drawing.plots import Plot, dots, dots_by_run, rows_of
from reproduce.drawing.traces import curve_over_seeds, over_draws, over_seeds
from reproduce.plotting import models, renderer, style
from reproduce.plotting.looks import edges, look_of, moved
from reproduce.plotting.marks import legend_entries
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace
from reproduce.plotting.renderer import images, render
from tests.configurations import compose
from tests.reproduce.records import regbench


def every_kind() -> Picture:
    """One trace and remark of each kind."""
    grid = [-1.0, 0.0, 1.0]
    bowl = [[1.0 + x * x + y * y for x in grid] for y in grid]
    interval = [(0.5, 1.5), None, (2.5, 3.5)]
    marks: list[Any] = ["line", "dots", "both", "bars"]
    measured = [
        Trace(m, [1, 2, 4], [1, None, 3], interval, {0: [1, 2, 3]}, [2], mark=m) for m in marks
    ]
    remarks = [
        Remark("words"),
        Remark("at x", x=2),
        Remark("at y", y=2.5, side="center", at=0.5),
        Remark("span", x=1, to=2, side="left"),
        Remark("point", x=2, y=2),
    ]
    names = Axis(categories=["a", "b", "c"])
    cells = [[0.1, None, 0.9], [0.3, 0.2, 0.8]]
    upper = [
        Panel("lines", Axis(scale="log2"), traces=measured, remarks=remarks, legend="right"),
        Panel("rows", names, traces=measured[1:2], sideways=True, remarks=remarks, legend="best"),
        Panel(),
    ]
    lower = [
        Panel(
            "heat",
            names,
            z=Axis("share", limits=(0, 1)),
            traces=[Trace("h", range(3), range(2), z=cells, mark="heat", numbers=".1f")],
        ),
        Panel(
            "landscape",
            z=Axis(scale="log"),
            traces=[Trace("l", grid, grid, z=bowl, mark="contour"), Trace("p", grid, grid)],
        ),
        Panel(
            "shades",
            z=Axis("λ"),
            traces=[Trace(f"head {i}", grid, grid, shade=i / 2, texts="abc") for i in range(3)],
        ),
    ]
    return Picture(
        "kinds", [upper, PanelRow(lower, height=2, widths=[1, 2, 1])], legend="below", foot=["lost"]
    )


def test_every_kind_is_drawn_and_comes_back_from_its_dump() -> None:
    picture = every_kind()
    assert Picture.from_json(picture.to_json()) == picture
    assert images(picture, "x") == images(Picture.from_json(picture.to_json()), "x")
    assert render(Picture("nothing", rows=[]))


def test_no_line_of_the_frame_is_wider_than_its_picture() -> None:
    words = " ".join(["words of an explanation that goes on"] * 12)
    panel = Panel(traces=[Trace("a", [1, 2], [1, 2])])
    texts: dict[str, Any] = {"subtitle": words, "note": f"{words} $", "foot": [words, "short"]}
    figure = render(Picture("a title", [PanelRow([panel])], width=6, **texts))
    figure.draw_without_rendering()
    lines = [text for text in figure.texts if text.get_text()]
    assert " ".join(text.get_text() for text in lines).count("words of an") == 36
    for line in lines:
        extent = line.get_window_extent()
        assert 0 <= extent.x0 < extent.x1 <= figure.bbox.width, line.get_text()
    tops = sorted((line.get_window_extent() for line in lines), key=lambda box: -box.y1)
    assert all(above.y0 > below.y0 for above, below in pairwise(tops))
    assert tops[0].y1 <= figure.bbox.height
    assert tops[-1].y0 >= 0


@pytest.mark.parametrize("text", ["Memory Mosaic, β = √n: S₃", "✗ gpt2 \\$ failed", "j"])
def test_the_width_of_a_text_is_that_of_its_exact_outline(text: str) -> None:
    exact = TextPath((0, 0), text, size=8).get_extents().width / 72
    assert renderer._width(text, 8) == pytest.approx(exact, rel=1e-9)


def test_words_at_ends_and_numbers_of_ticks_do_not_run_into_each_other() -> None:
    ends = ("a model of somebody's (not committed)", "b", "another of these long names of models")
    curves = [Trace(end, [1, 2], [0.5, 0.5 + n / 100], end=end) for n, end in enumerate(ends)]
    x = Axis(scale="log", limits=(80, 50_000), ticks=(100, 500, 600, 700, 40_000))
    figure = render(Picture("narrow", [PanelRow([Panel(x=x, traces=curves)])], width=4))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    words = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 for low, high in pairwise(words))
    assert axes.get_position().width > 0.5  # the words have not taken its room
    shown = [label for label in axes.get_xticklabels() if label.get_visible()]
    assert [label.get_text() for label in shown][:2] == ["100", "500"]
    places = [label.get_window_extent() for label in shown]
    assert all(left.x1 < right.x0 for left, right in pairwise(places))
    assert len(shown) < len(x.ticks)


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ValidationError, match="2 x and 1 of y"):
        Trace("a", [1, 2], [1])
    with pytest.raises(ValidationError, match="of interval"):
        Trace("a", [1, 2], [1, 2], interval=[(0, 1)])
    with pytest.raises(ValidationError, match="matrix of 1 × 2"):
        Trace("a", [1, 2], [1], z=[[1]], mark="heat")
    with pytest.raises(ValidationError, match="two traces"):
        Panel(traces=[Trace("a", [], []), Trace("a", [], [])])
    with pytest.raises(ValidationError):
        Trace("a", [1], [1], role="important")  # type: ignore[arg-type]


def test_numbers_that_are_not_finite_are_missing() -> None:
    trace = Trace("a", [1, 2, 3], [1, float("nan"), float("inf")])
    assert trace.y == (1.0, None, None)


def test_a_file_without_a_picture_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "curves.json"
    with pytest.raises(UserError, match="there is no figure"):
        Picture.read(path)
    path.write_text("{")
    with pytest.raises(UserError, match="truncated or not JSON"):
        Picture.read(path)
    path.write_text(json.dumps({"title": "a", "rows": [], "script": "x"}))
    with pytest.raises(UserError, match=r"is not a figure \(script"):
        Picture.read(path)
    path.write_bytes(every_kind().to_json())
    assert Picture.read(path) == every_kind()


def test_every_model_has_a_label_and_a_colour_and_forms_of_one_kind_differ() -> None:
    for group in model_groups():
        looks = {name: models.look(name) for name in choices(group)}
        assert len(set(looks.values())) == len(looks), group
        assert {look.colour for look in looks.values()} <= set(style.PALETTE.values())
        assert all(models.label(name) for name in looks)
    assert models.label("gpt2") == "GPT2"


def test_a_model_of_another_package_has_a_colour_that_no_other_has() -> None:
    first = models.look("Model")
    assert models.label("elsewhere.Model") == "Model"
    assert first.colour == style.PALETTE[style.UNNAMED]
    ours = {models.look(name).colour for group in model_groups() for name in choices(group)}
    assert first.colour not in ours
    with with_guests(["elsewhere.Model", "elsewhere.Other"]):
        other = models.look("Other")
        assert models.look("Model") == first
    assert (other.colour, other != first) == (first.colour, True)


@pytest.mark.parametrize(
    ("look", "sentence"),
    [
        ({"colour": "blu"}, "the model 'gpt2' has the unknown colour 'blu': did you mean 'blue'?"),
        ({"colour": style.UNNAMED}, "unknown colour 'brown': valid names: black, blue"),
        ({"line": "dahsed"}, "unknown line 'dahsed': did you mean 'dashed'?"),
        ({"marker": 4}, "unknown marker '4': valid names: circle"),
    ],
)
def test_a_look_that_cannot_be_drawn_is_a_sentence(
    look: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "model_card", lambda name: look)
    with pytest.raises(UserError, match=re.escape(sentence)):
        models.look("gpt2")


def test_a_colour_is_no_argument_of_a_model() -> None:
    resolved = compose(["tasks=regbench", "models=gpt2"]).resolved()
    assert "colour" not in json.dumps(resolved, default=str)


def test_there_are_at_most_four_sizes_of_letters() -> None:
    figure = render(every_kind())
    found = {text.get_fontsize() for text in figure.findobj(lambda a: hasattr(a, "get_fontsize"))}
    written = {
        text.get_fontsize()
        for text in figure.findobj(lambda a: hasattr(a, "get_fontsize"))
        if text.get_text() and text.get_visible()  # type: ignore[attr-defined]
    }
    assert written <= {style.TITLE, style.PANEL, style.LABEL, style.SMALL} <= found | written


def test_the_role_says_the_look_and_the_card_the_colour() -> None:
    published = look_of(Trace("a", [1], [1], role="published", colour="gpt2"))
    assert (published.colour, published.line, published.hollow) == ("#d55e00", "dashed", True)
    form = look_of(Trace("a", [1], [1], colour="gated_delta"))
    assert (form.colour, form.line, form.marker) == ("#0072b2", "dashed", "square")
    assert look_of(Trace("a", [1], [1], colour="gated_delta", line="dotted")).line == "dotted"


def test_a_legend_has_each_text_once_and_grey_for_several_colours() -> None:
    shared: dict[str, Any] = {"legend": "here"}
    traces = [
        Trace("a", [1], [1], colour="gpt2", **shared),
        Trace("b", [1], [1], colour="lstm", **shared),
        Trace("c", [1], [1], colour="lstm"),
        Trace("d", [1], [1], legend="", failed=[1]),
    ]
    found = {entry.get_label(): entry.get_color() for entry in legend_entries(Panel(traces=traces))}
    assert found == {
        "here": style.PALETTE["grey"],
        "c": models.look("lstm").colour,
        "a run without result": style.PALETTE["vermillion"],
    }


def test_points_are_moved_aside_on_paper_and_not_in_the_data() -> None:
    trace = Trace("a", [100], [1], aside=2)
    assert moved(Panel(x=Axis(scale="log"), traces=[trace]), trace) == [100 * 1.05**2]
    assert moved(Panel(x=Axis(categories="abc"), traces=[trace]), trace) == [100.24]
    assert trace.x == (100,)


def test_cells_end_halfway_between_their_places() -> None:
    assert edges([0, 1, 3], Axis()) == [-0.5, 0.5, 2, 4]
    assert edges([7], Axis()) == [6.5, 7.5]
    assert edges([1, 100], Axis(scale="log")) == pytest.approx([0.1, 10, 1000])


def test_words_at_the_ends_of_lines_do_not_cover_each_other() -> None:
    ends = [Trace(name, [0, 1], [0, 0.001 * i], end=name) for i, name in enumerate("abc")]
    figure = render(Picture("t", [[Panel(traces=ends)]]))
    figure.draw_without_rendering()
    words = [text for text in figure.axes[0].texts if text.get_text() in "abc"]
    boxes = sorted((text.get_window_extent() for text in words), key=lambda box: box.y0)
    assert len(boxes) == 3
    assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))


def test_a_trace_over_seeds_keeps_every_seed_and_each_failed_run() -> None:
    runs = [regbench("gpt2", seed, 100, 0.4 + 0.1 * seed, 0.5) for seed in range(3)]
    lost = [*runs, regbench("gpt2", 3, 100, 0, 0, outcome="diverged")]
    trace = over_seeds("GPT2", {100: lost, 500: runs, 1000: []}, metric("accuracy"))
    assert trace.x == (100, 500)
    assert trace.y == pytest.approx([0.5, 0.5])
    assert trace.seeds["1"] == (0.5, 0.5)
    assert trace.seeds["3"] == (None, None)
    assert trace.failed == (100,)
    low, high = trace.interval[0] or (0, 0)
    assert (low, high) == pytest.approx((0.5 - 0.2484, 0.5 + 0.2484), abs=1e-4)
    (clause,) = failures(lost)
    assert clause.startswith("gpt2 seed 3 diverged")
    (clause,) = failures([*lost, regbench("gpt2", 0, 500, 0.4, 0.5)])  # which N it was
    assert clause.startswith("gpt2 (training_automata=100) seed 3 diverged")
    other = regbench("gpt2", 0, 500, 0.4, 0.5).model_copy(update={"task": "bigram"})
    (clause,) = failures([*lost, other])  # what another task is set to tells nothing
    assert clause.startswith("gpt2 seed 3 diverged")
    [dot] = dots("accuracy", [Runs("GPT2", model="gpt2")])(runs)
    assert (dot.name, dot.colour, dot.x) == ("GPT2", "gpt2", (0,))


def test_panels_alone_are_one_row_and_runs_are_its_lines() -> None:
    records = [regbench("gpt2", 0, 100, 0.4, 0.5), regbench("lstm", 0, 100, 0.2, 0.5)]
    panels = [
        Plot("a"),
        dots_by_run("b", "accuracy", [Runs("GPT2", model="gpt2"), Runs("LSTM", model="lstm")]),
    ]
    (row,) = rows_of(panels, records)
    assert rows_of([panels], records) == [row]
    _, by_run = row.panels
    assert (by_run.sideways, by_run.x.categories) == (True, ("GPT2", "LSTM"))
    assert [(trace.x, trace.y) for trace in by_run.traces] == [((0,), (0.4,)), ((1,), (0.2,))]


def test_a_curve_over_seeds_is_their_mean_where_all_have_a_value() -> None:
    runs = [
        regbench("gpt2", seed, 100, 0, 0).model_copy(update={"curves": {"loss": curve}})
        for seed, curve in enumerate([Curve(x=[1, 2, 3], y=[1, 2, 3]), Curve(x=[2, 3], y=[4, 6])])
    ]
    trace = curve_over_seeds("GPT2", runs, "loss")
    assert (trace.x, trace.y) == ((2, 3), (3, 4.5))
    assert trace.seeds == {"0": (2, 3), "1": (4, 6)}
    assert curve_over_seeds("GPT2", runs, "no such curve").x == ()


def test_trials_may_be_of_different_number() -> None:
    trace = over_draws("a", {1: [1.0, 3.0], 2: [5.0]})
    assert trace.y == (2, 5)
    assert trace.seeds == {"0": (1, 5), "1": (3, None)}
    assert trace.interval[1] is None


def test_clips_of_an_svg_are_named_by_their_order_and_each_is_there() -> None:
    svg = images(every_kind(), "salt")["svg"].decode()
    used = re.findall(r"url\(#(\w+)\)", svg)
    assert set(used) <= set(re.findall(r'<clipPath id="(\w+)"', svg))
    assert list(dict.fromkeys(used))[:2] == ["clip0", "clip1"]
    assert all(re.fullmatch(r"clip\d+", name) for name in used)
