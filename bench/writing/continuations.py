"""Continuations of a text by a saved run, as ``bench.generate`` asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bench.config.settings import Place
from core.errors import UserError, nearest

if TYPE_CHECKING:
    from bench.runs.saved import SavedRun


class WordSettings(BaseModel):
    """The words of a command that lets saved runs write; its help says what they mean.

    Attributes:
        locations: where the tasks' data lies on this machine: task argument -> place.
        trust: the package whose model a record may name, as the person says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    usage: ClassVar[str]
    example: ClassVar[str]

    store: Place = Field(default=Path("runs"), validate_default=True)
    device: Literal["cpu", "cuda"] | None = None
    locations: dict[str, str] = {}
    trust: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, str | None]) -> Self:
        """Settings by key, those ``tasks.KEY`` among them, as a command line has them.

        Raises:
            UserError: one without a value, an unknown or a missing key, or a value that cannot be
                used.
        """
        values: dict[str, Any] = {"locations": {}}
        known = cls.model_fields.keys() - {"locations"}
        for key, value in given.items():
            if value is None:
                wanted = f"settings are written key=value, {cls.example}"
                raise UserError(f"cannot read '{key}': {wanted}")
            if key.startswith("tasks."):
                values["locations"][key.removeprefix("tasks.")] = value
            elif key in known:
                values[key] = value
            else:
                raise UserError(f"there is no setting '{key}': {nearest(key, known)}")
        for key, field in cls.model_fields.items():
            if field.is_required() and key not in values:
                are = "are" if key.endswith("s") else "is"
                raise UserError(f"no {key} {are} given: usage is {cls.usage}")
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            place = "".join(f"{key}={first['input']} cannot be used: " for key in first["loc"][:1])
            raise UserError(place + first["msg"].removeprefix("Value error, ")) from None


class GenerationSettings(WordSettings):
    """The words of ``bench.generate``."""

    usage = "bench.generate run=ID prompt=TEXT"
    example = 'a text in quotes, for example prompt="Once upon a time"'

    run: str
    prompt: str
    beam: int | None = Field(default=None, ge=1)
    temperature: float | None = None
    top_p: float | None = Field(default=None, gt=0, le=1)
    new_tokens: int = Field(default=100, ge=1)
    count: int = Field(default=1, ge=1)
    seed: int = 0

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
    def _one_way_to_go_on(self) -> Self:
        if self.samples and self.beam is not None:
            raise ValueError("beam searches, temperature and top_p sample: give one or the other")
        if not self.samples and self.count > self.width:
            raise ValueError(
                f"a beam of {self.width} has no {self.count} continuations: give beam={self.count} "
                "or more, or sample with temperature=1"
            )
        return self


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

    from bench.writing.generation import sample
    from bench.writing.without_steps import with_steps
    from models.generation import beam_search

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
            found = sample(
                model,
                prompt,
                temperature=1.0 if settings.temperature is None else settings.temperature,
                top_p=1.0 if settings.top_p is None else settings.top_p,
                seed=settings.seed,
                count=settings.count,
                **limits,
            )
        else:
            found = beam_search(model, prompt, width=settings.width, **limits)
    except ValueError as error:
        raise UserError(str(error)) from None
    texts = []
    for one in found[: settings.count]:
        ended = one.tokens[-1] == tokenizer.end_of_text
        text = tokenizer.decode(one.tokens[:-1] if ended else one.tokens)
        texts.append(ContinuedText(text, len(one.tokens), ended, one.log_probability))
    return texts
