"""A folder of reference data for the two-tower model in plain NumPy."""

import json
import math

import numpy as np
import tensorflow as tf

from tests.verification import two_tower_reference as model

LENGTHS = (12, 9)
LENGTH, VOCAB = 12, 17
POSITIONS, HIDDEN, EMBEDDING, INNER = 13, 8, 6, 12
GENERATOR, GENERATOR_INNER = 4, 16


def shapes(is_untied):
    """Variable name to shape, as in the original's checkpoints."""

    def vector_pair(scope, width):
        return {f"{scope}/LayerNorm/{n}": [width] for n in ("gamma", "beta")}

    def linear(scope, width, units):
        return {f"{scope}/kernel": [width, units], f"{scope}/bias": [units]}

    def embeddings(scope, width):
        rows = {"word": VOCAB, "position": POSITIONS, "token_type": 2}
        tables = {
            f"{scope}/embeddings/{name}_embeddings": [count, width]
            for name, count in rows.items()
        }
        return tables | vector_pair(f"{scope}/embeddings", width)

    def layer(scope, width, inner):
        scope = f"{scope}/encoder/layer_0"
        found = linear(f"{scope}/attention/output/dense", width, width)
        for name in ("query", "key", "value"):
            found |= linear(f"{scope}/attention/self/{name}", width, width)
        found |= vector_pair(f"{scope}/attention/output", width)
        found |= linear(f"{scope}/intermediate/dense", width, inner)
        found |= linear(f"{scope}/output/dense", inner, width)
        return found | vector_pair(f"{scope}/output", width)

    found = embeddings("electra", EMBEDDING)
    found |= linear("electra/embeddings_project", EMBEDDING, HIDDEN)
    found |= layer("electra", HIDDEN, INNER)
    for scope in ("generator_ltr", "generator_rtl"):
        if is_untied:
            found |= embeddings(scope, GENERATOR)
        else:
            found |= linear(f"{scope}/embeddings_project", EMBEDDING, GENERATOR)
        found |= layer(scope, GENERATOR, GENERATOR_INNER)
    width = GENERATOR if is_untied else EMBEDDING
    found |= linear("cloze_predictions/dense", 2 * GENERATOR, width)
    found |= vector_pair("cloze_predictions", width)
    found |= {"cloze_predictions/output_bias": [VOCAB]}
    found |= linear("discriminator_predictions/dense", HIDDEN, HIDDEN)
    return found | linear("discriminator_predictions/dense_1", HIDDEN, 1)


def draw_weights(random, is_untied):
    """Float32 numbers, held in float64."""
    weights = {}
    for name, shape in shapes(is_untied).items():
        value = random.normal(0, 0.4, shape) + name.endswith("gamma")
        weights[name] = value.astype(np.float32).astype(np.float64)
    return weights


def draw_inputs(random):
    mask = (np.arange(LENGTH) < np.array(LENGTHS)[:, np.newaxis]).astype(int)
    plain = sorted(set(range(VOCAB)) - set(model.SPECIAL.values()))
    ids = random.choice(plain, mask.shape) * mask
    ids[:, 0] = model.SPECIAL["[CLS]"]
    for row, length in enumerate(LENGTHS):
        ids[row, [5, length - 1]] = model.SPECIAL["[SEP]"]
    # Two slots of the first row are one position; the second row needs two.
    drawn = np.array([[3, 10, 3], [7, 1, 1]])
    return {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": (np.arange(LENGTH) > 5) * mask,
        "drawn_positions": drawn,
        "replace_uniform": np.array([[0.1, 0.9, 0.2], [0.5, 0.95, 0.1]]),
        "gumbel_uniform": random.random((2, model.SLOTS, VOCAB)).astype(
            np.float32
        ),
    }


def hyperparameters(is_electric, is_untied):
    return {
        "electra_objective": not is_electric,
        "electric_objective": is_electric,
        "two_tower_generator": True,
        "untied_generator_embeddings": is_untied,
        "generator_hidden_size": GENERATOR / HIDDEN,
        "embedding_size": EMBEDDING,
        "max_seq_length": LENGTH,
        "vocab_size": VOCAB,
        "mask_prob": model.MASK_PROB,
        "gen_weight": model.GEN_WEIGHT,
        "disc_weight": model.DISC_WEIGHT,
        "model_hparam_overrides": {
            "hidden_size": HIDDEN,
            "num_hidden_layers": 1,
            "num_attention_heads": model.HEADS,
            "intermediate_size": INNER,
            "max_position_embeddings": POSITIONS,
        },
    }


def write_folder(folder, is_electric, is_untied, seed):
    """Writes inputs, weights, outputs and gradients of one configuration."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    weights, inputs = draw_weights(random, is_untied), draw_inputs(random)
    out = model.forward(weights, inputs, is_electric)
    slopes = model.gradients(weights, inputs, is_electric)
    _save(folder / "inputs.npz", inputs)
    _save(folder / "outputs.npz", out)
    _save(folder / "gradients.npz", slopes)
    tokens = [f"w{number}" for number in range(VOCAB)]
    for name, number in model.SPECIAL.items():
        tokens[number] = name
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    norm = math.sqrt(sum(np.sum(slope**2) for slope in slopes.values()))
    info = {
        "pretraining_config": hyperparameters(is_electric, is_untied),
        "bert_config": {
            "hidden_size": HIDDEN,
            "num_attention_heads": model.HEADS,
        },
        "generator_config": {
            "hidden_size": GENERATOR,
            "num_attention_heads": 1,
            "intermediate_size": GENERATOR_INNER,
        },
        "max_predictions_per_seq": model.SLOTS,
        "special_token_ids": model.SPECIAL,
        "variables": shapes(is_untied),
        "eval_metrics": model.metrics(inputs, out),
        "gradient_global_norm_dense": norm,
        "gradient_sparse_variables": [],
    }
    (folder / "info.json").write_text(json.dumps(info))
    _write_checkpoint(folder, weights)


def _save(path, arrays):
    kinds = {"f": np.float32, "i": np.int32, "b": np.int32}
    np.savez(
        path,
        **{
            name: np.asarray(value).astype(kinds[np.asarray(value).dtype.kind])
            for name, value in arrays.items()
        },
    )


def _write_checkpoint(folder, weights):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in weights.items():
            v1.get_variable(
                name, initializer=value.astype(np.float32), use_resource=False
            )
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(
            session, str(folder / "model.ckpt"), write_meta_graph=False
        )
