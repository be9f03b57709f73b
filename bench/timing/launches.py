"""What a pass launches, counted, and a pass as one captured graph, which launches once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.roofline.work import MOVES_NOTHING
from bench.timing.steps import synchronize
from core.errors import RUN_FAILED, UserError, first_line

MOST_NAMED = 20  # operators of a count that are listed by name
WARM_UP_PASSES = 3  # before a capture, which may meet nothing for the first time
NO_GRAPHS = "graphs=true captures passes as CUDA graphs, and this device is a CPU: leave it out"
NO_KERNELS = ("Memcpy", "Memset")  # what a profile of a device has beside kernels


class _LaunchCounter(TorchDispatchMode):
    """Counts by name the operators that run under it.

    The mode stands below autograd and autocast, so that it sees casts and the backward pass. What
    a custom operator calls inside is below the mode: such an operator is one call, as its kernel is
    one launch. Kernels that are started past PyTorch's dispatcher are not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.views = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        if func.is_view or name.partition("::")[2] in MOVES_NOTHING:
            self.views += 1
        elif any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):  # promote_types: none
            self.calls[name] += 1
        return result


def count_launches(run: Callable[[], object], device: torch.device) -> dict[str, Any]:
    """The launches of ``run``, which is called once, and on CUDA twice.

    Returns:
        ``operators``: calls that would launch a kernel; ``views``: calls that move nothing;
        ``by_operator``: the most frequent operators; ``kernels``: those that a profile of the
        device shows, None on a CPU.
    """
    counter = _LaunchCounter()
    with counter:
        run()
    return {
        "operators": counter.calls.total(),
        "views": counter.views,
        "by_operator": dict(counter.calls.most_common(MOST_NAMED)),
        "kernels": _count_kernels(run, device) if device.type == "cuda" else None,
    }


def _count_kernels(run: Callable[[], object], device: torch.device) -> int:
    """Kernels on the device, whoever starts them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        run()
        synchronize(device)
    cuda = torch.autograd.DeviceType.CUDA
    events = [event for event in profiler.events() if event.device_type == cuda]
    return sum(not event.name.startswith(NO_KERNELS) for event in events)


def captured(run: Callable[[], object], forget: Callable[[], object]) -> Callable[[], object]:
    """``run`` as one CUDA graph, to be replayed.

    Args:
        run: a pass whose tensors have the same shapes and places every time.
        forget: called after each pass before the capture; it lets go of the gradients, which then
            lie in the memory of the graph.

    Raises:
        UserError: the pass does what a graph cannot hold, such as waiting for the device.
    """
    warm_up = torch.cuda.Stream()
    warm_up.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm_up):  # the default stream cannot be captured
        for _ in range(WARM_UP_PASSES):
            run()
            forget()
    torch.cuda.current_stream().wait_stream(warm_up)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            run()
    except RuntimeError as error:
        reason = first_line(error)
        raise UserError(f"graphs=true: a pass cannot be captured ({reason})", RUN_FAILED) from None
    return graph.replay
