"""What a study measures on tasks: one model, or random weights beside it."""

import pathlib
from collections.abc import Callable

import keras

from electra_tf import config
from electra_tf.analysis import blimp
from electra_tf.analysis import sentence_scores
from electra_tf.analysis import studies
from electra_tf.analysis import study_run
from electra_tf.finetuning import encoders
from electra_tf.finetuning import measure
from electra_tf.inputs import dataset
from electra_tf.pretraining import model as model_lib

Scores = dict[str, float]


def measure_run(
    request: study_run.RunRequest, model_dir: pathlib.Path
) -> Scores:
    """The scores of a run's last checkpoint; none if there are no tasks.

    Args:
        request: says which tasks, and how.
        model_dir: folder of the pre-training run; it is only read.
    """
    if not request.tasks:
        return {}
    return _measure(
        request,
        encoders.load_encoder(model_dir),
        lambda: sentence_scores.load_scorer(model_dir),
    )


def measure_untrained(request: study_run.RunRequest) -> tuple[Scores, Scores]:
    """The scores of the same model with random weights, and of guessing.

    Args:
        request: says which model, tasks and seed.

    Returns:
        The scores as of `measure_run`, and task to what it gives to who reads
        nothing: says the commonest label, or prefers the more frequent tokens.
    """
    settings = config.from_json(request.settings)
    folder = pathlib.Path(settings.data.dataset_dir)
    vocabulary = dataset.load_vocabulary(folder)
    settings = model_lib.resolve(settings, vocabulary.size)
    keras.utils.set_random_seed(request.seed)
    tower = model_lib.find_objective(settings).build_main(
        settings.encoder, None
    )
    loaded = encoders.LoadedEncoder(
        tower.encoder, vocabulary, settings.encoder, "random weights"
    )

    def build_scorer() -> sentence_scores.SentenceScorer:
        return sentence_scores.SentenceScorer(
            tower, vocabulary, settings.objective.name
        )

    tasks_dir = pathlib.Path(request.tasks_dir)
    guessing: Scores = {}
    if studies.BLIMP in request.tasks:
        counts = dataset.load_token_counts(folder, vocabulary)
        reader = sentence_scores.FrequencyScorer(vocabulary, counts)
        found = blimp.judge(reader.score, blimp.read_pairs(tasks_dir))
        guessing[studies.BLIMP] = found.accuracy
    if names := _encoder_tasks(request):
        guessing |= measure.measure_guessing(loaded, tasks_dir, names)
    return _measure(request, loaded, build_scorer), guessing


def _measure(
    request: study_run.RunRequest,
    loaded: encoders.LoadedEncoder,
    scorer_fn: Callable[[], sentence_scores.SentenceScorer],
) -> Scores:
    tasks_dir = pathlib.Path(request.tasks_dir)
    scores: Scores = {}
    if studies.BLIMP in request.tasks:
        # The same pairs for all models, whatever their seeds.
        pairs = blimp.read_pairs(tasks_dir)
        found = blimp.judge(scorer_fn().score, pairs)
        print("\n".join(found.describe()), flush=True)
        scores[studies.BLIMP] = found.accuracy
    if names := _encoder_tasks(request):
        scores |= measure.measure_loaded_encoder(
            loaded,
            tasks_dir,
            names,
            seed=request.seed,
            max_examples=request.max_examples,
            finetune_steps=request.finetune_steps,
        )
    return scores


def _encoder_tasks(request: study_run.RunRequest) -> list[str]:
    return [name for name in request.tasks if name != studies.BLIMP]
