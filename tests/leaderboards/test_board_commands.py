"""The commands, called as a user calls them."""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.records.schema import make_run_id, read_record, write_record
from bench.records.store import COMMITTED
from core import progress
from core.errors import VERIFICATION_FAILED, UserError
from leaderboards import add, build, export, pack, serve, submit, verify
from leaderboards.checks import admission
from leaderboards.checks.admission import read_checked
from leaderboards.contents import OpenBoard, read_board
from leaderboards.screens import server
from leaderboards.screens.hosts import Guard
from leaderboards.tables.verdicts import read_verdicts
from leaderboards.verification import session
from leaderboards.views.claims import detail
from leaderboards.views.claims import lines as claim_table
from tests.committed import committed_paths
from tests.leaderboards.boards import bytes_of

VERDICTS = {
    "schema_version": 1,
    "figure": "figure5",
    "preset": "smoke",
    "title": "Three moons",
    "records": ["a"],
    "claims": [
        {
            "name": "n",
            "source": "s",
            "sentence": "What is claimed.",
            "tolerance": "t",
            "verdict": "not enough evidence",
            "evidence": "e",
            "seeds": 3,
            "seeds_needed": 7,
        }
    ],
}


@pytest.fixture
def records(tmp_path, honest):
    for record in honest[:2]:
        write_record(record, tmp_path / "records")
    return tmp_path / "records"


@pytest.mark.long
def test_the_committed_board_is_what_the_committed_records_give():
    assert build.main(["--check"]) == 0


def test_build_then_check_then_a_changed_record(records, tmp_path, honest, run_here):
    output = tmp_path / "board.parquet"
    words = [f"records={records}", f"output={output}"]
    assert build.main(words) == 0
    content = bytes_of(output)
    assert build.main([*words, "--check"]) == 0
    late = write_record(honest[2], records)
    different = run_here(build.main, *words, "--check")
    assert different.returncode == 4
    assert different.stderr.startswith("error: ")
    assert different.stderr.count("\n") == 1
    assert bytes_of(output) == content  # --check writes nothing
    late.unlink()
    gone = min(records.rglob("*.json"))
    gone.unlink()
    with pytest.raises(UserError, match=f"the record {gone.stem}, whose file is not there"):
        build.main([*words, "--check"])


def test_a_build_that_lasts_says_how_far_it_is(records, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_UNSAID", -1.0)
    assert build.main([f"records={records}", f"output={tmp_path / 'board.parquet'}"]) == 0
    said = capsys.readouterr().err
    for work in ("reading records: 2/2", "ranking rows, averaging curves: 1/1"):
        assert work in said


def test_a_damaged_record_is_not_passed_over_for_one_of_the_same_name(records, tmp_path):
    own = tmp_path / "own"
    known = min(records.rglob("*.json"))
    own.mkdir()
    (own / known.name).write_bytes(known.read_bytes()[:-40])
    with pytest.raises(UserError, match="truncated"):
        list(read_checked([records, own]))


def test_local_adds_own_records_and_verdicts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = read_record(committed_paths("capacity/laptop/*-s0")[0])
    names = (known.task, known.model, known.preset, known.identity, 77)
    record = known.model_copy(update={"seed": 77, "run_id": make_run_id(*names)})
    write_record(record, tmp_path / "runs" / "records")
    verdicts = tmp_path / "runs" / "reproductions" / "figure5" / "smoke" / "verdicts.json"
    verdicts.parent.mkdir(parents=True)
    verdicts.write_text(json.dumps(VERDICTS))
    (verdicts.parent / "curves.json").write_text("{}")
    # What `reproduce figure5 models=+MODEL` writes: not a verdict of the preset, and no obstacle.
    guest = verdicts.parent.with_name("smoke+models=+min_gru") / "verdicts.json"
    guest.parent.mkdir()
    guest.write_text(json.dumps({**VERDICTS, "preset": "smoke models=+min_gru"}))
    assert build.main(["local=true", f"records={COMMITTED / 'capacity'}"]) == 0
    board = read_board(tmp_path / "runs" / "board.parquet")
    assert record.run_id in {line.run_id for line in board.records}
    claim = next(c for c in board.claims if c.figure == "figure5" and c.run_ids == ("a",))
    assert (claim.sentence, claim.seeds_needed) == ("What is claimed.", 7)
    assert (claim.origin, claim.committed) == ("yours", "")  # no committed claim has its name
    (shown,) = claim_table([claim])
    assert shown["verdict"].endswith(" (yours)")
    facts = detail(OpenBoard(tmp_path / "runs" / "board.parquet"), claim).facts
    assert ("origin", "judged here, by your reproduction; no verdict is committed") in facts
    others = {other.origin for other in board.claims if other.figure != "figure5"}
    assert others == {"committed"}
    assert build.default_board() == build.LOCAL


def test_the_board_of_another_store_is_built_and_opened_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    known = read_record(committed_paths("capacity/laptop/*-s0")[0])
    names = (known.task, known.model, known.preset, known.identity, 77)
    record = known.model_copy(update={"seed": 77, "run_id": make_run_id(*names)})
    write_record(record, tmp_path / "mine" / "records")
    words = ["store=mine", f"records={COMMITTED / 'capacity'}"]
    assert build.main(words) == 0
    place = tmp_path / "mine" / "board.parquet"
    assert record.run_id in {line.run_id for line in read_board(place).records}
    assert "leaderboards.serve board=mine/board.parquet" in capsys.readouterr().out
    assert build.main([*words, "--check"]) == 0
    assert export.request_of(export.READ(["site", "store=mine"])).board == place
    for main, mistake, said in (
        (build.main, ["store=nine"], "there is no store nine: store=FOLDER holds runs"),
        (build.main, ["store=mine", "local=false"], "and local=false leaves them out"),
        (serve.main, ["store=mine", "board=b"], "board= and store= both name a board"),
    ):
        with pytest.raises(UserError, match=said):
            main(mistake)


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"claims": [{**VERDICTS["claims"][0], "verdict": "true"}]},
        {"claims": [{**VERDICTS["claims"][0], "extra": 1}]},
        {"records": "all"},
    ],
)
def test_wrong_verdict_files_are_refused(tmp_path, monkeypatch, capsys, honest, change):
    monkeypatch.chdir(tmp_path)
    write_record(honest[0], tmp_path / "few")
    words = ["local=true", "records=few"]
    folder = tmp_path / "runs" / "reproductions" / "figure5" / "smoke"
    folder.mkdir(parents=True)
    (folder / "verdicts.json").write_text(json.dumps({**VERDICTS, **change}))
    for _ in range(2):  # it is named again, though it is known
        assert build.main(words) == VERIFICATION_FAILED
        assert "not a verdict file" in capsys.readouterr().err
    (folder / "verdicts.json").write_text('{"schema_version"')
    assert build.main(words) == VERIFICATION_FAILED
    assert "truncated" in capsys.readouterr().err


def test_add_copies_a_record_unchanged(tmp_path, monkeypatch, honest, capsys):
    monkeypatch.chdir(tmp_path)
    # Whether records agree with all committed ones is asked by the tests of forgeries.
    monkeypatch.setattr(admission, "COMMITTED", tmp_path / "committed")
    for committed in honest:
        write_record(committed, tmp_path / "committed" / committed.task / committed.preset)
    record, other = honest[:2]
    made_by = other.provenance.model_copy(update={"dirty": True})
    dirty = other.model_copy(update={"provenance": made_by})
    source = write_record(record, tmp_path / "runs" / "records")
    write_record(dirty, tmp_path / "runs" / "records")
    assert add.main([record.run_id, f"{source.with_name(dirty.run_id)}.json", "to=board"]) == 0
    copy = tmp_path / "board" / "regbench" / record.preset / source.name
    assert copy.read_bytes() == source.read_bytes()
    printed = capsys.readouterr().out
    assert "uncommitted changes" in printed
    assert "python -m leaderboards.build" in printed
    assert read_record(copy.with_name(f"{dirty.run_id}.json")).provenance.dirty is True
    assert add.main([record.run_id, "to=board"]) == 0  # again, to no effect
    slower = record.cost.model_copy(update={"wall_seconds": 1e6})
    changed = write_record(record.model_copy(update={"cost": slower}), tmp_path / "other")
    with pytest.raises(UserError, match="already holds another record"):
        add.main([str(changed), "to=board"])
    with pytest.raises(UserError, match="two records of one name: add one of them"):
        add.main([str(source), str(changed), "to=elsewhere"])
    assert not (tmp_path / "elsewhere").exists()
    sent = source.rename(tmp_path / "record (1).json")  # as a browser saves it
    assert add.main([str(sent), "to=elsewhere"]) == 0
    assert read_record(tmp_path / "elsewhere" / "regbench" / record.preset / source.name) == record


def test_add_refuses_trials_and_leaves_nothing_behind(tmp_path, monkeypatch, honest, make_record):
    monkeypatch.chdir(tmp_path)
    good = write_record(honest[0], tmp_path / "in")
    trial = write_record(make_record(seed=5, role="trial"), tmp_path / "in")
    with pytest.raises(UserError, match="trial of a study"):
        add.main([str(good), str(trial), "to=board"])
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize(
    ("program", "words", "sentence"),
    [
        (build, ["outptu=x"], "did you mean 'output='?"),
        (build, ["records=/nowhere"], "there is no folder /nowhere"),
        (build, ["local=maybe"], "neither true nor false"),
        (build, ["output=a", "output=b"], "given 2 times"),
        (add, [], "name at least one record"),
        (add, ["../nowhere.json"], "no record at"),
        (serve, ["board=/nowhere"], "python -m leaderboards.build"),
        (serve, ["port=http"], "not a port"),
    ],
)
def test_mistakes_get_one_sentence(program, words, sentence, run_here):
    result = run_here(program.main, *words)
    assert result.returncode in (1, 2)
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_taken_port_is_named():
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"localhost:{port}"):
            serve.free_port("localhost", str(port))
    assert serve.free_port("localhost", "0") > 0
    for name in ("\0", "x" * 300):
        with pytest.raises(UserError, match="cannot listen at"):
            serve.free_port(name, "0")


def test_help_is_answered_without_heavy_imports(run_command):
    code = (
        "import sys; from leaderboards import add, build, serve; "
        "[program.main(['--help']) for program in (add, build, serve)]; "
        "heavy = {'torch', 'pyarrow', 'pandas', 'streamlit', 'scipy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    result = run_command("-c", code)
    assert result.returncode == 0, result.stderr
    for name in ("add", "build", "serve"):
        assert f"usage: python -m leaderboards.{name}" in result.stdout


def test_of_one_figure_at_one_preset_the_last_verdicts_count(tmp_path: Path) -> None:
    content = {"schema_version": 1, "figure": "figure5", "preset": "smoke", "records": []}
    paths = []
    for title in ("committed", "of this machine"):
        paths.append(tmp_path / f"{title}.json")
        paths[-1].write_text(json.dumps({**content, "title": title, "claims": []}))
    assert [file.title for file in read_verdicts(paths)] == ["of this machine"]


def test_the_address_is_told_when_the_server_listens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start_slowly(arguments: list[str], board: Path, guard: Guard) -> int:
        guard.stands = True  # as where Streamlit makes its server
        time.sleep(0.3)
        assert "open" not in capsys.readouterr().out
        port = next(int(word.rpartition("=")[2]) for word in arguments if "server.port" in word)
        with socket.create_server(("127.0.0.1", port)):
            deadline = time.monotonic() + 120
            told = ""
            while f"open http://127.0.0.1:{port}" not in told:
                assert time.monotonic() < deadline
                time.sleep(0.02)
                told += capsys.readouterr().out
        return 0

    monkeypatch.setattr(server, "_run", start_slowly)
    assert serve.main(["port=0", "address=127.0.0.1"]) == 0


def test_verify_takes_any_setting_of_a_task_as_the_place_of_its_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests: list[session.VerificationRequest] = []

    def keep(request: session.VerificationRequest) -> int:
        requests.append(request)
        return 0

    monkeypatch.setattr(session, "verify", keep)
    assert verify.main(["mine", "tasks.stories=/a", "tasks.wiki=/b", "tasks.stories=/c"]) == 0
    assert requests[0].names == ["mine"]
    assert requests[0].places == {"tasks.stories": "/c", "tasks.wiki": "/b"}
    for word in ("tasks.stories", "tasks.stories="):
        with pytest.raises(UserError, match=r"tasks\.stories= has no value"):
            verify.main(["mine", word])


@pytest.mark.parametrize(
    ("main", "word", "way_on"),
    [
        (build.main, "stor=mine", "did you mean 'store='"),
        (pack.main, "store=mine", "records=FOLDER"),
        (add.main, "records=mine", "name each record by its file"),
        (verify.main, "records=mine", "name the folder"),
        (submit.main, "records=mine", "store=FOLDER"),
        (add.main, "too=mine", "did you mean 'to='"),
    ],
)
def test_a_setting_of_another_command_is_told_in_words_of_this_one(
    main: Callable[[list[str]], int], word: str, way_on: str
) -> None:
    key = word.partition("=")[0]
    with pytest.raises(UserError, match=f"there is no setting '{key}=': .*{way_on}"):
        main([word])
