"""A tiny trial of five tasks with random weights, as training leaves it."""

import pathlib
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from electra_tf import config
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import model as finetuning_model
from electra_tf.finetuning import task_data
from electra_tf.finetuning import trial as trial_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints

LENGTH = 24
TASKS = "sst2,mrpc,stsb,chunking,squad2"
LABELS = {"chunking": ("B-NP", "E-NP", "I-NP", "O", "S-NP", "S-VP")}
CONVENTIONS = {"chunking": {"scheme": "BIOES", "splits_punctuation": False}}
_WORDS = (
    "the cat sat on mat dog table returns number of items in a cafe where who "
    "what un ##aff ##able ##s ##ed smith ##son ' . , ! ? ( ) … 東 京 ##京 ά s "
    "1 ##2 ##5"
)
VOCABULARY = vocabulary_lib.Vocabulary(
    (*vocabulary_lib.SPECIAL_TOKENS, *_WORDS.split())
)
ENCODER = config.EncoderConfig(
    vocab_size=VOCABULARY.size, embedding_size=12, hidden_size=16,
    num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=32,
    initializer_range=0.5,  # large, so that answers differ
)  # fmt: skip


class TinyTrial(NamedTuple):
    """A trial's folder, and its model in this process."""

    folder: pathlib.Path
    settings: finetuning_config.FinetuningConfig
    prepared: task_data.PreparedTasks
    model: Any

    def decode(self, name, examples):
        """The trainer's predictions for examples."""
        task = self.prepared.tasks[name]
        rows = task.build_rows(
            examples,
            tokenizer_lib.Tokenizer(VOCABULARY),
            self.prepared.lengths[name],
            is_training=False,
        )
        strategy = tf.distribute.get_strategy()
        predictor = finetuning_model.Predictor(strategy, self.model, 4)
        return task.decode(examples, rows, predictor.predict(name, rows))


def build_settings(**qa):
    """Settings of five tasks, whose files are nowhere."""
    options = {"max_query_length": 6, "doc_stride": 5, "beam_size": 5,
               "n_best_size": 5, "max_answer_length": 4}  # fmt: skip
    return finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(
            names=TASKS, data_dir="nowhere", max_seq_length=LENGTH
        ),
        qa=finetuning_config.QuestionAnsweringConfig(**(options | qa)),
    )


def build_own_settings(max_seq_length=LENGTH, **own):
    """Settings of a task of one's own, whose files are nowhere."""
    return finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(
            names="own", max_seq_length=max_seq_length
        ),
        own=finetuning_config.OwnTaskConfig(**own),
    )


def write_trial(folder, settings, labels=None, seed=3, conventions=None):
    keras.utils.set_random_seed(seed)
    if labels is None:
        labels, conventions = LABELS, CONVENTIONS
    length = ENCODER.max_position_embeddings
    prepared = task_data.PreparedTasks(
        settings, VOCABULARY, length, labels, conventions
    )
    loaded = finetuning_model.random_encoder(ENCODER, VOCABULARY, seed=seed)
    model = trial_lib.build_model(settings, loaded, prepared)
    for head in model.heads.values():
        for variable in head.variables:
            # Large too, and biases are not zero.
            noise = tf.random.stateless_normal(variable.shape, [seed, 1])
            variable.assign(variable.value + 0.3 * noise)
    source = "tiny, checkpoint latest"
    description = trial_lib.TrialDescription(
        settings, ENCODER, prepared.labels, source, conventions
    )
    trial_lib.claim(folder, description, VOCABULARY)
    weights = {f"model/{v.path}": v for v in model.trainable_variables}
    checkpoints.save(folder, 7, weights, {}, keep=1)
    return TinyTrial(folder, settings, prepared, model)


def write_scores(folder, value):
    """Finishes a trial: all of its tasks have this score."""
    names = trial_lib.read_description(folder).settings.task_names
    metrics = ("accuracy", "best_f1", "f1", "spearman")
    score = trial_lib.Score(dict.fromkeys(metrics, value), False)
    scores = {name: {"dev": score} for name in names}
    main = dict.fromkeys(names, "f1")
    trial_lib.write_result(
        folder, trial_lib.TrialResult(1, scores, main, 7, "", 1.0, "cpu", {})
    )
