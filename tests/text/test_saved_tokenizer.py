"""A SavedModel with the tokenizer inside stands alone."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import Vocabulary

# Reads texts from standard input, writes ids and offsets. Nothing of ours.
_CLIENT = """
import json, sys
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
texts = tf.constant([bytes.fromhex(t) for t in json.load(sys.stdin)])
ids, starts, ends = model.serve(texts)
fast = model.tokenize(texts)
foreign = [name for name in sys.modules if name.startswith("electra_tf")]
json.dump([fast.to_list(), ids.to_list(), starts.to_list(), ends.to_list(),
           foreign], sys.stdout)
"""


class _Server(tf.Module):
    def __init__(self, tokenizer: Tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(self, texts):
        return self.tokenizer.tokenize_with_offsets(texts)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tokenize(self, texts):
        return self.tokenizer.tokenize(texts)


@pytest.mark.slow
def test_a_fresh_process_gives_the_same_and_needs_nothing_of_ours(
    tmp_path, golden
):
    path = golden / "tokenization" / "tokenization.jsonl"
    with open(path, encoding="ascii", newline="\n") as stream:
        texts = [json.loads(line)["text"].encode() for line in stream]
    texts += [b"TITLE I \xff\xc4\xb0", b""]
    tokenizer = Tokenizer(Vocabulary.load(path.parent))
    tf.saved_model.save(_Server(tokenizer), str(tmp_path))
    result = subprocess.run(
        [sys.executable, "-I", "-c", _CLIENT, str(tmp_path)],
        input=json.dumps([text.hex() for text in texts]),
        # A Turkish locale lower-cases I differently wherever it is asked.
        env=os.environ | {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    fast, *exact, foreign = json.loads(result.stdout)
    expected = tokenizer.tokenize_with_offsets(tf.constant(texts))
    assert exact == [part.to_list() for part in expected]
    assert fast == exact[0]
    assert foreign == []
