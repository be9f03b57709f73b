"""An OpenAI-compatible endpoint on loopback, backed by a small model trained on the spot."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from torch.nn import functional

from models.gpt2 import GPT2
from models.specification import SequenceSpecification
from tasks.text.grammar.stories import story
from tasks.text.tokenizers import load_tokenizer

LENGTH = 96
MODEL = "tiny-gpt2"


class StoryTeller:
    """GPT2 after a few seconds on grammar stories, which continues given opening words."""

    def __init__(self, *, stories: int = 300, steps: int = 140) -> None:
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


Reply = tuple[int, bytes]
Hook = Callable[[int], Reply | None]


class ChatServer(ThreadingHTTPServer):
    """POST …/chat/completions. The server stops its answers after ``new_tokens`` tokens.

    ``hook(number)`` may give another reply (status, body) to the request of that number, counted
    from 0; a status of 0 breaks the connection in the middle of the body.
    """

    daemon_threads = True

    def __init__(self, teller: StoryTeller, new_tokens: int = 40, hook: Hook | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.teller, self.new_tokens = teller, new_tokens
        self.hook: Hook = hook or (lambda number: None)
        self.requests: list[dict[str, Any]] = []
        self.answered: list[str] = []
        self.authorisations: list[str | None] = []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        (message,) = request["messages"]
        opening = re.search("«(.*)»", message["content"])
        assert opening
        seed = sum(map(ord, message["content"]))
        room = min(request["max_tokens"], self.new_tokens)
        text, finish = self.teller.tell(opening[1], seed, room)
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        facts = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"]}
        return {**facts, "choices": [choice]}


class Handler(BaseHTTPRequestHandler):
    """One question."""

    server: ChatServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.requests)
            self.server.requests.append(request)
            self.server.authorisations.append(self.headers["Authorization"])
        known = self.path == "/v1/chat/completions"
        reply = self.server.hook(number) if known else (404, b"{}")
        if reply is None:
            reply = (200, json.dumps(self.server.answer(request)).encode())
            with self.server.lock:
                self.server.answered.append(request["messages"][0]["content"])
        status, body = reply
        self.send_response(status or 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if status else 10_000))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(
    teller: StoryTeller, hook: Hook | None = None, new_tokens: int = 40
) -> Iterator[ChatServer]:
    """A server that answers until the block is left."""
    server = ChatServer(teller, new_tokens, hook)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
