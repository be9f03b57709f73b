"""Files that anybody may have written: named in one sentence, at once, whatever they hold."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.records import equivalence
from bench.records.schema import read_record, write_record
from core.errors import VERIFICATION_FAILED, UserError
from core.files import ROOT
from core.reading import Kind
from leaderboards import add, build, contents
from leaderboards.checks.admission import read_checked
from leaderboards.contents import read_board
from leaderboards.render import PRESETS
from leaderboards.tables.builder import build_board
from leaderboards.tables.folder import MANIFEST
from leaderboards.tables.verdicts import read_verdicts
from reproduce.plotting.panels import Picture
from reproduce.published.numbers import PublishedFile, read_published
from tests.committed import committed_paths
from tests.leaderboards.boards import to_parquet
from tests.leaderboards.conftest import record

RECORD_TREE = json.loads(json.dumps(record().model_dump(mode="json")))
VERDICT = json.loads(min((build.FOLDER / "verdicts").glob("*-laptop.json")).read_text())
PUBLISHED = ROOT / "reproduce" / "published"
PUBLISHED_TEXT = (PUBLISHED / "regbench_figure9.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('{"a": {"b": 1, "b": 2}}', "holds the key 'b' twice in one place"),
        ('{"a": 1, "c": 0, "\\u0061" : 2}', "holds the key 'a' twice in one place"),
        ('{"a": {"b": 1}, "c": {"b": ": 2"}, "d": "\\": \\":", "e": [{}, {"b": 0}]}', None),
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str, refused: str | None, tmp_path: Path) -> None:
    """Readers of JSON do not agree which of them counts."""
    kind = Kind("file", dict[str, Any], how="write it again")
    path = tmp_path / "file.json"
    path.write_text(text)
    if refused is None:
        assert kind.read_json(path) == json.loads(text)
        return
    with pytest.raises(UserError, match=refused):
        kind.read_json(path)


def published(path: Path) -> list[PublishedFile]:
    """As a folder's only file, whose name has to end so."""
    folder = path.with_name(f"{path.stem} published")
    folder.mkdir(exist_ok=True)
    link = folder / f"{path.name}.yaml"
    if not link.is_symlink():
        link.symlink_to(path)
    return read_published(folder)


def board_of(path: Path) -> contents.Board:
    """As the list of a board's files, whose name has to be another."""
    folder = path.with_name(f"{path.name} board")
    folder.mkdir(exist_ok=True)
    link = folder / MANIFEST
    if not link.is_symlink():
        link.symlink_to(path)
    return read_board(folder)


JSON_READERS: dict[str, Callable[[Path], object]] = {
    "record": read_record,
    "verdicts": lambda path: read_verdicts([path]),
    "equivalences": equivalence.read_file,
    "figure": Picture.read,
    "list of a board": board_of,
}
READERS = {**JSON_READERS, "published": published}
HOSTILE_JSON = {
    "nothing": b"",
    "half": b'{"schema_version": 1, "fig',
    "a list": b"[]",
    "a number": b"1",
    "bytes that are no text": b'{"schema_version": "\xff\xfe"}',
    "half a surrogate pair": b'{"schema_version": 1, "figure": "\\ud800"}',
    "not a number": b'{"schema_version": NaN}',
    "infinite": b'{"schema_version": -Infinity}',
    "infinite by its exponent": b'{"schema_version": 1e999}',
    "a float that no square has": b'{"schema_version": 1, "rows": 1e308}',
    "400 digits": b'{"schema_version": 1, "rows": 1%s}' % (b"0" * 400),
    "5,000 digits": b'{"schema_version": 1, "rows": 1%s}' % (b"0" * 5000),
    "256 levels": b'{"a":' * 256 + b"1" + b"}" * 256,
    "200,000 levels": b"[" * 200_000,
    "a key of a page's length": b'{"schema_version": 1, "%s": 1}' % (b"\\u001b[31mx\\n" * 9999),
    "thousands of wrong fields": b"{%s}" % b",".join(b'"%d":0' % n for n in range(20_000)),
    "a version of a megabyte": b'{"schema_version": "%s"}' % (b"9" * 1_000_000),
}
HOSTILE_YAML = {
    "nothing": b"",
    "bad encoding": b"source: \xff\xfe\xff",
    "a control character": b"source: \x07",
    "a tag that fails": b"source: !!int abc",
    "a tag that is code": b"source: !!python/object/apply:os.getcwd []",
    "5,000 digits": b"source: 1" + b"0" * 5000,
    "hexadecimal": b"source: 0x" + b"f" * 100_000,
    "sixties": b"source: 1" + b":59" * 60_000,
    "sixties with a dot": b"source: 1" + b":59" * 60_000 + b".5",
    "an impossible date": b"source: 2026-13-41",
    "deep flow": b"[" * 200_000,
    "deep blocks": b"- " * 100_000,
    "deep keys": b"? " * 100_000,
    "a bomb of aliases": b"a: &a [1]\n"
    + b"".join(b"x%d: &b%d [*a,*a]\n" % (n, n) for n in range(40)),
    "a circle": b"&a [*a]",
    "two documents": b"a: 1\n---\na: 2",
    "a list as a key": b"? [1]\n: 2",
    "a value sign": b"source: =",
    "a merge of a word": b"<<: word",
    "an open string": b'source: "' + b"x\n" * 9_000,
    "a long line": b"{" + b"a: b, " * 5_000,
}


def refusal(attempt: Callable[[], object], path: Path) -> str:
    """The one sentence that names the file, after at most a few seconds."""
    start = time.process_time()
    with pytest.raises(UserError) as error:
        attempt()
    assert time.process_time() - start < 8
    sentence = str(error.value)
    assert path.name in sentence
    assert sentence.isprintable()
    assert len(sentence) < 1200
    return sentence


def refused(attempt: Callable[[], object]) -> str:
    """The sentence of a refusal, empty if there is none."""
    try:
        attempt()
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("content", HOSTILE_JSON.values(), ids=HOSTILE_JSON)
def test_hostile_json_is_one_sentence_for_every_reader(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hostile.json"
    path.write_bytes(content)
    for read in JSON_READERS.values():
        refusal(lambda read=read: read(path), path)  # type: ignore[misc]


@pytest.mark.parametrize("content", HOSTILE_YAML.values(), ids=HOSTILE_YAML)
def test_hostile_yaml_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_bytes(content)
    refusal(lambda: read_published(tmp_path), path)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_only_regular_files_of_a_sensible_size_are_opened(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    pipe, device, folder, huge, none = (
        tmp_path / f"{n}.json" for n in ("pipe", "device", "folder", "huge", "none")
    )
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    folder.mkdir()
    with huge.open("wb") as file:
        file.truncate(80 * 2**20)
    for path in (pipe, device, folder):
        assert "is not a regular file" in refusal(lambda path=path: read(path), path)  # type: ignore[misc]
    assert "is larger than" in refusal(lambda: read(huge), huge)
    assert "there is no" in refusal(lambda: read(none), none)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, -(2**63) - 1, 10**400, 1e308, -1e308, 1e151, 1e-320, ""]),
    st.floats(),
    st.text(max_size=5),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def mutated(tree: Any, data: st.DataObject) -> Any:
    """A copy of ``tree`` with one value, at any depth, replaced."""
    tree = json.loads(json.dumps(tree))
    node = tree
    while True:
        keys = sorted(node) if isinstance(node, dict) else range(len(node))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or not node[key] or data.draw(st.booleans()):
            node[key] = data.draw(TREES)
            return tree
        node = node[key]


def sealed(tree: dict[str, Any]) -> bytes:
    """A record as a forger would write it, with the hash that it needs."""
    canonical = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    content = {**tree, "content_sha256": hashlib.sha256(canonical.encode()).hexdigest()}
    return json.dumps(content).encode()


@settings(suppress_health_check=list(HealthCheck), max_examples=60, deadline=None)
@given(data=st.data())
def test_a_changed_value_is_refused_or_does_no_harm(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / f"{RECORD_TREE['run_id']}.json"
    for tree, write, use in (
        (RECORD_TREE, sealed, lambda: to_parquet(build_board(read_checked([path.parent])))),
        (
            VERDICT,
            lambda tree: json.dumps(tree).encode(),
            lambda: to_parquet(build_board([], [], read_verdicts([path]))),
        ),
        (
            yaml.safe_load(PUBLISHED_TEXT),
            lambda t: yaml.safe_dump(t).encode(),
            lambda: to_parquet(build_board([], published(path))),
        ),
    ):
        path.write_bytes(write(mutated(tree, data)))
        if sentence := refused(use):
            assert path.name in sentence
            assert sentence.isprintable()


def changed(*keys: str, value: Any) -> dict[str, Any]:
    tree = json.loads(json.dumps(RECORD_TREE))
    node = tree
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = value
    return dict(tree)


def nested(levels: int) -> Any:
    tree: Any = 1
    for _ in range(levels):
        tree = [tree]
    return tree


FATAL = {
    "steps in words": changed("config", "training", "steps", value="many"),
    "steps below none": changed("config", "training", "steps", value=-1),
    "training as a list": changed("config", "training", value=[]),
    "a class as a list": changed("config", "tasks", "_target_", value=["tasks", "x"]),
    "400 digits": changed("config", "tasks", "training_automata", value=10**400),
    "more than a square has": changed("metrics", "test", "accuracy", value=1e308),
    "less than a square has": changed("per_sequence", "accuracy", value=[-1e308, 1.0]),
    "256 levels": changed("config", "models", "width", value=nested(256)),
    "a number as text": changed("headline", "value", value="0.9"),
}


def test_what_no_board_can_be_made_of_is_refused_and_the_rest_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, output = tmp_path / "records", tmp_path / "board.parquet"
    committed = committed_paths("regbench/smoke/*")[0]
    good = write_record(read_record(committed), folder)
    words = [f"records={folder}", f"output={output}"]
    for seed, tree in enumerate(FATAL.values()):
        own = record(seed=seed)
        bad = folder / f"{own.run_id}.json"
        bad.write_bytes(sealed({**tree, "seed": seed, "run_id": own.run_id}))
        refusal(lambda bad=bad: add.main([str(bad), f"to={tmp_path / 'to'}"]), bad)  # type: ignore[misc]
    assert build.main(words) == VERIFICATION_FAILED
    said = capsys.readouterr()
    assert said.err.count(f"not shown: {folder}") == len(FATAL)
    assert f"{len(FATAL)} files not shown" in said.out
    assert build.main([*words, "skip_refused=true"]) == 0
    assert [line.run_id for line in read_board(output).records] == [good.stem]


def test_refused_verdicts_and_published_numbers_leave_the_others(tmp_path: Path) -> None:
    good, bad = tmp_path / "a.json", tmp_path / "b.json"
    good.write_text(json.dumps(VERDICT))
    bad.write_text(json.dumps({**VERDICT, "preset": "galactic"}))
    others: list[UserError] = []
    assert [file.figure for file in read_verdicts([good, bad], others)] == [VERDICT["figure"]]
    (tmp_path / "a.yaml").write_text(PUBLISHED_TEXT)
    (tmp_path / "b.yaml").write_text(PUBLISHED_TEXT.replace("0.925", '"0.925"', 1))
    assert len(read_published(tmp_path, others)) == 1
    assert all(name in str(error) for name, error in zip(("b.json", "b.yaml"), others, strict=True))
    refusal(lambda: read_verdicts([bad]), bad)
    for preset in PRESETS:
        good.write_text(json.dumps({**VERDICT, "preset": preset}))
        assert read_verdicts([good])[0].preset == preset


def test_nothing_is_written_that_nobody_could_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1e150"):
        write_record(record(metrics={"test": {"loss": 1e200}}), tmp_path)
    assert not list(tmp_path.iterdir())
