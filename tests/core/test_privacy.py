"""What a record must not tell, wherever it stands: in a command, in a cause, about the system."""

import platform
import re
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from bench.records import provenance
from bench.runs.get_or_run import get_or_run
from bench.training.building import build_task
from bench.training.unfit import UnfitModel
from core.files import ROOT
from core.privacy import public_command, public_message, public_word
from tasks.measurement import Diverged
from tests.configurations import compose

WORDS = ["tasks=regbench", "models=gpt2", "training.steps=1"]
PLACES = [
    "/home/{}/runs",
    "runs/{}",
    "~{}",
    "~/{}",
    "C:\\Users\\{}\\runs",
    "\\\\{}\\share",
    "file:///{}",
    "postgresql://u:{}@h/db",
    "postgresql://h/db?password={}",
    "sqlite:////home/{}/studies.db",
    "http://{}:8000/v1",
    "{}@server",
]
KEYS = ["run", "store", "storage", "sweep.storage", "output", "records", "tasks.stories", "wiki"]
KEYS += ["ray.address", "sweep.ray.address"]
KEYS += ["tasks.endpoint", "unheard_of", "seed", "models", "training.lr", "models._target_"]
SENTENCES = [
    "cannot read {}",
    "user '{}' is not known on host {}",
    "KEY={} is not accepted, expected 3",
    "[Errno 2] No such file: '{}'\nsecond line {}",
    "size 3 of {} (home of {})",
]
# Letters and digits that are no word of any code.
secrets = st.text("qxzjkvw0123456789", min_size=6, max_size=12).map(lambda text: f"zq{text}")


@given(st.sampled_from(KEYS), st.sampled_from(PLACES), secrets)
@example("sweep.storage", "{}", "zqplain")
@example("sweep.ray.address", "{}", "zqplain")
@example("tasks.stories", "{}", "zqplain")
@example("unheard_of", "{}", "zqplain")
def test_no_place_in_a_command_is_told(key: str, place: str, secret: str) -> None:
    word = f"{key}={place.format(secret)}"
    assert public_word(word) in (f"{key}=PATH", f"{key}=ADDRESS")
    for program in (str(ROOT / "bench" / "sweep.py"), f"/home/{secret}/{secret}.py"):
        told = public_command([program, "tasks=regbench", word, f"--{secret}", f"/{secret}"])
        assert secret not in " ".join(told)
        assert "tasks=regbench" in told


@pytest.mark.parametrize(
    "word",
    [
        "tasks=regbench",
        "models=[memory_mosaic,gpt2]",
        "models._target_=my_package.MyModel",
        "models=net.py:GRU",
        "sweep.search_space={training.lr:[1e-3,3e-4],models.layers:[2,4]}",
        "training.betas=[0.9,0.99]",
        "tasks.variant=held_out",
        "variant=iid",
        "corpus=local",
        "storage=journal",
        "executor=ray",
        "ray.num_gpus=0.25",
        "workers=2",
        "preset=laptop",
        "figure9",
    ],
)
def test_settings_are_told(word: str) -> None:
    assert public_word(word) == word
    assert public_command([str(ROOT / "reproduce" / "__main__.py"), word])[2:] == [
        "reproduce",
        word,
    ]


def raised(message: str) -> Exception:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


@given(st.sampled_from(SENTENCES), st.sampled_from(["{}", *PLACES]), secrets)
def test_no_place_and_no_value_in_a_message_is_told(form: str, place: str, secret: str) -> None:
    hidden = place.format(secret)
    told = public_message(raised(form.format(hidden, hidden)))
    assert not re.search(secret, told)
    assert "3" in told or "3" not in form
    assert set(re.findall(r"[a-z]+", told)) <= set(re.findall(r"[a-z]+", form))


PRIVATE = "".join(("zq", "ville"))


def test_words_of_the_code_that_raises_are_told_and_those_of_a_private_model_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert public_message(raised("cannot read 3 of 4x8")) == "cannot read 3 of 4x8"
    (tmp_path / "mine.py").write_text(f"def f():\n    raise ValueError('read {PRIVATE} 12')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import mine  # type: ignore[import-not-found]

    with pytest.raises(ValueError, match=PRIVATE) as caught:
        mine.f()
    assert public_message(caught.value) == "read … 12"


HOSTILE = "no {0} of /home/{0}/x, postgresql://u:{0}@h/db?password={0}, C:\\{0}, ~{0} on {0}: 7"
OWN = "read 3 of /home/{0}/x, postgresql://u:{0}@h/db?password={0}, C:\\{0}, ~{0}, {0}@h: 7"
TOLD = {
    RuntimeError: "no … of PATH ADDRESS PATH PATH on … 7",
    torch.OutOfMemoryError: "no … of PATH ADDRESS PATH PATH on … 7",
    # Sentences of the project's own, whose words are told whole, and places of no words.
    Diverged: "read 3 of PATH ADDRESS PATH PATH ADDRESS 7",
    UnfitModel: "read 3 of PATH ADDRESS PATH PATH ADDRESS 7",
}


OUTCOMES = {torch.OutOfMemoryError: "out_of_memory", Diverged: "diverged"}


@pytest.mark.parametrize("kind", TOLD)
def test_the_record_of_a_failed_run_tells_nobody_and_no_place(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "".join(("zq", "hunter", "2"))  # this file is code that the error comes through
    monkeypatch.setenv("API_TOKEN", secret)
    monkeypatch.setattr(platform, "node", lambda: secret)
    monkeypatch.setattr(platform, "platform", lambda: f"Linux-{secret}")
    store = tmp_path / secret
    words = [*WORDS, f"store={store}", f"run=/home/{secret}/a.json"]
    monkeypatch.setattr(sys, "argv", [str(ROOT / "bench" / "train.py"), *words])
    configuration = compose([*WORDS, f"store={store}"])

    def stop(*_: object) -> None:
        raise kind((OWN if kind in (Diverged, UnfitModel) else HOSTILE).format(secret))

    monkeypatch.setattr(type(build_task(configuration)), "training_loss", stop)
    record = get_or_run(configuration)
    assert secret not in record.model_dump_json()
    assert str(tmp_path) not in record.model_dump_json()
    assert TOLD[kind] in str(record.cause)
    assert record.outcome == OUTCOMES.get(kind, "failed")
    if kind is RuntimeError:
        where = f"work/{record.run_id}/traceback.txt"
        assert str(record.cause).startswith("RuntimeError: ")
        assert f"(details in {where} of the store)" in str(record.cause)
        assert secret in (store / where).read_text()
    typed = ["python", "-m", "bench.train", *WORDS, "run=PATH"]  # a store is for nobody else
    assert shlex.split(record.provenance.command) == typed


def test_of_memory_that_was_not_there_the_size_is_told() -> None:
    text = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 of zqhost has 3 GiB"
    assert public_message(raised(text)) == "Tried to allocate 2.50 GiB"


def test_the_system_is_told_without_its_kernel() -> None:
    fields = dict.fromkeys(("model_code", "task_code", "precision", "device_class"), "cpu")
    made = provenance.collect(**fields, data={}, started=datetime.now(UTC))
    assert made.platform == f"{platform.system()} {platform.machine()}"
    assert platform.release() not in made.model_dump_json()


def test_an_error_raised_from_another_tells_that_one_too() -> None:
    def validate() -> None:
        try:
            raise ValueError("the width 50 is no multiple of 3 heads")
        except ValueError as error:
            raise RuntimeError("not valid:") from error

    with pytest.raises(RuntimeError) as caught:
        validate()
    told = "not valid:, from ValueError: the width 50 is no multiple of 3 heads"
    assert public_message(caught.value) == told
