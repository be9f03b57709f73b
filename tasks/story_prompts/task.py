"""How models of stories go on with 24 prompts (Memory Mosaics, section 7, Tables 4 and 5).

Every prompt is continued by beam search. The paper prints the continuations for people to read;
the number here, how many hold an acceptable word, is a crude check of this project's own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import nn

from models.generation import beam_search
from tasks.babistories import BabiStories
from tasks.interface import Evaluation, Metric, Split
from tasks.story_prompts.judge import StoryPrompt, first_sentence, read_prompts, shares
from tasks.text.windows import evenly

STORIES = 1000  # of the validation file, at most, in the predictor "another story"


class StoryPrompts(BabiStories):
    """Continuations of the 24 prompts, and the share of them that hold an acceptable word.

    Example: the first prompt, and what the judge says of two continuations, cut at their first
    end:

        prompt        Alice was so tired when she got back home so she went
        continuation  to bed. She slept.                 judged: "to bed."       sensible (bed)
                      to the shop. She bought milk.      judged: "to the shop."  not sensible

    A model must keep to what the prompt says of its persons and things. The predictor "another
    story" has the share that sentences of other stories reach by chance.

    Args:
        beam: width of the search; the paper has 2.
        new_tokens: the most tokens of a continuation, before it is cut at its first sentence; fewer
            where prompt and continuation together would be longer than a training window.
        training: arguments of :class:`tasks.babistories.BabiStories`.

    Raises:
        ValueError: an argument that cannot be used.
    """

    headline: ClassVar[Metric] = Metric("sensible", "maximise", "share of the prompts")

    def __init__(self, *, beam: int = 2, new_tokens: int = 40, **training: Any) -> None:
        super().__init__(**training)
        if beam < 1 or new_tokens < 1:
            raise ValueError(f"beam and new_tokens must be at least 1, got {beam} and {new_tokens}")
        self.beam = beam
        self.new_tokens = new_tokens

    @cached_property
    def prompts(self) -> list[StoryPrompt]:
        """The prompts, in the order of the paper's tables."""
        return read_prompts()

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the prompts with their acceptable words ("test"), and of the validation
        file."""
        hashes = super().data_hashes()
        prompts = json.dumps([asdict(prompt) for prompt in self.prompts])
        content = f"{prompts}:{self.stream('valid').manifest.tokens_sha256}"
        return {**hashes, "test": hashlib.sha256(content.encode()).hexdigest()}

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """The protocol on "test"; "validation" gives the loss on held-out stories alone, as every
        task of stories does.

        Raises:
            ValueError: a prompt has no place in a training window.
        """
        if split == "validation":
            evaluation = super().evaluate(model, split, device)
            # Nothing is chosen by the prompts, so that they are not continued here.
            return Evaluation(
                {**evaluation.metrics, self.headline.name: 0.0}, evaluation.per_sequence
            )
        continuations = [self._continue(model, prompt) for prompt in self.prompts]
        passed = [float(continuation["sensible"]) for continuation in continuations]
        metrics = {"loss": self.validation_loss(model, device), **shares(passed, self.prompts)}
        arrays = {"corpus": self.corpus_facts(), "continuations": continuations}
        return Evaluation(metrics, {"sensible": passed}, arrays=arrays)

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """The words of the prompt again, and second sentences of other stories."""
        return {"repeats the prompt": self._repeats, "another story": self._another_story}

    def _continue(self, model: nn.Module, prompt: StoryPrompt) -> dict[str, Any]:
        ids = self.tokenizer.encode(prompt.text)
        room = self.length + 1 - len(ids)  # the last token is not read again
        if room < 1:
            raise ValueError(
                f"the prompt '{prompt.text[:30]}…' has {len(ids)} tokens, more than a window of "
                f"{self.length}: train on longer windows, by tasks.length"
            )
        end = self.tokenizer.end_of_text
        best, *_ = beam_search(
            model,
            torch.tensor(ids),
            width=self.beam,
            new_tokens=min(self.new_tokens, room),
            end=end,
            vocabulary=self.tokenizer.vocabulary,
        )
        # The end mark is no text.
        text = self.tokenizer.decode([token for token in best.tokens if token != end])
        cut = first_sentence(text)
        return {
            "prompt": prompt.text,
            "group": prompt.group,
            "continuation": text,
            "text": cut,
            "sensible": prompt.is_sensible(cut),
            "log_probability": best.log_probability,
            "tokens": len(best.tokens),
        }

    def _repeats(self, split: Split) -> Evaluation:
        """What the judge makes of words that are in the prompt already."""
        # A prompt that holds an acceptable word itself would pass by being repeated.
        return self._without_model(split, lambda p: [float(p.is_sensible(first_sentence(p.text)))])

    def _another_story(self, split: Split) -> Evaluation:
        """The share of other stories whose second sentence would pass: what chance gives."""
        stream = self.stream("valid")
        sentences = []
        for index in evenly(len(stream), STORIES):
            # Without the end mark.
            text = self.tokenizer.decode(stream.document(int(index))[:-1].tolist()).strip()
            # The second sentence: the first one of a story often says no more than who it is about.
            sentences.append(first_sentence(text[len(first_sentence(text)) :]))
        return self._without_model(split, lambda p: [float(p.is_sensible(s)) for s in sentences])

    def _without_model(
        self, split: Split, judge: Callable[[StoryPrompt], Sequence[float]]
    ) -> Evaluation:
        if split == "validation":
            return Evaluation({self.headline.name: 0.0})
        verdicts = [judge(prompt) for prompt in self.prompts]
        passed = [sum(each) / len(each) for each in verdicts]
        metrics = shares(passed, self.prompts)
        arrays = {"corpus": self.corpus_facts()}
        return Evaluation(metrics, {"sensible": passed}, arrays=arrays)
