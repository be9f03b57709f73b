"""Launches of a pass, counted: the truth is what a reader counts in a few lines."""

import json

import pytest
import torch
from torch import Tensor

from bench.speed import main
from bench.timing.launches import count_launches
from core.errors import OK, UserError

CPU = torch.device("cpu")


@torch.library.custom_op("launches_of_a_test::three_steps", mutates_args=())
def three_steps(x: Tensor) -> Tensor:
    return torch.exp(torch.sin(x) + 1)


def test_views_do_not_count_and_the_backward_pass_does():
    x = torch.randn(3, 4, requires_grad=True)
    weight = torch.randn(3, 5)

    def run() -> None:
        torch.exp(x.t() @ weight).sum().backward()

    counted = count_launches(run, CPU)
    # Forward: mm, exp, sum. Backward: the one of the sum, its expansion times exp, mm.
    assert counted["by_operator"] == {
        "aten::mm": 2,
        "aten::exp": 1,
        "aten::sum": 1,
        "aten::ones_like": 1,
        "aten::mul": 1,
    }
    assert counted["operators"] == 6
    assert counted["views"] >= 3  # both transpositions and the expansion
    assert counted["kernels"] is None


def test_a_custom_operator_is_one_launch_and_a_question_none():
    x = torch.randn(3)

    def run() -> None:
        torch.promote_types(x.dtype, torch.float64)
        three_steps(x)

    counted = count_launches(run, CPU)
    assert counted["by_operator"] == {"launches_of_a_test::three_steps": 1}


def test_casts_of_bfloat16_are_launches_of_a_training_pass(tmp_path, capsys):
    words = ["width=8", "layers=2", "heads=2", "length=12", "batch=2", "vocabulary=11", "rounds=1"]
    words += ["models=gpt2", "passes=training", "device=cpu", "count_launches=true"]
    counts = {}
    for precision in ("float32", "bfloat16"):
        output = tmp_path / f"{precision}.json"
        assert main([*words, f"precision={precision}", f"output={output}"]) == OK
        (row,) = json.loads(output.read_text())["models"]
        counts[precision] = row["launches"]
        assert f"{row['launches']['operators']:,} operator calls" in capsys.readouterr().out
    single, half = (counts[precision]["by_operator"] for precision in ("float32", "bfloat16"))
    # A product of each of four matrices of a layer, and the logits; twice as many backward.
    assert single["aten::mm"] == half["aten::mm"] == 3 * (4 * 2 + 1)
    assert "aten::_to_copy" not in single
    added = counts["bfloat16"]["operators"] - counts["float32"]["operators"]
    assert added == half["aten::_to_copy"]


def test_a_graph_needs_cuda():
    with pytest.raises(UserError, match="graphs=true captures passes as CUDA graphs"):
        main(["graphs=true", "device=cpu", "models=gpt2"])
