"""Words of every command, some of which mean nothing, or too much."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from bench import __main__ as bench_main
from bench import (
    equivalence,
    evaluate,
    examine,
    generate,
    measure,
    prepare,
    prompts,
    recount,
    speed,
    sweep,
    train,
    training_speed,
)
from bench.config.groups import choices
from bench.gpu import __main__ as gpu
from leaderboards import add, build, export, pack, readme, serve, submit, verify
from reproduce import command as reproduce
from reproduce.__main__ import reproductions
from tasks.text.recipe import __main__ as recipe
from tests.configurations import compose

Draw = st.DataObject
Door = Callable[[list[str]], Any]


VALUES = [
    *("", "null", "true", "false", "-1", "0", "1", "2", "0.5", "1e400", "nan", "inf", "abc", "é"),
    *(
        "[]",
        "[1,2]",
        "[",
        "{a:1}",
        "{",
        "'",
        '"',
        "a(b",
        "a,b",
        "a\\",
        "\udcff",
        "$x",
        "~",
        "@",
        "*",
    ),
    *("${oc.env:HOME}", "${seed}", "../x", "/dev/zero", "/dev/null/x", ".", "..x.Y", "x" * 5000),
    *(
        "evil_module.M",
        "torch.nn.Linear",
        "os.system",
        "models.gpt2.GPT2",
        "tasks.regbench.RegBench",
    ),
    *(
        "9" * 19,
        "1" + "0" * 26,
        "9" * 5000,
        "100000",
        "[" * 300,
        "no.such.place",
        "grammar",
        "local",
    ),
]
LOCAL_TASKS = ["regbench", "multi_query_recall", "three_moons", "capacity", "babistories", "bigram"]
SMALL = ["training.steps=2", "training.batch_size=2", "models.width=8", "models.layers=1"]
RUN = [f"tasks={LOCAL_TASKS[0]}", "models=gpt2", "store=store", *SMALL]
FIGURE = ["figure5", "preset=smoke", "store=store"]
# A command, the words that it begins from, and those that always stand at its end.
DOORS: dict[str, tuple[Door, list[str], list[str]]] = {
    "bench": (bench_main.main, ["list"], []),
    "bench.train": (train.main, RUN, []),
    "bench.measure": (measure.main, ["tasks=capacity", "models=delta_rule", "store=store"], []),
    "bench.sweep": (sweep.main, [*RUN, "n_trials=2", "seeds=1"], ["dry_run=true"]),
    "bench.evaluate": (evaluate.main, ["run=regbench", "store=store", "trust=x"], []),
    "bench.examine": (examine.main, ["run=regbench", "store=store", "trust=x"], []),
    "bench.recount": (recount.main, ["run=regbench", "run=x.json", "trust=x"], []),
    "bench.generate": (generate.main, ["run=regbench", "store=store", "prompt=a", "beam=1"], []),
    "bench.prompts": (prompts.main, ["runs=[regbench]", "store=store", "new_tokens=2"], []),
    "bench.prepare": (prepare.main, ["tasks=regbench", "tasks.states=[2,3]"], []),
    "bench.speed": (speed.main, ["models=[lstm]", "width=8", "layers=1"], ["rounds=1"]),
    "bench.training_speed": (
        training_speed.main,
        [*RUN, "rounds=1", "timed_steps=1"],
        ["starts=0"],
    ),
    "bench.gpu": (gpu.main, ["minutes=1", "device=cpu", "parts=launches"], ["dry_run=true"]),
    "bench.equivalence": (equivalence.main, ["models=gpt2", "preset=smoke"], ["tasks=none"]),
    "leaderboards.add": (add.main, ["regbench", "x.json"], ["to=to"]),
    "leaderboards.build": (
        build.main,
        ["records=store/records", "local=true"],
        ["output=b.parquet"],
    ),
    "leaderboards.pack": (
        pack.main,
        ["regbench", "withdraw=regbench", "to=to"],
        ["records=store/records"],
    ),
    "leaderboards.submit": (
        submit.main,
        ["regbench", *(f"{key}=a sentence of it" for key in submit.STATED), "store=store"],
        ["to=to"],
    ),
    "leaderboards.verify": (
        verify.main,
        ["regbench", "x.json", "store=store", "package=x"],
        ["to=to", "level=consistent"],
    ),
    "leaderboards.readme": (readme.main, [], ["--check"]),
    "leaderboards.export": (export.main, ["site"], ["board=none.parquet"]),
    "leaderboards.serve": (serve.main, ["port=0", "address=localhost"], ["board=none.parquet"]),
    "reproduce": (lambda w: reproduce.main(w, reproductions()), FIGURE, ["dry_run=true"]),
    "tasks.text.recipe": (recipe.main, ["stories=2", "seed=0", "out=out"], ["writer=grammar"]),
}
# What asks for the network or for processes may have them; the others must not.
ASKS = ("workers", "devices", "tracking", "tinystories", "simple_wikipedia", "endpoint", "gpt2_tok")


def keys() -> list[str]:
    """Every setting of a few tasks and models."""
    found = {"seed", "store", "device", "preset", "models", "tasks", "committed"}
    for task in LOCAL_TASKS:
        models = compose([f"tasks={task}", "models=gpt2"] if task != "capacity" else RUN)
        for group, node in models.resolved().items():
            found |= {f"{group}.{key}" for key in node} if isinstance(node, dict) else {group}
    return sorted(found)


KEYS = keys()


def words_of(data: Draw, own: list[str], last: list[str]) -> list[str]:
    """The words of a command, some lost, changed, doubled or made up."""
    words = list(own)
    for _ in range(data.draw(st.integers(1, 3))):
        kind = data.draw(st.sampled_from(["add", "change", "change", "lose", "letters"]))
        place = data.draw(st.integers(0, max(0, len(words) - 1)))
        value = data.draw(st.sampled_from([*VALUES, *choices("models"), *LOCAL_TASKS]))
        if kind == "lose":
            del words[place : place + 1]
        elif kind == "letters" or not words:
            text = data.draw(st.text(st.characters(exclude_characters="\0"), max_size=12))
            word = (words[place] if words else "")[: data.draw(st.integers(0, 20))] + text
            words[place : place + 1] = [word.encode(errors="replace").decode()]
        else:
            old = words[place].partition("=")[0]
            key = data.draw(st.sampled_from(KEYS)) if kind == "add" else old
            words[place : place + (kind == "change")] = [f"{key}={value}"]
    ends = [word.partition("=")[0] for word in last]
    # Who names a folder outside wants it there.
    words = [w for w in words if "=../" not in w or w.startswith(("models", "tasks", "preset"))]
    return [
        word
        for word in words
        if word.partition("=")[0] not in ends and not any(part in word for part in ASKS)
    ] + last
