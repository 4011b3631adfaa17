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
from electra_tf.modeling import towers
from electra_tf.pretraining import model as pretraining_model
from tests import tiny
from tests.formats import tiny_models


def _shapes_of(variables):
    return {v.path: tuple(v.shape) for v in variables}


def _expected(settings, parts):
    encoder = towers.resolve_vocab_size(settings.encoder, tiny.VOCABULARY.size)
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
    encoder = towers.resolve_vocab_size(settings.encoder, tiny.VOCABULARY.size)
    main = towers.build_discriminator(encoder)
    generator = towers.build_generator(
        settings.generator, main.encoder, encoder
    )
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


@pytest.mark.parametrize("kind", ["embeddings", "none", "wide", "equal"])
def test_sizes_are_read_off_the_tensors(kind):
    model = tiny_models.build(kind)
    shapes = {path: value.shape for path, value in model.tensors.items()}

    def require_found(name, embeddings_name, expected):
        found = layout.infer_sizes(
            name, shapes.get, embeddings_name, expected.num_attention_heads
        )
        told = dataclasses.replace(
            found,
            hidden_dropout_prob=expected.hidden_dropout_prob,
            attention_probs_dropout_prob=expected.attention_probs_dropout_prob,
            initializer_range=expected.initializer_range,
        )
        assert told == expected

    require_found("electra", "", model.encoder)
    owner = "generator" if kind == "none" else "electra"
    require_found("generator", owner, model.generator)


def test_heads_are_64_wide_unless_they_are_told():
    wide = dataclasses.replace(tiny_models.ENCODER, hidden_size=192)
    shapes = layout.encoder_shapes("electra", wide)
    found = layout.infer_sizes("electra", shapes.get)
    assert found.num_attention_heads == 3
    small = layout.encoder_shapes("electra", tiny_models.ENCODER)
    assert layout.infer_sizes("electra", small.get).num_attention_heads == 1


@pytest.mark.parametrize(
    "path",
    [
        "electra/embeddings/word_embeddings",
        "electra/embeddings/position_embeddings",
        "electra/encoder/layer_0/attention/output/dense/kernel",
        "electra/encoder/layer_0/intermediate/dense/kernel",
    ],
)
@pytest.mark.parametrize("shape", [None, (), (3,), (1, 2, 3)])
def test_sizes_cannot_be_read_off_what_is_no_matrix(path, shape):
    shapes = layout.encoder_shapes("electra", tiny_models.ENCODER)
    shapes[path] = shape
    with pytest.raises(errors.ModelError, match=path):
        layout.infer_sizes("electra", shapes.get)


@pytest.mark.parametrize(
    "kind", [*tiny_models.PRETRAINED, *tiny_models.FINETUNED]
)
def test_a_model_without_any_one_tensor_or_with_one_more_is_refused(kind):
    model = tiny_models.build(kind)
    layout.check(model)
    for path, value in model.tensors.items():
        rest = {p: v for p, v in model.tensors.items() if p != path}
        with pytest.raises(errors.ModelError, match=f"{path} is missing"):
            layout.check(dataclasses.replace(model, tensors=rest))
        longer = {path: np.concatenate([value, value], axis=-1)}
        with pytest.raises(errors.ModelError, match=path):
            _check_changed(model, longer)
        infinite = value.copy()
        infinite.flat[-1] = np.inf
        with pytest.raises(errors.ModelError, match=f"{path} holds NaN or"):
            _check_changed(model, {path: infinite})
        more = {f"{path}_2": value}
        with pytest.raises(errors.ModelError, match="_2 .* is not known"):
            _check_changed(model, more)
    with pytest.raises(errors.ModelError, match="pooler/kernel"):
        _check_changed(model, {"pooler/kernel": np.zeros([2, 2])})


def _check_changed(model, tensors):
    layout.check(
        dataclasses.replace(model, tensors={**model.tensors, **tensors})
    )


def test_a_head_and_its_task_come_together():
    model = tiny_models.build("classification")
    with pytest.raises(errors.ModelError, match="mnli/dense/kernel .* not"):
        layout.check(dataclasses.replace(model, task=None))
    encoder = portable.take_part(model.tensors, "electra")
    with pytest.raises(errors.ModelError, match="dense/kernel is missing"):
        layout.check(dataclasses.replace(model, tensors=encoder))


def test_a_model_without_a_main_encoder_is_refused():
    model = tiny_models.build("discriminator")
    head = portable.take_part(model.tensors, "discriminator_predictions")
    with pytest.raises(errors.ModelError, match="main encoder"):
        layout.check(dataclasses.replace(model, tensors=head))
    with pytest.raises(errors.ModelError, match="nothing"):
        layout.check(dataclasses.replace(model, tensors={}))
