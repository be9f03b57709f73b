"""Published numbers: spot checks against the sources, and files that must be refused."""

from pathlib import Path

import pytest
import yaml

from core.errors import UserError
from leaderboards.build import FOLDER
from leaderboards.tables import published as published
from reproduce.published.numbers import read_published

FILES = {file.short: file for file in read_published(FOLDER.parent / "reproduce" / "published")}
MODELS = FOLDER.parent / "models"


@pytest.mark.parametrize(
    ("source", "metric", "label", "size", "value", "kind"),
    [
        ("Memory Mosaics, Fig. 9", "accuracy", "Memory Mosaic", 100, 0.925, "digitised ±0.003"),
        ("Memory Mosaics, Fig. 9", "accuracy", "Mamba", 100, 0.377, "digitised ±0.008"),
        ("Memory Mosaics, Fig. 9", "accuracy", "GLA", 40000, 0.927, "digitised ±0.003"),
        ("Memory Mosaics, Fig. 9", "tvd", "Memory Mosaic", 100, 0.570, "digitised ±0.003"),
        ("Memory Mosaics, Fig. 9", "tvd", "RetNet", 40000, 0.181, "digitised ±0.008"),
        ("ICLL study", "tvd", "Transformer", 40000, 0.126, "digitised ±0.005"),
        ("ICLL study", "accuracy", "S4D", 1000, 0.529, "digitised ±0.005"),
        ("ICLL study", "tvd", "3-gram", 5000, 0.265, "digitised ±0.005"),
        ("Memory Mosaics, Table 3", "accuracy", "RWKV", 100, 0.967, "printed"),
        ("Memory Mosaics, Table 3", "tvd", "Memory Mosaic", 100, 0.417, "printed"),
    ],
)
def test_numbers_are_those_of_the_source(source, metric, label, size, value, kind):
    rows = [
        row
        for row in published.rows([FILES[source]])
        if (row.metric, row.label) == (metric, label)
        and row.variant.startswith(f"training_automata={size},")
    ]
    assert [(row.mean, row.kind) for row in rows] == [(value, f"published ({kind})")]


def test_every_number_is_there():
    counts = {short: len(list(published.rows([file]))) for short, file in FILES.items()}
    # 11 models at 5 sizes and 2 metrics; 9 models and 2 reference lines at 6 sizes and 2 metrics,
    # one of which was not readable; 11 models and 2 metrics; 6 settings that did not fail and 2
    # versions, each with 2 losses; 192 cells of a grid at 7 dimensions, and 2 others at 3; 6 models
    # on 14 tasks of two sizes.
    assert counts == {
        "Memory Mosaics, Fig. 9": 110,
        "ICLL study": 131,
        "Memory Mosaics, Table 3": 22,
        "Memory Mosaics, Table 2": 12,
        "Memory Mosaics, released library": 4,
        "Scaling laws for associative memories, optimiser study": 1350,
        "CogScale, small": 84,
        "CogScale, medium": 84,
    }


def test_curves_skip_what_was_not_published():
    curve = next(
        line
        for line in published.lines([FILES["ICLL study"]])
        if (line.label, line.metric) == ("Linear transformer", "accuracy")
    )
    assert curve.x == (1000.0, 2500.0, 5000.0, 10000.0, 40000.0)
    assert curve.y_high[0] == pytest.approx(0.517)


@pytest.mark.parametrize("file", FILES.values(), ids=lambda file: file.short)
def test_models_that_are_named_exist(file):
    for label, model in file.models.items():
        assert any(label in table.values for table in file.metrics.values())
        assert (MODELS / f"{model}.yaml").exists(), model


def _change(content, path, value):
    node = content
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("schema_version",), 2, "schema_version"),
        (("typo",), 1, "typo"),
        (("reading_error",), None, "reading_error"),
        (("how",), "printed", "reading_error"),
        (("metrics", "accuracy", "direction"), "up", "direction"),
        (("metrics", "accuracy", "values", "GLA"), [0.1], "needs 5 numbers"),
        (("metrics", "accuracy", "values", "GLA"), [0.1, 0.2, 0.3, 0.4, float("nan")], "finite"),
        (("metrics", "accuracy", "values", "GLA"), [0.1, 0.2, 0.3, 0.4, "about 1"], "about 1"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path, path, value, problem):
    content = yaml.safe_load(
        (FOLDER.parent / "reproduce" / "published" / "regbench_figure9.yaml").read_text()
    )
    _change(content, path, value)
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(UserError, match=problem):
        read_published(tmp_path)


@pytest.mark.parametrize(
    "content", ["a: [", "!!python/object/apply:os.getcwd []", "- 1", "a" * 2**21]
)
def test_what_is_no_data_file_is_refused(tmp_path: Path, content):
    (tmp_path / "wrong.yaml").write_text(content)
    with pytest.raises(UserError):
        read_published(tmp_path)
