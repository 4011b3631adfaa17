"""What a study measures on tasks: a trained model, or one of random weights."""

import pathlib
from collections.abc import Callable
from typing import NamedTuple

import keras

from electra_tf import config
from electra_tf.analysis import blimp
from electra_tf.analysis import sentence_scores
from electra_tf.analysis import studies
from electra_tf.finetuning import measure
from electra_tf.finetuning import model as finetuning_model
from electra_tf.inputs import dataset
from electra_tf.pretraining import model as model_lib
from electra_tf.records import manifest


class Tasks(NamedTuple):
    """Which tasks, and how; see `studies.Study`."""

    folder: pathlib.Path
    names: tuple[str, ...]
    seed: int
    finetune_steps: int
    max_examples: int

    @property
    def for_encoders(self) -> list[str]:
        """The tasks on which an encoder is probed and fine-tuned."""
        return [name for name in self.names if name != studies.BLIMP]


def measure_run(model_dir: pathlib.Path, tasks: Tasks) -> dict[str, float]:
    """Measures the last checkpoint of a pre-training run.

    Returns:
        Measure to score, each a share from 0 to 1.
    """
    return _measure(
        tasks,
        finetuning_model.load_encoder(model_dir),
        lambda: sentence_scores.load_scorer(model_dir),
    )


def measure_untrained(
    settings: config.ExperimentConfig, tasks: Tasks
) -> tuple[dict[str, float], dict[str, float]]:
    """Measures the model of these settings with random weights.

    Returns:
        The scores as of `measure_run`; and task to the score of a baseline
        that reads nothing: it says the commonest label of the training data
        everywhere, and prefers the sentence of more frequent tokens.
    """
    folder = pathlib.Path(settings.data.dataset_dir)
    vocabulary = dataset.load_vocabulary(folder)
    settings = model_lib.resolve(settings, vocabulary.size)
    keras.utils.set_random_seed(tasks.seed)
    tower = model_lib.find_objective(settings).build_main(
        settings.encoder, None
    )
    loaded = finetuning_model.LoadedEncoder(
        tower.encoder, vocabulary, settings.encoder, "random weights"
    )
    guessing: dict[str, float] = {}
    if studies.BLIMP in tasks.names:
        counts = manifest.load_token_counts(folder / "train")
        scorer = sentence_scores.FrequencyScorer(vocabulary, counts)
        found = blimp.judge(scorer.score, blimp.read_pairs(tasks.folder))
        guessing[studies.BLIMP] = found.accuracy
    if names := tasks.for_encoders:
        guessing |= measure.measure_guessing(loaded, tasks.folder, names)
    scores = _measure(
        tasks,
        loaded,
        lambda: sentence_scores.SentenceScorer(
            tower, vocabulary, settings.objective.name
        ),
    )
    return scores, guessing


def _measure(
    tasks: Tasks,
    loaded: finetuning_model.LoadedEncoder,
    scorer_fn: Callable[[], sentence_scores.SentenceScorer],
) -> dict[str, float]:
    scores: dict[str, float] = {}
    if studies.BLIMP in tasks.names:
        # The same pairs for all models, whatever their seeds.
        pairs = blimp.read_pairs(tasks.folder)
        found = blimp.judge(scorer_fn().score, pairs)
        print("\n".join(found.describe()), flush=True)
        scores[studies.BLIMP] = found.accuracy
    if names := tasks.for_encoders:
        scores |= measure.measure_loaded_encoder(
            loaded,
            tasks.folder,
            names,
            seed=tasks.seed,
            max_examples=tasks.max_examples,
            finetune_steps=tasks.finetune_steps,
        )
    return scores
