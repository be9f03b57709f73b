"""What a step asks of a device: FLOPs, bytes moved and launches, operator by operator.

A step is made once under a dispatch mode, which sees every operator after autograd. For the
machine at hand it is made with real tensors. For another device it is made on PyTorch's *meta*
device, where tensors have shapes and no numbers: nothing is computed, so that a model of any size
is counted in moments, by the code that a GPU runs (what asks ``device.type == "cpu"`` hears no).

Bytes are those of all inputs and outputs of an operator, as eager PyTorch reads and writes them,
each tensor at most as large as its storage. Views move nothing. FLOPs are those of
:mod:`bench.training.flops`. Transcendental functions are counted apart, by element: on a CPU they,
and not the bytes, decide what an elementwise operator takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

from bench.training.flops import formulas

# Operator -> what it computes for each element of its output, in transcendental functions. A random
# number is as long as several; what they are on a CPU was measured (docs/decisions).
TRANSCENDENTAL = {
    **dict.fromkeys(("exp", "exp_", "exp2", "expm1", "expm1_", "pow", "sin", "cos", "erf"), 1.0),
    **dict.fromkeys(("log", "log_", "log1p", "log1p_", "log2", "logsumexp"), 1.0),
    **dict.fromkeys(("tanh", "tanh_", "sigmoid", "sigmoid_", "log_sigmoid_forward"), 1.0),
    **dict.fromkeys(("silu", "silu_", "silu_backward", "gelu"), 1.0),
    **dict.fromkeys(("softplus", "softplus_backward", "_softmax", "_log_softmax"), 1.0),
    "_log_softmax_backward_data": 1.0,
    "gelu_backward": 2.0,
    **dict.fromkeys(
        ["bernoulli", "bernoulli_", "uniform_", "random_", "randint", "native_dropout"], 5.0
    ),
    "normal_": 10.0,
}
FOURIER_FLOPS = 5.0  # of a Fourier transform take as long as one function
COMPLEX_PRODUCTS = 4  # real products in one of complex numbers
COMPLEX_FUNCTIONS = 3  # of real numbers in one of complex ones: exp, sin and cos
# On a CPU a function has no vector form where numbers are complex or its operands lie in memory in
# different orders, and takes so many times as long: 4.5 to 5.3 and 5 to 6 were measured.
SCALAR = 5.0
# What has no vector form on a CPU, or goes over its numbers several times: functions for each
# element of the largest operand, beside those above. All were measured by hand, as SCALAR was.
SLOW_ON_A_CPU = {
    "_safe_softmax": 3.0,
    "bernoulli_": 1.5,
    "cummax": 3.0,
    "cumsum": 1.2,
    "gelu": 0.75,
    "masked_fill": 1.0,
    "masked_fill_": 1.0,
    "native_group_norm": 5.0,
    "native_group_norm_backward": 3.5,
    "native_layer_norm": 1.5,
    "tril": 1.0,
    "triu": 1.0,
    "where": 1.0,
}
ROW_OF_A_SUM = 4.5  # functions, of a sum along the last dimension: narrow rows have no vectors
PIECE_OF_A_STACK = 2.0  # functions, of each run of numbers that a stack or concatenation copies
MATRIX_OF_A_BATCH = 100.0  # functions, of each product of a batch of them
SOLVING = 0.11  # functions, of each multiplication with a number of a triangular system
_EMPTY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
_SAME_MEMORY = ("_unsafe_view", "lift_fresh", "detach", "alias", "set_", "resize_", "is_same_size")
MOVES_NOTHING = frozenset(_EMPTY + _SAME_MEMORY)
LSTM_FUNCTIONS = 5  # for each cell: three sigmoids and two hyperbolic tangents
LSTM_LAUNCHES = 2  # of cuDNN for each position in each direction: a matrix product and the gates
# The same in plain steps, as stacked trainings compute them (bench/training/draws.py).
LSTM_PLAIN_LAUNCHES = 11
ATTENTION_BACKWARD_LAUNCHES = 3


@dataclass(frozen=True)
class Operation:
    """One operator call.

    Attributes:
        flops: of matrix products and the like.
        moved: bytes read and written.
        functions: transcendental functions.
    """

    flops: float = 0.0
    moved: float = 0.0
    functions: float = 0.0

    def times(self, factor: float) -> Operation:
        """The same on so many times as much data."""
        return Operation(self.flops * factor, self.moved * factor, self.functions * factor)


@dataclass(frozen=True)
class Work:
    """All operator calls of a step, or of a pass.

    Attributes:
        calls: operation -> how often.
        views: calls that move nothing.
        plain_launches: more launches of a stack, where a fused operator has no stacked form.
    """

    calls: Mapping[Operation, float]
    views: float = 0.0
    plain_launches: float = 0.0

    @cached_property
    def flops(self) -> float:
        return sum(operation.flops * often for operation, often in self.calls.items())

    @cached_property
    def moved(self) -> float:
        """Bytes."""
        return sum(operation.moved * often for operation, often in self.calls.items())

    @cached_property
    def launches(self) -> float:
        return sum(self.calls.values())

    def on(self, factor: float) -> Work:
        """The same calls, each on so many times as much data."""
        calls: dict[Operation, float] = {}
        for operation, often in self.calls.items():
            larger = operation.times(factor)
            calls[larger] = calls.get(larger, 0.0) + often
        return Work(calls, self.views, self.plain_launches)


class _Counting(TorchDispatchMode):
    """Notes every operator that runs under it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[Operation] = Counter()
        self.views = 0
        self.plain_launches = 0.0
        self.formulas = formulas()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        if func.is_view or name in MOVES_NOTHING:
            self.views += 1
        else:
            self.calls[self._operation(func, name, args, kwargs, result)] += 1
        return result

    def _operation(self, func: Any, name: str, args: Any, kwargs: Any, result: Any) -> Operation:
        formula = self.formulas.get(func._overloadpacket)
        flops = float(formula(*args, **kwargs, out_val=result)) if formula else 0.0
        outputs = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        functions = 0.0
        if name in TRANSCENDENTAL:
            functions = TRANSCENDENTAL[name] * outputs[0].numel() * _scalar([outputs[0], *inputs])
        elif name.startswith("_fft_"):
            flops, functions = 0.0, flops / FOURIER_FLOPS
        elif name.startswith("mkldnn_rnn_layer"):
            functions = float(LSTM_FUNCTIONS * outputs[0].numel())
        elif "attend" in name or "attention" in name:
            functions = flops / 4 / inputs[0].shape[-1]  # two products of a head's width a weight
        if outputs and outputs[0].device.type == "cpu":
            functions += _slow_on_a_cpu(name, args, inputs, outputs[0])
        if outputs and outputs[0].is_complex() and not name.startswith("_fft_"):
            flops, functions = flops * COMPLEX_PRODUCTS, functions * COMPLEX_FUNCTIONS
        return Operation(flops, float(sum(map(_bytes, inputs + outputs))), functions)


def _four_dimensions(shape: torch.Size) -> tuple[int, ...]:
    """(..., heads, time, width) as the counts want it: attention in a window has blocks as well."""
    return shape[:-3].numel(), *shape[-3:]


def _scalar(operands: Sequence[Tensor]) -> float:
    """How many times as long a function takes here as its vector form."""
    whole = [x for x in operands if x.shape == operands[0].shape]
    orders = {tuple(sorted(range(x.dim()), key=x.stride)) for x in whole}
    no_vectors = operands[0].is_complex() or len(orders) > 1
    return SCALAR if no_vectors and operands[0].device.type == "cpu" else 1.0


def _slow_on_a_cpu(name: str, args: Any, inputs: Sequence[Tensor], output: Tensor) -> float:
    """What an operator takes on a CPU beyond its products, functions and bytes, counted in
    functions."""
    if name in SLOW_ON_A_CPU:
        return SLOW_ON_A_CPU[name] * max(x.numel() for x in (*inputs, output))
    if name in ("bmm", "baddbmm", "baddbmm_"):
        return MATRIX_OF_A_BATCH * output.shape[0]
    if name == "linalg_solve_triangular":  # (..., n, n) with solutions (..., n, columns)
        return SOLVING * output.numel() * inputs[0].shape[-1]
    if (
        name == "sum"
        and inputs[0].dim()
        and len(args) > 1
        and args[1]
        and {-1, _last_axis(inputs[0])} & {*args[1]}
    ):
        return ROW_OF_A_SUM * inputs[0].numel() / max(1, inputs[0].shape[-1])
    if name in ("stack", "cat") and len(args) > 1 and args[1] in (-1, _last_axis(output)):
        widths = [1 if name == "stack" else max(1, x.shape[-1]) for x in inputs]
        pieces = sum(x.numel() / width for x, width in zip(inputs, widths, strict=True))
        return PIECE_OF_A_STACK * pieces
    return 0.0


def _last_axis(x: Tensor) -> int:
    return x.dim() - 1


def _bytes(x: Tensor) -> int:
    return min(x.numel() * x.element_size(), x.untyped_storage().nbytes())


class _Fused(TorchFunctionMode):
    """On the meta device: what a GPU has one kernel for is noted as such, and not taken apart."""

    def __init__(self, counting: _Counting) -> None:
        super().__init__()
        self.counting = counting

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            q, k, v = args[:3]
            out = q.shape[:-1] + v.shape[-1:]
            shapes = [_four_dimensions(shape) for shape in (q.shape, k.shape, v.shape)]
            forward = sdpa_flop_count(*shapes)
            backward = sdpa_backward_flop_count(_four_dimensions(out), *shapes)
            return self._one_kernel(
                out, (q, k, v), (forward, backward), (1, ATTENTION_BACKWARD_LAUNCHES)
            )
        if func is torch.lstm:
            return self._lstm(*args)
        return func(*args, **kwargs)

    def _lstm(
        self,
        inputs: Tensor,
        states: Sequence[Tensor],
        weights: Sequence[Tensor],
        biases: bool,
        layers: int,
        dropout: float,
        training: bool,
        both_ways: bool,
        batch_first: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        each = len(weights) // layers
        length = inputs.shape[1 if batch_first else 0]
        hidden = inputs
        for layer in range(layers):
            of_layer = weights[layer * each : (layer + 1) * each]
            flops = 2 * hidden.shape[:-1].numel() * sum(w.numel() for w in of_layer if w.dim() == 2)
            launches = LSTM_LAUNCHES * length
            self.counting.plain_launches += 3 * (LSTM_PLAIN_LAUNCHES - LSTM_LAUNCHES) * length
            shape = (*hidden.shape[:-1], states[0].shape[-1] * (1 + both_ways))
            passes = (flops, 2 * flops), (launches, 2 * launches)
            hidden = self._one_kernel(shape, (hidden, *of_layer), *passes)
        return hidden, states[0], states[1]

    def _one_kernel(self, shape: Any, inputs: Any, flops: Any, launches: Any) -> Tensor:
        return _FusedKernel.apply(self.counting.calls, tuple(shape), flops, launches, *inputs)


class _FusedKernel(torch.autograd.Function):
    """Tensors -> one of ``shape``; notes FLOPs and launches (forward, backward), and bytes."""

    @staticmethod
    def forward(
        ctx: Any, calls: Any, shape: Any, flops: Any, launches: Any, *inputs: Tensor
    ) -> Any:
        output = inputs[0].new_empty(shape)
        moved = float(sum(map(_bytes, (*inputs, output))))
        ctx.noted = calls, flops[1], launches[1], moved
        ctx.save_for_backward(*inputs, output)
        _note(calls, flops[0], launches[0], moved)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        calls, flops, launches, moved = ctx.noted
        _note(calls, flops, launches, 2 * moved)
        return None, None, None, None, *map(torch.empty_like, ctx.saved_tensors[:-1])


def _note(calls: Counter[Operation], flops: float, launches: int, moved: float) -> None:
    calls[Operation(flops / launches, moved / launches)] += launches


def count_meta(run: Callable[[], object]) -> Work:
    """What ``run`` asks of a GPU; its tensors are on the meta device."""
    counting = _Counting()
    with _autocast_without_meta(), counting, _Fused(counting):
        run()
    return Work(counting.calls, counting.views, counting.plain_launches)


def count_here(run: Callable[[], object]) -> Work:
    """What ``run`` asks of the device that it runs on."""
    counting = _Counting()
    with counting:
        run()
    return Work(counting.calls, counting.views)


@contextmanager
def _autocast_without_meta() -> Iterator[None]:
    """Autocast knows no meta device. Models switch it off in places, where it was never on here."""
    namespace: Any = torch
    real = namespace.autocast

    def start(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        real.__init__(self, "cpu" if device_type == "meta" else device_type, *args, **kwargs)

    namespace.autocast = type("autocast", (real,), {"__init__": start})
    try:
        yield
    finally:
        namespace.autocast = real
