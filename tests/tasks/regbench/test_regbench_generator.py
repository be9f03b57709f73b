"""The data of RegBench: languages, strings, splits, and their independence of everything else."""

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from tasks.regbench import RegBench, counter
from tasks.regbench.automata import (
    SEPARATOR,
    Automata,
    Language,
    language_fingerprints,
    sample_automata,
)
from tasks.regbench.generator import distinct_automata, generate, sample_sequences
from tests.conftest import told_by_a_process

ROOT = Path(__file__).resolve().parents[3]
TINY = Language(states=(3, 4), alphabet=(2, 3), out_degree=(1, 2))
# Loops of up to three letters, so few that most draws repeat a language.
LOOPS = Language(states=(2, 3), alphabet=(1, 2), out_degree=(1, 1))
SIZES = {"train": 60, "validation": 20, "test": 20}
GOLDEN = {
    "default": {
        "train": "a993ab575e478f2e0fa458e1c2147713377b4ed0d384f9b63a3b787cb9d843fc",
        "validation": "ad404679130c81b82275f6609f237a08ea2c376c070ee0f3c32a9538e818924b",
        "test": "633b6d83e219ef7e517d14ba267894a85955fbba288e9aebe129e3a43c09e4bb",
    },
    "smoke": {
        "train": "a05e31965c7db8b7a4d86e1e9f5834f6a50e9880724d6b71fded8cec75b1b8c4",
        "validation": "003fe159128336dda184d872d9cdb2e6cbe23763ebd1c04e447fce0d469e99aa",
        "test": "d9cdf88d6d5d5bc901531fee5cef928d3f9504da13d9975a7db208eeafe37a34",
    },
}

Edges = list[dict[int, int]]


def keys(seed: int, count: int) -> counter.Keys:
    return counter.draw(counter.root(seed), np.arange(count))


def edges_of(automata: Automata, index: int) -> Edges:
    """State -> {symbol: target} of one automaton of a stack."""
    return [
        {
            int(automata.symbols[index, state, edge]): int(automata.targets[index, state, edge])
            for edge in range(degree)
        }
        for state, degree in enumerate(automata.degree[index])
    ]


def stack(automata: list[Edges]) -> Automata:
    states = max(map(len, automata))
    degree = np.zeros((len(automata), states), dtype=np.int64)
    width = max(len(edges) for each in automata for edges in each)
    symbols = np.zeros((*degree.shape, width), dtype=np.int64)
    targets = np.zeros_like(symbols)
    for index, each in enumerate(automata):
        for state, edges in enumerate(each):
            degree[index, state] = len(edges)
            symbols[index, state, : len(edges)] = list(edges.keys())
            targets[index, state, : len(edges)] = list(edges.values())
    return Automata(degree, symbols, targets)


def canonical(edges: Edges) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The minimal automaton with its states numbered breadth first: equal for equal languages.

    Moore: all states accept, and a missing edge leads to the rejecting sink, class -1.
    """
    classes = [0] * len(edges)
    while True:
        views = [
            (classes[state], tuple(sorted((c, classes[t]) for c, t in edges[state].items())))
            for state in range(len(edges))
        ]
        numbers = {view: number for number, view in enumerate(sorted(set(views)))}
        refined = [numbers[view] for view in views]
        if len(numbers) == len(set(classes)):
            break
        classes = refined
    names, queue, rows = {classes[0]: 0}, [0], []
    for state in queue:
        row = []
        for symbol, target in sorted(edges[state].items()):
            if classes[target] not in names:
                names[classes[target]] = len(names)
                queue.append(target)
            row.append((symbol, names[classes[target]]))
        rows.append(tuple(row))
    return tuple(rows)


def test_fingerprints_separate_languages_as_minimisation_does() -> None:
    for language in (TINY, LOOPS):
        automata = sample_automata(language, keys(1, 2000))
        forms = [canonical(edges_of(automata, index)) for index in range(2000)]
        prints = language_fingerprints(automata).tolist()
        assert 100 < len(set(forms)) < 1900, "the sample must hold equal and different languages"
        assert len(set(forms)) == len(set(prints)) == len(set(zip(forms, prints, strict=True)))


def test_fingerprints_ignore_names_of_states_order_of_edges_and_split_states() -> None:
    random = np.random.default_rng(0)
    language = Language(states=(4, 8))
    automata = sample_automata(language, keys(2, 50))
    disguised = []
    for index in range(50):
        edges = [row for row in edges_of(automata, index) if row]
        size = len(edges)
        # Four copies of states, and every edge leads to its target or to a copy of it.
        copied = [*range(size), *random.integers(0, size, 4)]
        alike = [[i for i, original in enumerate(copied) if original == s] for s in range(size)]
        rename = [0, *(1 + random.permutation(len(copied) - 1))]
        renamed: Edges = [{} for _ in copied]
        for state, original in enumerate(copied):
            row = list(edges[original].items())
            random.shuffle(row)
            renamed[rename[state]] = {c: int(rename[random.choice(alike[t])]) for c, t in row}
        disguised.append(renamed)
    # Padded to the same number of states, hence the same number of rounds.
    plain = stack([edges_of(automata, index) + [{}] * 4 for index in range(50)])
    assert (language_fingerprints(stack(disguised)) == language_fingerprints(plain)).all()


def test_fingerprints_see_as_far_as_two_automata_of_twelve_states_can_agree() -> None:
    # Fine and Wilf: two words with periods 11 and 12 may share 21 letters and then differ.
    letters = list(range(21))
    for _ in range(21):
        for period in (11, 12):
            for i in range(21 - period):
                letters[i] = letters[i + period] = min(letters[i], letters[i + period])
    word = [1 + letter // max(letters) for letter in letters]
    assert set(word) == {1, 2}

    def cycle(period: int) -> Edges:
        return [{word[i]: (i + 1) % period} for i in range(period)]

    first, second = language_fingerprints(stack([cycle(11), cycle(12)]))
    assert first != second


def test_automata_have_distinct_letters_and_targets_no_loops_and_inclusive_ranges() -> None:
    automata = sample_automata(Language(), keys(3, 4000))
    sizes, letters, degrees = [], [], []
    for index in range(4000):
        edges = [row for row in edges_of(automata, index) if row]
        for state, row in enumerate(edges):
            targets = set(row.values())
            assert len(targets) == len(row)
            assert state not in targets
            assert targets <= set(range(len(edges)))
        sizes.append(len(edges))
        letters.append(set().union(*edges))
        degrees += [len(row) for row in edges]
    assert (automata.degree == (automata.symbols > 0).sum(axis=2)).all()
    assert set().union(*letters) == set(range(1, 19))
    for values, bounds in ((sizes, (4, 12)), (degrees, (1, 3))):
        found, counts = np.unique(values, return_counts=True)
        assert found.tolist() == list(range(bounds[0], bounds[1] + 1))
        share = counts / len(values)
        assert np.abs(share - 1 / len(found)).max() < 5 * math.sqrt(1 / len(found) / len(values))


def test_strings_are_uniform_random_walks_of_the_stated_lengths() -> None:
    language = Language()
    automata = sample_automata(language, keys(4, 3000))
    sequences = sample_sequences(language, automata, keys(5, 3000))
    counts, lengths, choices = [], [], []
    for index in range(3000):
        edges = edges_of(automata, index)
        order = automata.symbols[index].tolist()
        part = slice(*sequences.offsets[index : index + 2])
        state = 0
        text = "".join(chr(token) for token in sequences.tokens[part])
        for token, legal in zip(sequences.tokens[part], sequences.legal[part], strict=True):
            if token == SEPARATOR:
                state = 0
            else:
                if len(edges[state]) == 3:
                    choices.append(order[state].index(token))
                state = edges[state][int(token)]
            assert legal == sum(1 << symbol for symbol in edges[state])
        strings = text.split(chr(SEPARATOR))
        counts.append(len(strings))
        lengths += [len(string) for string in strings]
    for values, bounds in ((counts, (10, 19)), (lengths, (1, 49)), (choices, (0, 2))):
        found, number = np.unique(values, return_counts=True)
        assert found.tolist() == list(range(bounds[0], bounds[1] + 1))
        share = number / len(values)
        assert np.abs(share - 1 / len(found)).max() < 5 * math.sqrt(1 / len(found) / len(values))


def test_repetitions_are_drawn_again_as_if_problems_came_one_by_one() -> None:
    problems = keys(6, 150)
    with ThreadPoolExecutor(1) as threads:
        found = distinct_automata(LOOPS, problems, threads)
    seen, redrawn = set(), 0
    for index in range(150):
        stream, attempt = counter.draw(problems[index : index + 1], 0), 0
        while True:
            candidate = sample_automata(LOOPS, counter.draw(stream, attempt))
            form = canonical(edges_of(candidate, 0))
            if form not in seen:
                break
            attempt, redrawn = attempt + 1, redrawn + 1
        seen.add(form)
        assert edges_of(found, index) == edges_of(candidate, 0)
    assert redrawn > 50


def test_no_language_is_shared_by_splits_and_too_few_languages_are_an_error() -> None:
    # One letter a sequence: 18 languages in all.
    single = Language(states=(2, 2), alphabet=(1, 1), out_degree=(1, 1))
    splits = generate(single, 0, {"train": 6, "validation": 6, "test": 6})
    letters = [set(split.tokens) - {SEPARATOR} for split in splits.values()]
    assert [len(each) for each in letters] == [6, 6, 6]
    assert len(set().union(*letters)) == 18
    with pytest.raises(ValueError, match="found no 19 different languages"):
        generate(single, 0, {"train": 7, "validation": 6, "test": 6})


def test_more_training_automata_leave_the_rest_as_it_is() -> None:
    small = generate(LOOPS, 3, SIZES)
    large = generate(LOOPS, 3, {**SIZES, "train": 130})
    assert small["validation"].sha256() == large["validation"].sha256()
    assert small["test"].sha256() == large["test"].sha256()
    end = small["train"].offsets[-1]
    assert large["train"].offsets[60] == end
    assert (large["train"].tokens[:end] == small["train"].tokens).all()
    assert (large["train"].legal[:end] == small["train"].legal).all()


def test_iid_sequences_are_fresh_walks_of_the_training_automata() -> None:
    splits = generate(Language(), 0, {"train": 8, "validation": 20, "test": 8}, "iid")
    for split in ("validation", "test"):
        sequences = splits[split]
        for index in range(len(sequences)):
            # Legal letters after a prefix are a property of the automaton.
            rules: dict[str, int] = {}
            for source, row in ((splits["train"], index % 8), (sequences, index)):
                part = slice(*source.offsets[row : row + 2])
                prefix = ""
                for token, legal in zip(source.tokens[part], source.legal[part], strict=True):
                    prefix = "" if token == SEPARATOR else prefix + chr(token)
                    assert rules.setdefault(prefix, int(legal)) == legal
    hashes = {split.sha256() for split in splits.values()}
    assert len(hashes) == 3


def test_content_hash_covers_every_part() -> None:
    sequences = generate(TINY, 0, SIZES)["test"]
    before = sequences.sha256()
    for part in (sequences.tokens, sequences.legal, sequences.offsets):
        part[3] ^= 1
        assert sequences.sha256() != before
        part[3] ^= 1
    assert sequences.sha256() == before


@pytest.mark.parametrize("setting", sorted(GOLDEN))
def test_golden_hashes(setting: str) -> None:
    tree = OmegaConf.to_container(OmegaConf.load(ROOT / "tasks" / "regbench.yaml"))
    sizes = tree["presets"]["smoke"]["tasks"] if setting == "smoke" else {}
    assert RegBench(**sizes).data_hashes() == GOLDEN[setting]


SCRIPT = """
import json, random, sys
import numpy as np
import torch
from tasks.regbench.automata import Language
from tasks.regbench.generator import generate
found = []
for workers in map(int, sys.argv[1:]):
    random.seed(workers), np.random.seed(workers), torch.manual_seed(workers)
    sizes = {"train": 1200, "validation": 30, "test": 30}
    splits = generate(Language(), 0, sizes, workers=workers)
    found.append({name: split.sha256() for name, split in splits.items()})
print(json.dumps(found))
"""


def test_data_depend_on_no_hash_seed_no_global_state_and_no_number_of_workers() -> None:
    sizes = {"train": 1200, "validation": 30, "test": 30}
    here = {name: split.sha256() for name, split in generate(Language(), 0, sizes).items()}
    other = generate(Language(), 1, sizes)
    assert all(here[name] != other[name].sha256() for name in here)
    assert told_by_a_process(SCRIPT, "1", "3") == [here, here]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"states": (5, 4)}, r"states must be a range"),
        ({"strings": (0, 4)}, r"strings must be a range"),
        ({"alphabet": (4, 19)}, r"at most 18 letters"),
        ({"out_degree": (1, 4)}, r"one state more"),
        ({"strings": (1, 2), "string_length": (1, 2)}, r"nothing to predict"),
    ],
)
def test_impossible_languages_are_refused(setting: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Language(**setting)
