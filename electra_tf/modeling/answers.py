"""The kinds of answer that a pre-trained main network gives."""

import enum


class Answer(enum.Enum):
    """The meaning of the main network's output for a token of a text."""

    REPLACED = "replaced"
    """A logit: was the token replaced?"""

    COPYING = "copying"
    """A logit, should it be kept, and logits of the vocabulary otherwise."""

    ENERGY = "energy"
    """An energy: minus a log probability given all others, up to a constant."""

    MASKED_LM = "masked_lm"
    """Logits of the vocabulary at masked positions."""

    CORRECTION = "correction"
    """Logits of the vocabulary, of a network that never sees [MASK]."""

    @property
    def is_prediction(self) -> bool:
        """Whether it is logits of the vocabulary alone."""
        return self in (Answer.MASKED_LM, Answer.CORRECTION)
