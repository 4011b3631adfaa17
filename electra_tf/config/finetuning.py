"""The settings of a fine-tuning as frozen dataclasses that check their values.

A file of `configs/finetune/` returns a `FinetuningConfig` as a `ConfigDict`;
`--config.section.field=value` overrides single fields. Defaults and many names
are those of the original's `configure_finetuning.py`.
"""

import contextlib
import dataclasses
import importlib.util
import json
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from electra_tf.config import schema
from electra_tf.config import sections
from electra_tf.config.schema import Count
from electra_tf.config.schema import Fraction
from electra_tf.config.schema import NonNegative
from electra_tf.config.schema import Positive
from electra_tf.config.schema import require
from electra_tf.config.schema import require_choice

TASK_KINDS: Mapping[str, str] = {
    "classification": "sentences.classification.ClassificationTask",
    "multilabel": "sentences.classification.MultilabelTask",
    "regression": "sentences.regression.RegressionTask",
    "multiple_choice": "sentences.comparisons.MultipleChoiceTask",
    "ranking": "sentences.comparisons.RankingTask",
    "tagging": "tagging.tagging_task.TaggingTask",
    "qa": "question_answering.answering_task.QuestionAnsweringTask",
}
"""Maps a kind of task to its class in `electra_tf.tasks`."""
PROJECTIONS = ("query", "key", "value",
               "attention_output", "intermediate", "output")  # fmt: skip
_ONE_COLUMN = "regression", "ranking", "multiple_choice"
_FILE_FORMATS = ("auto", "csv", "tsv", "jsonl", "conll", "squad", "mrqa")


def require_kind(name: str) -> None:
    """Raises `ConfigError` unless `name` is a kind of task or a module."""
    try:
        spec = name in TASK_KINDS or importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    require(
        bool(spec),
        "`own.kind` must be a kind of task, or a module of your own that can "
        f"be imported. Received: {name!r}. {schema.suggest(name, TASK_KINDS)}",
    )


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


@schema.frozen
class TaskConfig:
    """The tasks, their files and their rows."""

    # Tasks of the catalog between commas, which one model learns; or `own`; or
    # `glue` (or a part, `glue:cola,rte`), which trains a model for each task
    names: str = ""
    data_dir: str = ""  # folder of official files, or `tfds`
    max_seq_length: Count = 0  # tokens of a row; 0: `Task.max_seq_length`
    double_unordered: bool = True  # MRPC, STS-B: train on both orders of a pair
    # Adds a dense layer with gelu before the output, as in Hugging Face's
    # heads; not for tagging and questions. The paper and the original have none
    hidden_layer: bool = False

    def __post_init__(self) -> None:
        require(
            not 0 < self.max_seq_length < 8,
            "`task.max_seq_length` must be 0, for the task's own, or at "
            f"least 8. Received: {self.max_seq_length}.",
        )


@schema.frozen
class OwnTaskConfig:
    """The task `own`: a user's files and their columns."""

    # classification, multilabel, regression, multiple_choice, ranking, tagging
    # or qa; or a module that defines another kind
    kind: str = "classification"
    train_file: str = ""
    dev_file: str = ""  # its score ranks trials
    test_file: str = ""  # predicted, and scored if it has labels
    # `auto`: by the ending of the file's name
    file_format: Annotated[str, schema.one_of(*_FILE_FORMATS)] = "auto"
    # Empty: the numbers of the rows are ids. Ranking: rows with the same id are
    # a query; tagging: rows of one word with the same id are a sentence
    id_column: str = ""
    # The text; tagging: the words; multiple choice: the question; ranking: the
    # query
    text_column: str = "text"
    # The second text, empty if there is none; ranking: the text to rank
    text_pair_column: str = ""
    # The label or number; tagging: the tags; multiple choice: the right choice,
    # from 0 or from A; ranking: the relevance, 0 for irrelevant
    label_column: str = "label"
    # Multi-label: separates the labels of a row. A row may also have a list, or
    # a column for each label: `own.label_column=a,b,c`
    label_separator: Annotated[str, Field(min_length=1)] = "|"
    # Multi-label: least probability of a predicted label
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    # Multiple choice: columns between commas, or a column of JSON lists
    choices_column: str = "choices"
    # Multiple choice, ranking: texts of a group in training. A larger group
    # keeps its most relevant texts, and of equally relevant texts the first
    max_choices: Annotated[int, Field(ge=2)] = 16
    # Between commas, or a JSON list; empty: the labels of the training file
    labels: str = ""
    # Classification, multi-label: weights of labels in the loss. `balanced`, or
    # a=2,b=0.5 (other labels have 1); empty: all have 1
    class_weights: str = ""
    # The label of two that F1 is computed for; empty: a label with a name such
    # as 1, yes, true, positive, spam, fraud, toxic, or else the rarer label
    positive_label: str = ""
    # Ranks trials; empty: the first metric of the kind. Classification:
    # accuracy, mcc, f1 (of two labels), macro_f1; multilabel: micro_f1,
    # macro_f1, exact_match; regression: spearman, pearson, mse, mae; ranking:
    # mrr, ndcg_at_10; tagging: f1, accuracy; qa: best_f1, best_exact, f1, exact
    metric: str = ""
    # Regression: the range of the numbers; both 0: as in the training file.
    # Ranking: the range of the relevance; both 0: any number of at least 0
    min_value: float = 0.0
    max_value: float = 0.0
    question_column: str = "question"  # qa
    context_column: str = "context"  # qa: the text with the answer
    answer_column: str = "answer"  # qa: an empty cell means unanswerable
    # qa: the answer's first character; empty: the context is searched for it
    answer_start_column: str = "answer_start"

    @property
    def files(self) -> dict[str, str]:
        """Maps each split that has a file to it."""
        splits = "train", "dev", "test"
        files = {split: getattr(self, f"{split}_file") for split in splits}
        return {split: file for split, file in files.items() if file}

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names in `labels`."""
        names = _split_names(self.labels)
        if self.labels.startswith("["):
            with contextlib.suppress(ValueError):
                names = tuple(map(str, json.loads(self.labels)))
        return names

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns in `label_column`: one, or one for each label."""
        return _split_names(self.label_column)

    @property
    def has_range(self) -> bool:
        """Whether `min_value` and `max_value` are set."""
        return self.min_value < self.max_value

    def __post_init__(self) -> None:
        require_kind(self.kind)
        names = self.class_weights or self.positive_label
        has_classes = self.kind in ("classification", "multilabel")
        require(
            not names or has_classes or self.kind not in TASK_KINDS,
            "`own.class_weights` and `own.positive_label` are for "
            f"classification. Received: {names!r} with the kind {self.kind}.",
        )
        require(
            len(self.label_columns) < 2 or self.kind not in _ONE_COLUMN,
            "`own.label_column` must be one column of this kind. Received: "
            f"{self.label_column!r} with the kind {self.kind}. Train a model "
            "for each, or name one.",
        )
        require(
            self.has_range or self.min_value == self.max_value == 0,
            "`own.min_value` must be less than `own.max_value`, or both 0, for "
            f"the range of the training file. Received: {self.min_value} and "
            f"{self.max_value}.",
        )


@schema.frozen
class QuestionAnsweringConfig:
    """Windows, head and decoding of extractive question answering."""

    max_query_length: Positive = 64  # tokens of the question that are kept
    doc_stride: Positive = 128  # tokens between the starts of two windows
    joint_prediction: bool = True  # whether the end is predicted from the start
    beam_size: Positive = 20  # starts, and ends of each start, in the beam
    answerable_classifier: bool = True
    answerable_uses_start_logits: bool = True
    answerable_weight: NonNegative = 0.5  # weight of the classifier's loss
    n_best_size: Positive = 20  # answers in the n-best list of a question
    max_answer_length: Positive = 30  # tokens
    # SQuAD 2.0: a submitted answer is empty if its null odds are higher
    qa_na_threshold: float = -2.75


@schema.frozen
class FinetuningOptimizerConfig(sections.SharedOptimizerConfig):
    """Optimizer, schedule and layer-wise learning rates (paper, Table 7)."""

    learning_rate: NonNegative = 1e-4  # peak
    # Learning rate of a layer relative to that of the layer above
    layerwise_lr_decay: Annotated[float, Field(ge=1e-3, le=1)] = 0.8
    # Whether the rate also decays once between the head and the top layer; the
    # original skips this factor
    contiguous_lr_decay: bool = False
    warmup_proportion: Fraction = 0.1  # share of all steps


@schema.frozen
class LoRAConfig:
    """Low-rank adapters: training changes only the adapters and the heads."""

    rank: Count = 0  # rank of each adapter; 0: no adapters, train the encoder
    alpha: NonNegative = 16.0  # alpha / rank scales an adapter's output
    # Between commas: query, key, value, attention_output, intermediate, output
    projections: str = "query,value"

    @property
    def names(self) -> tuple[str, ...]:
        """The linear layers of a block that have an adapter."""
        return _split_names(self.projections)

    def __post_init__(self) -> None:
        for name in self.names or [""]:
            require_choice("lora.projections", name, PROJECTIONS)


@schema.frozen
class FinetuningTrainingConfig(sections.SharedTrainingConfig):
    """Length of the training, batches, evaluations and checkpoints."""

    num_train_epochs: NonNegative = 0.0  # 0: `Task.num_train_epochs`
    # Rows of a batch over all replicas and micro-batches; for multiple choice
    # and ranking, groups of rows
    train_batch_size: Positive = 32
    eval_batch_size: Positive = 64
    group_by_length: bool = True  # whether rows of a batch have similar lengths
    # Number of lowest layers that are frozen, with the embeddings; -1: all
    frozen_layers: Annotated[int, Field(ge=-1)] = 0
    log_steps: Positive = 50
    # Steps between evaluations on dev; 0: an epoch, or several if dev is large
    eval_steps: Count = 0
    # Ends training after this number of evaluations without a better dev score,
    # and restores the best weights; 0: never
    early_stopping_patience: Count = 0
    save_checkpoints_steps: Positive = 500
    keep_checkpoints: Positive = 1  # newest checkpoints to keep beside the best


@schema.frozen
class FinetuningConfig:
    """All sections of a fine-tuning."""

    task: TaskConfig = TaskConfig()
    own: OwnTaskConfig = OwnTaskConfig()
    qa: QuestionAnsweringConfig = QuestionAnsweringConfig()
    optimizer: FinetuningOptimizerConfig = FinetuningOptimizerConfig()
    lora: LoRAConfig = LoRAConfig()
    training: FinetuningTrainingConfig = FinetuningTrainingConfig()

    def __post_init__(self) -> None:
        training = self.training
        batch, parts = training.train_batch_size, training.num_micro_batches
        require(
            batch % parts == 0,
            "`training.train_batch_size` must be a multiple of "
            f"`training.num_micro_batches`. Received: {batch} and {parts}.",
        )
        require(
            "own" in self.task_names or self.own == OwnTaskConfig(),
            "The section `own` describes the task `own`. Received: "
            f"task.names={self.task.names!r}. Add --config.task.names=own.",
        )

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names in `task.names`."""
        return _split_names(self.task.names)


def build_grid(
    settings: FinetuningConfig, search: Mapping[str, tuple[float, ...]]
) -> dict[str, FinetuningConfig]:
    """Builds the settings of a grid search, by names.

    `search` maps fields of `optimizer`, `lora` or `training` to values. A name
    is, for example, "learning_rate=0.0001,rank=8".
    """
    sections = {
        field.name: section
        for section in ("optimizer", "lora", "training")
        for field in dataclasses.fields(getattr(settings, section))
    }
    require(
        "own" not in settings.task_names or settings.own.dev_file != "",
        "A search ranks by dev scores. Received: no own.dev_file. Set it.",
    )
    grid = {"": settings}
    for field, numbers in search.items():
        hint = schema.suggest(field, sections)
        require(field in sections, f"No field {field!r} to search. {hint}")
        grid = {
            f"{name},{field}={number}".strip(","): schema.replace_fields(
                old, **{sections[field]: {field: number}}
            )
            for name, old in grid.items()
            for number in numbers
        }
    return grid
