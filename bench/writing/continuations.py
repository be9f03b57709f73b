"""Continuations of a text by a saved run, as ``bench.generate`` asks for them."""

from __future__ import annotations

from typing import NamedTuple

import torch

from bench.runs.saved import SavedRun, load_run
from bench.writing.generation import sample
from bench.writing.requests import GenerationSettings
from bench.writing.without_steps import with_steps
from core.errors import OK, UserError
from core.escaping import terminal
from core.progress import progress
from models.generation import beam_search


class ContinuedText(NamedTuple):
    """What follows a prompt.

    Attributes:
        text: without the prompt and without an end mark.
        tokens: number of new tokens, an end mark included.
        ended: whether the model ended the text.
        log_probability: natural logarithm of the probability of the new tokens.
    """

    text: str
    tokens: int
    ended: bool
    log_probability: float


def print_continuations(settings: GenerationSettings) -> int:
    """Print continuations by the run that the settings name; the exit code.

    Raises:
        UserError: as :func:`continue_text`, or there is no such run with its weights.
    """
    places, trust = settings.locations, settings.trust
    with progress() as report:
        saved = load_run(settings.run, settings.store, settings.device, places, report, trust)
        continuations = continue_text(saved, settings)
    for text, tokens, has_ended, log_probability in continuations:
        ended = "ended" if has_ended else "not ended"
        print(f"new tokens: {tokens}, {ended}, log probability: {log_probability:.2f}")
        print(terminal(f"{settings.prompt}{text}\n"))
    return OK


def continue_text(saved: SavedRun, settings: GenerationSettings) -> list[ContinuedText]:
    """Continuations of the prompt, the most probable first; samples in the order of drawing.

    Raises:
        UserError: the task is not one of text, or the model cannot take so many positions.
    """
    tokenizer = getattr(saved.task, "tokenizer", None)
    if tokenizer is None:
        raise UserError(
            f"the task {saved.record.task} of {saved.record.run_id} is not one of text: choose a "
            "run of a language task such as babistories"
        )
    # The mark between two documents is what a document starts after.
    prompt = torch.tensor(tokenizer.encode(settings.prompt) or [tokenizer.end_of_text])
    limits: dict[str, int] = {
        "new_tokens": settings.new_tokens,
        "end": tokenizer.end_of_text,
        "vocabulary": tokenizer.vocabulary,
    }
    model = with_steps(saved.model)
    try:
        if settings.samples:
            answers = sample(
                model,
                prompt,
                temperature=1.0 if settings.temperature is None else settings.temperature,
                top_p=1.0 if settings.top_p is None else settings.top_p,
                seed=settings.seed,
                count=settings.count,
                **limits,
            )
        else:
            answers = beam_search(model, prompt, width=settings.width, **limits)
    except ValueError as error:
        raise UserError(str(error)) from None
    continued = []
    for answer in answers[: settings.count]:
        ended = answer.tokens[-1] == tokenizer.end_of_text
        text = tokenizer.decode(answer.tokens[:-1] if ended else answer.tokens)
        continued.append(ContinuedText(text, len(answer.tokens), ended, answer.log_probability))
    return continued
