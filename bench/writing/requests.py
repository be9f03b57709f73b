"""What ``bench.generate`` and ``bench.prompts`` are asked for. It imports no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bench.config.settings import Place
from core.errors import UserError, nearest


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
    def of(cls, texts: Mapping[str, str | None]) -> Self:
        """Settings by key, those ``tasks.KEY`` among them, as a command line has them.

        Raises:
            UserError: one without a value, an unknown or a missing key, or a value that cannot be
                used.
        """
        values: dict[str, Any] = {"locations": {}}
        keys = cls.model_fields.keys() - {"locations"}
        for key, value in texts.items():
            if value is None:
                wanted = f"settings are written key=value, {cls.example}"
                raise UserError(f"cannot read '{key}': {wanted}")
            if key.startswith("tasks."):
                values["locations"][key.removeprefix("tasks.")] = value
            elif key in keys:
                values[key] = value
            else:
                raise UserError(f"there is no setting '{key}': {nearest(key, keys)}")
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


class PromptSettings(WordSettings):
    """The words of ``bench.prompts``."""

    usage = "bench.prompts runs=[ID,ID,...]"
    example = "for example runs=[ID,ID]"

    runs: tuple[str, ...]
    prompts: Place | None = None
    beam: int = Field(default=2, ge=1)
    new_tokens: int = Field(default=40, ge=1)
    output: Place | None = None

    @field_validator("runs", mode="before")
    @classmethod
    def _names(cls, value: str) -> list[str]:
        """ "[a,b]" and "a,b" are two names."""
        listed = value.strip().removeprefix("[").removesuffix("]")
        names = [name.strip() for name in listed.split(",")]
        if not all(names):
            raise ValueError("give run ids with commas between them, as in runs=[ID,ID]")
        return names

    @model_validator(mode="after")
    def _writes_markdown(self) -> Self:
        if self.output is not None and self.output.suffix != ".md":
            raise ValueError(
                f"output={self.output} is written in Markdown: name a file that ends .md"
            )
        return self
