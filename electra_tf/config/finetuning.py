"""The settings of one fine-tuning: typed, validated, frozen.

A file of `configs/finetune/` returns a `FinetuningConfig` as a `ConfigDict`;
`--config.section.field=value` overrides single fields. Defaults are the
original's (`configure_finetuning.py`); names that its users know are kept.
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
"""Kind of task to its class in `electra_tf.tasks`."""
PROJECTIONS = ("query", "key", "value",
               "attention_output", "intermediate", "output")  # fmt: skip
_FILE_FORMATS = ("auto", "csv", "tsv", "jsonl", "conll", "squad", "mrqa")


def require_kind(name: str) -> None:
    """Raises `ConfigError` unless there is a kind of task, or a module."""
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
    """Which tasks, where their files are, how their rows are made."""

    # One or more of the catalog, between commas, which one model learns; `own`;
    # or `glue` (some of it: `glue:cola,rte`), a model for each task.
    names: str = ""
    data_dir: str = ""  # folder of official files, or `tfds`
    max_seq_length: Count = 0  # tokens of a row; 0: the task's, see `Task`
    double_unordered: bool = True  # MRPC, STS-B: train on both orders of a pair
    # All kinds but tagging and questions: a dense layer with gelu before the
    # output, as in Hugging Face's heads; the paper and the original have none.
    hidden_layer: bool = False

    def __post_init__(self) -> None:
        require(
            not 0 < self.max_seq_length < 8,
            "`task.max_seq_length` must be 0, for the task's own, or at "
            f"least 8. Received: {self.max_seq_length}.",
        )


@schema.frozen
class OwnTaskConfig:
    """A user's own data, the task called `own`: files and their columns."""

    # classification, multilabel, regression, multiple_choice, ranking, tagging
    # or qa; or a module that defines another kind.
    kind: str = "classification"
    train_file: str = ""  # learned from
    dev_file: str = ""  # scored; chooses the best trial
    test_file: str = ""  # predicted; scored too if it has labels
    # `auto` goes by the file's ending.
    file_format: Annotated[str, schema.one_of(*_FILE_FORMATS)] = "auto"
    # Empty: examples are numbered. Ranking: rows with one value are one query;
    # tagging: rows of a word each with one value are one sentence.
    id_column: str = ""
    # Sentence; tagging: the words; multiple choice, ranking: what is asked.
    text_column: str = "text"
    # Second sentence, empty for none; ranking: the text that is ranked.
    text_pair_column: str = ""
    # Label, score; tagging: the tags; multiple choice: the right one, from 0
    # or from A; ranking: relevance, 0 for none.
    label_column: str = "label"
    # Multi-label: between the labels of a row (which may also be a list, or
    # have a column for each label: `own.label_column=a,b,c`).
    label_separator: Annotated[str, Field(min_length=1)] = "|"
    # Multi-label: the probability from which a label is predicted.
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    # Multiple choice: columns between commas, or one of JSON lists.
    choices_column: str = "choices"
    # Multiple choice, ranking: texts of a group that are learned from together;
    # of larger groups the relevant ones and then the first ones.
    max_choices: Annotated[int, Field(ge=2)] = 16
    # Between commas, or a list as JSON; empty: those of the training file.
    labels: str = ""
    # Labels' weights in the loss of classification and multilabel: `balanced`,
    # or a=2,b=0.5 where others have 1; empty: all have 1.
    class_weights: str = ""
    # Which of two labels F1 is of; empty: by its name (1, yes, true, positive,
    # spam, fraud, toxic), or else the rarer one.
    positive_label: str = ""
    # Chooses the best trial; empty: the first of its kind. Classification:
    # accuracy, mcc, f1 (of two labels), macro_f1; multilabel: micro_f1,
    # macro_f1, exact_match; regression: spearman, pearson, mse, mae; ranking:
    # mrr, ndcg_at_10; tagging: f1, accuracy; qa: best_f1, best_exact, f1,
    # exact.
    metric: str = ""
    # Regression: targets are scaled from this range; 0 and 0: from that of the
    # training file. Ranking: of relevance; 0 and 0: any of at least 0.
    min_value: float = 0.0
    max_value: float = 0.0  # with `own.min_value`
    question_column: str = "question"  # qa
    context_column: str = "context"  # qa: the text with the answer
    answer_column: str = "answer"  # qa: empty where there is none
    answer_start_column: str = "answer_start"  # characters; empty: searched

    @property
    def files(self) -> dict[str, str]:
        """Split to its file, for those that are named."""
        splits = "train", "dev", "test"
        files = {split: getattr(self, f"{split}_file") for split in splits}
        return {split: file for split, file in files.items() if file}

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels that are listed, if any."""
        names = _split_names(self.labels)
        if self.labels.startswith("["):
            with contextlib.suppress(ValueError):
                names = tuple(map(str, json.loads(self.labels)))
        return names

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The column of the labels, or those of each label."""
        return _split_names(self.label_column)

    @property
    def has_range(self) -> bool:
        """Whether a range of numbers is set."""
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
            self.has_range or self.min_value == self.max_value == 0,
            "`own.min_value` must be less than `own.max_value`, or both 0, for "
            f"the range of the training file. Received: {self.min_value} and "
            f"{self.max_value}.",
        )


@schema.frozen
class QuestionAnsweringConfig:
    """Windows, head and decoding of extractive question answering."""

    max_query_length: Positive = 64  # tokens of the question that are kept
    doc_stride: Positive = 128  # tokens from one window to the next
    joint_prediction: bool = True  # the end is predicted given the start
    beam_size: Positive = 20  # starts, and ends for each, that are looked at
    answerable_classifier: bool = True
    answerable_uses_start_logits: bool = True
    answerable_weight: NonNegative = 0.5  # of the classifier's loss
    n_best_size: Positive = 20  # answers of a question that are kept
    max_answer_length: Positive = 30  # tokens
    # SQuAD 2.0 test answers: above this null odds the answer is empty.
    qa_na_threshold: float = -2.75


@schema.frozen
class FinetuningOptimizerConfig(sections.SharedOptimizerConfig):
    """Optimizer, schedule and rates by depth (paper, Table 7)."""

    learning_rate: NonNegative = 1e-4  # peak
    # The rate of a layer relative to that of the layer above.
    layerwise_lr_decay: Annotated[float, Field(ge=1e-3, le=1)] = 0.8
    # The original leaves one step of the decay out, between the top layer and
    # the head; true leaves none.
    contiguous_lr_decay: bool = False
    warmup_proportion: Fraction = 0.1  # share of all steps


@schema.frozen
class LoRAConfig:
    """Low-rank adapters: they and the heads are trained, the encoder is not."""

    rank: Count = 0  # of each adapter; 0: none, the encoder is trained
    alpha: NonNegative = 16.0  # alpha / rank scales what an adapter adds
    # Between commas: query, key, value, attention_output, intermediate, output.
    projections: str = "query,value"

    @property
    def names(self) -> tuple[str, ...]:
        """Which linear layers of a block have an adapter."""
        return _split_names(self.projections)

    def __post_init__(self) -> None:
        for name in self.names or [""]:
            require_choice("lora.projections", name, PROJECTIONS)


@schema.frozen
class FinetuningTrainingConfig(sections.SharedTrainingConfig):
    """How long, on what, how precisely, and what is kept."""

    num_train_epochs: NonNegative = 0.0  # 0: the task's own, see `Task`
    # Rows of all replicas and micro-batches, B. For multiple choice and ranking
    # it counts groups of rows.
    train_batch_size: Positive = 32
    eval_batch_size: Positive = 64
    group_by_length: bool = True  # batches of rows of like length
    # The lowest layers, with the embeddings, that stay as they are; -1: all.
    frozen_layers: Annotated[int, Field(ge=-1)] = 0
    log_steps: Positive = 50
    # Steps between scores on dev; 0: an epoch, or several if dev is large.
    eval_steps: Count = 0
    # Evaluations without a better dev score after which training ends; the
    # best weights are taken. 0 never.
    early_stopping_patience: Count = 0
    save_checkpoints_steps: Positive = 500
    keep_checkpoints: Positive = 1  # newest ones kept, beside the best


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
            "The section `own` describes the task called own. Received: "
            f"task.names={self.task.names!r}. Add --config.task.names=own, or "
            "leave the section alone.",
        )

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks, in the order given."""
        return _split_names(self.task.names)


def build_grid(
    settings: FinetuningConfig, search: Mapping[str, tuple[float, ...]]
) -> dict[str, FinetuningConfig]:
    """Returns the settings of every combination, by a name that says it.

    `search` has the numbers to try by field, named without its section.
    """
    sections = {
        field.name: section
        for section in ("optimizer", "lora", "training")
        for field in dataclasses.fields(getattr(settings, section))
    }
    require(
        "own" not in settings.task_names or settings.own.dev_file != "",
        "A search ranks by dev scores. Received: no own.dev_file. Name it.",
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
