"""What `layout` says of a model is what the layers make."""

import dataclasses

import numpy as np
import pytest

from electra_tf import config
from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import task_data
from electra_tf.formats import layout
from electra_tf.formats import portable
from electra_tf.modeling import networks
from electra_tf.pretraining import model as pretraining_model
from tests import tiny
from tests.formats import tiny_models


def _shapes_of(variables):
    return {v.path: tuple(v.shape) for v in variables}


def _expected(settings, parts):
    encoder = networks.resolve_vocab_size(
        settings.encoder, tiny.VOCABULARY.size
    )
    generator = None
    if settings.generator.has_encoder and settings.objective.name != "mlm":
        generator = settings.generator.encoder_config(encoder)
    shapes = {}
    for part in parts:
        shapes |= layout.part_shapes(
            part, encoder, generator, settings.generator.weight_tying
        )
    return shapes


_TOWERS = {
    "shared_embeddings": {},
    "own_embeddings": {"untied_generator_embeddings": True},
    "one_encoder": {
        "untied_generator": False,
        "generator_hidden_size": 0.25,
    },
    "wider": {"generator_hidden_size": 4.0},
    "fewer_layers": {"generator_layers": 0.5},
    "two_towers": {"two_tower_generator": True},
    "two_towers_of_their_own": {
        "two_tower_generator": True,
        "untied_generator_embeddings": True,
    },
}


@pytest.mark.parametrize("embedding_size", [12, 16])
@pytest.mark.parametrize("kind", _TOWERS)
def test_a_model_has_the_variables_that_its_layers_make(kind, embedding_size):
    settings = tiny.build_settings()
    settings = dataclasses.replace(
        settings,
        encoder=dataclasses.replace(
            settings.encoder, embedding_size=embedding_size
        ),
        generator=config.GeneratorConfig(
            **{"generator_hidden_size": 0.5} | _TOWERS[kind]
        ),
    )
    encoder = networks.resolve_vocab_size(
        settings.encoder, tiny.VOCABULARY.size
    )
    main = networks.Discriminator(encoder)
    generator = networks.build_generator(settings.generator, main.encoder)
    found = _shapes_of([*main.variables, *generator.variables])
    parts = {path.split("/")[0] for path in found}
    assert found == _expected(settings, parts)


@pytest.mark.parametrize("name", tiny.OBJECTIVE_NAMES)
def test_every_objective_has_the_variables_of_its_parts(name):
    settings = tiny.with_objective(tiny.build_settings(), name)
    counts = np.ones(tiny.VOCABULARY.size)
    model = pretraining_model.build_pretraining_model(
        settings, tiny.VOCABULARY, counts
    )
    found = _shapes_of(model.trainable_variables)
    parts = {path.split("/")[0] for path in found}
    assert found == _expected(settings, parts)


_HEADS = {
    "cola": {},
    "mnli": {"hidden_layer": True},
    "stsb": {},
    "chunking": {},
}


@pytest.mark.parametrize("name", _HEADS)
def test_a_task_has_the_variables_of_its_head(name):
    labels = {"chunking": ("B-NP", "O")}.get(name)
    task = _build_task(
        labels and {name: labels}, task={"names": name, **_HEADS[name]}
    )
    kinds = {"stsb": "regression", "chunking": "tagging"}
    described = portable.PortableTask(
        name,
        kinds.get(name, "classification"),
        () if name == "stsb" else tuple(task.labels),
        bool(_HEADS[name]),
    )
    found = _shapes_of(task.build_head(16, seed=1).variables)
    assert found == layout.task_shapes(described, 16, {})
    if name != "stsb":
        # The number of outputs can be read off.
        unknown = dataclasses.replace(described, labels=())
        assert found == layout.task_shapes(unknown, 16, found)


def _build_task(labels, **sections):
    kinds = {
        "task": finetuning_config.TaskConfig,
        "qa": finetuning_config.QuestionAnsweringConfig,
    }
    settings = finetuning_config.FinetuningConfig(
        **{name: kinds[name](**fields) for name, fields in sections.items()}
    )
    tasks = task_data.PreparedTasks(settings, tiny.VOCABULARY, 32, labels).tasks
    return tasks[settings.task.names]


@pytest.mark.parametrize("is_joint", [True, False])
@pytest.mark.parametrize(
    ("has_classifier", "uses_start"),
    [(False, False), (True, False), (True, True)],
)
def test_answering_has_the_variables_of_its_head(
    is_joint, has_classifier, uses_start
):
    task = _build_task(
        None,
        task={"names": "squad2"},
        qa={
            "joint_prediction": is_joint,
            "answerable_classifier": has_classifier,
            "answerable_uses_start_logits": uses_start,
        },
    )
    found = _shapes_of(task.build_head(16, seed=1).variables)
    described = portable.PortableTask("squad2", "qa")
    assert found == layout.task_shapes(described, 16, found)
    for path in found:
        rest = {p: shape for p, shape in found.items() if p != path}
        assert path in layout.task_shapes(described, 16, rest)


@pytest.mark.parametrize(
    "kind", [*tiny_models.PRETRAINED, *tiny_models.FINETUNED]
)
def test_a_model_without_any_one_tensor_or_with_one_more_is_refused(kind):
    model = tiny_models.build(kind)
    layout.check(model)
    for path in model.tensors:
        rest = {p: v for p, v in model.tensors.items() if p != path}
        with pytest.raises(errors.ModelError, match=f"{path} is missing"):
            layout.check(dataclasses.replace(model, tensors=rest))
    path, value = max(model.tensors.items())
    for name, changed, message in (
        (
            path,
            np.concatenate([value, value], axis=-1),
            r"is \(.*, expected \(",
        ),
        (path, np.full_like(value, np.inf), "holds NaN or infinity"),
        (path, value.astype(np.float64), "holds float64, expected float32"),
        (f"{path}_2", value, "is not known"),
        ("pooler/kernel", value, "is not known"),
    ):
        with pytest.raises(errors.ModelError, match=f"{name} .*{message}"):
            _check_changed(model, {name: changed})


def _check_changed(model, tensors):
    layout.check(
        dataclasses.replace(model, tensors={**model.tensors, **tensors})
    )


@pytest.mark.parametrize(
    "kind", ["embeddings", "none", "all", "wide", "other_heads", "electric"]
)
def test_settings_describe_the_generator(kind):
    model = tiny_models.build(kind)
    settings = layout.generator_settings(model)
    assert settings.encoder_config(model.encoder) == model.generator
    assert settings.weight_tying == model.tying
    assert settings.two_tower_generator == (kind == "electric")
