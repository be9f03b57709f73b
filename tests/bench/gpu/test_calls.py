"""A GPU against the clock, rehearsed on a CPU with real parts at a tiny size."""

import json
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from bench.gpu.__main__ import main
from bench.gpu.calls import in_order, run_parts
from bench.gpu.packing import pack
from bench.gpu.parts import GpuPart, parts_of
from bench.gpu.request import GpuRequest
from bench.gpu.results import Result, read_results, read_speed, read_whole
from bench.records.schema import read_records
from bench.speed import main as speed
from core.errors import OK, UserError
from core.processes import module_command
from tests.conftest import ROOT

PATIENCE = 600.0  # seconds, of a machine with much other work


def wait_for(folder: Path, pattern: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not list(folder.glob(pattern)):
        assert time.monotonic() < deadline, f"{folder}/{pattern} did not come"
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.processes
def test_a_killed_rehearsal_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store = tmp_path / "gpu"
    words = ["minutes=20", "device=cpu", "scale=0.0003", "workers=1", f"store={store}"]
    words += ["parts=[graphs,regbench]", "models=gpt2"]
    command = [sys.executable, "-m", "bench.gpu", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        wait_for(store / "trials", "*.json")
        process.send_signal(signal.SIGKILL)
    (graphs,) = read_results(store / "parts").values()
    assert (graphs.outcome, graphs.reason) == ("skipped", "CUDA graphs need a CUDA GPU")
    before = {path.name: path.stat().st_mtime_ns for path in (store / "trials").glob("*.json")}

    assert main([*words, "pack_mib=1"]) == OK
    after = read_results(store / "parts")
    unchanged = {name: (store / "trials" / name).stat().st_mtime_ns for name in before}
    assert unchanged == before
    # At this size all rows have two languages, so that the first sweep is that of all: three rates
    # with the first seed, and the best of them with two more.
    assert after["regbench"].outcome == "done"
    finals = [record for record in read_records([store / "records"]) if record.role == "final"]
    trials = [*read_records([store / "trials"])]
    assert sorted(record.seed for record in finals) == [0, 1, 2]
    assert {record.config["training"]["lr"] for record in trials} == {0.00067, 0.002, 0.006}
    mean = sum(record.metrics["test"]["accuracy"] for record in finals) / 3
    for row in after["regbench"].numbers["rows"]:
        assert row["metrics"]["accuracy"] == pytest.approx(mean)
    summary = json.loads((store / "summary.json").read_bytes())
    assert [part["outcome"] for part in summary["parts"]] == ["skipped", "done"]
    page = (store / "summary.md").read_text(encoding="utf-8")
    assert "- graphs: skipped, CUDA graphs need a CUDA GPU" in page

    unpacked = tmp_path / "unpacked"
    archives = sorted((store / "pack").iterdir())
    for archive in archives:
        assert archive.stat().st_size <= 2**20
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
    shutil.rmtree(store / "pack")
    files = {path.relative_to(store) for path in store.rglob("*") if path.is_file()}
    assert {path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()} == files
    assert all((store / file).read_bytes() == (unpacked / file).read_bytes() for file in files)

    with pytest.raises(UserError, match=r"holds results of device=cpu scale=0\.0003"):
        main([*words, "scale=0.01"])


def test_a_part_that_fails_or_takes_too_long_is_noted_and_the_next_begins(tmp_path: Path) -> None:
    slow = tmp_path / "test_slow.py"
    slow.write_text("import time\n\ndef test_slow():\n    time.sleep(3600)\n")
    quick = tmp_path / "test_quick.py"
    quick.write_text("def test_right():\n    pass\n\ndef test_wrong():\n    assert 1 == 2\n")
    request = GpuRequest(device="cpu", minutes=20, store=tmp_path / "store")

    def checks(name: str, file: Path, share: float) -> GpuPart:
        return GpuPart(name, name, share, "bench.gpu.checks", [str(file)], read_whole)

    parts = [
        GpuPart("broken", "broken", 1.0, "bench.gpu.sweeps", ["plan=none"], read_whole),
        checks("slow", slow, 0.0025),
        checks("quick", quick, 1.0),
    ]
    broken, over, done = run_parts(request, parts, time.monotonic())
    assert broken.outcome == "failed"
    assert broken.reason.startswith("plan='none' cannot be used")
    assert (over.outcome, over.reason) == ("over its limit", "its 3 s were over")
    assert over.seconds >= 3
    assert done.outcome == "done"
    assert {k: done.numbers[k] for k in ("passed", "failed", "skipped")} == {
        "passed": 1,
        "failed": 1,
        "skipped": 0,
    }
    ((name, reason),) = done.numbers["failures"].items()
    assert name.endswith("::test_wrong")
    assert "assert 1 == 2" in reason
    # The next call begins with what was not tried, and what came to no end is last.
    new = checks("new", quick, 1.0)
    results = read_results(tmp_path / "store" / "parts")
    assert results["quick"] == done
    assert [part.name for part in in_order([*parts, new], results)] == ["new", "broken", "slow"]
    assert run_parts(request, parts[-1:], time.monotonic()) == [done]  # it is not run again


def test_without_time_parts_are_left(tmp_path: Path) -> None:
    request = GpuRequest(device="cpu", minutes=1, store=tmp_path)
    results = run_parts(request, parts_of(request), time.monotonic() - 60)
    assert {result.outcome for result in results} == {"left", "skipped"}
    left = [result for result in results if result.outcome == "left"]
    assert {result.reason for result in left} == {"no time was left for it"}


@pytest.mark.processes
def test_tests_that_are_killed_leave_the_counts_of_those_that_ran(tmp_path: Path) -> None:
    file, sign, report = (tmp_path / name for name in ("test_some.py", "sign", "report.json"))
    file.write_text(
        "import pathlib, time\nimport pytest\n\ndef test_first():\n    time.sleep(1.1)\n\n"
        "@pytest.mark.skip\ndef test_skipped():\n    pass\n\n"
        "def test_after():\n    time.sleep(1.1)\n\n"
        f"def test_last():\n    pathlib.Path({str(sign)!r}).touch()\n    time.sleep(3600)\n"
    )
    command = module_command("bench.gpu.checks", [str(file), f"output={report}"])
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        wait_for(tmp_path, sign.name)
        process.kill()
    counts = {"passed": 2, "failed": 0, "skipped": 1, "failures": {}}
    assert read_whole(report) == counts


def test_numbers_of_speed_are_those_that_were_measured(tmp_path: Path) -> None:
    output = tmp_path / "speed.json"
    words = ["width=8", "layers=1", "heads=2", "length=12", "batch=2", "vocabulary=11", "rounds=1"]
    assert speed([*words, "models=lstm", "passes=training", "device=cpu", f"output={output}"]) == OK
    measured = json.loads(output.read_text())
    numbers = read_speed(output)
    for model in measured["models"]:
        read = numbers[model["model"]]
        seconds = read["milliseconds"] / 1000
        assert read["tokens_per_second"] == pytest.approx(24 / seconds)
        rate = measured["product_flops_per_second"]
        assert read["share_of_rate"] * rate * seconds == pytest.approx(model["flops"])
    assert numbers["gpt2"]["time_against_reference"] == 1.0


def test_a_file_larger_than_an_archive_may_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    large, small = tmp_path / "work" / "large", tmp_path / "summary.json"
    large.write_bytes(bytes(2**20))
    small.write_text("{}")
    archives, too_large = pack(tmp_path, 1)
    assert too_large == [large]
    with tarfile.open(archives[0]) as tar:
        assert tar.getnames() == ["summary.json"]


def test_what_cannot_be_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for word, sentence in {
        "parts=regbenc": "there is no part 'regbenc': did you mean 'regbench'?",
        "models=mambo": "there is no planned model 'mambo': did you mean 'mamba'?",
        "minutes=0": "minutes=0 cannot be used: input should be greater than 0",
        "minute=1": "there is no setting 'minute': did you mean 'minutes'?",
    }.items():
        with pytest.raises(UserError) as refused:
            main(["device=cpu", f"store={tmp_path}", "dry_run=true", word])
        assert str(refused.value) == sentence


def test_a_skipped_part_is_settled_and_a_left_one_is_not() -> None:
    parts = parts_of(GpuRequest(device="cpu"))

    def ended(name: str, outcome: str) -> Result:
        return Result(name, name, "cpu", 0.1, outcome)  # type: ignore[arg-type]

    results = {"graphs": ended("graphs", "skipped"), "regbench": ended("regbench", "left")}
    names = [part.name for part in in_order(parts, results)]
    assert "graphs" not in names
    assert names[-2:] == ["regbench", "recall"]
