"""Scores of three moons on curves whose transitions are known by construction."""

import pytest
import torch
from torch import Tensor

from tasks.three_moons.scores import disentanglement, score_curve
from tests.closeness import assert_near

PERIODS, FULL = [20.0, 40.0, 60.0], 120.0
CONTEXTS = torch.arange(1, 250)


def stairs(falls: list[float], high: float = 0.6, low: float = 0.1) -> Tensor:
    """(contexts, moons): each moon's error is high up to its own fall, then low."""
    return torch.stack([torch.where(fall > CONTEXTS, high, low) for fall in falls], dim=1)


def test_levels_and_transitions_of_a_disentangled_curve() -> None:
    scores = score_curve(stairs([20, 40, 61]), CONTEXTS, PERIODS, FULL)
    assert scores["error_before_p1"] == pytest.approx(0.6, abs=0.02)
    assert scores["error_p1_to_p2"] == pytest.approx((0.1 + 2 * 0.6) / 3, abs=0.03)
    assert scores["error_p2_to_p3"] == pytest.approx((2 * 0.1 + 0.6) / 3, abs=0.03)
    for window in ("p3_to_lcm", "after_lcm"):
        assert_near(scores[f"error_{window}"], 0.1, terms=250, dtype=torch.float32)
    assert scores["plausible"] == 1
    assert scores["every_moon_half_error_context"] == 61
    assert scores["slowest_moon_half_error_over_max_period"] == pytest.approx(61 / 60)
    assert scores["every_moon_half_error_over_lcm"] == pytest.approx(61 / 120)


def test_all_moons_falling_at_once_is_seen_at_the_full_period() -> None:
    scores = score_curve(stairs([121, 121, 121]), CONTEXTS, PERIODS, FULL)
    for name in ("half_error", "slowest_moon_half_error", "every_moon_half_error"):
        assert scores[f"{name}_context"] == 121
        assert scores[f"{name}_over_lcm"] == pytest.approx(121 / 120)


def test_moons_that_share_a_memory_delay_every_moon_but_not_the_slowest() -> None:
    scores = score_curve(stairs([150, 150, 61]), CONTEXTS, PERIODS, FULL)
    assert scores["slowest_moon_half_error_context"] == 61
    assert scores["every_moon_half_error_context"] == 150


def test_half_of_the_mean_error_can_fall_before_the_slowest_moon() -> None:
    errors = stairs([20, 40, 61]) * torch.tensor([1.4, 1.2, 0.4])
    scores = score_curve(errors, CONTEXTS, PERIODS, FULL)
    assert scores["half_error_context"] == 40
    assert scores["every_moon_half_error_context"] == 61


def test_divergence_is_not_plausible_and_what_is_undefined_is_left_out() -> None:
    diverged = stairs([20, 40, 61])
    diverged[30] = 900.0
    assert score_curve(diverged, CONTEXTS, PERIODS, FULL)["plausible"] == 0
    never = score_curve(torch.full((249, 3), 0.6), CONTEXTS, PERIODS, FULL)
    assert not [name for name in never if "half_error" in name]
    short = score_curve(stairs([20, 40, 61])[:100], CONTEXTS[:100], PERIODS, FULL)
    assert "error_after_lcm" not in short


def moduli(keys: Tensor, values: Tensor, output: Tensor) -> dict[str, Tensor]:
    return {"key_extractor": keys, "value_extractor": values, "output": output}


def test_disentanglement_needs_one_assignment_for_all_three_matrices() -> None:
    eye, turned = torch.eye(3), torch.eye(3)[[1, 2, 0]]
    same = disentanglement(moduli(2 * turned, 5 * turned, turned.T))
    assert same["disentangled"] == 1.0
    assert_near(same["disentanglement"], 1.0, terms=9, dtype=torch.float32)
    # The output undoes the wrong rotation: an assignment agrees with one moon at most.
    wrong = disentanglement(moduli(turned, turned, turned))
    assert_near(wrong["disentanglement"], 1 / 3, terms=9, dtype=torch.float32)
    chance = disentanglement(moduli(eye, eye, torch.ones(3, 3)))
    assert_near(chance["disentanglement"], 1 / 3, terms=9, dtype=torch.float32)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([[3.1, 1, 0], [0, 3.1, 1], [1, 0, 3.1]], 1.0),
        ([[2.9, 1, 0], [0, 3.1, 1], [1, 0, 3.1]], 0.0),
        ([[4.0, 1, 0], [4.0, 0, 1], [1, 0, 3.1]], 0.0),
    ],
)
def test_disentangled_is_a_dominant_modulus_in_every_row(
    keys: list[list[float]], expected: float
) -> None:
    eye = torch.eye(3)
    assert disentanglement(moduli(torch.tensor(keys), eye, eye))["disentangled"] == expected
