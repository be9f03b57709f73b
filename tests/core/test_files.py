"""Promise 10: writes are atomic, and a failed save is told. Promise 13: damage is seen."""

import multiprocessing
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from core.files import link, lock, read_sealed, write_atomically, write_sealed
from tests.power_cut import PowerCut


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_atomically(path, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # as a disk with 1000 bytes left
    try:
        with pytest.raises(OSError, match="File too large"):
            write_atomically(path, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_are_made_and_content_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_atomically(path, b"first")
    write_atomically(path, b"second, ", b"in parts")
    assert path.read_bytes() == b"second, in parts"
    assert path.stat().st_mode & 0o777 == 0o644


def _write_forever(path: Path, letter: bytes) -> None:
    while True:
        write_atomically(path, letter * 200_000)


def test_writers_of_one_path_hurt_nobody_and_the_next_clears_what_a_killed_one_left(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    context = multiprocessing.get_context("fork")
    rests = 0
    deadline = time.monotonic() + 60
    while rests < 3 and time.monotonic() < deadline:
        writers = [context.Process(target=_write_forever, args=(path, c)) for c in (b"a", b"b")]
        for writer in writers:
            writer.start()
        time.sleep(0.02)
        assert all(writer.is_alive() for writer in writers)
        for writer in writers:
            writer.kill()
            writer.join()
        if path.exists():
            seen = path.read_bytes()
            assert (len(set(seen)), len(seen)) == (1, 200_000)
        rests += len(list(tmp_path.glob(".*"))) > 0
        write_atomically(path, b"d" * 200_000)
        assert list(tmp_path.iterdir()) == [path]
    assert rests == 3


def test_a_link_in_the_place_of_the_temporary_file_leads_nowhere(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    (tmp_path / ".file.partial").symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        write_atomically(tmp_path / "file", b"content")
    with pytest.raises(OSError, match="symbolic links"):
        lock(tmp_path / ".file.partial")
    assert other.read_bytes() == b"mine"


def test_a_pipe_in_the_place_of_a_file_that_is_written_is_not_waited_for(tmp_path: Path) -> None:
    for name in (".file.partial", "lock"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="No such device"):
        write_atomically(tmp_path / "file", b"content")
    lock(tmp_path / "lock").close()


def test_a_lock_is_one_process_s_and_keeps_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    with lock(path) as held:
        held.write(b"7")
        with pytest.raises(BlockingIOError):
            lock(path)
    lock(path).close()
    assert path.read_bytes() == b"7"


def test_every_flipped_bit_and_every_cut_of_a_sealed_file_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"", b"{}"):
        write_sealed(path, content)
        assert read_sealed(path) == content
    whole = path.read_bytes()
    flipped = [
        whole[:i] + bytes([whole[i] ^ 1 << bit]) + whole[i + 1 :]
        for i in range(len(whole))
        for bit in range(8)
    ]
    for damaged in [*flipped, *(whole[:i] for i in range(len(whole))), whole + b"\n"]:
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is not what was written"):
            read_sealed(path)


def test_a_power_cut_leaves_the_old_content_or_the_new_and_takes_back_nothing_that_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = PowerCut(tmp_path, monkeypatch)
    path = tmp_path / "a" / "b" / "file"
    told = 0
    for content, before in ((b"first", None), (b"second", b"first"), (b"third", b"second")):
        write_atomically(path, content)
        during, told = disk.disks[told:], len(disk.disks)
        assert {d.get("a/b/file") for d in during} <= {before, content}
        assert disk.certain == {"a/b/file": content}
    link(tmp_path / "c" / "linked", path)
    disk.close()
    assert {d.get("c/linked") for d in disk.disks} <= {None, b"third"}
    assert disk.certain == {"a/b/file": b"third", "c/linked": b"third"}


def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        write_atomically(pipe, b"content")
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
