"""Records: what is written is read, and nothing else is."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.records.schema import read_record, read_records, write_record
from core.errors import UserError
from tests.bench.records import make_record


def test_round_trip(tmp_path: Path) -> None:
    record = make_record()
    assert read_record(write_record(record, tmp_path)) == record


def test_a_number_that_is_not_finite_is_never_written(tmp_path: Path) -> None:
    record = make_record(metrics={"test": {"loss": float("nan")}})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_record(record, tmp_path)
    assert list(tmp_path.iterdir()) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_any_edit_of_any_value_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = write_record(make_record(), tmp_path)
    content = json.loads(path.read_bytes())
    node, key = content, data.draw(st.sampled_from(sorted(content)))
    while isinstance(node[key], dict) and node[key]:
        node = node[key]
        key = data.draw(st.sampled_from(sorted(node)))
    node[key] = "edited" if node[key] != "edited" else "again"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError) as error:
        read_record(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(length=st.integers(0, 1500))
def test_any_truncation_is_refused(tmp_path: Path, length: int) -> None:
    path = write_record(make_record(), tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UserError, match="truncated or not JSON"):
        read_record(path)


def test_other_files_are_refused_with_one_sentence(tmp_path: Path) -> None:
    good = write_record(make_record(), tmp_path)
    renamed = good.rename(tmp_path / "other.json")
    with pytest.raises(UserError, match="has not the name of its record"):
        read_record(renamed)
    with pytest.raises(UserError, match="there is no record"):
        read_record(good)
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(UserError, match="does not hold a run record"):
        read_record(tmp_path / "list.json")
    (tmp_path / "new.json").write_text('{"schema_version": 99}')
    with pytest.raises(UserError, match="schema 99"):
        read_record(tmp_path / "new.json")
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(17 * 2**20)
    with pytest.raises(UserError, match="larger than a record may be"):
        read_record(huge)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="truncated or not JSON"):
        read_record(tmp_path / "deep.json")


def test_of_equal_names_the_first_folder_wins(tmp_path: Path) -> None:
    first, second = make_record(label="first"), make_record(label="second")
    write_record(first, tmp_path / "a")
    write_record(second, tmp_path / "b")
    assert list(read_records([tmp_path / "a", tmp_path / "b"])) == [first]
