"""The published question answering data: where it is and how large.

Folders are those of the original (`squad/train.json`, `newsqa/dev.jsonl`) or
of the publishers (`train-v2.0.json`; `train/NewsQA.jsonl.gz`).
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence

from electra_tf import errors
from electra_tf.tasks import files
from electra_tf.tasks import tfds_source
from electra_tf.tasks.question_answering import records

SQUAD1 = "squad1"
SQUAD2 = "squad2"
MRQA = "mrqa"
SPLITS = ("train", "dev")

Place = tuple[Sequence[str], Sequence[str]]
"""Names of a folder, none for any folder, and names of a file in it."""

_TFDS_SPLITS = {"train": "train", "dev": "validation"}


@dataclasses.dataclass(frozen=True)
class Source:
    """The files of one data set.

    Attributes:
        name: of its task.
        form: `SQUAD1`, `SQUAD2` or `MRQA`: of the file, and of the scores.
        places: split to where its file may be; the first that is there counts.
        num_questions: split to the number of the published file.
        tfds_name: in TensorFlow Datasets, or empty.
    """

    name: str
    form: str
    places: Mapping[str, Sequence[Place]]
    num_questions: Mapping[str, int]
    tfds_name: str = ""

    def read(self, data_dir: str, split: str) -> list[records.Example]:
        """The questions of a split, in the order of the file.

        Training questions without their answer in the context are left out,
        with a warning.

        Args:
            data_dir: a folder, or `tfds`.
            split: one of `SPLITS`.

        Raises:
            FileNotFoundError: if the file is not there.
            DataError: for a record that is not as expected.
        """
        if data_dir == tfds_source.DATA_DIR:
            source = self._require_tfds()
            read = tfds_source.read(self.tfds_name, _TFDS_SPLITS[split])
            examples = records.from_tfds(read, source)
        else:
            path = self.find(data_dir, split)
            source = str(path)
            examples = self.read_file(path, split)
        files.require_count(
            pathlib.Path(source), len(examples), self.num_questions[split]
        )
        if split == "train":
            return records.keep_answered(examples, source)
        return examples

    def read_file(
        self, path: pathlib.Path, split: str
    ) -> list[records.Example]:
        """All questions of a file of this form."""
        if self.form == MRQA:
            return records.read_mrqa(path)
        return records.read_squad(
            path, needs_is_impossible=self.form == SQUAD2 and split == "train"
        )

    def find(self, data_dir: str, split: str) -> pathlib.Path:
        """The file of a split.

        Raises:
            FileNotFoundError: if there is none; names the publisher's file.
            DataError: if it is unclear which one is meant.
        """
        if not data_dir:
            raise FileNotFoundError(
                f"Expected a folder with the files of {self.name}. Received: "
                "none. Name it: --config.task.data_dir."
            )
        absences = []
        for folders, names in self.places[split]:
            try:
                return files.find_file(
                    pathlib.Path(data_dir), folders, names, self.name
                )
            except FileNotFoundError as error:
                absences.append(error)
        raise absences[0]

    def _require_tfds(self) -> str:
        if not self.tfds_name:
            raise errors.DataError(
                f"{self.name} is not read from TensorFlow Datasets. Download "
                "its files from mrqa.github.io and name their folder: "
                "--config.task.data_dir."
            )
        return self.tfds_name


def _squad(
    name: str, version: str, folders: Sequence[str], counts: tuple[int, int]
) -> Source:
    """SQuAD; also parts of it that name the version in the same way."""
    return Source(
        name,
        name,
        {
            split: (
                ((), [f"{split}-{version}{ending}.json"
                      for ending in ("", ".rebuilt", ".standin")]),
                (folders, [f"{split}.json"]),
            )
            for split in SPLITS
        },
        dict(zip(SPLITS, counts, strict=True)),
        f"squad/{version}",
    )  # fmt: skip


def _mrqa(name: str, published: str, counts: tuple[int, int]) -> Source:
    names = [f"{published}.jsonl.gz", f"{published}.jsonl"]
    folders = {"train": ["train"], "dev": ["dev", "dev-indomain"]}
    return Source(
        name,
        MRQA,
        {
            split: (
                ([name], [f"{split}.jsonl", f"{split}.jsonl.gz"]),
                (folders[split], names),
            )
            for split in SPLITS
        },
        dict(zip(SPLITS, counts, strict=True)),
    )


SOURCES: Mapping[str, Source] = {
    source.name: source
    for source in (
        _squad(SQUAD1, "v1.1", ["squad1", "squadv1"], (87_599, 10_570)),
        _squad(SQUAD2, "v2.0", ["squad2", "squadv2", "squad"],
               (130_319, 11_873)),
        _mrqa("newsqa", "NewsQA", (74_160, 4_212)),
        _mrqa("naturalqs", "NaturalQuestionsShort", (104_071, 12_836)),
        _mrqa("triviaqa", "TriviaQA-web", (61_688, 7_785)),
        _mrqa("searchqa", "SearchQA", (117_384, 16_980)),
    )
}  # fmt: skip
"""Task name to its files; the counts are those of the published ones."""
