"""The memory unit against equation (3), written out, and against itself step by step."""

import math

import pytest
import torch
from torch import Tensor

from models.memory_unit import ROLLOUT_RULES, MemoryUnit
from models.specification import SequenceSpecification
from tests.closeness import assert_near

CHANNELS = SequenceSpecification(100, input_channels=6, output_channels=6)
# Sums over 6 channels and up to 17 pairs; scores of β = 5 times |k| of a few stretch errors, and
# each step of a rollout those of the one before.
READ = {"terms": 6 * 3 + 17, "condition": 100.0}
ROLLOUT = {"terms": 5 * (6 * 3 + 17), "condition": 1e4}


def unit(heads: int, seed: int = 0, weights: str = "complex") -> MemoryUnit:
    torch.manual_seed(seed)
    return MemoryUnit(CHANNELS, heads=heads, beta=5.0, weights=weights).double()


def samples(time: int, batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(time)
    return torch.randn(batch, time, 6, generator=generator, dtype=torch.float64)


def read(model: MemoryUnit, query: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Equation (3) for one sequence: the output for key ``query`` (6,) of a list of pairs."""
    width = 6 // model.heads
    heads = []
    for head in range(model.heads):
        part = slice(head * width, (head + 1) * width)
        weights = [math.exp(model.beta * float(query[part] @ key[part])) for key, _ in pairs]
        mean = sum(
            (w * value[part] for w, (_, value) in zip(weights, pairs, strict=True)),
            torch.zeros(width, dtype=torch.float64),
        )
        heads.append(mean / (sum(weights) or 1))
    return model.output.matrix() @ torch.cat(heads)


def observed_pairs(model: MemoryUnit, sequence: Tensor) -> list[tuple[Tensor, Tensor]]:
    keys = sequence @ model.key_extractor.matrix().T
    values = sequence @ model.value_extractor.matrix().T
    return list(zip(keys[:-1], values[1:], strict=True))


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("weights", ["complex", "real"])
@pytest.mark.parametrize("time", [1, 2, 17])
@torch.no_grad()
def test_forward_is_equation_3(heads: int, weights: str, time: int) -> None:
    model, inputs = unit(heads, weights=weights), samples(time)
    outputs = model(inputs)
    for row, sequence in enumerate(inputs):
        for t in range(time):
            key = model.key_extractor.matrix() @ sequence[t]
            expected = read(model, key, observed_pairs(model, sequence[: t + 1]))
            assert_near(outputs[row, t], expected, **READ)
    assert not outputs[:, 0].any()


@pytest.mark.parametrize("heads", [1, 3])
@torch.no_grad()
def test_steps_equal_forward_and_keep_the_stated_bytes(heads: int) -> None:
    model, inputs = unit(heads).float(), samples(9).float()
    state, outputs = None, []
    for t in range(9):
        output, state = model.step(inputs[:, t], state)
        outputs.append(output)
        kept = sum(part[0].numel() * part.element_size() for part in state)
        assert model.state_bytes(t + 1) == kept
    assert_near(torch.stack(outputs, 1), model(inputs), **READ)


@pytest.mark.parametrize("rule", ROLLOUT_RULES)
@pytest.mark.parametrize("heads", [1, 3])
@torch.no_grad()
def test_batched_rollout_equals_a_loop_over_contexts(heads: int, rule: str) -> None:
    model, inputs, steps = unit(heads), samples(12), 5
    contexts = torch.tensor([1, 2, 7, 12])
    batched = model.rollout(inputs, contexts, steps, rule)
    for row, sequence in enumerate(inputs):
        for place, context in enumerate(contexts.tolist()):
            pairs = observed_pairs(model, sequence[:context])
            sample, predictions = sequence[context - 1], []
            for _ in range(steps + 1):
                query = model.key_extractor.matrix() @ sample
                sample = read(model, query, pairs)
                predictions.append(sample)
                if rule == "write_back":
                    pairs.append((query, model.value_extractor.matrix() @ sample))
                elif rule == "official":
                    pairs.append((query, torch.zeros_like(query)))
            # The script compares with the prediction of one sample later.
            expected = predictions[1:] if rule == "official" else predictions[:-1]
            assert_near(batched[row, place], torch.stack(expected), **ROLLOUT)


def test_parameters_are_54_complex_or_108_real_and_start_as_projected_uniforms() -> None:
    assert sum(p.numel() for p in unit(3).parameters()) == 54
    assert sum(p.numel() for p in unit(1).parameters()) == 54
    assert sum(p.numel() for p in unit(3, weights="real").parameters()) == 108
    drawn = torch.cat([p.flatten() for seed in range(200) for p in unit(3, seed).parameters()])
    limit = 1 / math.sqrt(6)
    # The mean of two independent Uniform(±limit): variance limit²/6, kurtosis 2.4.
    assert drawn.abs().max() <= limit
    assert drawn.var().item() == pytest.approx(limit**2 / 6, rel=0.05)
    assert (drawn**4).mean().item() / drawn.var().item() ** 2 == pytest.approx(2.4, rel=0.05)


@torch.no_grad()
def test_complex_matrices_multiply_complex_numbers() -> None:
    model, inputs = unit(3), samples(4)
    layer = model.key_extractor
    a, b = layer.weight
    # A channel pair (x, y) stands for x - iy under blocks [[a, b], [-b, a]].
    numbers = torch.complex(inputs[..., 0::2], -inputs[..., 1::2])
    expected = numbers @ torch.complex(a, b).T
    mapped = layer(inputs)
    assert_near(torch.complex(mapped[..., 0::2], -mapped[..., 1::2]), expected, terms=6)
    assert_near(layer.moduli(), torch.complex(a, b).abs(), terms=2)


def test_extractor_moduli_are_those_of_the_three_matrices() -> None:
    model = unit(3)
    with torch.no_grad():
        for layer, modulus in ((model.key_extractor, 3), (model.value_extractor, 5)):
            layer.weight.zero_()
            layer.weight[1, 0, 2] = -modulus
        model.output.weight[0].fill_(3)
        model.output.weight[1].fill_(4)
    moduli = model.extractor_moduli()
    expected = {
        "key_extractor": [[0.0, 0, 3], [0, 0, 0], [0, 0, 0]],
        "value_extractor": [[0.0, 0, 5], [0, 0, 0], [0, 0, 0]],
        "output": [[5.0, 5, 5]] * 3,
    }
    for name, matrix in expected.items():
        assert_near(moduli[name], torch.tensor(matrix).to(moduli[name]), terms=2)


@pytest.mark.parametrize(
    ("specification", "options", "message"),
    [
        (SequenceSpecification(10, vocabulary=7), {}, "not tokens"),
        (SequenceSpecification(10, input_channels=6, output_channels=4), {}, "same even number"),
        (SequenceSpecification(10, input_channels=3, output_channels=3), {}, "same even number"),
        (CHANNELS, {"heads": 4}, "heads must divide"),
        (CHANNELS, {"weights": "quaternion"}, "'complex' or 'real'"),
    ],
)
def test_what_it_cannot_serve_is_refused(specification, options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryUnit(specification, **options)


def test_unknown_rollout_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="frozen, write_back, official"):
        unit(3).rollout(samples(5), torch.tensor([3]), 2, "melted")
