"""The README.md of a model for the hub: what it is, and how to use it.

The header is YAML that the hub reads: library, task, scores. Texts are those of
`readme.toml`, a section for each class of transformers.
"""

import dataclasses
import pathlib
from typing import Any

import huggingface_hub

import electra_tf
from electra_tf.config import schema
from electra_tf.export import export_metadata
from electra_tf.finetuning import portable_trial
from electra_tf.formats import hugging_face
from electra_tf.formats import portable

# Settings of a trial that say how it was trained.
_OPTIONS = {
    "training": ("num_train_epochs", "train_batch_size", "seed"),
    "optimizer": ("learning_rate", "layerwise_lr_decay"),
}


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
        settings = dataclasses.asdict(history.description.settings)
        # A length of 0 is the task's own.
        options = (
            f"{o} {settings[s][o]}"
            for s in _OPTIONS
            for o in _OPTIONS[s]
            if settings[s][o] or o != "num_train_epochs"
        )
        facts += f"\n\nFine-tuning: {', '.join(options)}."
        scores = history.result.scores[task.name] if history.result else {}
    has_pairs = task is not None and portable_trial.reads_pairs(task)
    low, high = task.value_range if task else (0, 1)
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
            example=texts["example"].format(**texts, low=low, high=high),
            version=electra_tf.__version__,
        )
        (path.parent / "README.md").write_text(page, "utf-8")
