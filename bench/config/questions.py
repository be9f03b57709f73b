"""What a model is examined for: ``questions.yaml`` has each question once, with the sentences that
refuse a model.

The examination refuses by it, records list what was passed in its order, ``leaderboards.verify``
and the board read what a record must list, and tests hold the pages to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator

from core.reading import own_yaml

Asked = Literal["every model", "most", "some", "guests"]


@dataclass(frozen=True)
class Question:
    """One question of the examination.

    Attributes:
        of: whose models are asked. A record that lacks what every model passes or fails is refused;
            "most" are those that can be asked at all, such as at the longest length of the task;
            "some" offer what is asked about, and "guests" are classes of other packages and files.
        refusals: cause -> what is said of a model that fails, with fields in braces, which
            :func:`bench.training.unfit.unfit` fills in. Without any, nothing fails.
        note: what stands beside the row of a guest that lacks it.
        recorded: whether a record lists it among what a model passed.
    """

    of: Asked
    refusals: dict[str, str] = field(default_factory=dict)
    note: str = ""
    recorded: bool = True


_table = own_yaml(Path(__file__).with_suffix(".yaml"))
QUESTIONS = {name: Question(**facts) for name, facts in _table["questions"].items()}
REFUSALS = {cause: sentence for q in QUESTIONS.values() for cause, sentence in q.refusals.items()}
for _name, _part in _table["shared"].items():
    REFUSALS = {
        cause: sentence.replace(f"{{{_name}}}", _part) for cause, sentence in REFUSALS.items()
    }
RECORDED = tuple(name for name, question in QUESTIONS.items() if question.recorded)
ALWAYS = tuple(name for name in RECORDED if QUESTIONS[name].of == "every model")


def _recorded(name: str) -> str:
    if name not in RECORDED:
        raise ValueError(f"{name!r} is no question of the examination")
    return name


Passed = Annotated[str, AfterValidator(_recorded)]  # the name of a question that was passed
