"""The original's counts of operations, by hand.

The exact ones are compared with the profiler's in
`tests/objectives/test_objectives.py`.
"""

from electra_tf.modeling import flops
from electra_tf.objectives import base
from tests import tiny
from tests import tiny_run

_HALF = {"generator_hidden_size": 0.5}


def _settings(embedding_size=12, **generator):
    settings = tiny_run.replace(
        tiny.build_settings(),
        encoder={"embedding_size": embedding_size},
        # Two slots of the 16 tokens of a row.
        masking={"mask_prob": 0.125},
        generator={"generator_hidden_size": 0.25} | generator,
    )
    return base.resolve(settings, tiny.VOCABULARY.size)


def test_what_the_original_has_no_formula_for_is_composed_of_its_formulas():
    settings = _settings(**_HALF, two_tower_generator=True)
    original = flops.Convention("original", settings)
    s, v, e, h, wide = tiny.LENGTH, tiny.VOCABULARY.size, 12, 16, 2 * 8
    encoder = flops.OriginalTransformer(8, 2, s, v, e, 32, 1).encoder()
    head = s * (2 * e * v + 2 * wide * e + 14 * e + 7 * v)
    assert original.generator().forward == 2 * encoder + head
    main = flops.OriginalTransformer(h, 2, s, v, e, 32, 2).encoder()
    head = s * (2 * e * v + 2 * h * e + 14 * e + 7 * v)
    assert original.copying_masked_lm().forward == main + head + s * 2 * h
    assert original.masked_lm().forward == main + 0.15625 * head
    for kind in ("uniform_generator", "unigram_generator"):
        fixed = flops.Convention("original", _settings(**{kind: True}))
        assert fixed.generator().total == 0
