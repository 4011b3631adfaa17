"""Phases of a run that differ in their rows: short ones first, for example."""

import re
from typing import NamedTuple

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.config import sections


class RowPhase(NamedTuple):
    """The steps of a run that read rows of one length."""

    start: int  # steps before it
    end: int
    settings: sections.ExperimentConfig  # with its rows and their dataset

    @property
    def num_tokens(self) -> int:
        """Tokens of all its rows, padding included."""
        length = self.settings.data.max_seq_length
        batch = self.settings.training.train_batch_size
        return (self.end - self.start) * batch * length


def split_phases(settings: sections.ExperimentConfig) -> list[RowPhase]:
    """The phases of `data.phases` and the last one, which has what is left.

    Raises `ConfigError` if they do not fit the run.
    """
    data, training = settings.data, settings.training
    phases, start = list[RowPhase](), 0
    for text in filter(None, data.phases.split(",")):
        match = re.fullmatch(r"(\d+)x(\d+):(\d+)", text)
        if not match:
            raise errors.ConfigError(
                "`data.phases` must be LENGTHxROWS:STEPS of each phase, with "
                f"commas between, as 128x256:9000. Received: {data.phases!r}."
            )
        length, batch, count = map(int, match.groups())
        end = start + count
        schema.require(
            start < end < training.num_train_steps,
            "Each of `data.phases` must have steps and leave some of the run's "
            f"to the last. Received: {data.phases}, and num_train_steps="
            f"{training.num_train_steps}.",
        )
        try:
            phase = _with_rows(settings, length, batch)
        except errors.ConfigError as error:
            message = f"`data.phases`, {text}: {error}"
            raise errors.ConfigError(message) from error
        phases.append(RowPhase(start, end, phase))
        start = end
    last = _with_rows(settings, data.max_seq_length, training.train_batch_size)
    return [*phases, RowPhase(start, training.num_train_steps, last)]


def _with_rows(
    settings: sections.ExperimentConfig, length: int, batch: int
) -> sections.ExperimentConfig:
    folder = settings.data.dataset_dir
    folder = folder.replace("{length}", f"{length}")
    return schema.replace_fields(
        settings,
        data={"phases": "", "dataset_dir": folder, "max_seq_length": length},
        training={"train_batch_size": batch},
    )
