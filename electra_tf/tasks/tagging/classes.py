"""From the tags of files to the classes that a model learns, and back.

Tags that mark spans are learned in the encoding `BIOES`, whatever the file's
is; others as they are.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

from electra_tf.tasks.tagging import spans

TRAINING_ENCODING = "BIOES"


def encode_tags(tags: Sequence[str], has_spans: bool) -> Sequence[str]:
    """The tags of a sentence as they are learned.

    Args:
        tags: as in the file.
        has_spans: whether they mark spans.
    """
    return spans.reencode(tags, TRAINING_ENCODING) if has_spans else tags


def list_classes(
    tags: Iterable[Sequence[str]], has_spans: bool
) -> tuple[str, ...]:
    """What occurs, as it is learned; sorted, as in the original.

    Args:
        tags: those of every sentence, as in the file.
        has_spans: whether they mark spans.
    """
    return tuple(
        sorted({tag for row in tags for tag in encode_tags(row, has_spans)})
    )


def classes_of_labels(
    labels: Sequence[str], has_spans: bool
) -> tuple[str, ...]:
    """What may occur if a user lists the tags.

    Args:
        labels: tags as in the file.
        has_spans: whether they mark spans; then each kind in them has all its
            places, and `O` is added.
    """
    if not has_spans:
        return tuple(labels)
    kinds = {spans.kind_of(tag) for tag in labels} - {""}
    tags = {f"{place}-{kind}" for kind in kinds for place in "BIES"}
    return tuple(sorted(tags | {spans.OUTSIDE}))


def mark_spans(tags: Collection[str]) -> bool:
    """Whether tags look like those of spans: `O` and others like `B-NP`."""
    return set(tags) - {spans.OUTSIDE} != set() and all(
        map(spans.is_span_tag, tags)
    )


def find_encoding(tags: Iterable[str]) -> str:
    """`BIOES` for tags of spans of which some begin with `E` or `S`, or `BIO`.

    Args:
        tags: all that occur.
    """
    return "BIOES" if any(tag[0] in "ES" for tag in tags) else "BIO"
