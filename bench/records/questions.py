"""What a model is examined for: each question once, with the sentences that refuse a model.

The examination asks and refuses by this table, records list what was passed in its order,
``leaderboards.verify`` and the board read what a record must list, and tests hold the pages to it.
What is asked, in words, is in ``docs/add_a_model.md``, with a row for each question.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator

PAST_ONLY = "; outputs at t may depend on inputs at positions <= t only"
OTHER_SEQUENCES = "an output of the model depends on the other sequences of its batch{mode}{state}"
# What differs does not show why, so a sentence lists the causes; {others} are more of them.
BETWEEN_CALLS = (
    "; possible causes: it keeps something between calls, reads the time or a memory address (id, "
    "data_ptr), {others}or takes a checksum, which rounding changes; outputs follow from inputs, "
    "weights and seeds alone, and a sequence starts with its call to forward"
)
# What one process has otherwise than another.
OF_A_PROCESS = (
    "the order of a set, the hash of a string, an address, the time, the process or its machine, "
    "or a draw that no seed reaches"
)
NO_SEED = (
    "it depends on what no seed reaches, such as os.urandom, secrets, uuid, the time, the hash of "
    "a string or the order of a set, an address (id, data_ptr, or the text of an object), a class "
    "counter, the process (os.getpid), memory that is not written (torch.empty), or a generator of "
    "its own (numpy.random.default_rng() without a seed); torch, numpy.random and random are "
    "seeded: draw from these"
)
NOBODY_SAW = " while it was evaluated, so that nobody saw what was scored: leave "


@dataclass(frozen=True)
class Question:
    """One question of the examination.

    Attributes:
        of: whose models are asked. A record that lacks what every model passes or fails is refused;
            "most" are those that can be asked at all, such as at the longest length of the task;
            "some" offer what is asked about, and "guests" are classes of other packages and files.
        refusals: cause -> what is said of a model that fails; fields in braces are filled in by
            :func:`bench.training.unfit.unfit`. Without any, nothing fails.
        note: what stands beside the row of a guest that lacks it.
        recorded: whether a record lists it among what a model passed.
    """

    of: Literal["every model", "most", "some", "guests"]
    refusals: dict[str, str] = field(default_factory=dict)
    note: str = ""
    recorded: bool = True


# Name -> question, in the order in which a record lists them.
QUESTIONS = {
    "shape": Question(
        "every model",
        {
            "another shape": (
                "forward gave {got} for inputs of shape {inputs}, but a sequence model returns "
                "(batch, time, output_size) = {wanted}"
            )
        },
    ),
    "numbers": Question(
        "every model",
        {
            "no numbers": (
                "{method} gave no numbers (NaN or infinity) for {lost} of {outputs} "
                "outputs{where}{state}"
            )
        },
    ),
    "inputs unchanged": Question("most"),  # others get copies
    "same outputs twice": Question(
        "every model",
        {
            "others at each call": (
                "outputs of the model differ from call to call{mode}{state}: the same inputs, with "
                "the same seeds, give other ones after another call ({difference})" + BETWEEN_CALLS
            ),
            "others by history": (
                "{after} the model gives other outputs for the same inputs than without them"
                "{state} ({difference}), as with a cache by the first tokens of a sequence"
                + BETWEEN_CALLS
            ),
            "others after the evaluation": (
                "after the evaluation the same inputs give other outputs of the model than before "
                "it ({difference})" + BETWEEN_CALLS
            ),
            "own seeds": (
                "the model seeds {generator} as it is called, so that every step and every seed "
                "of a sweep would draw the same (such as dropout): take that out, or draw from a "
                "generator of its own"
            ),
            "another class": (
                "the model has replaced its class as it was called, so that another one would be "
                "scored than was trained: leave it as it is"
            ),
        },
    ),
    "independent of the batch": Question(
        "every model",
        {
            "other sequences": (
                OTHER_SEQUENCES + ": other values there change it at position "
                "{difference.position} ({difference})"
            ),
            "alone": OTHER_SEQUENCES + ": alone a sequence gives another one ({difference})",
            "other sequences by gradients": (
                OTHER_SEQUENCES + ", as its gradients in training mode say"
            ),
            "size of the batch": (
                "an output of the model depends on the size of its batch{state}: among {large} "
                "sequences it is another than among {small} at position {difference.position} "
                "({difference})"
            ),
        },
    ),
    "causal by values": Question(
        "every model",
        {
            "future": (
                "the model sees the future{mode}{state}: other inputs from position {cut} on "
                "change its output at position {difference.position} ({difference})" + PAST_ONLY
            )
        },
    ),
    "causal by prefixes": Question(
        "most",
        {
            "length": (
                "the model sees how long a sequence is{state}: its first {cut} positions alone "
                "give another output at position {difference.position} than within {length} "
                "positions ({difference})" + PAST_ONLY
            )
        },
    ),
    "causal by gradients": Question(
        "most",
        {
            "future by gradients": (
                "the model sees the future{state}: outputs before position {cut} have a gradient "
                "in training mode at the input of position {difference.position}" + PAST_ONLY
            )
        },
    ),
    "causal in training": Question("every model"),  # the same causes in training mode
    "longest sequence": Question("most"),  # the same causes at that length
    "moved parameters": Question("most"),  # the same causes with these, before a training alone
    "hidden vectors": Question(
        "some",
        {
            "hidden": (
                "hidden and output_matrix give other outputs than forward{state} ({difference}), "
                "and tasks of text compute their losses by them"
            )
        },
    ),
    "in new processes": Question(
        "guests",
        {
            "no process": (
                "the model cannot be asked in a process of its own, where nothing was asked "
                "before: {error}; build it from its settings alone, in any process"
            ),
            "two processes": (
                "the model is not the same when two processes build it{built} ({outputs} differ "
                "{difference}); possible causes: it depends on " + OF_A_PROCESS
            ),
            "future among processes": (
                "the model sees the future{mode}{state}: among processes that were asked for "
                "nothing else, other inputs from position {cut} on change its output at position "
                "{difference.position} ({difference}), and it keeps something between calls, so "
                "that no single process shows that" + PAST_ONLY
            ),
            "others here": (
                "an output of the model{mode}{state}, at position {difference.position}, is "
                "another one here than in a process that has the same weights and was asked for "
                "nothing else ({difference}); possible causes: it keeps something between calls, "
                "or depends on " + OF_A_PROCESS + ", or on who asks"
            ),
        },
    ),
    "state bytes": Question(
        "guests",
        {
            "state bytes": (
                "state_bytes({length}) says that a sequence keeps {declared:,} bytes, but what "
                "step returns after {positions} positions holds {held:,} (each number as {number} "
                "bytes at most): let state_bytes count all that step needs to go on"
            )
        },
        note="its state bytes are declared by the model, and were not measured",
    ),
    "scored batches": Question(
        "every model",
        {
            "no call": (
                "no call of forward or hidden was seen while the model was evaluated, so nothing "
                "is known of what was scored: leave the model's class and attributes as they are"
            ),
            "replaced call": (
                "the model has replaced its class or the __call__ of it" + NOBODY_SAW + "both as "
                "they are"
            ),
            "replaced method": (
                "the model has replaced its method {name}" + NOBODY_SAW + "attributes of the model "
                "as they are in forward and eval"
            ),
        },
        recorded=False,
    ),
    "generation": Question(
        "guests",
        {
            "rollout by others": (
                "what rollout predicts for a sequence depends on the other sequences of its batch "
                "({difference})"
            ),
            "rollout sees the future": (
                "the model sees the future as it generates: other inputs from position {cut} on "
                "change what its rollout predicts after {context} observed positions ({difference})"
            ),
            "step": (
                "step gives another output than forward at position {difference.position} "
                "({difference}), and this task measures what a model generates by step"
            ),
        },
        recorded=False,
    ),
    "built again": Question(
        "every model",
        {
            "other weights": (
                "the model is not the same when it is built twice from one seed ({names}): "
                + NO_SEED
            ),
            "other outputs": (
                "the model, built twice from one seed with equal weights, gives two outputs in "
                "training for the same inputs and seeds: " + NO_SEED
            ),
            "other in a new process": (
                "the model is not the same when two processes build it from one seed ({names}): "
                + NO_SEED
                + ", and take the elements of a set by sorted(…)"
            ),
            "weights of a mode": (
                "the model changes {names} as it is put into eval mode (layers that merge weights "
                "do), so that weights which are saved there are not those of its training: leave "
                "parameters and buffers as they are in train and eval"
            ),
            "state dict": (
                "the state dict that the model has after some steps cannot be saved and loaded "
                "into one that is built anew ({error}): it must have the same names and shapes "
                "from the start"
            ),
            "lost state": (
                "{seen}training changes {what}, and its outputs depend on that, but no checkpoint "
                "keeps it, since the state dict does not have it{or_else}: register what training "
                "changes as a persistent buffer, register_buffer(name, tensor), or do without it"
            ),
            "shared buffers": (
                "training changes the buffer {name}, by a part of each batch in each of "
                "training.devices={devices} processes: train it in one"
            ),
        },
        recorded=False,
    ),
}
REFUSALS = {cause: said for q in QUESTIONS.values() for cause, said in q.refusals.items()}
RECORDED = tuple(name for name, question in QUESTIONS.items() if question.recorded)
ALWAYS = tuple(name for name in RECORDED if QUESTIONS[name].of == "every model")


def _recorded(name: str) -> str:
    if name not in RECORDED:
        raise ValueError(f"{name!r} is no question of the examination")
    return name


Passed = Annotated[str, AfterValidator(_recorded)]  # the name of a question that was passed
