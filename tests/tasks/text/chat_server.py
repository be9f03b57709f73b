"""A chat server whose answers a small model writes that is trained on the spot."""

import re
import threading
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.nn import functional

from models.gpt2 import GPT2
from models.specification import SequenceSpecification
from tasks.text.grammar.stories import story
from tasks.text.tokenizers import load_tokenizer
from tests.tasks.memory_in_the_loop import chat_server
from tests.tasks.memory_in_the_loop.chat_server import ChatServer, Hook, Reply, completion

__all__ = ["MODEL", "ChatServer", "Reply", "StoryTeller", "serving"]
LENGTH = 96
MODEL = "tiny-gpt2"


class StoryTeller:
    """GPT2 after a few seconds on grammar stories, which continues given opening words."""

    def __init__(self, *, stories: int = 300, steps: int = 70) -> None:
        self._tokenizer = load_tokenizer("grammar")
        self._lock = threading.Lock()
        documents, _ = self._tokenizer.encode_documents([story(0, i) for i in range(stories)])
        stream = torch.from_numpy(documents.astype("int64"))
        self.unigrams = stream.bincount() / len(stream)
        vocabulary = self._tokenizer.vocabulary
        specification = SequenceSpecification(maximum_length=512, vocabulary=vocabulary)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self._model = GPT2(specification, width=64, layers=1, heads=2, dropout=0.0)
            optimiser = torch.optim.AdamW(self._model.parameters(), lr=2e-3)
            self.losses: list[float] = []
            for _ in range(steps):
                starts = torch.randint(len(stream) - LENGTH - 1, (16,))
                windows = torch.stack([stream[start : start + LENGTH + 1] for start in starts])
                logits = self._model(windows[:, :-1])
                loss = functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                self.losses.append(loss.item())

    def tell(self, opening: str, seed: int, new_tokens: int) -> tuple[str, str]:
        """(story, finish reason), a function of its arguments alone."""
        ids = self._tokenizer.encode(opening)
        sampler = torch.Generator().manual_seed(seed)
        state, told = None, list(ids)
        with self._lock, torch.no_grad():
            for token in ids:
                logits, state = self._model.step(torch.tensor([token]), state)
            for _ in range(new_tokens):
                chances = logits[0].softmax(-1)
                token = int(torch.multinomial(chances, 1, generator=sampler))
                if token == self._tokenizer.end_of_text:
                    return self._tokenizer.decode(told), "stop"
                told.append(token)
                logits, state = self._model.step(torch.tensor([token]), state)
        return self._tokenizer.decode(told), "length"


def serving(
    teller: StoryTeller, hook: Hook | None = None, new_tokens: int = 40
) -> AbstractContextManager[ChatServer]:
    """A server whose stories the teller makes, of ``new_tokens`` tokens at most."""

    def answer(request: dict[str, Any]) -> bytes:
        (message,) = request["messages"]
        opening = re.search("«(.*)»", message["content"])
        assert opening
        seed = sum(map(ord, message["content"]))
        room = min(request["max_tokens"], new_tokens)
        text, finish = teller.tell(opening[1], seed, room)
        return completion(text, request["model"], finish)

    return chat_server.serving(answer, hook)
