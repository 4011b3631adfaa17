"""Portable models: the shapes of their layers, parts, splitting and joining."""

import dataclasses

import numpy as np
import pytest

from electra_tf import config
from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import task_data
from electra_tf.formats import own_run
from electra_tf.formats import portable
from electra_tf.modeling import networks
from electra_tf.objectives import registry
from electra_tf.text import vocabulary as vocabulary_lib
from tests import tiny
from tests import tiny_run
from tests.formats import tiny_models


def _shapes_of(variables):
    return {v.path: tuple(v.shape) for v in variables}


_TWO_TOWERS = {"two_tower_generator": True}
_UNTIED = {"untied_generator_embeddings": True}


@pytest.mark.parametrize(
    ("name", "generator", "embedding_size"),
    [
        *((name, {}, None) for name in tiny.OBJECTIVE_NAMES),
        *(
            ("electra", generator, size)
            for size in (12, 16)
            for generator in (
                {},
                _UNTIED,
                {"untied_generator": False, "generator_hidden_size": 0.25},
                {"generator_hidden_size": 4.0},
                {"generator_layers": 0.5},
                _TWO_TOWERS,
                _TWO_TOWERS | _UNTIED,
            )
        ),
    ],
)
def test_a_model_has_the_variables_that_its_layers_make(
    name, generator, embedding_size
):
    settings = tiny.with_objective(tiny.build_settings(), name)
    sizes = {"embedding_size": embedding_size} if embedding_size else {}
    settings = tiny_run.replace(settings, encoder=sizes, generator=generator)
    counts = np.ones(tiny.VOCABULARY.size)
    variables = registry.build_model(
        settings, tiny.VOCABULARY, counts
    ).trainable_variables
    encoder = networks.resolve_vocab_size(settings.encoder, counts.size)
    generator = None
    if settings.generator.has_encoder and name != "mlm":
        generator = settings.generator.encoder_config(encoder)
    # As `own_run` reads a run.
    tying = settings.generator.weight_tying.replace("disentangled", "none")
    objective = settings.objective["name"]
    model = portable.PortableModel(
        {}, encoder, generator, tying, objective=objective
    )
    found, expected = _shapes_of(variables), {}
    for part in {portable.part_of(path) for path in found}:
        expected |= portable.part_shapes(part, model)
    assert found == expected


def test_no_module_is_imported_that_a_model_names_as_its_objective(
    tmp_path, monkeypatch
):
    (tmp_path / "hostile_objective.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("hostile_objective", "os"):
        model = portable.PortableModel({}, tiny.ENCODER, objective=name)
        assert model.trained_by is registry.find_class(registry.DETECTION)


def _build_head(labels=None, qa=None, **task):
    """The shapes of a task's head, 16 wide, and the task."""
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(**task),
        qa=finetuning_config.QuestionAnsweringConfig(**(qa or {})),
    )
    tasks = task_data.PreparedTasks(settings, tiny.VOCABULARY, 32, labels).tasks
    task = tasks[settings.task.names]
    return _shapes_of(task.build_head(16, seed=1).variables), task


@pytest.mark.parametrize(
    ("name", "kind", "has_hidden_layer"),
    [
        ("cola", "classification", False),
        ("mnli", "classification", True),
        ("stsb", "regression", False),
        ("chunking", "tagging", False),
    ],
)
def test_a_task_has_the_variables_of_its_head(name, kind, has_hidden_layer):
    labels = {"chunking": ("B-NP", "O")} if name == "chunking" else None
    found, task = _build_head(labels, names=name, hidden_layer=has_hidden_layer)
    labels = () if name == "stsb" else tuple(task.labels)
    described = portable.PortableTask(name, kind, labels, has_hidden_layer)
    assert found == portable.task_shapes(described, 16, {})
    # The number of outputs can be read off.
    unknown = dataclasses.replace(described, labels=())
    assert found == portable.task_shapes(unknown, 16, found)


@pytest.mark.parametrize("is_joint", [True, False])
@pytest.mark.parametrize(
    ("has_classifier", "uses_start"),
    [(False, False), (True, False), (True, True)],
)
def test_answering_has_the_variables_of_its_head(
    is_joint, has_classifier, uses_start
):
    options = {
        "joint_prediction": is_joint,
        "answerable_classifier": has_classifier,
        "answerable_uses_start_logits": uses_start,
    }
    found, _ = _build_head(qa=options, names="squad2")
    described = portable.PortableTask("squad2", "qa")
    assert found == portable.task_shapes(described, 16, found)
    for path in found:
        rest = {p: shape for p, shape in found.items() if p != path}
        assert path in portable.task_shapes(described, 16, rest)


@pytest.mark.parametrize(
    "kind", ["none", "electric", "masked_lm", "joint_answering", "hidden_layer"]
)
def test_a_model_without_any_one_tensor_or_with_one_more_is_refused(kind):
    model = tiny_models.build(kind)
    portable.check(model)

    def refuses(tensors, message):
        with pytest.raises(errors.ModelError, match=message):
            portable.check(dataclasses.replace(model, tensors=tensors))

    for path in model.tensors:
        rest = {p: v for p, v in model.tensors.items() if p != path}
        refuses(rest, f"{path} is missing")
    path, value = max(model.tensors.items())
    for name, changed, message in (
        (path, np.concatenate([value, value], -1), r"\(.*should be \("),
        (path, np.full_like(value, np.inf), "holds NaN or infinity"),
        (path, value.astype(np.float64), "holds float64, expected float32"),
        (f"{path}_2", value, "is not known"),
        ("pooler/kernel", value, "is not known"),
    ):
        refuses({**model.tensors, name: changed}, f"{name} .*{message}")


def test_tying_is_told_by_the_bits():
    main, generator = portable.split(tiny_models.build("same_size")).values()
    # One bit of one embedding less alike, and they are two.
    path = "electra/embeddings/token_type_embeddings"
    changed = generator.tensors[path].copy()
    changed.flat[2] = np.nextafter(changed.flat[2], np.float32(9))
    tensors = generator.tensors | {path: changed}
    other = dataclasses.replace(generator, tensors=tensors)
    with pytest.raises(errors.ModelError, match="embedding_size=12, hidd"):
        portable.join(main, other)
    equal = {"encoder": tiny_models.EQUAL_WIDTHS}
    main = tiny_models.build("discriminator", **equal)
    generator = tiny_models.build("masked_lm", seed=1, **equal)
    assert portable.join(main, generator).tying == "none"
    generator.tensors.update(portable.take_part(main.tensors, "electra"))
    assert portable.join(main, generator).tying == "all"
    # A dropout rate is no weight, but one encoder has one.
    encoder = dataclasses.replace(generator.encoder, hidden_dropout_prob=0.0)
    other = dataclasses.replace(generator, encoder=encoder)
    assert portable.join(main, other).tying == "embeddings"


_TOKENS = tiny_models.VOCABULARY.tokens


@pytest.mark.parametrize(
    ("main", "generator", "message"),
    [
        ("discriminator", "discriminator", "here generator_predictions"),
        ("encoder", "masked_lm", "here discriminator_predictions"),
        # Both would have something that is not looked at.
        ("same_size", "masked_lm", "here discriminator_predictions"),
        ("discriminator", "same_size", "here generator_predictions"),
        *(
            ("discriminator", vocabulary, "one vocabulary and")
            for vocabulary in (
                vocabulary_lib.Vocabulary((*_TOKENS[:-2], *_TOKENS[:-3:-1])),
                tiny_models.vocabulary_of(do_lower_case=False),
                None,
            )
        ),
    ],
)
def test_what_is_not_of_one_model_is_not_joined(main, generator, message):
    kind, fields = generator, {}
    if not isinstance(generator, str):
        kind, fields = "masked_lm", {"vocabulary": generator}
    models = tiny_models.build(main), tiny_models.build(kind, **fields)
    with pytest.raises(errors.ModelError, match=message):
        portable.join(*models)


def test_a_masked_lm_of_any_width_becomes_a_config_that_trains():
    sizes = config.EncoderConfig(hidden_size=800)
    head = {f"{portable.MASKED_LM_HEAD}/bias": np.zeros(1, np.float32)}
    settings = own_run.build_settings(portable.PortableModel(head, sizes))
    assert registry.complete(settings).objective["name"] == "mlm"
