"""A little vocabulary, its tokenizer, and outputs of a made-up model."""

import pytest

from electra_tf.config import finetuning as finetuning_config
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

VOCABULARY = vocabulary_lib.Vocabulary(
    (
        *vocabulary_lib.SPECIAL_TOKENS,
        *("the", "cat", "##s", "sat", "on", "a", "un", "##able", "dog", "ran"),
        *("mat", "who", "where", "(", ")", ".", "-", "18", "##95", "japan"),
        *("##ese", "red", "old"),
    )
)


@pytest.fixture(scope="session")
def tokenizer() -> tokenizer_lib.Tokenizer:
    return tokenizer_lib.Tokenizer(VOCABULARY)


def settings_of(**fields: object) -> finetuning_config.FinetuningConfig:
    """Settings whose section `task` has these fields."""
    return finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(**fields)
    )


def own_settings(**fields: object) -> finetuning_config.FinetuningConfig:
    """Settings of one's own task, whose section `own` has these fields."""
    return finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names="own"),
        own=finetuning_config.OwnTaskConfig(**fields),
    )
