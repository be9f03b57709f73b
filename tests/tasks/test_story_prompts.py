"""The 24 prompts: their text, where continuations are cut, what passes, and a model that is read
token by token."""

import re
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tasks.story_prompts import StoryPrompts
from tasks.story_prompts.judge import GROUPS, StoryPrompt, first_sentence, read_prompts, shares
from tests.tasks.test_task_conformance import arguments

PROMPTS = read_prompts()

# For each prompt, in order, an answer that anybody would accept and one that nobody would.
ANSWERS = [
    ("straight to her bed.", "to the playground to play football."),
    ('many colors!"', 'three legs and a tail!"'),
    ("very thin, like a banana.", "a big round ball."),
    ("the library.", "the swimming pool."),
    ('. Her mother laughed. "No, they can\'t!"', 'said, "Of course they can."'),
    ('"They like worms," she said.', '"They like trucks," she said.'),
    ('said, "They speak French."', 'said, "They speak Spanish."'),
    ("fall down again.", "become a kite."),
    ('wear a warm coat."', 'eat an ice cream."'),
    ("for a cat.", "for a dog again."),
    ("Jack gave Mary his apple.", "Mary was still hungry and cried."),
    ("his grandmother's house, it rained.", "school, it rained."),
    ("ice cream is much better.", "cake is the best food of all."),
    (', "No, I want to swim."', ', "Hurray, the park is great."'),
    ("his father.", "his teacher."),
    (', "No, I am scared."', ', "Hurray, let us swim!"'),
    ("decided to share it.", "each ate two cakes."),
    ("but nobody was there.", "and Lily said hello from her bed."),
    ('Jane shook her head. "No, I have not seen her."', 'Jane sang. "La la la!"'),
    ('a white dog."', 'a green cat."'),
    ('"It is a candy."', '"It is a chocolate."'),
    ("out the carrot.", "out a book."),
    ('Alice said, "I\'m Alice and this is Jack."', 'Alice said, "I\'m Peter."'),
    ('to have any sugar?"', 'to have any shoes?"'),
]


def test_the_prompts_are_those_of_the_paper() -> None:
    assert Counter(prompt.group for prompt in PROMPTS) == {
        "factual": 9,
        "reasoning": 9,
        "consistency": 6,
    }
    texts = [prompt.text for prompt in PROMPTS]
    assert len(set(texts)) == 24
    for text in texts:
        assert text == text.strip()
        assert not re.search(r"\s[.,!?]|\s\s|\n|[“”’]", text)
    assert texts[0] == "Alice was so tired when she got back home so she went"
    assert texts[11].startswith("On weekends Jack went to visit his grandmother whereas on")
    assert texts[23].endswith('She asked the squirrel, "Would you happen')


def test_acceptable_words_accept_and_refuse() -> None:
    assert len(ANSWERS) == len(PROMPTS)
    for prompt, (good, bad) in zip(PROMPTS, ANSWERS, strict=True):
        assert prompt.is_sensible(first_sentence(good)), (prompt.text, good)
        assert not prompt.is_sensible(first_sentence(bad)), (prompt.text, bad)


def test_stars_are_beginnings_and_the_rest_whole_words() -> None:
    prompt = StoryPrompt("", "factual", ("colo*", "no", "ice cream"))
    for good in ("Many COLOURS", "He said, “No”", "an ice\ncream.", "no"):
        assert prompt.is_sensible(good)
    for bad in ("nothing", "know", "ice", "cream ice", "chocolate", ""):
        assert not prompt.is_sensible(bad)
    assert StoryPrompt("", "factual", ("don't",)).is_sensible("I don’t know")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (" to bed. She slept.", "to bed."),
        ('many colors!" They laughed.', 'many colors!"'),
        ('Mother said, "No, dear. Only birds."', 'Mother said, "No, dear.'),
        ('Jane shook her head. "No, I have not. Sorry."', 'Jane shook her head. "No, I have not.'),
        ('Jane said "no". "Why?"', 'Jane said "no".'),
        ("Mr. Fox and Dr. Owl came! Then", "Mr. Fox and Dr. Owl came!"),
        ("in 3.5 hours. Then", "in 3.5 hours."),
        ('.\n\n"No," she said. Then', '.\n\n"No," she said.'),
        ("home\nand then", "home"),
        ("and so on and so on", "and so on and so on"),
        ("What?! No.", "What?!"),
        ("", ""),
        (".", "."),
    ],
)
def test_where_a_continuation_is_cut(text: str, kept: str) -> None:
    assert first_sentence(text) == kept


def test_shares_of_groups_and_of_all() -> None:
    passed = [float(prompt.group == "reasoning") for prompt in PROMPTS]
    assert shares(passed, PROMPTS) == pytest.approx(
        {
            "sensible": 9 / 24,
            "sensible_factual": 0,
            "sensible_reasoning": 1,
            "sensible_consistency": 0,
        }
    )


class Reciter(nn.Module):
    """Says one text over and over, whatever came before."""

    def __init__(self, tokens: list[int], vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.vocabulary = tokens, vocabulary
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.zeros(*inputs.shape, self.vocabulary)

    def _next(self, said: Tensor) -> Tensor:
        places = said[:, 0] % len(self.tokens)
        scores = torch.zeros(len(places), self.vocabulary)
        scores[torch.arange(len(places)), torch.tensor(self.tokens)[places]] = 50.0
        return scores

    def prefill(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        said = torch.zeros(len(inputs), 1, dtype=torch.int64)
        return self._next(said), said + 1

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self._next(state), state + 1


@pytest.fixture(scope="module")
def task() -> StoryPrompts:
    return StoryPrompts(**arguments("story_prompts"))


def test_a_model_that_always_says_the_same_passes_where_that_fits(task: StoryPrompts) -> None:
    text = " the father sang. And then he said no."
    tokens = [*task.tokenizer.encode(text), task.tokenizer.end_of_text]
    model = Reciter(tokens, task.specification().output_size)
    found = task.evaluate(model, "test", "cpu")
    rows: list[dict[str, Any]] = found.arrays["continuations"]
    assert [row["prompt"] for row in rows] == [prompt.text for prompt in PROMPTS]
    assert {row["text"] for row in rows} == {"the father sang."}
    assert {row["continuation"] for row in rows} == {text}
    assert {row["tokens"] for row in rows} == {len(tokens)}
    assert all(row["log_probability"] == pytest.approx(0.0, abs=1e-6) for row in rows)
    # The father is asked for a dog, greeted when he comes home, and opens the door.
    right = [i for i, row in enumerate(rows) if row["sensible"]]
    assert right == [9, 14, 17]
    assert found.per_sequence["sensible"] == [float(i in right) for i in range(24)]
    assert found.metrics["sensible"] == 3 / 24
    assert found.metrics["sensible_reasoning"] == 3 / 9
    assert found.metrics["loss"] > 0


def test_a_prompt_and_its_continuation_fit_into_a_training_window(task: StoryPrompts) -> None:
    longest = max(len(task.tokenizer.encode(prompt.text)) for prompt in PROMPTS)
    narrow = StoryPrompts(**{**arguments("story_prompts"), "length": longest})
    model = Reciter([5] * longest, task.specification().output_size)
    rows = narrow.evaluate(model, "test", "cpu").arrays["continuations"]
    assert rows[23]["tokens"] == 1
    assert rows[0]["tokens"] == narrow.new_tokens
    narrower = StoryPrompts(**{**arguments("story_prompts"), "length": longest - 1})
    with pytest.raises(ValueError, match=rf"has {longest} tokens, more than a window of"):
        narrower.evaluate(model, "test", "cpu")


def test_chance_is_low_and_exact(task: StoryPrompts) -> None:
    predictors = task.baselines()
    other = predictors["another story"]("test")
    stream = task.stream("valid")
    # By hand for one prompt: the second sentences of all stories, split by full stops only.
    index = next(i for i, p in enumerate(PROMPTS) if "carrot" in p.sensible)
    stories = [task.tokenizer.decode(stream.document(i)[:-1].tolist()) for i in range(len(stream))]
    assert len(stories) <= 1000
    second = [re.split(r"(?<=[.!?])\s", story, maxsplit=2)[1] for story in stories]
    share = sum("carrot" in sentence.lower() for sentence in second) / len(stories)
    assert other.per_sequence["sensible"][index] == pytest.approx(share, abs=0.02)
    assert 0 < other.metrics["sensible"] < 0.25
    repeated = predictors["repeats the prompt"]("test")
    assert set(repeated.per_sequence["sensible"]) <= {0.0, 1.0}
    assert all(
        set(found.metrics) == {"sensible", *(f"sensible_{g}" for g in GROUPS)}
        for found in (other, repeated)
    )
