"""Portable models: the shapes of their layers, parts, splitting and joining."""

import dataclasses

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.formats import pairs
from electra_tf.formats import portable
from electra_tf.modeling import networks
from electra_tf.objectives import registry
from tests import tiny
from tests import tiny_run
from tests.formats import tiny_models

_TWO_TOWERS = {"two_tower_generator": True}
_UNTIED = {"untied_generator_embeddings": True}


@pytest.mark.parametrize(
    ("name", "generator", "embedding_size"),
    [
        *((name, {}, None) for name in tiny.OBJECTIVE_NAMES),
        *(
            ("electra", generator, size)
            for size, generator in (
                (16, _UNTIED),
                (12, {"generator_hidden_size": 4.0, "generator_layers": 0.5}),
                (16, _TWO_TOWERS),
                (12, _TWO_TOWERS | _UNTIED),
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
    found, expected = {v.path: tuple(v.shape) for v in variables}, {}
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


@pytest.mark.parametrize(
    "kind", ["electric", "joint_answering", "hidden_layer"]
)
def test_a_model_without_a_tensor_or_with_one_more_is_refused(kind):
    model = tiny_models.build(kind)
    portable.check(model)

    def refuses(tensors, message):
        with pytest.raises(errors.ModelError, match=message):
            portable.check(dataclasses.replace(model, tensors=tensors))

    for part in model.parts:
        path = max(portable.take_part(model.tensors, part))
        rest = {p: v for p, v in model.tensors.items() if p != path}
        refuses(rest, f"{path} is missing")
    path, value = max(model.tensors.items())
    for name, changed, message in (
        (path, np.concatenate([value, value], -1), r"\(.*should be \("),
        (path, np.full_like(value, np.inf), "holds NaN or infinity"),
        (path, value.astype(np.float64), "holds float64, expected float32"),
        (f"{path}_2", value, "is not used"),
        ("pooler/kernel", value, "is not used"),
    ):
        refuses({**model.tensors, name: changed}, f"{name} .*{message}")


def test_tying_is_told_by_the_bits():
    main, generator = pairs.split(tiny_models.build("same_size")).values()
    # One bit of one embedding less alike, and they are two.
    path = "electra/embeddings/token_type_embeddings"
    changed = generator.tensors[path].copy()
    changed.flat[2] = np.nextafter(changed.flat[2], np.float32(9))
    tensors = generator.tensors | {path: changed}
    other = dataclasses.replace(generator, tensors=tensors)
    with pytest.raises(errors.ModelError, match="embedding_size=12, hidd"):
        pairs.join(main, other)
    equal = {"encoder": tiny_models.EQUAL_WIDTHS}
    main = tiny_models.build("discriminator", **equal)
    generator = tiny_models.build("masked_lm", seed=1, **equal)
    assert pairs.join(main, generator).tying == "none"
    generator.tensors.update(portable.take_part(main.tensors, "electra"))
    assert pairs.join(main, generator).tying == "all"
    # A dropout rate is no weight, but one encoder has one.
    encoder = dataclasses.replace(generator.encoder, hidden_dropout_prob=0.0)
    other = dataclasses.replace(generator, encoder=encoder)
    assert pairs.join(main, other).tying == "embeddings"
