"""Rounding of another processor, drawn at random: what compares too tightly fails under it.

Two processors that add the same products in another order, with other instructions, give results
that differ by rounding errors. Under this mode every product, sum, normalisation and elementary
function that PyTorch computes, forward and backward, is off by about one unit in the last place:

- a sum, a product, or what is made of them is computed of inputs each of which is multiplied by
  1 - eps, 1 or 1 + eps, drawn element for element. That is backward error, the form in which
  rounding errors of sums are known (Higham, Accuracy and Stability of Numerical Algorithms, 2002,
  section 3.1), so the result moves by rounding relative to what was summed, also where it is 0;
- of an elementary function, such as exp, the result is multiplied so: libraries compute these to
  about a unit in the last place of the result, whatever they amplify.

What is exact on every processor (copies, selections, comparisons, signs, conversions, sums and
products of whole numbers, products with powers of two) and what is drawn stays as it is. ``pytest``
runs under the mode where MEMORY_BENCH_ROUNDING is a seed, each test with draws of its own, so that
a failure repeats when the test is run alone. Initial weights are drawn, so those of a model that
the engine builds are left alone, whatever is computed on the way: it refuses a model of which two
draws from one seed are not equal. Tests marked ``bitwise`` promise equal bits of one machine, and
run without the mode.

It reaches what PyTorch does in the thread of the test. Out of its reach are other processes and
threads, NumPy, and code that torch.compile has made (under the mode functions run uncompiled).
"""

import math
import os
import random
import zlib
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from bench.training import building

SEED = "MEMORY_BENCH_ROUNDING"  # the environment variable with the seed; without it: no mode

# Names of ATen's operations, without the signs of their variants: `_` in place, `_foreach_`.
SUMS_AND_PRODUCTS = """
add sub rsub mul div true_divide addcmul addcdiv lerp addmm addmv addr addbmm baddbmm mm bmm mv
dot vdot linear sum nansum mean prod cumsum cumprod logcumsumexp logsumexp var std var_mean
std_mean norm linalg_vector_norm renorm _weight_norm_interface _weight_norm_interface_backward
convolution convolution_overrideable convolution_backward mkldnn_rnn_layer
mkldnn_rnn_layer_backward _thnn_fused_lstm_cell
_softmax _safe_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data
native_layer_norm native_layer_norm_backward native_group_norm native_group_norm_backward
native_batch_norm native_batch_norm_backward _native_batch_norm_legit _fused_rms_norm
_fused_rms_norm_backward
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
_scaled_dot_product_attention_math_for_mps
nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward mse_loss
mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward
binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits
embedding_dense_backward _embedding_bag index_add index_put _unsafe_index_put scatter_add
_fft_r2c _fft_c2r _fft_c2c cdist _cdist_forward _cdist_backward _pdist_forward
linalg_solve_triangular _linalg_solve_ex linalg_inv_ex linalg_cholesky_ex cholesky_solve
_linalg_det _linalg_slogdet linalg_lu_factor_ex linalg_lu_solve linalg_lu linalg_qr
linalg_householder_product linalg_lstsq _linalg_svd _linalg_eigh linalg_eig linalg_matrix_exp
triangular_solve linalg_cross avg_pool1d avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d
tanh_backward sigmoid_backward gelu_backward silu_backward softplus_backward elu_backward
log_sigmoid_backward mish_backward logit_backward
"""
# Whole numbers have whole sums and products, which are exact up to 1 / eps, in whatever order; one
# quotient of them, as in a mean, is rounded as IEEE 754 says.
WHOLE_SUMS = """
add sub rsub sum nansum cumsum mean div true_divide embedding_dense_backward index_add index_put
_unsafe_index_put scatter_add
"""
WHOLE_PRODUCTS = """
mul addcmul addmm addmv addr addbmm baddbmm mm bmm mv dot vdot linear prod cumprod convolution
convolution_backward
"""
FUNCTIONS = """
exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan sinh cosh tanh asin acos
atan atan2 asinh acosh atanh sigmoid log_sigmoid_forward erf erfc erfinv gelu silu softplus elu
mish logit logaddexp logaddexp2 pow hypot xlogy lgamma digamma polygamma special_xlog1py sinc
special_erfcx special_log_ndtr special_ndtri special_i0e special_entr angle polar
"""
WHOLE = dict.fromkeys(WHOLE_PRODUCTS.split(), 0.5) | dict.fromkeys(WHOLE_SUMS.split(), 1.0)
# Written to in training mode and read otherwise, which the schema of batch_norm does not tell. What
# is written follows from inputs that were moved.
STATISTICS = frozenset({"running_mean", "running_var"})
OWN = "models"  # operations of the project's own, which are sums and products
LENGTH_OF_DRAWS = 262_147  # a prime, so that rows of a longer tensor do not have the same draws


def is_zero(number: Any) -> bool:
    return isinstance(number, int | float) and number == 0


def is_power_of_two(number: Any) -> bool:
    return isinstance(number, int | float) and abs(math.frexp(number)[0]) == 0.5


NEUTRAL = {"add": is_zero, "sub": is_zero, "mul": is_power_of_two, "div": is_power_of_two}


class Operation(NamedTuple):
    """What the mode has to know of one operation."""

    moves_inputs: bool
    moves_results: bool
    whole: float | None  # whole numbers up to this power of 1 / eps have an exact result
    neutral: Callable[[Any], bool] | None  # numbers that change no digit, as second argument
    written: frozenset[str]  # arguments that it computes from and writes to
    outputs: frozenset[str]  # arguments that it only writes to, and those it has to get as they are
    names: tuple[str, ...]  # of all arguments

    def is_exact(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether every processor has the same result for these arguments."""
        accumulates = kwargs.get("accumulate", args[3] if len(args) > 3 else False)
        if "accumulate" in self.names and not accumulates:  # index_put that replaces
            return True
        if self.neutral is not None and len(args) > 1 and self.neutral(args[1]):
            return True
        return self.whole is not None and are_whole((args, kwargs), self.whole)


@cache
def operation(function: Any) -> Operation:
    name = function._schema.name.removeprefix("aten::").removesuffix("_")
    name = name.removeprefix("_foreach_")
    name = {"__iadd_": "add", "__imul_": "mul", "square": "pow"}.get(name, name)
    rounds_to_whole = function._overloadname.endswith("_mode")  # floor division
    arguments = function._schema.arguments
    writes = [a for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    writes = [a for a in writes if a.name not in STATISTICS]
    computes = name in SUMS_AND_PRODUCTS.split() or function.namespace == OWN
    return Operation(
        moves_inputs=computes and not rounds_to_whole,
        moves_results=name in FUNCTIONS.split(),
        whole=WHOLE.get(name),
        neutral=NEUTRAL.get(name),
        written=frozenset(a.name for a in writes if not a.kwarg_only),
        outputs=STATISTICS | {a.name for a in writes if a.kwarg_only},
        names=tuple(a.name for a in arguments),
    )


class Rounding(TorchDispatchMode):
    """Moves what PyTorch computes by rounding errors that are drawn from a seed.

    Attributes:
        moved: how many operations were moved.
        paused: whether all is left as it is, in this and every other object of the class.
    """

    paused = False

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draws = random.Random(seed)
        self.moved = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.paused:
            return function(*args, **kwargs)
        known = operation(function)
        if known.moves_inputs and not known.is_exact(args, kwargs):
            self.moved += 1
            digits = finest_eps((args, kwargs))
            named = zip(known.names, args, strict=False)
            args = tuple(self.moved_input(value, known, name, digits) for name, value in named)
            kwargs = {k: self.moved_input(v, known, k, digits) for k, v in kwargs.items()}
            return function(*args, **kwargs)
        results = function(*args, **kwargs)
        if known.moves_results:
            self.moved += 1
            for result in results if isinstance(results, list | tuple) else (results,):
                self.move(result)
            if results is None:  # `_foreach_exp_` writes to its first argument
                for tensor in args[0]:
                    self.move(tensor)
        return results

    def moved_input(self, value: Any, known: Operation, name: str, finest: float) -> Any:
        """The argument with other roundings; one that is written to is changed itself.

        Args:
            finest: eps of the type that is computed in. Narrower numbers are converted to it first,
                which is exact, so they stay as they are.
        """
        if name in known.outputs:
            return value
        if isinstance(value, list | tuple):
            return type(value)(self.moved_input(part, known, name, finest) for part in value)
        if not feels_rounding(value) or torch.finfo(value.dtype).eps > finest:
            return value
        if name in known.written:
            self.move(value)
            return value
        return self.copy_moved(value)

    def copy_moved(self, tensor: Tensor) -> Tensor:
        if tensor.is_complex():  # the two parts each by themselves, since their products cancel
            return torch.view_as_complex(self.copy_moved(torch.view_as_real(tensor.resolve_conj())))
        return tensor * self.factors(tensor)

    def move(self, tensor: Any) -> None:
        """In place."""
        if feels_rounding(tensor):
            tensor.copy_(self.copy_moved(tensor))

    def factors(self, tensor: Tensor) -> Tensor:
        """1 - eps, 1 or 1 + eps for each element."""
        count = tensor.numel()
        factors = drawn_factors(tensor.dtype, tensor.device)
        if count > len(factors):
            factors = factors.repeat(-(-count // len(factors)))
        start = self.draws.randrange(len(factors) - count + 1)
        return factors[start : start + count].view(tensor.shape)


@cache
def drawn_factors(dtype: torch.dtype, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(-1, 2, (LENGTH_OF_DRAWS,), generator=generator)
    return (1 + signs.double() * torch.finfo(dtype).eps).to(dtype).to(device)


def feels_rounding(value: Any) -> bool:
    """Whether it is a tensor of floating-point numbers; those of fake tensors are not there."""
    if not isinstance(value, Tensor) or isinstance(value, FakeTensor):
        return False
    return (value.is_floating_point() or value.is_complex()) and value.device.type != "meta"


def are_whole(value: Any, power: float) -> bool:
    """Whether all numbers in the arguments of an operation are whole, and none is large."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        return all(are_whole(part, power) for part in value)
    if isinstance(value, float):
        return value.is_integer()
    if not feels_rounding(value):
        return True
    if value.is_complex():
        return False
    first = value[(0,) * value.dim()].item() if value.numel() else 0.0
    if not first.is_integer():  # the most frequent case by far, and it costs the least
        return False
    largest = torch.finfo(value.dtype).eps ** -power
    return bool(((value == value.round()) & (value.abs() <= largest)).all())


def finest_eps(value: Any) -> float:
    """eps of the type in which an operation on these arguments computes, 1 if of none."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        return min(map(finest_eps, value), default=1.0)
    if isinstance(value, torch.dtype) and (value.is_floating_point or value.is_complex):
        return torch.finfo(value).eps
    return torch.finfo(value.dtype).eps if feels_rounding(value) else 1.0


class UnderRounding:
    """The plugin of pytest that runs every test under the mode, but those marked ``bitwise``."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.operations: dict[str, int] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        mode: AbstractContextManager[Any] = nullcontext()
        if item.get_closest_marker("bitwise") is None:
            mode = Rounding(zlib.crc32(f"{self.seed} {item.nodeid}".encode()))
        with mode:
            result = yield
        self.operations[item.nodeid] = getattr(mode, "moved", 0)
        return result

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        moved = [count for count in self.operations.values() if count]
        if self.operations:  # empty in the parent of pytest-xdist's workers
            terminalreporter.write_line(
                f"rounding, seed {self.seed}: {len(moved)} of {len(self.operations)} tests had "
                f"operations moved, {sum(moved):,} in all"
            )


def exact(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which the mode leaves alone."""

    @wraps(function)
    def left_alone(*args: Any, **kwargs: Any) -> Any:
        before, Rounding.paused = Rounding.paused, True
        try:
            return function(*args, **kwargs)
        finally:
            Rounding.paused = before

    return left_alone


def register(config: pytest.Config) -> None:
    if os.environ.get(SEED):
        # Before others import it by name.
        building.initial_model = exact(building.initial_model)  # type: ignore[assignment]
        config.pluginmanager.register(UnderRounding(int(os.environ[SEED])), "rounding")
