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
    max_examples: int = 0
    finetune_steps: int = 0

    def measure_run(self, model_dir: pathlib.Path) -> dict[str, float]:
        """Measure to score, from 0 to 1, of a run's last checkpoint."""
        return self._measure(
            finetuning_model.load_encoder(model_dir),
            lambda: sentence_scores.load_scorer(model_dir),
        )

    def measure_untrained(
        self, settings: config.ExperimentConfig
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Measures the model of these settings with random weights.

        Returns:
            The scores; and task to the score of a baseline that reads nothing:
            it says the commonest label of the training data everywhere, and
            prefers the sentence of more frequent tokens.
        """
        folder = pathlib.Path(settings.data.dataset_dir)
        vocabulary = dataset.load_vocabulary(folder)
        settings = model_lib.resolve(settings, vocabulary.size)
        keras.utils.set_random_seed(self.seed)
        objective = model_lib.find_objective(settings)
        main = objective.build_main(settings.encoder, None)
        loaded = finetuning_model.LoadedEncoder(
            main.encoder, vocabulary, settings.encoder, "random weights"
        )
        scorer = sentence_scores.SentenceScorer(
            main, vocabulary, settings.objective.name
        )
        scores = self._measure(loaded, lambda: scorer)
        guessing: dict[str, float] = {}
        if studies.BLIMP in self.names:
            counts = manifest.load_token_counts(folder / "train")
            guess = sentence_scores.FrequencyScorer(vocabulary, counts).score
            found = blimp.judge(guess, blimp.read_pairs(self.folder))
            guessing[studies.BLIMP] = found.accuracy
        if names := self._for_encoders():
            guessing |= measure.measure_guessing(loaded, self.folder, names)
        return scores, guessing

    def _for_encoders(self) -> list[str]:
        return [name for name in self.names if name != studies.BLIMP]

    def _measure(
        self,
        loaded: finetuning_model.LoadedEncoder,
        scorer_fn: Callable[[], sentence_scores.SentenceScorer],
    ) -> dict[str, float]:
        scores: dict[str, float] = {}
        if studies.BLIMP in self.names:
            # The same pairs for all models, whatever their seeds.
            pairs = blimp.read_pairs(self.folder)
            found = blimp.judge(scorer_fn().score, pairs)
            print("\n".join(found.describe()), flush=True)
            scores[studies.BLIMP] = found.accuracy
        if names := self._for_encoders():
            scores |= measure.measure_loaded_encoder(
                loaded,
                self.folder,
                names,
                seed=self.seed,
                max_examples=self.max_examples,
                finetune_steps=self.finetune_steps,
            )
        return scores
