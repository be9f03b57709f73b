"""A real OpenAI-compatible HTTP server on loopback, which fails when it is told to."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, bytes]
Hook = Callable[[int], Reply | None]
Answer = Callable[[dict[str, Any]], bytes]
CAUTIOUS = "cautious-2026"  # the model's name


def completion(text: Any, model: str, finish: str = "stop") -> bytes:
    """The body of a chat completion."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    facts = {"id": "1", "object": "chat.completion", "created": 0, "model": model}
    return json.dumps({**facts, "choices": [choice]}).encode()


def cautious(request: dict[str, Any]) -> bytes:
    """Uses a note unless it is told that it is rather wrong than right."""
    lines = request["messages"][-1]["content"].splitlines()
    told = dict(line.split(": ") for line in lines if ": " in line)
    percent = int(told.get("Confidence", "100 %").split()[0])
    sure = "Note" in told and percent >= 50
    return completion(f"It is {told['Note']}." if sure else "I don’t know.", CAUTIOUS)


class ChatServer(ThreadingHTTPServer):
    """POST /v1/chat/completions: ``answer(request)`` is the body of the reply.

    ``hook(number)`` may give another (status, body) to the request of that number, counted from 0;
    a status of 0 breaks the connection within the body, one of -1 sends it byte by byte.
    """

    daemon_threads = True

    def __init__(self, answer: Answer, hook: Hook | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.hook: Hook = hook or (lambda number: None)
        self.requests: list[dict[str, Any]] = []
        self.answered: list[str] = []  # the questions
        self.authorisations: list[str | None] = []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def reply(self, request: dict[str, Any]) -> Reply:
        """A body for 200, and its question is among the answered ones."""
        body = self.answer(request)
        with self.lock:
            self.answered.append(request["messages"][-1]["content"])
        return 200, body


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
        told = self.server.hook(number) if known else (404, b"{}")
        status, body = told or self.server.reply(request)
        self.send_response(status if status > 0 else 200)
        kind = "text/html" if body.startswith(b"<") else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if status else 10_000))
        self.send_header("Retry-After", "0")
        self.end_headers()
        try:
            for part in [body] if status >= 0 else [body[k : k + 1] for k in range(len(body))]:
                self.wfile.write(part)
                time.sleep(0.1 if status < 0 else 0)
        except OSError:
            pass  # nobody waits for it any more

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(answer: Answer, hook: Hook | None = None) -> Iterator[ChatServer]:
    """A server that answers until the block is left."""
    server = ChatServer(answer, hook)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
