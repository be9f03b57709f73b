"""One call: its parts one after the other, each in a process of its own, until the time is over."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.gpu.packing import pack
from bench.gpu.parts import GpuPart, parts_of
from bench.gpu.request import GpuRequest, request_of
from bench.gpu.results import SETTLED, Outcome, Result, read_results
from bench.gpu.summary import describe_end, print_result, write_summary
from core.amounts import amount
from core.children import SECONDS_TO_STOP, Ended, describe, run_to_end
from core.errors import OK, RUN_FAILED, UserError
from core.files import ROOT
from core.places import readable
from core.processes import module_command
from core.words import word

PARTS, RAW = "parts", "raw"  # folders of the store, and of that
RESERVE = 0.05  # of the time, at most what a child has to stop: for the last checkpoints
LEAST_SECONDS = 1.0
NO_TIME = "no time was left for it"


def call(settings: Mapping[str, Any]) -> int:
    """Do all parts that settings ask for, or name them; the exit code of the command.

    Raises:
        UserError: a setting that cannot be used, or there is no GPU.
    """
    begin = time.monotonic()
    request = request_of(settings, GpuRequest)
    parts = parts_of(request)
    if request.dry_run:
        for part in parts:
            seconds = 60 * request.minutes * part.share
            print(f"{part.name}, at most {seconds:.0f} s:\n  {command_of(part)}")
        return OK
    if request.device == "cuda":
        _refuse_without_cuda()
    results = run_parts(request, parts, begin)
    if request.pack_mib is not None:
        archives, too_large = pack(request.store, request.pack_mib)
        print(f"packed as {', '.join(map(readable, archives))}")
        for path in too_large:
            print(
                f"not packed, since it is larger than pack_mib={request.pack_mib}: {readable(path)}"
            )
    print(describe_end(request, results))
    return RUN_FAILED if any(result.outcome == "failed" for result in results) else OK


def _refuse_without_cuda() -> None:
    import torch

    if not torch.cuda.is_available():
        raise UserError(
            "there is no CUDA GPU here, or PyTorch is built without CUDA: device=cpu rehearses at "
            "a tenth of the size"
        )


def run_parts(request: GpuRequest, parts: Sequence[GpuPart], begin: float) -> list[Result]:
    """Do those parts that are not done, in time, and keep the summary as of now; what came of each.

    Args:
        begin: from when the minutes count, by ``time.monotonic``.

    Raises:
        UserError: the store has results of another device or size.
    """
    folder = request.store / PARTS
    results = read_results(folder)
    for done in results.values():
        if (done.device, done.scale) != (request.device, request.size):
            raise UserError(
                f"{request.store} holds results of device={done.device} scale={done.scale:g}: "
                "give these, or another store=FOLDER"
            )
    seconds = 60 * request.minutes
    reserve = min(SECONDS_TO_STOP, RESERVE * seconds)
    for part in in_order(parts, {} if request.again else results):
        left = begin + seconds - reserve - time.monotonic()
        if part.not_on_cpu is not None and request.device == "cpu":
            result = _unrun(part, request, "skipped", part.not_on_cpu)
        elif left < LEAST_SECONDS:
            result = results.get(part.name) or _unrun(part, request, "left", NO_TIME)
        else:
            result = _run(part, request, min(left, part.share * seconds), reserve, folder)
        results[part.name] = result
        result.write(folder)
        print_result(result)
        names = [*dict.fromkeys([*(part.name for part in parts), *results])]
        write_summary(request, [results[name] for name in names if name in results])
    return [results[part.name] for part in parts]


def in_order(parts: Sequence[GpuPart], results: Mapping[str, Result]) -> list[GpuPart]:
    """The parts that are to be done: those that came to no end in an earlier call are last."""

    def came_to_no_end(part: GpuPart) -> bool:
        return part.name in results and results[part.name].outcome in ("failed", "over its limit")

    settled = [name for name, result in results.items() if result.outcome in SETTLED]
    return sorted((part for part in parts if part.name not in settled), key=came_to_no_end)


def command_of(part: GpuPart) -> str:
    """The command line of a part, for a person."""
    return shlex.join(["python", "-m", part.module, *part.words])


def _unrun(part: GpuPart, request: GpuRequest, outcome: Outcome, reason: str) -> Result:
    return Result(part.name, part.title, request.device, request.size, outcome, reason)


def _run(part: GpuPart, request: GpuRequest, limit: float, reserve: float, folder: Path) -> Result:
    """A part in a process of its own, and what came of it."""
    output = folder / RAW / f"{part.name}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    words = [*part.words, word("output", str(output))]
    if part.sweeps:
        words.append(word("until", time.time() + limit))  # its imports count
    started_at, begin = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    whole = limit + reserve if part.sweeps else limit  # sweeps end by themselves
    ended = run_to_end(module_command(part.module, words), whole, ROOT)
    seconds = time.monotonic() - begin
    numbers: dict[str, Any] = {}
    unread = "" if output.exists() else "it wrote no result"
    if output.exists():
        try:
            numbers = dict(part.read(output))
        except (LookupError, ValueError, TypeError) as error:
            unread = f"its result cannot be read: {error!r}"
    outcome, reason = _outcome(part, ended, numbers, unread, limit)
    return Result(
        part.name,
        part.title,
        request.device,
        request.size,
        outcome,
        reason,
        seconds,
        limit,
        command_of(part),
        started_at,
        numbers,
    )


def _outcome(
    part: GpuPart, ended: Ended, numbers: Mapping[str, Any], unread: str, limit: float
) -> tuple[Outcome, str]:
    """What came of a part, and why it is not done."""
    if ended.over_limit and not (part.sweeps and numbers):
        return "over its limit", f"its {limit:.0f} s were over"
    if ended.code and not ended.over_limit:
        return "failed", f"{ended.sentence} ({describe(ended)})"
    if unread:
        return "failed", unread
    left = [row for row in numbers["rows"] if row["left_since"]] if part.sweeps else []
    if left:
        return "left", f"{len(left)} of {amount(len(numbers['rows']), 'row')}"
    return "done", ""
