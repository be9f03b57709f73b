"""The speed command at tiny shapes: that it runs and that its numbers agree with each other."""

from __future__ import annotations

import json
import statistics

import numpy as np
import pytest
import torch

from bench.speed import main, read_settings
from bench.timing.passes import build_model, describe_engine
from ground.errors import OK, UserError

TINY = ["width=8", "layers=1", "heads=2", "length=12", "batch=2", "rounds=3", "device=cpu"]


def test_measurement_is_consistent(tmp_path, capsys):
    output = tmp_path / "speed.json"
    words = [*TINY, "models=lstm", "reference=gpt2", "vocabulary=[11,50]"]
    words += ["dropout=[0.0,0.2]", f"output={output}"]
    assert main([*words, "engine=true", "engine_steps=2", "profile=true"]) == OK
    content = json.loads(output.read_text())
    keys = ("model", "vocabulary", "dropout")
    rows = {tuple(row[key] for key in keys): row for row in content["models"]}
    assert set(rows) == {(m, v, p) for m in ("gpt2", "lstm") for v in (11, 50) for p in (0.0, 0.2)}
    for (model, vocabulary, dropout), row in rows.items():
        assert len(row["seconds"]) == 3
        assert row["steps_per_second"] == pytest.approx(1 / statistics.median(row["seconds"]))
        assert row["tokens_per_second"] == pytest.approx(24 * row["steps_per_second"])
        reference = rows["gpt2", vocabulary, dropout]["seconds"]
        ratios = [a / b for a, b in zip(reference, row["seconds"], strict=True)]
        assert row["speed_against_reference"] == pytest.approx(statistics.median(ratios))
        first = rows[model, vocabulary, 0.0]["seconds"]
        ratios = [b / a for a, b in zip(first, row["seconds"], strict=True)]
        assert row["time_against_first_dropout"] == pytest.approx(statistics.median(ratios))
        model = build_model(read_settings(words), model, vocabulary, dropout)
        layers = [layer.p for layer in model.modules() if isinstance(layer, torch.nn.Dropout)]
        assert set(layers) == {dropout}
        assert row["parameters"] == sum(p.numel() for p in model.parameters())
        assert row["flops"] > 0
    # A larger vocabulary adds a row of the tied table for each token, and nothing else.
    parameters = {key: row["parameters"] for key, row in rows.items()}
    assert parameters["gpt2", 50, 0.0] - parameters["gpt2", 11, 0.0] == 39 * 8
    assert set(content["profile"]) == {"gpt2", "lstm"}
    for regions in content["profile"].values():
        assert sum(region["own_share"] for region in regions) <= 1 + 1e-6
        assert all(region["own_share"] <= region["share"] + 1e-6 for region in regions)

    # No speed is worth reporting unless both loops do the same training.
    assert content["engine"]["largest_weight_difference"] == 0
    assert len(content["engine"]["engine_blocks"]) == 3
    shown = capsys.readouterr().out
    assert "vocabulary 50" in shown
    assert "engine / plain" in shown
    low, high = content["engine"]["engine_over_plain_quartiles"]
    assert low <= content["engine"]["engine_over_plain"] <= high
    assert describe_engine(content["engine"]) in shown


def test_the_ratio_of_the_engine_is_of_neighbouring_blocks():
    # A machine that becomes twice as slow in the middle of an order that alternates.
    engine, plain = [0.5, 1.1, 1.1], [0.5, 0.5, 1.0]
    ratios = [a / b for a, b in zip(engine, plain, strict=True)]
    shown = describe_engine(
        {
            "model": "gpt2",
            "engine_blocks": engine,
            "plain_blocks": plain,
            "engine_over_plain": statistics.median(ratios),
            "engine_over_plain_quartiles": np.quantile(ratios, [0.25, 0.75]).tolist(),
            "largest_weight_difference": 0.0,
        }
    )
    assert "1.100 (median over 3 pairs of neighbouring blocks, middle half 1.050 to 1.650)" in shown
    assert "0.5000 to 1.1000 s under the engine and 0.5000 to 1.0000 s in the plain loop" in shown


def test_region_of_an_autograd_function_is_found():
    from bench.timing.passes import _profile

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return torch.linalg.matrix_exp(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    x = torch.randn(60, 60, requires_grad=True)

    def run():
        Slow.apply(x).sum().backward()
        return 0.0

    regions = {region["region"]: region for region in _profile(run, 4)}
    assert regions["Slow"]["calls"] == 1  # in each pass
    assert regions["Slow"]["share"] > 0.2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["widht=3"], "did you mean 'width'"),
        (["width=none"], "width='none' cannot be used"),
        (["models=lstn"], "did you mean 'lstm'"),
        (["models=gpt2", "heads=3"], "cannot be timed at these shapes"),
        (["vocabulary=0"], r"vocabulary\[0\]=0 cannot be used"),
        (["vocabulary=[11,-5]"], r"vocabulary\[1\]=-5 cannot be used"),
        (["vocabulary=[]"], "vocabulary=.. cannot be used"),
        (["vocabulary=10000000000"], "GiB of weights, and training holds"),
        (["batch=10000000000"], "the memory is too small for these shapes"),
        (["width=true"], "true and false are no values"),
        (["threads=100000"], "less than or equal to 1024"),
        (["layers=100000000"], "less than or equal to 1000"),
        (["width=1000000"], "GiB of weights, and training holds"),
        (["models=collections.UserDict"], "is no model: a model derives from torch.nn.Module"),
    ],
)
def test_mistakes_are_one_sentence(words, sentence):
    with pytest.raises(UserError, match=sentence):
        main([*TINY, *words])


def test_help_lists_every_setting(capsys):
    assert main(["--help"]) == OK
    shown = capsys.readouterr().out
    for name in read_settings([]).model_dump():
        assert f"\n  {name}: " in shown
