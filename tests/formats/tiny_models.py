"""Portable models of every kind, small, with random weights."""

import dataclasses
import json

import numpy as np

from electra_tf import config
from electra_tf.export import conversion
from electra_tf.formats import portable
from electra_tf.tasks.sentences import classification
from electra_tf.tasks.sentences import regression
from electra_tf.text import vocabulary as vocabulary_lib

VOCABULARY = vocabulary_lib.Vocabulary(
    (
        *vocabulary_lib.SPECIAL_TOKENS,
        *("the", "cat", "sat", "on", "a", "mat", ".", ",", "?", "un"),
        *("##able", "##s", "dog", "item", "東", "é", "e", "ran", "##é"),
    )
)
ENCODER = config.EncoderConfig(
    vocab_size=VOCABULARY.size,
    embedding_size=12,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=20,
    type_vocab_size=3,
    # Not the defaults of any format.
    hidden_dropout_prob=0.25,
    attention_probs_dropout_prob=0.05,
    initializer_range=0.03,
)
EQUAL_WIDTHS = dataclasses.replace(ENCODER, embedding_size=16)

_GENERATORS = {
    "embeddings": {"hidden_size": 8, "num_hidden_layers": 1},
    "none": {"hidden_size": 8, "embedding_size": 8},
    "all": None,
    "wide": {"hidden_size": 32, "embedding_size": 12},
    "equal": {"hidden_size": 8, "embedding_size": 16},
    "same_size": {"hidden_size": 16},
    "other_heads": {"hidden_size": 8, "num_attention_heads": 4,
                    "intermediate_size": 20},
    "electric": {"hidden_size": 8},
}  # fmt: skip
"""Kind of a model with two towers to the generator's sizes."""

_task = portable.PortableTask
_TASKS = {
    "classification": _task(
        "mnli", "classification", ("contradiction", "entailment", "neutral")
    ),
    "regression": _task(
        "stsb", "regression", options=regression.RegressionOptions((0.0, 5.0))
    ),
    "tagging": _task("chunking", "tagging", ("B-NP", "I-NP", "O")),
    "answering": _task("squad1", "qa"),
    "joint_answering": _task("squad2", "qa"),
    "hidden_layer": _task(
        "rte", "classification", ("entailment", "not_entailment"), True
    ),
    "hidden_regression": _task(
        *("own", "regression", (), True),
        options=regression.RegressionOptions((-10.0, 30.0)),
    ),
    "multilabel": _task(
        *("own", "multilabel", ("a", "b")),
        has_pairs=True,
        options=classification.MultilabelOptions(0.25),
    ),
    "multiple_choice": _task("own", "multiple_choice"),
    "ranking": _task("own", "ranking", (), True),
    "own": _task("own", "classification", ("good, or so", "bad")),
}
# Layers of a head of question answering that are not always there.
_JOINT_LAYERS = ("qa_hidden", "dense_2", "dense_3")

FINETUNED = tuple(_TASKS)


def vocabulary_of(**settings):
    """The same tokens, with other settings of the tokenizer."""
    changed = vocabulary_lib.TokenizerSettings(**settings)
    return vocabulary_lib.Vocabulary(VOCABULARY.tokens, changed)


def build(kind, seed=0, **fields):
    """A model with random weights, of a kind that the tables above name.

    With one tower it is a `discriminator`, `masked_lm` or `encoder`. `fields`
    are those of `PortableModel`, instead of those of the kind.
    """
    model = dataclasses.replace(
        _build_sizes(kind), origin=f"tiny {kind}", vocabulary=VOCABULARY
    )
    model = dataclasses.replace(model, **fields)
    generator = np.random.default_rng(seed)
    tensors = {
        path: generator.normal(size=shape).astype(np.float32)
        for path, shape in _shapes(kind, model).items()
    }
    for value in tensors.values():
        # Bits that a computation could lose.
        value.flat[0], value.flat[-1] = -0.0, 1e-42
    return dataclasses.replace(model, tensors=tensors)


def _build_sizes(kind):
    if kind in _TASKS:
        return portable.PortableModel({}, ENCODER, task=_TASKS[kind], step=7)
    if kind not in _GENERATORS:
        return portable.PortableModel({}, ENCODER)
    encoder = EQUAL_WIDTHS if kind == "equal" else ENCODER
    tying = kind if kind in ("none", "all") else "embeddings"
    changes = _GENERATORS[kind]
    generator = encoder
    if changes is not None:
        width = changes["hidden_size"]
        # What the original derives, unless the kind says otherwise.
        derived = {"num_attention_heads": 1, "intermediate_size": 4 * width}
        generator = dataclasses.replace(encoder, **(derived | changes))
    objective = "electric" if kind == "electric" else "electra"
    return portable.PortableModel(
        {}, encoder, generator, tying, objective=objective, step=41
    )


def _shapes(kind, model):
    parts = ["electra"]
    if kind == "electric":
        parts += ["generator_ltr", "generator_rtl", "cloze_predictions"]
    elif kind in _GENERATORS or kind == "masked_lm":
        parts += ["generator_predictions"]
        parts += ["generator"] * (kind not in ("all", "masked_lm"))
    if kind in _GENERATORS or kind == "discriminator":
        parts += ["discriminator_predictions"]
    shapes: portable.Shapes = {}
    for part in parts:
        shapes |= portable.part_shapes(part, model)
    if model.task is not None:
        layers = _JOINT_LAYERS if kind == "joint_answering" else ()
        hints = {f"{model.task.head}/{layer}/kernel": () for layer in layers}
        width = model.encoder.hidden_size
        shapes |= portable.task_shapes(model.task, width, hints)
    return shapes


def write(folder, kind, format_name, **fields):
    """Makes a model, and a folder that holds it."""
    model = build(kind, **fields)
    folder.mkdir(exist_ok=True)
    conversion.write(model, format_name, folder)
    return model


def change_json(path, **fields):
    """Puts fields into an object in a file; those that are `...` go."""
    content = json.loads(path.read_text()) | fields
    content = {n: v for n, v in content.items() if v is not ...}
    path.write_text(json.dumps(content))


def require_same(one, other, ignoring=()):
    """Fails unless two models, but for some fields, are the same to the bit."""
    require_tensors(other.tensors, one.tensors)
    for field in ("encoder", "generator", "tying", "vocabulary", "task"):
        if field not in ignoring:
            assert getattr(one, field) == getattr(other, field), field


def names_in(folder):
    """The names in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def require_tensors(found, expected):
    """Fails unless names, dtypes, shapes and every bit are the same."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert found[name].tobytes() == value.tobytes(), name
        assert found[name].shape == value.shape, name
