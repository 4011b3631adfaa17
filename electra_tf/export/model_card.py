"""The README.md of a model for the hub: what it is, and how to use it.

The header is YAML that the hub reads: library, task, scores. Texts are those of
`readme.toml`, a section for each class of transformers.
"""

import pathlib
from typing import Any

import huggingface_hub

from electra_tf import version as version_lib
from electra_tf.config import schema
from electra_tf.export import export_metadata
from electra_tf.finetuning import portable_trial
from electra_tf.formats import hugging_face
from electra_tf.formats import portable
from electra_tf.tasks import kinds


def write(
    model: portable.PortableModel, folder: pathlib.Path, name: str
) -> None:
    """Writes one beside every model in a folder, under a name for the hub."""
    table = export_metadata.read_table("readme.toml")["card"]
    task, sizes, history = model.task, model.encoder, model.history
    facts = (
        f"{sizes.num_hidden_layers} layers, {sizes.hidden_size} wide, "
        f"{sizes.vocab_size:,} tokens, {sizes.max_position_embeddings} "
        f"positions; {model.step:,} updates."
    )
    scores: dict[str, Any] = {}
    if task is not None:
        facts += f"\n\nTask `{task.name}`. {', '.join(task.labels)}"
    if task is not None and history is not None:
        settings = history.description.settings
        training, optimizer = settings.training, settings.optimizer
        facts += (
            f"\n\nFine-tuning: train_batch_size {training.train_batch_size}, "
            f"seed {training.seed}, learning_rate {optimizer.learning_rate}, "
            f"layerwise_lr_decay {optimizer.layerwise_lr_decay}."
        )
        result = history.result
        scores = result.scores.get(task.name, {}) if result else {}
    has_pairs = task is not None and portable_trial.reads_pairs(task)
    note = kinds.find_kind(task.kind).card_note(task.options) if task else ""
    for path in sorted(folder.rglob(hugging_face.CONFIG_FILE)):
        (architecture,) = schema.read_object(path)["architectures"]
        texts = {
            "example": table["pipeline_example"],
            "inputs": table["pair" if has_pairs else "text"],
        } | table[architecture]
        results = [
            huggingface_hub.EvalResult(
                task_type=texts["pipeline"],
                dataset_type=task.name if task else "",
                dataset_name=task.name if task else "",
                dataset_split=split,
                metric_type=metric,
                metric_value=round(value, 4),
            )
            for split, score in scores.items()
            for metric, value in score.metrics.items()
        ]
        header = huggingface_hub.ModelCardData(
            library_name="transformers",
            pipeline_tag=texts["pipeline"],
            tags=["electra"],
            model_name=name,
            eval_results=results or None,
        )
        page = table["page"].format(
            header=header.to_yaml(),
            name=name,
            summary=texts["summary"],
            facts=facts,
            example=texts["example"].format(**texts, note=note),
            version=version_lib.VERSION,
        )
        (path.parent / "README.md").write_text(page, "utf-8")
