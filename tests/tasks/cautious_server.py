"""An OpenAI-compatible endpoint on loopback that uses notes by a rule, and fails when told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, bytes]
Hook = Callable[[int], Reply | None]


def cautious(text: str) -> str:
    """Uses a note unless it is told that it is rather wrong than right."""
    told = dict(line.split(": ") for line in text.splitlines() if ": " in line)
    percent = int(told.get("Confidence", "100 %").split()[0])
    return f"It is {told['Note']}." if "Note" in told and percent >= 50 else "I don’t know."


def completion(text: Any) -> bytes:
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
    return json.dumps({"id": "1", "model": "cautious-2026", "choices": [choice]}).encode()


class Server(ThreadingHTTPServer):
    """``hook(number)`` may give another (status, body) to the request of that number, from 0; a
    status of 0 breaks the connection within the body, one of -1 sends it byte by byte."""

    daemon_threads = True

    def __init__(self, hook: Hook) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hook = hook
        self.requests: list[dict[str, Any]] = []
        self.answered: list[str] = []
        self.authorisations: list[str | None] = []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.requests)
            self.server.requests.append(request)
            self.server.authorisations.append(self.headers["Authorization"])
        question = request["messages"][-1]["content"]
        status, body = self.server.hook(number) or (200, b"")
        if not body:
            body = completion(cautious(question))
            self.server.answered.append(question)
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
def serving(hook: Hook = lambda number: None) -> Iterator[Server]:
    server = Server(hook)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
