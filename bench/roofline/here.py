"""The rates of this machine, measured: what ``device_like=here`` plans with.

The peak is that of a large square product; what counts are products of the shapes that small models
have, and the fraction of the peak that these reach. The bandwidth is that of an operator that makes
a new tensor, by size: on a CPU small ones stay in the cache, and large ones pay for fresh pages. A
launch is what operators of a tiny model take, called through its modules, forward and backward.
CPU-seconds count where one thread does it all.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.config.limits import memory_here
from bench.records.provenance import processor
from bench.roofline.devices import HERE, Device, Rates, Span
from bench.roofline.seconds import VIEW
from bench.roofline.work import count_here

ROUNDS = 5
SECONDS_EACH = 0.02  # of a timed block, about
ROWS, SIDES = 4096, ((64, 64), (64, 256), (256, 64), (128, 128), (256, 256))
SIZES = (2**14, 2**18, 2**20, 2**22, 2**24, 2**26)  # bytes of a tensor
AT_ONCE = 2**27  # bytes of all that an operator is timed on in turn: no cache holds them
MOST_TENSORS = 256
FUNCTIONS_OF = 2**18  # numbers
# How far this estimator may be off, either way: docs/measurements/roofline_here.md checks it.
WITHIN = 1.5
TINY = 60  # operators in a row
BLOCKS = 6  # of a tiny model
FUNCTIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.exp,
    torch.sigmoid,
    partial(functional.gelu, approximate="tanh"),
)


def measure_here(device: torch.device, threads: int = 1) -> Device:
    """This machine's rates, in about ten seconds."""
    torch.set_num_threads(threads)
    cpu = device.type == "cpu"
    clock = time.process_time if cpu and threads == 1 else time.perf_counter
    timer = _Microbenchmarks(device, clock)
    products = [timer.product(ROWS, *sides) for sides in SIDES]
    bandwidth = tuple((2.0 * size, timer.bandwidth(size)) for size in SIZES)
    likely = Rates(statistics.median(products), bandwidth, timer.functions(), timer.launch())
    corners = _off(likely, WITHIN), likely, _off(likely, 1 / WITHIN)
    label = processor() if cpu else torch.cuda.get_device_name(device)
    memory = memory_here() if cpu else torch.cuda.get_device_properties(device).total_memory
    stacked = timer.stacked_launch()
    return Device(HERE, label, "measured", {"float32": corners}, memory, stacked, assumed=False)


def _off(rates: Rates, factor: float) -> Rates:
    """All of them so many times as fast."""
    bandwidth = tuple((size, rate * factor) for size, rate in rates.bandwidth)
    functions, launch = rates.functions * factor, rates.launch / factor
    return Rates(rates.peak * factor, bandwidth, functions, launch)


class _Microbenchmarks:
    def __init__(self, device: torch.device, clock: Callable[[], float]) -> None:
        self.device, self.clock = device, clock

    def seconds(self, run: Callable[[], object]) -> list[float]:
        """Seconds of each of a few blocks of calls, sorted; the first call is not counted."""
        run()
        once = max(self._block(run, 1), 1e-7)
        often = max(1, int(SECONDS_EACH / once))
        return sorted(self._block(run, often) for _ in range(ROUNDS))

    def _block(self, run: Callable[[], object], often: int) -> float:
        self._wait()
        begin = self.clock()
        for _ in range(often):
            run()
        self._wait()
        return (self.clock() - begin) / often

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _numbers(self, *shape: int) -> Tensor:
        return torch.rand(shape, device=self.device)

    def product(self, rows: int, inner: int, columns: int) -> float:
        """FLOP/s of products whose left sides no cache holds, as those of a step."""
        b = self._numbers(inner, columns)
        factors = self._in_turn(rows, inner)
        flops = 2.0 * rows * inner * columns * len(factors)
        return flops / statistics.median(self.seconds(lambda: _each(lambda a: a @ b, factors)))

    def bandwidth(self, size: int) -> float:
        """Bytes a second, read and written, of tensors that no cache holds."""
        tensors = self._in_turn(size // 4)
        moved = 2.0 * size * len(tensors)
        return moved / statistics.median(self.seconds(lambda: _each(torch.neg, tensors)))

    def _in_turn(self, *shape: int) -> list[Tensor]:
        count = max(1, AT_ONCE // 4 // math.prod(shape))
        tensors = self._numbers(count, *shape).unbind(0)
        return list(tensors[:: max(1, count // MOST_TENSORS)])

    def functions(self) -> float:
        """A second, of several kinds in equal numbers."""
        x = self._numbers(FUNCTIONS_OF)
        each = [statistics.median(self.seconds(partial(f, x))) for f in FUNCTIONS]
        return x.numel() / statistics.fmean(each)

    def launch(self) -> float:
        """Seconds of an operator of a tiny model, by the count of the estimator itself."""
        run = _Tiny().to(self.device).training_pass
        work = count_here(run)
        calls = work.launches + VIEW * work.views
        return statistics.median(self.seconds(run)) / calls

    def stacked_launch(self) -> Span:
        """The same under vmap, in times of that."""
        x, many = self._numbers(1), self._numbers(2, 1)
        ratios = []
        for _ in range(ROUNDS):
            stacked = self._block(lambda: torch.func.vmap(_chain)(many), 20)
            ratios.append(stacked / self._block(lambda: _chain(x), 20))
        ratios.sort()
        return Span(ratios[0], statistics.median(ratios), ratios[-1])


def _chain(x: Tensor) -> Tensor:
    """Operators of few numbers, one after the other."""
    y = x
    for _ in range(TINY):
        y = y * x + x
    return y


class _Tiny(nn.Module):
    """Blocks of few numbers, of operators and views as models have them."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(4) for _ in range(BLOCKS))
        self.expansions = nn.ModuleList(nn.Linear(4, 4) for _ in range(BLOCKS))
        self.outputs = nn.ModuleList(nn.Linear(4, 4) for _ in range(BLOCKS))

    def training_pass(self) -> None:
        """Forward and backward; no gradients are left."""
        hidden: Tensor = torch.ones(1, 2, 4, device=next(self.parameters()).device)
        for norm, expand, put_out in zip(self.norms, self.expansions, self.outputs, strict=True):
            heads = expand(norm(hidden)).view(1, 2, 2, 2).transpose(1, 2)
            mixed = functional.gelu(heads * 0.5).transpose(1, 2).reshape(1, 2, 4)
            hidden = hidden + put_out(mixed)
        hidden.sum().backward()
        for parameter in self.parameters():
            parameter.grad = None


def _each(run: Callable[[Tensor], object], tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:  # what it gives is freed before the next, as most of a step is
        run(tensor)
