"""A model in processes that have been asked for nothing else.

Whatever a model keeps between calls, in itself, its class, a module, a closure or a library, it
keeps in a process. So a class of another package or file is built once more in a new process, gets
the weights, and is asked there for sequences that begin as those of this process do and go on
otherwise. Nothing that it was asked before can answer there, strings have other hashes, and
modules are imported anew.

A server that has imported PyTorch and this project forks these processes, in a tenth of a second
each. It computes nothing itself and opens no GPU. As a program this module is that server: each
line of its standard input is a request, whose folder says what is asked.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bench.config.source_files import places_of, use_places
from bench.examination.observing import disturbed_outputs, state_of
from bench.examination.reader import ModelReader
from bench.training.building import initial_model, task_of
from bench.training.numerics import set_numerics
from bench.training.storage import as_safetensors, with_second_names
from bench.training.unfit import UnfitModel, unfit
from core.errors import UserError, first_line
from core.processes import describe_end, end_with_parent, module_command
from models.specification import SequenceSpecification

SECONDS = 600.0  # after which a process is given up
REQUEST, INPUTS, WEIGHTS = "request.json", "inputs.safetensors", "weights.safetensors"
RESULT, HASHES, ERROR = "result.safetensors", "hashes.json", "error.json"
# Names of answers, beside those of :mod:`bench.examination.observing`.
EVAL_MODE, TRAINING_MODE = "answers in eval mode", "answers in training mode"
CPU = torch.device("cpu")

Answers = dict[str, Tensor]  # by these names, on the CPU
Hashes = dict[str, str]  # split -> SHA-256 of its content


class NoRoomOnGpu(UnfitModel):
    """The GPU did not take a second process."""


@dataclass(frozen=True)
class ModelRecipe:
    """What any process builds a model from.

    Attributes:
        settings: the class as ``_target_``, and its settings.
        seed: of its initial weights.
        environment: variables of those processes, which are those of now: a model may leave notes
            in them later.
    """

    settings: Mapping[str, Any]
    specification: SequenceSpecification
    seed: int
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    def built(self, device: torch.device) -> nn.Module:
        """The model with its initial weights."""
        model = initial_model(self.settings, self.specification, self.seed, device)
        return model.to(device)


@dataclass(frozen=True)
class ModelQuestion:
    """What a model is asked that was just built.

    Attributes:
        inputs: whose outputs in eval mode are the answer EVAL_MODE.
        in_training: whether it is also asked in training mode, which is the answer TRAINING_MODE.
        observed: other inputs, for whose :func:`disturbed_outputs` it is asked at last; its state
            dict from before the first call is told with them.
    """

    inputs: Tensor
    in_training: bool = False
    observed: Tensor | None = None

    def answered(self, model: nn.Module, reader: ModelReader) -> Answers:
        """The answers of a model in this process."""
        answers = {} if self.observed is None else state_of(model)
        answers[EVAL_MODE] = reader.read(model, self.inputs)
        if self.in_training:
            answers[TRAINING_MODE] = reader.read(model, self.inputs, training=True)
        if self.observed is not None:
            answers |= disturbed_outputs(model, self.observed)
        return answers


@contextmanager
def asked_elsewhere(
    recipe: ModelRecipe,
    reader: ModelReader,
    question: ModelQuestion,
    weights_of: nn.Module | None = None,
    device: torch.device | None = None,
) -> Iterator[Callable[[], Answers]]:
    """Let a new process answer while this one goes on; a call waits for what it answers.

    Args:
        reader: how it is asked.
        weights_of: a model whose state dict and type it gets; None: it has its initial weights.
        device: where it computes; None is where the inputs are.

    Raises:
        NoRoomOnGpu: the GPU did not take it.
        UnfitModel: by the call: the model cannot be built or asked there; says why.
    """
    device = device or question.inputs.device
    if question.inputs.is_cuda:
        torch.cuda.empty_cache()  # what PyTorch keeps for this process alone
    with tempfile.TemporaryDirectory(prefix="examination-") as name:
        folder = Path(name)
        tensors = {"inputs": question.inputs}
        if question.observed is not None:
            tensors["observed"] = question.observed
        save_file({key: t.cpu().contiguous() for key, t in tensors.items()}, folder / INPUTS)
        if weights_of is not None:
            (folder / WEIGHTS).write_bytes(as_safetensors(weights_of.state_dict()))
        request = {
            "settings": dict(recipe.settings),
            "specification": dataclasses.asdict(recipe.specification),
            "seed": recipe.seed,
            "seed of draws": reader.seed,
            "by hidden": reader.by_hidden,
            "in training": question.in_training,
            "double": weights_of is not None and _is_double(weights_of),
            "device": str(device),
            "threads": torch.get_num_threads(),
        }
        _write_request(folder, recipe.settings["_target_"], request)
        with _server().answering(folder, recipe.environment) as exit_code:
            yield lambda: _answers_in(folder, exit_code())


@contextmanager
def hashed_elsewhere(tasks: Mapping[str, Any]) -> Iterator[Callable[[], Hashes | None]]:
    """Let a new process make the data of a task; a call waits for their hashes, which are None
    where it could not. Characters that are numbered in the order of a set are other tokens there.

    Args:
        tasks: the class as ``_target_``, and its settings.
    """
    with tempfile.TemporaryDirectory(prefix="examination-") as name:
        folder = Path(name)
        _write_request(folder, tasks["_target_"], {"tasks": dict(tasks)})
        with _server().answering(folder, os.environ) as exit_code:
            yield lambda: None if exit_code() != 0 else json.loads((folder / HASHES).read_text())


def _write_request(folder: Path, target: str, request: dict[str, Any]) -> None:
    places = {name: str(place) for name, place in places_of(target).items()}
    of_every_class = {"path": sys.path, "places": places}
    (folder / REQUEST).write_text(json.dumps({**request, **of_every_class}))


def _answers_in(folder: Path, exit_code: int | None) -> Answers:
    if exit_code == 0:
        return load_file(folder / RESULT)
    error = {"sentence": f"it ended {describe_end(exit_code)}", "of GPU": False}
    if exit_code is None:
        error["sentence"] = f"it took longer than {SECONDS / 60:.0f} minutes"
    with suppress(OSError):
        error = json.loads((folder / ERROR).read_text())
    refusal = unfit("no process", error=error["sentence"])
    raise NoRoomOnGpu(str(refusal)) if error["of GPU"] else refusal


def answer_elsewhere(
    recipe: ModelRecipe, reader: ModelReader, model: nn.Module, inputs: Tensor, in_training: bool
) -> Tensor:
    """The outputs that a new process gives by the weights of a model, on the device of the inputs.

    Raises:
        UnfitModel: it cannot be built or asked there.
    """
    name = TRAINING_MODE if in_training else EVAL_MODE
    question = ModelQuestion(inputs, in_training)
    try:
        with asked_elsewhere(recipe, reader, question, model) as answers:
            return answers()[name].to(inputs.device)
    except NoRoomOnGpu:
        with asked_elsewhere(recipe, reader, question, model, CPU) as answers:
            return answers()[name].to(inputs.device)


def _is_double(model: nn.Module) -> bool:
    return all(p.dtype == torch.float64 for p in model.parameters() if p.is_floating_point())


class _Server:
    """The process that forks others, as the process that started it sees it."""

    def __init__(self) -> None:
        self.started_by = os.getpid()
        is_zero = os.environ.get("PYTHONHASHSEED") == "0"
        self.process = subprocess.Popen(
            module_command("bench.examination.fresh_process", []),
            env={**os.environ, "PYTHONHASHSEED": "1" if is_zero else "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for the process that waits for it
        )
        self.lock = threading.Lock()
        # A worker of a pool ends without what atexit has.
        Finalize(self, _end, (self.process,), exitpriority=0)

    @contextmanager
    def answering(
        self, folder: Path, environment: Mapping[str, str]
    ) -> Iterator[Callable[[], int | None]]:
        """Let it fork a process for a request; a call waits for that one's exit code, which is None
        where it took too long."""
        pipe, answers = self.process.stdin, self.process.stdout
        assert pipe is not None
        assert answers is not None
        ended: list[int] = []

        def exit_code() -> int | None:
            if not select.select([answers], [], [], SECONDS)[0]:
                return None
            line = answers.readline()
            ended.append(int(line) if line else self.process.wait())
            return ended[0]

        with self.lock:
            try:
                # By the pipe, since the environment may hold keys, which no file should.
                request = {"folder": str(folder), "environment": dict(environment)}
                with suppress(OSError):  # this process may stand in a folder that is gone
                    request["stands in"] = str(Path.cwd())
                with suppress(BrokenPipeError):
                    pipe.write(json.dumps(request).encode() + b"\n")
                    pipe.flush()
                yield exit_code
            finally:
                if not ended:  # what it is still at would be taken for the next answer
                    _end(self.process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


_servers: list[_Server] = []  # one at most


def start_server() -> None:
    """Let the server import what it needs, seconds before it is asked for anything."""
    _server()


def _server() -> _Server:
    # A process that was forked has the list of its parent, and needs a server of its own.
    servers = [s for s in _servers if s.started_by == os.getpid() and s.process.poll() is None]
    _servers[:] = servers or [_Server()]
    return _servers[0]


# In the server, and in what it forks.


def serve() -> None:
    """Fork a process for each request on standard input, one after another, and write its exit code
    on standard output."""
    gc.freeze()  # a search for garbage in a fork would copy all that the server has
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            _answer_and_end(json.loads(line))
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # whatever it has started
        os.write(1, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _answer_and_end(request: dict[str, Any]) -> NoReturn:
    exit_code, folder = 1, Path(request["folder"])
    try:
        os.environ.clear()  # the server may be older than a change of it
        os.environ.update(request["environment"])
        if "stands in" in request:
            os.chdir(request["stands in"])
        os.setpgid(0, 0)
        end_with_parent(os.getppid())
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # a model may print, and must not answer for the server
            os.dup2(nowhere, stream)
        _answer(folder)
        exit_code = 0
    except BaseException as error:  # a stranger's class may raise anything
        is_own_sentence = isinstance(error, UserError | UnfitModel)
        name = "" if is_own_sentence else f"{type(error).__name__}: "
        on_gpu = isinstance(error, RuntimeError) and "CUDA" in str(error)
        content = {"sentence": f"{name}{first_line(error)}", "of GPU": on_gpu}
        (folder / ERROR).write_text(json.dumps(content))
    finally:
        os._exit(exit_code)


def _answer(folder: Path) -> None:
    request = json.loads((folder / REQUEST).read_text())
    sys.path[:] = request["path"]
    use_places({name: Path(place) for name, place in request["places"].items()})
    if "tasks" in request:
        (folder / HASHES).write_text(json.dumps(task_of(request["tasks"]).data_hashes()))
        return
    set_numerics(request["threads"])
    device = torch.device(request["device"])
    specification = SequenceSpecification(**request["specification"])
    model = ModelRecipe(request["settings"], specification, request["seed"]).built(device)
    if request["double"]:
        model.double()
    if (folder / WEIGHTS).exists():
        weights = load_file(folder / WEIGHTS)
        model.load_state_dict(with_second_names(weights, model.state_dict()))
    tensors = {name: t.to(device) for name, t in load_file(folder / INPUTS).items()}
    reader = ModelReader(request["seed of draws"], request["by hidden"])
    question = ModelQuestion(tensors["inputs"], request["in training"], tensors.get("observed"))
    answers = question.answered(model, reader)
    save_file({name: t.cpu().contiguous() for name, t in answers.items()}, folder / RESULT)


if __name__ == "__main__":
    serve()
