"""Outputs are numbers: NaN is no class, although ``argmax`` makes class 0 of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench.examination.reader import plain
from bench.training.unfit import first_names, unfit

METHODS = ("hidden", "prefill", "step", "rollout")  # looked at as forward is


def without_numbers(outputs: Tensor) -> Tensor:
    """Which outputs (..., channels) are no numbers, bool (...). A class may have the logit -inf,
    which is the probability 0, but not all classes at once."""
    lost = outputs.isnan() | outputs.isposinf()
    return lost.any(-1) | outputs.isneginf().all(-1)


def refuse_no_numbers(outputs: Tensor, method: str, state: str = "") -> None:
    """Refuse outputs (..., channels) that are no numbers.

    Args:
        method: the method that gave them.
        state: ends the sentence, such as " with its trained weights".

    Raises:
        UnfitModel: some are none.
    """
    if bool(outputs.sum().isfinite()):  # one pass over the outputs, nearly always the only one
        return
    without = without_numbers(outputs)
    if not bool(without.any()):
        return
    positions = without.any(0) if without.ndim > 1 else without
    first = int(positions.int().argmax())
    where = f", first at position {first} of {len(positions)}" if outputs.ndim == 3 else ""
    lost, numbers = int(without.sum()), without.numel()
    raise unfit("no numbers", method=method, lost=lost, outputs=numbers, where=where, state=state)


def refuse_other_shape(outputs: object, inputs: Tensor, output_size: int) -> None:
    """Refuse outputs that are not (batch, time, output_size) for inputs (batch, time, …).

    Raises:
        UnfitModel: they are not.
    """
    wanted = (*inputs.shape[:2], output_size)
    if not isinstance(outputs, Tensor) or tuple(outputs.shape) != wanted:
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise unfit("another shape", got=got, inputs=tuple(inputs.shape), wanted=wanted)
    if not outputs.is_floating_point():
        raise unfit("another type", dtype=str(outputs.dtype).removeprefix("torch."))


def examine_interface(model: nn.Module) -> None:
    """Refuse a model that cannot be called as tasks call it, before anything is computed.

    Raises:
        UnfitModel: ``forward`` wants more than the inputs, a number has the name of a method, or
            ``parameters`` leaves some out.
    """
    try:
        inspect.signature(model.forward).bind(None)
    except TypeError as error:
        raise unfit("other arguments", error=error) from None
    except ValueError:  # it has no signature, as some that are written in C
        pass
    for name, arguments in (("state_bytes", "length"), ("position_parameters", "")):
        number = getattr(model, name, None)
        if number is not None and not callable(number):
            arguments = f"self, {arguments}" if arguments else "self"
            raise unfit("number for a method", name=name, number=number, arguments=arguments)
    listed = {id(parameter) for parameter in model.parameters()}
    left_out = [name for name, p in model.named_parameters() if id(p) not in listed]
    if left_out:
        raise unfit("parameters left out", names=first_names(left_out))


def has_method(model: nn.Module, name: str) -> bool:
    """Whether a model has a method of this name: a size or a part, such as a layer, may have it."""
    method = getattr(model, name, None)
    return callable(method) and not isinstance(method, nn.Module)


def give_copies(model: nn.Module) -> None:
    """Let a model that writes into its inputs do so in copies, from now on: targets are often views
    of the same memory, and tasks read inputs again when they measure."""
    model.register_forward_pre_hook(_copied)
    if has_method(model, "hidden"):
        hidden: Any = model.hidden
        _set(model, "hidden", partial(_on_copies, hidden))


def _copied(module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.clone() if isinstance(a, Tensor) else a for a in arguments)


def _on_copies(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    inputs = (a.clone() if isinstance(a, Tensor) else a for a in arguments[:1])
    return method(*inputs, *arguments[1:], **named)


def _set(model: nn.Module, name: str, method: Callable[..., Any]) -> None:
    """Past nn.Module, which would take a method of a module for a part of the model."""
    object.__setattr__(model, name, method)


@contextmanager
def calls_through(model: nn.Module, ask: Callable[..., Any]) -> Iterator[None]:
    """In this block a call of ``model`` is ``ask(call, *arguments, **named)``, by its class: a
    model may have a ``__call__`` of its own, which asks no hooks, or take hooks off."""
    kind: Any = type(model)
    own, call = vars(kind).get("__call__"), kind.__call__

    def asked(self: nn.Module, *arguments: Any, **named: Any) -> Any:
        if self is not model:
            return call(self, *arguments, **named)
        return ask(partial(call, self), *arguments, **named)

    kind.__call__ = asked
    try:
        yield
        if vars(type(model)).get("__call__") is not asked:
            raise unfit("replaced call")
    finally:
        if own is None:
            del kind.__call__
        else:
            kind.__call__ = own


@contextmanager
def method_through(model: nn.Module, name: str, ask: Callable[..., Any]) -> Iterator[None]:
    """In this block a call of a method of ``model`` is ``ask(method, *arguments, **named)``.

    Raises:
        UnfitModel: the model has replaced it meanwhile.
    """
    earlier, asked = vars(model).get(name), partial(ask, getattr(model, name))
    _set(model, name, asked)
    try:
        yield
        if vars(model).get(name) is not asked:
            raise unfit("replaced method", name=name)
    finally:
        if vars(model).get(name) is not asked:
            pass  # it is what the model made of it
        elif earlier is None:
            object.__delattr__(model, name)
        else:
            _set(model, name, earlier)


@contextmanager
def answers_are_numbers(model: nn.Module) -> Iterator[None]:
    """In this block, in which a task evaluates ``model``, whatever the model answers is looked at,
    and it works on copies of what it is given.

    Raises:
        UnfitModel: an output is no number.
    """

    def looked_at(called: str, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
        answer = _on_copies(method, *args, **named)
        answer = tuple(map(plain, answer)) if type(answer) is tuple else plain(answer)
        outputs = answer[0] if isinstance(answer, tuple) and answer else answer
        if not isinstance(outputs, Tensor) or not outputs.is_floating_point():
            return answer
        if not torch._C._functorch.is_functorch_wrapped_tensor(outputs):  # has no values to ask
            refuse_no_numbers(outputs, called, ", in the evaluation")
        return answer

    before = {name: vars(model).get(name) for name in METHODS if has_method(model, name)}
    try:
        for name in before:
            _set(model, name, partial(looked_at, name, getattr(model, name)))
        with calls_through(model, partial(looked_at, "forward")):
            yield
    finally:
        for name, attribute in before.items():
            if attribute is None:
                vars(model).pop(name, None)
            else:
                _set(model, name, attribute)
