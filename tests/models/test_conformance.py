"""What every model of ``models/`` owes its users; a new file there is tested without an edit here.

Models are found by their YAML files and built small. Of several files of one class the first is
tested with tokens and channels, the others with one of them and for what their other arguments may
change; ``nox -s every_model`` tests all of all. A model may refuse one kind of
sequence, tokens or channels, with a ValueError, but not both. Two keys of the card excuse it from a
test: ``vmap: false`` where an operation inside has no batching rule in torch, and
``unused_parameters``, patterns (fnmatch) of parameters that no output depends on.

A class of another package, or of a file, is tested from its folder, by the contract alone:
``MODEL=./net.py:MyModel python -m pytest PROJECT/tests/models/test_conformance.py -k MyModel``
"""

import copy
import inspect
import itertools
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.utils import _pytree as pytree

from bench.config import groups
from bench.config.questions import QUESTIONS, RECORDED
from bench.examination.examination import examine
from bench.training.storage import as_safetensors, load_weights, on_meta
from models.specification import SequenceModel
from reproduce.plotting.models import look
from tests.closeness import assert_near
from tests.models.built import (
    GUESTS,
    NAMES,
    SPECIFICATIONS,
    configuration,
    constructor,
    hyperparameters,
    in_steps,
    model_or_skip,
    names_with_kinds,
    names_with_one_kind,
    one_of_each_class,
    rounded,
    sequences,
    small_model,
    trained_or_skip,
)
from tests.models.derivatives import assert_derivatives_near, disturbed, leaves_of, with_gradients

# A change of every parameter: of a bias that is still zero no mistake can be seen.
AS_TRAINED = 0.1
COUNTER = 8  # bytes

CLASSES = one_of_each_class()
on_every_model = pytest.mark.parametrize("name", NAMES)
on_every_model_and_kind = pytest.mark.parametrize(("name", "kind"), names_with_kinds())
on_every_class_and_kind = pytest.mark.parametrize(
    ("name", "kind"), [*itertools.product(CLASSES, SPECIFICATIONS)]
)
# What does not depend on how a model reads its inputs.
on_every_model_once = pytest.mark.parametrize(("name", "kind"), names_with_one_kind(NAMES))
on_every_class_once = pytest.mark.parametrize(("name", "kind"), names_with_one_kind(CLASSES))


def random_projection(outputs: Tensor) -> Tensor:
    """A scalar whose gradient is different at every output."""
    weights = torch.arange(outputs.numel(), dtype=torch.float64).cos().view(outputs.shape)
    return (outputs * weights.to(outputs.dtype)).sum()


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Every tensor that the modules hold: parameters, buffers, and bare attributes."""
    held = dict(model.state_dict(keep_vars=True)) | dict(model.named_buffers())
    for prefix, module in model.named_modules():
        bare = {f"{prefix}.{k}": v for k, v in vars(module).items() if isinstance(v, Tensor)}
        held.update(bare)
    return {name: tensor.detach().clone() for name, tensor in held.items()}


def test_models_are_found() -> None:
    assert NAMES


@on_every_model
def test_takes_tokens_or_channels(name: str) -> None:
    assert name in GUESTS or vars(constructor(name)).get("__doc__"), "its class has no docstring"
    refusals = []
    for kind in SPECIFICATIONS:
        try:
            model = small_model(name, kind)
            assert name in GUESTS or isinstance(model, SequenceModel), "it has no step or no size"
        except ValueError as refusal:
            refusals.append(refusal)
    assert len(refusals) < len(SPECIFICATIONS), refusals


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(GUESTS)))
def test_card_is_complete(name: str) -> None:
    card = configuration(name).get("card")
    assert card, f"models/{name}.yaml has no card: it needs label, source and note"
    for key in ("label", "source", "note"):
        said = isinstance(card.get(key), str) and card[key]
        assert said, f"the card of models/{name}.yaml has no {key}"
    assert groups.card("models", name) == card  # refuses keys that nobody reads
    assert look(name).colour  # refuses what cannot be drawn
    cards = {other: configuration(other)["card"] for other in set(NAMES) - set(GUESTS)}
    same = sorted(other for other, own in cards.items() if own["label"] == card["label"])
    assert same == [name], f"{' and '.join(same)} have one label: no table tells them apart"


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(GUESTS)))
def test_defaults_of_the_constructor_are_those_of_the_yaml(name: str) -> None:
    parameters = list(inspect.signature(constructor(name)).parameters.values())
    assert parameters[0].name == "specification"
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters[1:])
    defaults = {p.name: p.default for p in parameters[1:]}
    same_class = [other for other in NAMES if constructor(other) is constructor(name)]
    assert hyperparameters(name).keys() == defaults.keys()
    alike = [other for other in same_class if hyperparameters(other) == defaults]
    assert len(alike) == 1, (
        f"{alike} have the constructor's defaults: one YAML has, no variant of it"
    )


def offered(model: Any, name: str) -> Any:
    """A part of the contract that others may leave out, or a skip; models of this project have
    ``step`` and ``state_bytes``."""
    if not hasattr(model, name):
        own = type(model).__module__.partition(".")[0] == "models"
        assert not own or name not in ("step", "state_bytes"), f"the model has no {name}"
        pytest.skip(f"the model does not offer {name}")
    return getattr(model, name)


@on_every_class_and_kind
def test_outputs_have_the_shape_of_the_task(name: str, kind: str) -> None:
    model = model_or_skip(name, kind, dtype=torch.float32)
    for length, training in itertools.product((1, 2, 64), (False, True)):
        outputs = model.train(training)(sequences(kind, 3, length, dtype=torch.float32))
        assert outputs.shape == (3, length, SPECIFICATIONS[kind].output_size)
        assert outputs.dtype == torch.float32
        assert outputs.isfinite().all(), f"at length {length}, training={training}"


@on_every_model_and_kind
def test_passes_the_examination(name: str, kind: str) -> None:
    """Causal, by itself in a batch, without memory of other calls, as the engine asks a model."""
    exact = kind == "channels"  # in float64 rounding hides nothing; contenders train in float32
    dtype = torch.float64 if exact else torch.float32
    model = model_or_skip(name, kind, dtype=dtype)
    inputs = sequences(kind, 4, 37, dtype=dtype)
    if exact:
        model = disturbed(model, AS_TRAINED)
    passed = examine(model, SPECIFICATIONS[kind], inputs, seed=37).passed
    lacking = {*RECORDED} - {*passed}
    assert {QUESTIONS[name].of for name in lacking} <= {"some", "guests"}, lacking


@on_every_class_and_kind
def test_outputs_depend_on_the_last_input(name: str, kind: str) -> None:
    model = model_or_skip(name, kind)
    inputs = sequences(kind, 2, 37)
    others = torch.cat([inputs[:, :-1], (inputs[:, -1:] + 1) % 11], 1)
    with torch.no_grad():
        assert not torch.equal(model(inputs)[:, -1], model(others)[:, -1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@on_every_model_and_kind
def test_a_gpu_gives_the_same(name: str, kind: str) -> None:
    model = trained_or_skip(name, kind, AS_TRAINED)
    for layer in model.modules():
        layer.training = isinstance(layer, nn.RNNBase)  # else cuDNN keeps nothing for backward
    found = []
    for device in ("cpu", "cuda"):
        own, inputs = copy.deepcopy(model).to(device), sequences(kind, 2, 37).to(device)
        both = with_gradients(partial(own, inputs), leaves_of(own))
        found.append({key: tensor.cpu() for key, tensor in both.items()})
    assert_derivatives_near(found[1], found[0], leaves_of(model), **rounded(name, kind))


@on_every_class_and_kind
@pytest.mark.bitwise
def test_construction_is_a_function_of_the_seed(name: str, kind: str) -> None:
    first, same, other = (model_or_skip(name, kind, seed).state_dict() for seed in (3, 3, 4))
    assert first.keys() == same.keys()
    assert all(torch.equal(first[key], same[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@on_every_class_once
@pytest.mark.bitwise
def test_evaluation_draws_no_random_numbers(name: str, kind: str) -> None:
    model = model_or_skip(name, kind, dtype=torch.float32)
    inputs = sequences(kind, 2, 20, dtype=torch.float32)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with torch.no_grad():
        outputs = model(inputs)
        assert torch.equal(before, torch.get_rng_state())
        torch.manual_seed(1)
        assert torch.equal(outputs, model(inputs))


@on_every_class_once
def test_training_changes_parameters_alone(name: str, kind: str) -> None:
    model = model_or_skip(name, kind).train()
    model(sequences(kind, 2, 5))  # what is made on first use is made now
    before = tensors_of(model)
    random_projection(model(sequences(kind, 2, 20, seed=2))).backward()
    after = tensors_of(model)
    assert before.keys() == after.keys()
    kept = model.state_dict().keys() if name in GUESTS else set()  # as BatchNorm's statistics
    assert all(torch.equal(before[key], after[key]) for key in before.keys() - kept)


@on_every_class_and_kind
@pytest.mark.bitwise
def test_safetensors_restore_the_model(name: str, kind: str) -> None:
    model, other = (model_or_skip(name, kind, seed, torch.float32) for seed in (0, 1))
    inputs = sequences(kind, 2, 20, dtype=torch.float32)
    load_weights(other, safetensors.torch.load(as_safetensors(model.state_dict())), Path(name))
    with torch.no_grad():
        assert torch.equal(model(inputs), other(inputs))


@on_every_model_and_kind
def test_steps_equal_the_forward_pass_and_a_prefill_leaves_their_state(
    name: str, kind: str
) -> None:
    model = trained_or_skip(name, kind, AS_TRAINED)
    inputs = sequences(kind, 3, 23)
    outputs, state = in_steps(offered(model, "step"), inputs)
    with torch.no_grad():
        expected = model(inputs)
    assert_near(outputs, expected, name="steps, and the forward pass", **rounded(name, kind))
    with torch.no_grad():
        _, filled = offered(model, "prefill")(inputs)
    assert_near(filled, state, name="the state of a prefill, and of steps", **rounded(name, kind))


@on_every_model_once
def test_forward_reads_out_the_hidden_vectors(name: str, kind: str) -> None:
    model = model_or_skip(name, kind)
    hidden, matrix = offered(model, "hidden"), offered(model, "output_matrix")
    assert matrix.requires_grad
    for length in (1, 37):
        inputs = sequences(kind, 3, length)
        assert_near(hidden(inputs) @ matrix.T, model(inputs), **rounded(name, kind))


@on_every_model_once
def test_steps_after_a_prefill_equal_the_forward_pass(name: str, kind: str) -> None:
    model = trained_or_skip(name, kind, AS_TRAINED)
    prefill, step = offered(model, "prefill"), offered(model, "step")
    inputs = sequences(kind, 3, 33)
    with torch.no_grad():
        expected = model(inputs)
        for length in (1, 2, 9, 31):
            first, state = prefill(inputs[:, :length])
            outputs, _ = in_steps(step, inputs[:, length : length + 2], state)
            outputs = torch.cat((first[:, None], outputs), 1)
            what = f"prefill of {length} and steps, and the forward pass"
            near = expected[:, length - 1 : length + 2]
            assert_near(outputs, near, name=what, **rounded(name, kind))


@on_every_class_once
def test_states_have_the_batch_first(name: str, kind: str) -> None:
    """Sequences are chosen, repeated and reordered by index_select(0), as a beam search does."""
    model = model_or_skip(name, kind)
    step = offered(model, "step")
    inputs, rows = sequences(kind, 3, 8), torch.tensor([2, 0, 2, 1])
    _, state = in_steps(step, inputs[:, :7])
    with torch.no_grad():
        if not all(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(state)):
            pytest.skip("the state is of a class that torch's pytree does not know")
        chosen = pytree.tree_map(lambda leaf: leaf.index_select(0, rows), state)
        output, _ = step(inputs[rows, 7], chosen)
        expected = model(inputs)[rows, 7]
    assert_near(output, expected, name="a step from chosen rows of a state", **rounded(name, kind))


@on_every_class_once
def test_attention_of_the_last_position_is_a_distribution(name: str, kind: str) -> None:
    model = model_or_skip(name, kind, dtype=torch.float32)
    attention_of_last = offered(model, "attention_of_last")
    with torch.no_grad():
        weights = attention_of_last(sequences(kind, 3, 20, dtype=torch.float32))
        alone = attention_of_last(sequences(kind, 3, 1, dtype=torch.float32))
    assert weights.shape[1::2] == (3, 20)
    assert weights.dtype == torch.float32
    assert_near(weights.sum(-1), torch.ones(weights.shape[:-1]), terms=20)
    assert ((alone == 0) | (alone == 1)).all()


@on_every_model_once
def test_state_bytes_are_those_of_the_state(name: str, kind: str) -> None:
    """The numbers in the state of one sequence. A counter of positions is free, and a tenth for
    what is counted but not held yet: in the second Mosaic a pair that waits for its value.
    """
    model = model_or_skip(name, kind, dtype=torch.float32)
    state_bytes, step = offered(model, "state_bytes"), offered(model, "step")
    declared = [state_bytes(length) for length in (1, 20, 64)]
    assert all(type(size) is int and size > 0 for size in declared)
    assert declared == sorted(declared)
    _, state = in_steps(step, sequences(kind, 1, 20, dtype=torch.float32))
    leaves = pytree.tree_leaves(state)
    if not any(isinstance(leaf, Tensor) for leaf in leaves):
        pytest.skip(
            "the state is of a class that torch's pytree does not know, so it is not counted"
        )
    held = sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, Tensor))
    assert abs(declared[1] - held) <= 0.1 * held + COUNTER, "state_bytes differs from the state's"


@on_every_model_and_kind
def test_gradients_reach_every_parameter(name: str, kind: str) -> None:
    model = model_or_skip(name, kind)
    unused = configuration(name)["card"].get("unused_parameters", [])
    random_projection(model(sequences(kind, 4, 37))).backward()
    missed = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert [one for one in missed if not any(fnmatch(one, pattern) for pattern in unused)] == []
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)


@on_every_class_and_kind
def test_parameter_options_name_parameters(name: str, kind: str) -> None:
    model = model_or_skip(name, kind)
    if not hasattr(model, "parameter_options"):
        pytest.skip("no parameter has optimisation rules of its own")
    options = model.parameter_options()
    assert options.keys() <= dict(model.named_parameters(remove_duplicate=False)).keys()
    assert all(rules.keys() <= {"weight_decay", "maximum_lr"} for rules in options.values())


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # slow where torch has no rule
@on_every_model_and_kind
def test_stacked_models_equal_single_models(name: str, kind: str) -> None:
    if configuration(name)["card"].get("vmap") is False:
        pytest.skip("the card says that torch has no batching rule for an operation of this model")
    singles = [model_or_skip(name, kind, seed) for seed in (0, 1)]
    inputs = sequences(kind, 3, 19)
    parameters, buffers = stack_module_state(singles)
    skeleton = on_meta(copy.deepcopy(singles[0]))

    def forward(parameters: Any, buffers: Any) -> Tensor:
        return functional_call(skeleton, (parameters, buffers), (inputs,))

    def loss(parameters: Any, buffers: Any) -> Tensor:
        return random_projection(forward(parameters, buffers))

    try:
        outputs = vmap(forward)(parameters, buffers)
        gradients = vmap(grad(loss))(parameters, buffers)
    except Exception as error:
        if name in GUESTS:  # torch has many sentences for it, and one may come from the model
            pytest.skip(f"its trials cannot be stacked: {error}")
        raise
    for index, single in enumerate(singles):
        expected = single(inputs)
        assert_near(outputs[index], expected, **rounded(name, kind))
        random_projection(expected).backward()
        for key, parameter in single.named_parameters():
            target = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            assert_near(gradients[key][index], target, name=key, **rounded(name, kind))
