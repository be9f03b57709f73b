"""Any server that speaks the OpenAI chat-completions protocol, and the answers that it has given.

Every answer is a line of a file before the next question is asked, and a question that has an
answer there is not asked again: whatever happens to the server or to us, no answer is lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tasks.interface import Report
from tasks.memory_in_the_loop.questions import Answer, Question, instruction

KEY_VARIABLE = "MEMORY_BENCH_ENDPOINT_KEY"
INSTALL = "in the clone, python -m pip install -c constraints.txt -e '.[recipe]' adds it"
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between two tries
LONGEST_ANSWER = 2000  # characters that are kept
FAILURES = ("timed_out", "unreachable", "busy", "refused", "no_completion")
AGAIN = {408, 409, 429}  # statuses of a server that may answer later, beside 500 and above
WITHOUT_RIGHTS = {401, 403}


class EndpointStopped(RuntimeError):
    """The endpoint failed so often in a row that the rest was not asked, or answered nothing."""


@dataclass(frozen=True)
class Limits:
    """How a server is asked.

    Attributes:
        tokens: of the longest answer.
        retries: tries after the first one, with growing waits.
        timeout: seconds for one whole answer.
        patience: failed questions in a row after which the rest is not asked.
        workers: questions asked at the same time.
    """

    tokens: int
    retries: int
    timeout: float
    patience: int
    workers: int


class Endpoint:
    """Asks a server, several questions at a time.

    Words of failures: ``timed_out`` (no whole answer in time), ``unreachable`` (no connection, or a
    lost one), ``busy`` (status 429 or 500 and above), ``refused`` (another status),
    ``no_completion`` (something else than a chat completion). All but ``refused`` are tried again.

    Args:
        address: of the API, "http://host:port/v1"; "/v1" is added where there is no path. A key is
            read from the environment variable MEMORY_BENCH_ENDPOINT_KEY and goes nowhere else.
        model: as the endpoint names it.
        folder: of the saved answers, in a file for each model and instruction.
        noun: what an item of a sequence is called.

    Raises:
        ValueError: no or a wrong address or model, no folder to write in, or no `openai`.
    """

    failures = FAILURES

    def __init__(
        self, address: str | None, model: str | None, folder: Path, noun: str, limits: Limits
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise ValueError(f"answerer=endpoint needs the package 'openai'; {INSTALL}") from error
        self._openai: Any = openai
        self.address = _checked(address)
        if not model:
            raise ValueError("answerer=endpoint needs endpoint_model=, as the server names it")
        self.model, self._noun, self._limits = model, noun, limits
        self._key = os.environ.get(KEY_VARIABLE, "")
        self._system = instruction(noun)
        self._saved = SavedAnswers(_file(folder, model, self._system, limits.tokens))
        self._failed_in_a_row, self._last_failure = 0, ""

    def answers(self, questions: Sequence[Question], report: Report) -> list[Answer]:
        """One answer for each question; one that failed is an answer with its kind of failure.

        Raises:
            EndpointStopped: too many failed in a row; what was answered is kept.
        """
        texts = [question.text(self._noun) for question in questions]
        answer_by_text = self._saved.read()
        # In the order asked, each once: equal questions have one answer.
        missing = [text for text in dict.fromkeys(texts) if text not in answer_by_text]
        asyncio.run(self._ask_all(missing, answer_by_text, report))
        unanswered = [
            text for text in missing if text not in answer_by_text or answer_by_text[text].failure
        ]
        if any(text not in answer_by_text for text in texts) or len(unanswered) == len(set(texts)):
            # What is raised stands in the record, which says no address and no place.
            raise EndpointStopped(
                f"the endpoint failed {self._failed_in_a_row} times in a row, last: "
                f"{self._last_failure}. The answers so far are kept below tasks.answers: the same "
                "command goes on from there"
            )
        # An outage that was shorter than our patience leaves no hole.
        passing = [text for text in unanswered if answer_by_text[text].failure != "refused"]
        asyncio.run(self._ask_all(passing, answer_by_text, report))
        return [answer_by_text[text] for text in texts]

    async def _ask_all(self, texts: list[str], found: dict[str, Answer], report: Report) -> None:
        waiting: Iterator[str] = iter(texts)
        self._failed_in_a_row, done = 0, 0
        async with self._openai.AsyncOpenAI(
            base_url=self.address,
            # Servers of one's own want no key, but the client insists on one.
            api_key=self._key or "none",
            # Tries are counted here, with waits of our own and a word for each failure.
            max_retries=0,
            timeout=self._limits.timeout,
        ) as client:
            create = (
                client.chat.completions.create
            )  # imports more, which is none of the server's time

            async def work() -> None:
                nonlocal done
                while self._failed_in_a_row < self._limits.patience:
                    text = next(waiting, None)
                    if text is None:
                        return
                    answer, detail = await self._ask(create, text)
                    self._saved.add(text, answer, detail)
                    found[text] = answer
                    self._failed_in_a_row = self._failed_in_a_row + 1 if answer.failure else 0
                    self._last_failure = detail
                    done += 1
                    report("asking the endpoint", done, len(texts))

            await asyncio.gather(*(work() for _ in range(self._limits.workers)))

    async def _ask(self, create: Any, text: str) -> tuple[Answer, str]:
        """The answer, and what is to be said of it: how it ended, or why there is none."""
        wait = FIRST_WAIT
        for tries_left in range(self._limits.retries, -1, -1):
            try:
                # A limit of our own: the client's counts the time between two pieces, not the whole
                # answer.
                async with asyncio.timeout(self._limits.timeout):
                    completion = await create(
                        model=self.model,
                        messages=[
                            {"role": "system", "content": self._system},
                            {"role": "user", "content": text},
                        ],
                        # The likeliest answer: the same question should have the same answer.
                        temperature=0,
                        max_tokens=self._limits.tokens,
                    )
                return self._read(completion)
            except (TimeoutError, self._openai.APITimeoutError):
                kind, detail, retry_after = (
                    "timed_out",
                    f"no answer in {self._limits.timeout:g} s",
                    None,
                )
            except self._openai.APIStatusError as error:
                later = error.status_code in AGAIN or error.status_code >= 500
                kind = "busy" if later else "refused"
                detail = f"status {error.status_code} ({error.message})"
                if error.status_code in WITHOUT_RIGHTS:
                    detail = f"a key is read from the environment variable {KEY_VARIABLE}; {detail}"
                retry_after = error.response.headers.get("retry-after")
            except self._openai.APIConnectionError as error:
                kind, detail, retry_after = "unreachable", str(error.__cause__ or error), None
            except Exception as error:  # whatever the client makes of nonsense
                kind, retry_after = "no_completion", None
                detail = f"no chat completion: {error or type(error).__name__}"
            # A refusal does not change by asking again; all else may.
            if kind == "refused" or not tries_left:
                break
            await asyncio.sleep(_seconds(retry_after, wait))
            wait = min(2 * wait, LONGEST_WAIT)
        return Answer("", self.model, kind), self._without_key(detail)

    def _read(self, completion: Any) -> tuple[Answer, str]:
        """Raises ValueError where this is no chat completion."""
        try:
            choice = completion.choices[0]
            text, finish = choice.message.content or "", str(choice.finish_reason)
        except (AttributeError, LookupError, TypeError):
            raise ValueError(_shown(completion)) from None
        text, model = (self._hidden(str(part)) for part in (text, completion.model or self.model))
        return Answer(_clean(text), _clean(model)), finish

    def _hidden(self, text: str) -> str:
        """The text without the key, which a server may repeat."""
        return text.replace(self._key, "[key]") if self._key else text

    def _without_key(self, text: str) -> str:
        # Some services repeat a key with stars in the middle.
        masked = re.sub(r"\S*\*{3,}\S*", "[key]", " ".join(self._hidden(text).split()))
        return _clean(masked[:160].rstrip("."))


class SavedAnswers:
    """Lines of JSON, one for each question that was asked: its answer, or why there is none.

    Several processes may add to one file. A line that was cut off counts as not written.

    Raises:
        ValueError: nothing can be written there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab"):
                pass
        except OSError as error:
            raise ValueError(
                f"answers cannot be saved in {path.parent} ({error.strerror}): name a folder that "
                "can be written by tasks.answers="
            ) from error

    def read(self) -> dict[str, Answer]:
        """Question -> answer; those that failed are to be asked again and are not among them."""
        answers = {}
        for line in self.path.read_bytes().splitlines():
            try:
                entry = json.loads(line)
                # Lines of failures have no "answer" and are skipped here: they are to be asked
                # again.
                answers[entry["question"]] = Answer(entry["answer"], entry["model"])
            except (ValueError, KeyError, TypeError):
                continue
        return answers

    def add(self, question: str, answer: Answer, detail: str) -> None:
        """One line, which is on the disk when this returns."""
        entry = {"question": question, "time": datetime.now(UTC).isoformat(timespec="seconds")}
        if answer.failure:
            entry |= {"failure": answer.failure, "detail": detail}
        else:
            entry |= {"answer": answer.text, "model": answer.model, "finish": detail}
        # The first line break ends a line that was cut off; empty lines are no lines.
        line = b"\n" + json.dumps(entry).encode() + b"\n"
        with self.path.open("ab", buffering=0) as file:
            file.write(line)
            # On the disk before the next question: a power cut loses one answer at most.
            os.fsync(file.fileno())


def _file(folder: Path, model: str, system: str, tokens: int) -> Path:
    # A file for each model, instruction and length: answers to other questions are never mixed.
    digest = hashlib.sha256(json.dumps([model, system, tokens]).encode()).hexdigest()
    name = re.sub(r"[^\w.-]+", "_", model)[:60]
    return folder / f"{name}-{digest[:12]}.jsonl"


def _checked(address: str | None) -> str:
    """The address to call.

    Raises:
        ValueError: there is none, or it holds what should not be shown.
    """
    example = "write it like http://127.0.0.1:8000/v1"
    if not address:
        raise ValueError(f"answerer=endpoint needs endpoint=, the address of the server; {example}")
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError(f"endpoint= is no web address; {example}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            f"endpoint= holds a name, a password or a query; {example}, and give a key in the "
            f"environment variable {KEY_VARIABLE}"
        )
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") or "/v1"))


def _seconds(asked: str | None, otherwise: float) -> float:
    """How long to wait: what the server asks for, within reason."""
    try:
        seconds = float(asked or "")
    except ValueError:
        return otherwise
    # The server's own wish, but never for ever.
    return min(max(seconds, 0.0), LONGEST_WAIT) if math.isfinite(seconds) else otherwise


def _shown(completion: Any) -> str:
    """What came instead of a chat completion, such as the description of an error."""
    if hasattr(completion, "model_dump_json"):
        return str(completion.model_dump_json(exclude_none=True, warnings=False))
    return str(completion)


def _clean(text: str) -> str:
    """What any JSON file can hold: no halves of characters, and not without end."""
    return text[:LONGEST_ANSWER].encode(errors="replace").decode()
