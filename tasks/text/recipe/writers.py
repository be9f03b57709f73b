"""Who writes: an OpenAI-compatible endpoint, a `transformers` model, or our grammar.

Generation as in the released recipe of Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv
2405.06394, appendix B): temperature 1, top-p 1, no top-k, at most 512 new tokens.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from tasks.text.corpora import stories_corpus
from tasks.text.grammar.stories import story
from tasks.text.recipe.errors import RecipeError, WriterError
from tasks.text.recipe.prompts import Lists, Prompt

TEMPERATURE = 1.0
TOP_P = 1.0
NEW_TOKENS = 512
INSTALL = "in the clone, python -m pip install -c constraints.txt -e '.[recipe]' adds it"


@dataclass(frozen=True)
class WrittenStory:
    """What a writer gave.

    Attributes:
        text: the story with its opening, as it came.
        model: the name that the writer's model goes by.
        finish: "stop" if the model ended by itself, "length" if it was cut at its limit of tokens,
            or what an endpoint says instead.
    """

    text: str
    model: str
    finish: str


class Writer(Protocol):
    """Answers prompts; safe to call from ``workers`` threads at once.

    Attributes:
        model: the name by which a collection remembers who wrote it.
    """

    workers: int
    model: str

    def write(self, prompt: Prompt) -> WrittenStory:
        """The answer to one prompt.

        Raises:
            WriterError: there is none, and asking again is of no use now.
        """


class GrammarWriter:
    """Story i of our grammar, which reads the seed and the index but not the prompt.

    Attributes:
        model: "grammar-" and 12 digits of the hash of its rules, so that a collection never goes on
            under changed ones.
    """

    workers = 1

    def __init__(self, seed: int) -> None:
        self._seed = seed
        # Of any size: the rules are the same.
        rules = stories_corpus("grammar", size=1).key("train")["grammar_sha256"]
        self.model = f"grammar-{rules[:12]}"

    def write(self, prompt: Prompt) -> WrittenStory:
        """The grammar's story of the prompt's index."""
        return WrittenStory(story(self._seed, prompt.index), self.model, "stop")


class EndpointWriter:
    """Any server that speaks the OpenAI chat-completions protocol.

    Args:
        lists: what the prompts are drawn from.
        address: of the API, "http://host:port/v1"; "/v1" is added where there is no path.
        model: as the endpoint names it.
        key_variable: the environment variable that holds the key. The key itself is sent to the
            endpoint and goes nowhere else.
        workers: questions asked at the same time.
        retries: how often the client asks again, waiting longer each time, after a lost
            connection, a time-out, or a server that is busy or failing.
        timeout: seconds to wait for one answer.

    Raises:
        RecipeError: the address is none, or `openai` is not installed.
    """

    def __init__(
        self,
        lists: Lists,
        *,
        address: str,
        model: str,
        key_variable: str,
        workers: int,
        retries: int,
        timeout: float,
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise RecipeError(f"writer=endpoint needs the package 'openai'; {INSTALL}") from error
        self.workers = workers
        self._errors = openai
        self._lists, self.model, self._retries = lists, model, retries
        base, self._shown = _addresses(address)
        self._key = os.environ.get(key_variable, "")
        self._client = openai.OpenAI(
            base_url=base,
            # Servers of one's own want no key, but the client insists on one.
            api_key=self._key or "none",
            max_retries=retries,
            timeout=timeout,
        )

    def write(self, prompt: Prompt) -> WrittenStory:
        """One question, one answer."""
        instruction = prompt.instruction(self._lists, ask_for_opening=True)
        try:
            completion = self._client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": instruction}],
                temperature=TEMPERATURE,
                top_p=TOP_P,
                max_tokens=NEW_TOKENS,
            )
        except self._errors.APIStatusError as error:
            raise WriterError(self._refusal(error.status_code, error.message)) from None
        except self._errors.APITimeoutError:
            raise WriterError(
                f"the endpoint {self._shown} gave no answer in time, {self._tries()}"
            ) from None
        except self._errors.APIConnectionError as error:
            reason = error.__cause__ or error
            raise WriterError(
                f"the endpoint {self._shown} cannot be reached, {self._tries()} "
                f"({self._without_key(str(reason))})"
            ) from None
        except (self._errors.OpenAIError, ValueError) as error:  # an answer that is not JSON
            raise WriterError(self._no_completion(str(error))) from None
        return self._read(completion)

    def _read(self, completion: Any) -> WrittenStory:
        try:
            choice = completion.choices[0]
            text, finish = choice.message.content or "", choice.finish_reason
        except (AttributeError, IndexError, TypeError):
            raise WriterError(self._no_completion(str(completion))) from None
        return WrittenStory(str(text), str(completion.model or self.model), str(finish))

    def _refusal(self, status: int, message: str) -> str:
        advice = {
            401: "; set the key in the variable that key_variable= names",
            403: "; set a key with access in the variable that key_variable= names",
            404: f"; check address= and whether it serves model={self.model}",
            429: f", {self._tries()}; ask with fewer workers= or later",
        }.get(status, f", {self._tries()}" if status >= 500 else "")
        return (
            f"the endpoint {self._shown} refused with status {status}"
            f" ({self._without_key(message)}){advice}"
        )

    def _no_completion(self, text: str) -> str:
        return (
            f"the endpoint {self._shown} answered, but not with a chat completion "
            f"({self._without_key(text)}); check address="
        )

    def _tries(self) -> str:
        return f"tried {self._retries + 1} times" if self._retries else "tried once"

    def _without_key(self, text: str) -> str:
        masked = text.replace(self._key, "[key]") if self._key else text
        # Some services repeat a key with stars in the middle.
        masked = re.sub(r"\S*\*{3,}\S*", "[key]", " ".join(masked.split()))
        return masked if len(masked) <= 160 else masked[:160] + "…"


def _addresses(address: str) -> tuple[str, str]:
    """The address to call, and the one to show: without a name, password or query."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise RecipeError("address= is no web address; write it like http://127.0.0.1:8000/v1")
    path = parts.path.rstrip("/") or "/v1"
    called = urlunsplit(parts._replace(path=path))
    place = f"{host}:{port}" if port else host
    return called, f"{parts.scheme}://{place}{path}"


class TransformersWriter:
    """A causal language model of the `transformers` library, which begins with the opening words.

    Answer i is sampled with a seed of its own, so it does not depend on what was asked before.

    Args:
        lists: what the prompts are drawn from.
        model: a local folder or a name of the Hugging Face hub. Weights are read from safetensors
            only: nothing is unpickled, and no code of the model's folder is run.
        seed: of the collection.

    Raises:
        RecipeError: packages are missing, or there is no such model.
    """

    workers = 1

    def __init__(self, lists: Lists, *, model: str, seed: int) -> None:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise RecipeError(
                f"writer=transformers needs the package '{error.name}'; {INSTALL}"
            ) from error
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self._torch, self._lists, self.model, self._seed = torch, lists, model, seed
        # The library's types do not follow what its Auto classes return.
        self._tokenizer: Any
        self._model: Any
        device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(model)
            self._model = transformers.AutoModelForCausalLM.from_pretrained(
                model, dtype="auto", use_safetensors=True
            )
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise RecipeError(
                f"model={model} cannot be loaded ({reason}); name a folder with a causal language "
                "model, its tokenizer and safetensors weights, or a model of the hub"
            ) from error
        self._model.to(device).eval()

    def write(self, prompt: Prompt) -> WrittenStory:
        """The opening and what the model says after it."""
        beginning = self._beginning(prompt)
        room = self._room(len(beginning))
        inputs = self._torch.tensor([beginning], device=self._model.device)
        try:
            output = self._sample(inputs, room, _seed_of(self._seed, prompt.index))
        except RuntimeError as error:  # above all, out of memory
            reason = " ".join(str(error).split())[:200]
            raise WriterError(f"model={self.model} failed to answer ({reason})") from error
        # Both are decoded, as many tokenizers drop the blank before the first word they decode.
        before = self._tokenizer.decode(beginning, skip_special_tokens=True)
        whole = self._tokenizer.decode(output, skip_special_tokens=True)
        ended = len(output) < len(beginning) + room or output[-1] == self._tokenizer.eos_token_id
        text = prompt.opening + whole[len(before) :]
        return WrittenStory(text, self.model, "stop" if ended else "length")

    def _sample(self, inputs: Any, room: int, seed: int) -> list[int]:
        torch = self._torch
        # The seed of one story, and the caller's generator as it was.
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            return self._model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                do_sample=True,
                temperature=TEMPERATURE,
                top_p=TOP_P,
                top_k=0,
                max_new_tokens=room,
                pad_token_id=self._tokenizer.eos_token_id,
            )[0].tolist()

    def _beginning(self, prompt: Prompt) -> list[int]:
        instruction = prompt.instruction(self._lists, ask_for_opening=False)
        if self._tokenizer.chat_template is None:
            return self._tokenizer.encode(f"{instruction}\n\n{prompt.opening}")
        turn = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": instruction}], add_generation_prompt=True, tokenize=False
        )
        # The template has written the special tokens of the beginning already.
        return self._tokenizer.encode(turn + prompt.opening, add_special_tokens=False)

    def _room(self, length: int) -> int:
        limit = getattr(self._model.config, "max_position_embeddings", None)
        room = NEW_TOKENS if limit is None else min(NEW_TOKENS, limit - length)
        if room < 1:
            raise WriterError(
                f"model={self.model} reads at most {limit} tokens, but a prompt has {length}; "
                "choose a model with a longer context"
            )
        return room


def _seed_of(seed: int, index: int) -> int:
    digest = hashlib.sha256(f"{seed}/{index}/sampling".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1  # 63 bits, as torch's seeds
