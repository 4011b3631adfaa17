"""The settings of one fine-tuning: typed, validated, frozen.

A file of `configs/finetune/` returns a `FinetuningConfig` as a `ConfigDict`;
`--config.section.field=value` overrides single fields. Defaults are the
original's (`configure_finetuning.py`); names that its users know are kept.
"""

import dataclasses

from electra_tf.config.sections import OPTIMIZERS
from electra_tf.config.sections import PRECISIONS
from electra_tf.config.sections import STRATEGIES
from electra_tf.config.sections import require
from electra_tf.config.sections import require_choice
from electra_tf.config.sections import require_range

OWN_KINDS = ("classification", "regression", "tagging", "qa")
FILE_FORMATS = ("auto", "csv", "tsv", "jsonl", "conll", "squad", "mrqa")


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """Which tasks, where their files are, how their rows are made."""

    # One or more of the catalog, between commas, which one model learns; `own`;
    # or `glue` (some of it: `glue:cola,rte`), a model for each task.
    names: str = ""
    data_dir: str = ""  # folder of official files, or `tfds`
    max_seq_length: int = 0  # tokens of a row; 0: the task's, see `Task`
    double_unordered: bool = True  # MRPC, STS-B: train on both orders of a pair
    # Classification and regression: a dense layer with gelu before the output,
    # as in Hugging Face's classifiers; the paper and the original have none.
    hidden_layer: bool = False

    def __post_init__(self) -> None:
        length = self.max_seq_length
        require(
            length == 0 or length >= 8,
            "`task.max_seq_length` must be 0, for the task's own, or at "
            f"least 8. Received: {length}.",
        )


@dataclasses.dataclass(frozen=True)
class OwnTaskConfig:
    """A user's own data, the task called `own`: files and their columns."""

    kind: str = "classification"  # one of OWN_KINDS
    train_file: str = ""
    dev_file: str = ""
    test_file: str = ""  # predicted; scored too if it has labels
    file_format: str = "auto"  # by the file's ending, or one of FILE_FORMATS
    id_column: str = ""  # empty: examples are numbered
    text_column: str = "text"  # sentence; tagging: the words
    text_pair_column: str = ""  # second sentence, empty for none
    label_column: str = "label"  # label, score; tagging: the tags
    labels: str = ""  # between commas; empty: those of the training file
    metric: str = ""  # chooses the best trial; empty: the kind's default
    min_value: float = 0.0  # regression: targets are scaled from this range
    max_value: float = 1.0
    question_column: str = "question"
    context_column: str = "context"
    answer_column: str = "answer"  # empty where the question has none
    answer_start_column: str = "answer_start"  # characters; empty: searched

    @property
    def files(self) -> dict[str, str]:
        """Split to its file, for those that are named."""
        named = {
            "train": self.train_file,
            "dev": self.dev_file,
            "test": self.test_file,
        }
        return {split: path for split, path in named.items() if path}

    def __post_init__(self) -> None:
        require_choice("own.kind", self.kind, OWN_KINDS)
        require_choice("own.file_format", self.file_format, FILE_FORMATS)
        require(
            self.min_value < self.max_value,
            "`own.min_value` must be less than `own.max_value`. Received: "
            f"{self.min_value} and {self.max_value}.",
        )


@dataclasses.dataclass(frozen=True)
class QuestionAnsweringConfig:
    """Windows, head and decoding of extractive question answering."""

    max_query_length: int = 64  # tokens of the question that are kept
    doc_stride: int = 128  # tokens from one window to the next
    joint_prediction: bool = True  # the end is predicted given the start
    beam_size: int = 20  # starts, and ends for each, that are looked at
    answerable_classifier: bool = True
    answerable_uses_start_logits: bool = True
    answerable_weight: float = 0.5  # of the classifier's loss
    n_best_size: int = 20  # answers of a question that are kept
    max_answer_length: int = 30  # tokens
    # SQuAD 2.0 test answers: above this null odds the answer is empty.
    qa_na_threshold: float = -2.75

    def __post_init__(self) -> None:
        for name in ("max_query_length", "doc_stride", "beam_size",
                     "n_best_size", "max_answer_length"):  # fmt: skip
            require_range(f"qa.{name}", getattr(self, name), 1)
        require_range("qa.answerable_weight", self.answerable_weight, 0)


@dataclasses.dataclass(frozen=True)
class FinetuningOptimizerConfig:
    """Optimizer, schedule and rates by depth (paper, Table 7)."""

    name: str = "adam"  # `adam`: without bias correction; or `lamb`
    learning_rate: float = 1e-4  # peak
    weight_decay_rate: float = 0.01
    layerwise_lr_decay: float = 0.8  # rate of a layer to that of the one above
    # The original leaves one step of the decay out, between the top layer and
    # the head; true leaves none.
    contiguous_lr_decay: bool = False
    warmup_proportion: float = 0.1  # 0-1, share of all steps
    lr_decay_power: float = 1.0
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    clip_norm: float = 1.0  # global norm of the reduced gradient; 0 never clips

    def __post_init__(self) -> None:
        require_choice("optimizer.name", self.name, OPTIMIZERS)
        for name in ("learning_rate", "weight_decay_rate", "clip_norm"):
            require_range(f"optimizer.{name}", getattr(self, name), 0)
        for name in ("lr_decay_power", "epsilon"):
            require_range(f"optimizer.{name}", getattr(self, name), 1e-12)
        for name in ("beta_1", "beta_2"):
            require_range(f"optimizer.{name}", getattr(self, name), 0, 0.99999)
        require_range(
            "optimizer.layerwise_lr_decay", self.layerwise_lr_decay, 1e-3, 1
        )
        require_range(
            "optimizer.warmup_proportion", self.warmup_proportion, 0, 1
        )


@dataclasses.dataclass(frozen=True)
class FinetuningTrainingConfig:
    """How long, on what, how precisely, and what is kept."""

    num_train_epochs: float = 0.0  # 0: the task's own, see `Task`
    train_batch_size: int = 32  # rows over all replicas and micro-batches, B
    eval_batch_size: int = 64
    num_micro_batches: int = 1  # parts whose gradients are accumulated
    group_by_length: bool = True  # batches of rows of like length
    strategy: str = "one_device"  # one_device, mirrored, multi_worker or tpu
    tpu: str = ""  # name or address for the `tpu` strategy; empty: local
    precision: str = "float32"  # of products; weights and losses stay float32
    jit_compile: str = "auto"  # XLA: `auto` (off on CPU), `on` or `off`
    deterministic: bool = True  # deterministic kernels: equal seeds, equal bits
    seed: int = 1  # of the first trial: head, order of rows, dropout
    steps_per_loop: int = 50  # steps per call of the compiled loop
    log_steps: int = 50
    eval_steps: int = 0  # dev scores while training; 0 at the end alone
    # Evaluations without a better dev score after which training ends; the
    # best weights are taken. 0 never.
    early_stopping_patience: int = 0
    save_checkpoints_steps: int = 500
    keep_checkpoints: int = 1

    def __post_init__(self) -> None:
        for name in ("train_batch_size", "eval_batch_size", "steps_per_loop",
                     "num_micro_batches", "log_steps", "keep_checkpoints",
                     "save_checkpoints_steps"):  # fmt: skip
            require_range(f"training.{name}", getattr(self, name), 1)
        for name in ("num_train_epochs", "eval_steps", "seed",
                     "early_stopping_patience"):  # fmt: skip
            require_range(f"training.{name}", getattr(self, name), 0)
        require_choice("training.strategy", self.strategy, STRATEGIES)
        require_choice("training.precision", self.precision, PRECISIONS)
        require_choice(
            "training.jit_compile", self.jit_compile, ("auto", "on", "off")
        )
        require(
            self.early_stopping_patience == 0 or self.eval_steps > 0,
            "`training.early_stopping_patience` counts evaluations while "
            "training. Received: eval_steps=0. Set "
            "--config.training.eval_steps.",
        )


@dataclasses.dataclass(frozen=True)
class FinetuningConfig:
    """All sections of a fine-tuning."""

    task: TaskConfig = TaskConfig()
    own: OwnTaskConfig = OwnTaskConfig()
    qa: QuestionAnsweringConfig = QuestionAnsweringConfig()
    optimizer: FinetuningOptimizerConfig = FinetuningOptimizerConfig()
    training: FinetuningTrainingConfig = FinetuningTrainingConfig()

    def __post_init__(self) -> None:
        batch = self.training.train_batch_size
        parts = self.training.num_micro_batches
        require(
            batch % parts == 0,
            "`training.train_batch_size` must be a multiple of "
            f"`training.num_micro_batches`. Received: {batch} and {parts}.",
        )
        is_own = "own" in self.task_names
        require(
            is_own or self.own == OwnTaskConfig(),
            "The section `own` describes the task called own. Received: "
            f"task.names={self.task.names!r}. Add --config.task.names=own, or "
            "leave the section alone.",
        )

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks, in the order given."""
        names = (name.strip() for name in self.task.names.split(","))
        return tuple(name for name in names if name)
