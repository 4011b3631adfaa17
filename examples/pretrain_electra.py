r"""Pre-trains a small ELECTRA with Keras' `fit`, from text to scored words.

    python examples/pretrain_electra.py --output_dir=runs/example

The whole path in one file: vocabulary, rows, model, training, and the scores of
a sentence. The text is the documentation that ships with Python itself.
`electra-pretrain` does the same for large corpora and several devices, and
resumes with the same bits.

ELECTRA (https://arxiv.org/abs/2003.10555) trains two networks together. A
generator, a small masked language model, predicts the masked tokens of a text.
Its samples replace the original tokens, and the discriminator learns to tell
for every token whether it was replaced. Only the discriminator is used later.
"""

import argparse
import itertools
import pathlib
import random
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.objectives import base
from electra_tf.objectives import registry
from electra_tf.records import corpus as corpus_lib
from electra_tf.records import examples as examples_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.text import vocabulary_training
from electra_tf.training import optimizers
from electra_tf.training import schedules

Documents = list[list[str]]
Rows = dict[str, np.ndarray]

LENGTH = 32  # tokens of a row
BATCH_SIZE = 64  # rows of a step
HELD_OUT_SHARE = 0.02  # of the documents


def read_documents(num_documents: int | None) -> tuple[Documents, Documents]:
    """Reads the corpus and holds some documents out.

    Args:
        num_documents: how many to read; None for all.

    Returns:
        Training and held-out documents, each a list of lines.
    """
    corpus = corpus_lib.open_corpus(["python_docs"])
    readers = (
        corpus_lib.open_source(source, corpus.options)
        for source in corpus.sources
    )
    read = itertools.chain.from_iterable(readers)
    documents = [d.lines for d in itertools.islice(read, num_documents)]
    random.Random(1).shuffle(documents)
    count = max(1, int(HELD_OUT_SHARE * len(documents)))
    return documents[count:], documents[:count]


def build_rows(
    documents: Iterable[list[str]], vocabulary: vocabulary_lib.Vocabulary
) -> Rows:
    """Turns documents into rows of ids, `[CLS] first [SEP] second [SEP]`.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, each `[n, LENGTH]` int32.
    """
    tokenizer = tokenizer_lib.Tokenizer(vocabulary)
    builder = examples_lib.ExampleBuilder(
        LENGTH, random.Random(1), keep_overflow=True
    )
    for lines in documents:
        ids = tokenizer.tokenize(tf.constant(lines))
        builder.add_lines(ids.flat_values.numpy(), ids.row_lengths().numpy())
        builder.end_document()
    return examples_lib.build_features(
        builder.take(), LENGTH, vocabulary.cls_id, vocabulary.sep_id
    )


def build_settings(num_steps: int) -> config.ExperimentConfig:
    """Sizes and hyper-parameters of a model that learns on a CPU.

    Both networks are 128 wide with two layers, and share their embeddings. A
    small model wants another initialization and a smaller `disc_weight` than
    the paper's 50 (docs/small_models.md).
    """
    return config.ExperimentConfig(
        encoder=config.EncoderConfig(
            vocab_size=0,  # the vocabulary's
            embedding_size=128,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=512,
            max_position_embeddings=LENGTH,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            initializer_range=0.0,  # computed from the width
        ),
        generator=config.GeneratorConfig(
            generator_hidden_size=1.0, num_attention_heads=4
        ),
        # A quarter of the tokens of a row become [MASK].
        masking=config.MaskingConfig(mask_prob=0.25, replace_prob=1.0),
        objective={"name": "electra", "disc_weight": 10.0},
        data=config.DataConfig(max_seq_length=LENGTH),
        optimizer=config.OptimizerConfig(clip_norm=0.0),
        training=config.TrainingConfig(
            num_train_steps=num_steps, train_batch_size=BATCH_SIZE
        ),
    )


def build_dataset(rows: Rows, is_training: bool) -> tf.data.Dataset:
    """Batches rows; the model draws new masks in every step."""
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    if is_training:
        dataset = dataset.shuffle(len(rows["input_ids"]), seed=1).repeat()
    # The model needs batches of a known size.
    return dataset.batch(BATCH_SIZE, drop_remainder=True).prefetch(2)


def train(
    model: base.PretrainingModel,
    rows: Rows,
    held_out: Rows,
    num_steps: int,
    folder: pathlib.Path,
) -> dict[str, list[float]]:
    """Trains with `fit` and keeps the best weights.

    `compile` needs no loss, because the model computes its losses. In one step
    it masks the batch, samples from the generator's predictions, puts the
    samples into the text, and asks the discriminator for the replaced tokens:
    `electra_tf/pretraining/electra.py`.

    Returns:
        The values of each metric after every epoch; held-out ones begin with
        `val_`.
    """
    schedule = schedules.PolynomialDecayTimesWarmup(
        2e-3, num_steps, num_warmup_steps=num_steps // 20
    )
    model.compile(optimizer=optimizers.AdamWeightDecay(schedule, beta_2=0.98))
    num_epochs = min(10, num_steps)
    history = model.fit(
        build_dataset(rows, is_training=True),
        validation_data=build_dataset(held_out, is_training=False),
        epochs=num_epochs,
        steps_per_epoch=num_steps // num_epochs,
        callbacks=[
            keras.callbacks.ModelCheckpoint(
                folder / "best.keras", monitor="val_loss", save_best_only=True
            ),
            keras.callbacks.TensorBoard(folder / "tensorboard"),
        ],
        verbose=2,
    )
    return history.history


def score(
    model: base.PretrainingModel,
    vocabulary: vocabulary_lib.Vocabulary,
    text: str,
) -> list[tuple[str, float]]:
    """Returns each token of a text with its probability of being replaced."""
    ids = tokenizer_lib.Tokenizer(vocabulary).tokenize(tf.constant([text]))
    row = [vocabulary.cls_id, *ids[0].numpy()[: LENGTH - 2], vocabulary.sep_id]
    features = {
        "input_ids": tf.constant([row]),
        "input_mask": tf.ones([1, len(row)], tf.int32),
        "segment_ids": tf.zeros([1, len(row)], tf.int32),
    }
    probabilities = model(features)[0].numpy()
    tokens = [vocabulary.tokens[token_id] for token_id in row]
    return list(zip(tokens, probabilities, strict=True))[1:-1]


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    """Runs the example and returns the history of the metrics."""
    parser = argparse.ArgumentParser(description="Pre-trains a small ELECTRA.")
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--num_steps", type=int, default=5000)
    parser.add_argument("--vocab_size", type=int, default=4096)
    parser.add_argument("--num_documents", type=int, help="default: all")
    options = parser.parse_args(arguments)
    folder = options.output_dir
    folder.mkdir(parents=True, exist_ok=True)

    documents, held_out = read_documents(options.num_documents)
    vocabulary = vocabulary_training.train_vocabulary(
        itertools.chain.from_iterable(documents), options.vocab_size
    )
    vocabulary.save(folder)
    rows = build_rows(documents, vocabulary)
    print(f"{len(rows['input_ids']):,} rows of {LENGTH} tokens.")

    keras.utils.set_random_seed(1)
    settings = build_settings(options.num_steps)
    model = registry.build_model(settings, vocabulary)
    model.summary()
    history = train(
        model, rows, build_rows(held_out, vocabulary), options.num_steps, folder
    )

    # The best weights, as a file that Keras loads whole.
    best = keras.models.load_model(folder / "best.keras")
    text = "This method is called when the garden is created."
    for token, probability in score(best, vocabulary, text):
        print(f"{token:<12} {probability:.3f} {'#' * int(40 * probability)}")
    # For inference without this package: takes ids of rows of any length.
    best.export(folder / "export", verbose=False)
    return history


if __name__ == "__main__":
    main()
