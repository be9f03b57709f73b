"""Files of weights, and which tensors of a model share memory: what follows for training, counting
and saving.

Two names of one parameter ("tied" weights: an output matrix that is the embedding, one block used
in every layer) are one parameter: an optimiser updates it once, a file of weights holds it once,
under its first name, and it counts once. Two *different* parameters that lie in the same memory
would each be updated, so that each step changes it twice: such a model is refused before training.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from bench.training.unfit import UnfitModel
from core.errors import RUN_FAILED, UserError
from core.files import open_regular


def shared_names(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Names of a state dict that are second names of the same tensor -> its first name.

    The same is what begins at the same place of the same memory and has the same type, shape and
    strides. safetensors' own functions also take a tensor and its transpose for one, and choose
    the name that is first by alphabet.
    """
    first: dict[tuple[Any, ...], str] = {}
    second: dict[str, str] = {}
    for name, tensor in state.items():
        place = (
            # Which memory it is, whoever holds it.
            tensor.untyped_storage()._cdata,
            tensor.storage_offset(),
            tensor.dtype,
            tensor.shape,
            tensor.stride(),
        )
        if place in first:
            second[name] = first[place]
        else:
            first[place] = name
    return second


def as_safetensors(state: Mapping[str, Tensor]) -> bytes:
    """A state dict as the bytes of a safetensors file, which holds each shared tensor once.

    The file has no list of second names: safetensors writes metadata in an order that differs from
    call to call, and equal weights must be equal bytes. Whoever loads it knows the names from the
    model, as ``safetensors.torch.load_model`` does.
    """
    second = shared_names(state)
    tensors = {}
    for name, value in state.items():
        if name in second:
            continue
        tensor = value.detach().cpu().contiguous()
        bytes_of_memory = tensor.untyped_storage().nbytes()
        if bytes_of_memory != tensor.numel() * tensor.element_size():  # a part of a larger one
            tensor = tensor.clone()
        tensors[name] = tensor
    return save(tensors)


def with_second_names(
    weights: Mapping[str, Tensor], state: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Weights as a file holds them, completed by the names that share a tensor in ``state``."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, first in shared_names(state).items():
        groups[first].append(name)
    complete = dict(weights)
    for first, others in groups.items():
        names = [first, *others]
        present = next((name for name in names if name in weights), None)
        if present is not None:
            complete |= {name: weights[present] for name in names if name not in weights}
    return complete


def load_weights(
    model: nn.Module, weights: Mapping[str, Tensor], path: Path, *, edited: bool = False
) -> None:
    """Give a model what :func:`read_weights` has read at ``path``; names that share a tensor in
    the model, of which the file has one, get it together.

    Args:
        edited: whether the code of the model is not that which trained them.

    Raises:
        UserError: these are weights of another model.
    """
    try:
        model.load_state_dict(with_second_names(weights, model.state_dict()))
    except RuntimeError:
        if edited:
            raise UserError(
                f"the weights {path} are of other code than the model has now, and do not fit it: "
                "go back to the code that the record names by its hash, or train again with this",
                RUN_FAILED,
            ) from None
        raise UserError(
            f"the weights {path} do not fit the model of their record: delete the folder "
            f"{path.parent}, and the record if it is still there, then train again",
            RUN_FAILED,
        ) from None


def read_weights(path: Path, sha256: str | None) -> dict[str, Tensor]:
    """Weights of a record, if they are the ones that it names.

    Raises:
        UserError: the file is missing or is not the one that was saved.
    """
    try:
        with open_regular(path) as file:
            content = file.read()
    except FileNotFoundError:
        raise UserError(
            f"the weights {path} are missing: train again with the record's command "
            "(delete its record first), put the file back, or name the store that has it by store=",
            RUN_FAILED,
        ) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(
            f"the weights {path} are not the ones that were trained (SHA-256 differs): delete the "
            f"folder {path.parent}, and the record if it is still there, then train again",
            RUN_FAILED,
        )
    try:
        return load(content)
    except SafetensorError as error:
        raise UserError(f"the weights {path} are no safetensors ({error})", RUN_FAILED) from None


def on_meta(model: nn.Module) -> nn.Module:
    """The model without content, its shared parameters still shared: ``Module.to`` gives each
    name a parameter of its own there, unlike on every other device."""
    names: dict[Tensor, list[str]] = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        # Tensors are hashed by identity: names of one parameter meet in one list.
        names[parameter].append(name)
    model.to("meta")
    for first, *others in names.values():
        shared = model.get_parameter(first)
        for other in others:
            owner, _, own_name = other.rpartition(".")
            setattr(model.get_submodule(owner), own_name, shared)
    return model


def count_numbers(parameters: Iterable[Tensor]) -> int:
    """How many numbers parameters hold: each place of memory counts once, however many tensors, or
    positions of an expanded tensor, lie in it."""
    total = 0
    # Only tensors that may overlap are counted place by place, which takes memory.
    for group in _that_touch({str(k): tensor for k, tensor in enumerate(parameters)}):
        tensors = [*group.values()]
        if any(map(_repeats, tensors)) or _meet(tensors):
            total += torch.cat([_places(tensor) for tensor in tensors]).unique().numel()
        else:
            total += sum(tensor.numel() for tensor in tensors)
    return total


def count_parameters(model: nn.Module) -> int:
    """Numbers in the parameters of a model, see :func:`count_numbers`; a class that lists some of
    them alone is asked as a plain module."""
    return count_numbers(parameter for _, parameter in nn.Module.named_parameters(model))


def device_of(model: nn.Module) -> torch.device:
    """The device of the first parameter of a model; the CPU where it has none."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def make_whole(model: nn.Module) -> None:
    """Give every expanded tensor that is saved and not trained, such as a mask, memory of its own:
    PyTorch refuses to load values into one whose numbers lie in fewer places than there are."""
    copies: dict[int, Tensor] = {}
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False, remove_duplicate=False)):
            if name in module._non_persistent_buffers_set or not _repeats(buffer):
                continue
            copy = buffer.clone(memory_format=torch.contiguous_format)
            setattr(module, name, copies.setdefault(id(buffer), copy))
    for parameter in model.parameters():
        if not parameter.requires_grad and not is_lazy(parameter) and _repeats(parameter):
            parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)


def examine_storage(model: nn.Module) -> None:
    """Refuse, before training, what could not be trained, saved or loaded again.

    Raises:
        UnfitModel: trained parameters overlap, or the state dict holds what no safetensors file
            can; says which.
    """
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise UnfitModel(
                f"parameter {name} has no shape before the first batch (a lazy module): give the "
                "module its sizes when it is built"
            )
    _refuse_what_no_file_holds(model.state_dict())
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    for name, tensor in tensors.items():
        if tensor.requires_grad and _repeats(tensor):
            raise UnfitModel(
                f"parameter {name} is an expanded tensor: its {tensor.numel()} numbers lie in "
                f"{_places(tensor).unique().numel()} places of memory, so no optimiser can update "
                "them: make it whole by .clone(), or keep the small tensor as the parameter and "
                "expand it in forward"
            )
    for group in _that_touch(tensors):
        # In the order of the model, which a sentence follows.
        for first, second in combinations([name for name in tensors if name in group], 2):
            _refuse_overlap({first: tensors[first], second: tensors[second]})


def _refuse_overlap(pair: Mapping[str, Tensor]) -> None:
    trained = [name for name, tensor in pair.items() if tensor.requires_grad]
    if not trained or not _meet([*pair.values()]):
        return
    if len(trained) == 2:
        raise UnfitModel(
            f"parameters {trained[0]} and {trained[1]} are two parameters that lie in one memory, "
            "so each step would change it twice: use one parameter in both places (assigning it "
            "to a second module ties them), or give each memory of its own by .clone()"
        )
    (other,) = pair.keys() - set(trained)
    raise UnfitModel(
        f"{other}, which is not trained, lies in the memory of parameter {trained[0]}, so training "
        "changes it: give it memory of its own by .clone(), or compute it in forward"
    )


def _refuse_what_no_file_holds(state: Mapping[str, Any]) -> None:
    dtypes = set()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise UnfitModel(
                f"the state dict has {name}, a {type(value).__name__}, but files of weights "
                "(safetensors) hold tensors alone: keep it in a buffer, or leave it out of the "
                "state dict"
            )
        if value.layout != torch.strided or value.is_quantized:
            raise UnfitModel(
                f"{name} of the state dict is a sparse or quantised tensor, which files of weights "
                "(safetensors) do not hold: keep it as a dense one"
            )
        if value.dtype not in dtypes:
            try:
                save({name: torch.empty(0, dtype=value.dtype, device="cpu")})
            except (SafetensorError, KeyError, ValueError, TypeError):
                raise UnfitModel(
                    f"{name} of the state dict is of type {value.dtype}, which files of weights "
                    "(safetensors) do not hold: keep its real and imaginary parts, or another type"
                ) from None
            dtypes.add(value.dtype)


def _repeats(tensor: Tensor) -> bool:
    """Whether two positions of a tensor are one place of memory, as of an expanded one."""
    if tensor.is_contiguous() or tensor.numel() < 2:
        return False
    reach = 0  # of the axes with smaller strides
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride <= reach:  # its positions may fall between those of the axes before
            return _places(tensor).unique().numel() < tensor.numel()
        reach += (size - 1) * stride
    return False


def _meet(tensors: list[Tensor]) -> bool:
    """Whether any two tensors of one memory have a place in common."""
    if len(tensors) < 2:
        return False
    # Ranges that do not touch need no look at single places.
    ranges = sorted(_range(tensor) for tensor in tensors if tensor.numel())
    if all(before[1] <= after[0] for before, after in pairwise(ranges)):
        return False
    apart = sum(_places(tensor).unique().numel() for tensor in tensors)
    return torch.cat([_places(tensor) for tensor in tensors]).unique().numel() < apart


def _that_touch(tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """The tensors in groups, of which no two have a byte between their first and last in common.

    Addresses decide, not storages: NumPy and DLPack give one memory a second storage."""
    groups: list[dict[str, Tensor]] = []
    place = "", 0  # the memory of the last group, and where it ends there
    ordered = [(_memory(t), *_range(t), name) for name, t in tensors.items() if t.numel()]
    for memory, first, end, name in sorted(ordered):
        if memory == place[0] and first < place[1]:
            groups[-1][name] = tensors[name]
            place = memory, max(place[1], end)
        else:
            groups.append({name: tensors[name]})
            place = memory, end
    return groups


def _memory(tensor: Tensor) -> str:
    """In which memory a tensor has its address; without content, each storage is one."""
    of_storage = f" {tensor.untyped_storage()._cdata}" if tensor.is_meta else ""
    return f"{tensor.device}{of_storage}"


def _first_byte(tensor: Tensor) -> int:
    if tensor.is_meta:
        return int(tensor.storage_offset()) * tensor.element_size()
    return tensor.data_ptr()


def _range(tensor: Tensor) -> tuple[int, int]:
    """First byte and last + 1 of what a tensor uses of its memory."""
    size = tensor.element_size()
    reach: int = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    first = _first_byte(tensor)
    return first, first + (reach + 1) * size


def _places(tensor: Tensor) -> Tensor:
    """The byte at which each number of a tensor begins, (numel,) int64."""
    places = torch.zeros(1, dtype=torch.int64, device="cpu")
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        axis = torch.arange(size, dtype=torch.int64, device="cpu") * stride
        places = (places[:, None] + axis).flatten()
    return _first_byte(tensor) + places * tensor.element_size()
