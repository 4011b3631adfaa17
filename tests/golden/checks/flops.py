"""The original's counts of floating-point operations, number by number.

A file holds `components` (parts of one Transformer), `electra` (training of
two towers) and `table` (models of the paper's tables). The original's authors
measured ELMo and XLNet with a profiler and wrote the results down: there is no
formula to compare, so these are skipped.
"""

import re

from electra_tf.modeling.flops import OriginalTransformer
from tests.golden import comparison
from tests.golden import loading

_TOLERANCE = 1e-12  # relative
# The original's names of hyperparameters, and ours.
_FIELDS = {
    "h": "hidden_size", "l": "num_layers", "s": "length", "v": "vocab_size",
    "e": "embedding_size", "i": "intermediate_size", "heads": "num_heads",
    "head_size": "head_size", "output_frac": "output_fraction",
    "sparse_embed_lookup": "sparse_embed_lookup", "decoder": "decoder",
}  # fmt: skip


def check_file(path):
    for section, content in loading.read_json(path).items():
        title = f"{path.stem}, {section}"
        entries = list(_SECTIONS[section](content))
        known = (entry for entry in entries if entry[1] is not None)
        measure = comparison.relative_error
        yield comparison.compare(title, known, _TOLERANCE, measure)
        for name, ours, _ in entries:
            if ours is None:
                reason = "no formula of a model of that name"
                yield comparison.Line(f"{title}, {name}", skipped=reason)


def _count_components(entries):
    for number, entry in enumerate(entries):
        transformer = _build_transformer(**entry.pop("args"))
        for name, theirs in entry.items():
            ours = _count_component(transformer, name)
            yield f"{number}: {name}", ours, theirs


def _count_pairs(entries):
    for number, entry in enumerate(entries):
        yield number, _count_electra(**entry["args"]), entry["flops"]


def _count_models(table):
    published = _count_published()
    for name, printed in table.items():
        yield name, published.get(name), float(printed)


# From a section to the name of each number, ours and theirs.
_SECTIONS = {
    "components": _count_components,
    "electra": _count_pairs,
    "table": _count_models,
}


def _build_transformer(**arguments):
    return OriginalTransformer(**{_FIELDS[k]: v for k, v in arguments.items()})


def _count_component(transformer, name):
    """`train_BxN` is N steps of B rows, with `_disc` of a discriminator."""
    training = re.fullmatch(r"train_(\d+)x(\d+)(_disc)?", name)
    if training is not None:
        num_rows = int(training[1]) * int(training[2])
        return _count_training(transformer, num_rows, bool(training[3]))
    if name == "infer":
        return transformer.encoder() + transformer.binary()
    return float(getattr(transformer, name)())


def _count_training(transformer, num_rows, is_discriminator=False):
    """Training on a number of rows; backward counts as one forward."""
    head = transformer.binary if is_discriminator else transformer.output
    return 2.0 * num_rows * (transformer.encoder() + head())


def _count_electra(
    h_d, l_d, h_g, l_g, batch_size, train_steps, tied_embeddings, e=None, **both
):
    """Training of two towers of some widths (`h`) and layers (`l`).

    A generator whose embeddings are not tied has its own, as wide as its
    layers.
    """
    shared = h_d if e is None else e
    own = shared if tied_embeddings else h_g
    discriminator = _build_transformer(h=h_d, l=l_d, e=shared, **both)
    generator = _build_transformer(h=h_g, l=l_g, e=own, **both)
    num_rows = batch_size * train_steps
    trained = _count_training(discriminator, num_rows, is_discriminator=True)
    return trained + _count_training(generator, num_rows)


def _count_published():
    """Training of the models in the paper's tables, by the original's names."""

    def count(rows, steps, **arguments):
        return _count_training(_build_transformer(**arguments), rows * steps)

    base, large = {"h": 768, "l": 12}, {"h": 1024, "l": 24}
    # A decoder that scores every position, and an encoder that scores none.
    t5 = large | {"v": 32000, "i": 65536, "heads": 128, "head_size": 128}
    t5_encoder = count(2048, 1_000_000, output_frac=0.0, **t5)
    t5_decoder = count(2048, 1_000_000, output_frac=1.0, decoder=True, **t5)
    electra_small = (256, 12, 64, 12, 128, 1_000_000, True)
    electra_large = (1024, 24, 256, 24, 2048)
    return {
        "gpt": count(128, 960_800, v=40000, output_frac=1.0, **base),
        "bert_small": count(128, 1_450_000, h=256, l=12, s=128, e=128),
        "bert_base": count(256, 1_000_000, **base),
        "bert_large": count(256, 1_000_000, **large),
        "electra_small": _count_electra(*electra_small, e=128, s=128),
        "electra_base": _count_electra(768, 12, 256, 12, 256, 766_000, True),
        "electra_400k": _count_electra(*electra_large, 400_000, True),
        "electra_1.75M": _count_electra(*electra_large, 1_750_000, True),
        "roberta": count(8000, 500_000, v=50265, **large),
        "albert": count(4096, 1_500_000, h=4096, l=12, v=30000, e=128),
        "t5_11b": t5_encoder + t5_decoder,
    }
