"""Continuations of a text by a saved run, as ``bench.generate`` asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ground.errors import UserError, nearest

if TYPE_CHECKING:
    from bench.runs.saved import SavedRun

Settings = TypeVar("Settings", bound=BaseModel)


class GenerationSettings(BaseModel):
    """The words of the command; the help of ``bench.generate`` says what they mean.

    Attributes:
        locations: where the task's data lies on this machine: task argument -> place.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    prompt: str
    beam: int | None = Field(default=None, ge=1)
    temperature: float | None = None
    top_p: float | None = Field(default=None, gt=0, le=1)
    new_tokens: int = Field(default=100, ge=1)
    count: int = Field(default=1, ge=1)
    seed: int = 0
    store: Path = Path("runs")
    device: Literal["cpu", "cuda"] | None = None
    trust: str | None = None
    locations: dict[str, str] = {}

    @property
    def samples(self) -> bool:
        """Whether continuations are drawn, and not searched."""
        return self.temperature is not None or self.top_p is not None

    @property
    def width(self) -> int:
        """How wide the beam is; the Memory Mosaics paper has 2 (tables 4 and 5)."""
        return 2 if self.beam is None else self.beam

    @field_validator("temperature")
    @classmethod
    def _samples_at_a_temperature(cls, temperature: float | None) -> float | None:
        if temperature is not None and not temperature > 0:
            raise ValueError("sampling needs a temperature above 0; beam=1 is greedy")
        return temperature

    @model_validator(mode="after")
    def _one_way_to_go_on(self) -> GenerationSettings:
        if self.samples and self.beam is not None:
            raise ValueError("beam searches, temperature and top_p sample: give one or the other")
        if not self.samples and self.count > self.width:
            raise ValueError(
                f"a beam of {self.width} has no {self.count} continuations: give beam={self.count} "
                "or more, or sample with temperature=1"
            )
        return self


def read_settings(words: list[str]) -> GenerationSettings:
    """The words of the command line.

    Raises:
        UserError: an unknown key or a value that cannot be used.
    """
    example = 'a text in quotes, for example prompt="Once upon a time"'
    values, locations = read_words(words, GenerationSettings, example)
    for key in ("run", "prompt"):
        if key not in values:
            raise UserError(f"no {key} is given: usage is bench.generate run=ID prompt=TEXT")
    return checked(GenerationSettings, {**values, "locations": locations})


def read_words(
    words: Sequence[str], settings: type[BaseModel], example: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Words ``key=value`` of a command with ``settings``, and those ``tasks.KEY=PLACE``; texts are
    taken as they are, without quotes or escapes.

    Raises:
        UserError: a word of another kind, or a key that the settings do not have.
    """
    values: dict[str, str] = {}
    locations: dict[str, str] = {}
    known = settings.model_fields.keys() - {"locations"}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"cannot read '{word}': settings are written key=value, {example}")
        if key.startswith("tasks."):
            locations[key.removeprefix("tasks.")] = value
        elif key in known:
            values[key] = value
        else:
            raise UserError(f"there is no setting '{key}': {nearest(key, known)}")
    return values, locations


def checked(settings: type[Settings], values: Mapping[str, Any]) -> Settings:
    """The settings with these values.

    Raises:
        UserError: a value that cannot be used.
    """
    try:
        return settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        if first["loc"]:
            message = f"{first['loc'][0]}={first['input']} cannot be used: {message}"
        raise UserError(message) from None


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


def continue_text(saved: SavedRun, settings: GenerationSettings) -> list[ContinuedText]:
    """Continuations of the prompt, the most probable first; samples in the order of drawing.

    Raises:
        UserError: the task is not one of text, or the model cannot take so many positions.
    """
    import torch

    from bench.writing.generation import beam_search, sample

    tokenizer = getattr(saved.task, "tokenizer", None)
    if tokenizer is None:
        raise UserError(
            f"the task {saved.record.task} of {saved.record.run_id} is not one of text: choose a "
            "run of a language task such as babistories"
        )
    # The mark between two documents is what a document starts after.
    ids = tokenizer.encode(settings.prompt) or [tokenizer.end_of_text]
    prompt, end = torch.tensor(ids), tokenizer.end_of_text
    try:
        if settings.samples:
            found = sample(
                saved.model,
                prompt,
                new_tokens=settings.new_tokens,
                temperature=1.0 if settings.temperature is None else settings.temperature,
                top_p=1.0 if settings.top_p is None else settings.top_p,
                end=end,
                vocabulary=tokenizer.vocabulary,
                seed=settings.seed,
                count=settings.count,
            )
        else:
            found = beam_search(
                saved.model,
                prompt,
                width=settings.width,
                new_tokens=settings.new_tokens,
                end=end,
                vocabulary=tokenizer.vocabulary,
            )[: settings.count]
    except ValueError as error:
        raise UserError(str(error)) from None
    texts = []
    for one in found:
        ended = one.tokens[-1] == end
        text = tokenizer.decode(one.tokens[:-1] if ended else one.tokens)
        texts.append(ContinuedText(text, len(one.tokens), ended, one.log_probability))
    return texts
