"""Both clients, against servers that speak as TensorFlow Serving does."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from tests import script_modules
from tests.export import conftest
from tests.export import model_server

serving_client = script_modules.load("serving_client")

TEXTS = ["The cat sat on the mat.", "", "Unaffable cats in a CAFÉ… 東京"]
IDS = {
    "input_ids": [[2, 5, 6, 3], [2, 9, 3, 0]],
    "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
    "segment_ids": [[0, 0, 0, 0], [0, 0, 0, 0]],
}


@pytest.fixture(scope="module")
def servers(loaded):
    with (
        model_server.serve_rest(loaded) as rest,
        model_server.serve_grpc(loaded) as grpc,
    ):
        yield {"rest": rest, "grpc": grpc}


both_protocols = pytest.mark.parametrize("protocol", serving_client.PROTOCOLS)


def ask(servers, protocol, inputs, **target):
    target = {"model": model_server.NAME, "timeout": 30.0} | target
    return serving_client.predict(
        protocol, serving_client.Target(servers[protocol], **target), inputs
    )


@both_protocols
@pytest.mark.parametrize("signature", ["", "features_text", "score_ids"])
def test_answers_are_those_of_the_model(servers, loaded, protocol, signature):
    inputs = IDS if signature == "score_ids" else {"texts": TEXTS}
    answers = ask(servers, protocol, inputs, signature=signature, version=3)
    conftest.assert_close(
        {name: np.array(rows) for name, rows in answers.items()},
        loaded(signature or "serving_default", **inputs),
    )


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """A model with an output of strings, and with a single output."""

    def split(texts):
        words = tf.strings.split(texts)
        return {"words": words.to_tensor(), "num_words": words.row_lengths()}

    def add(ids):
        return {"score": tf.reduce_sum(tf.cast(ids, tf.float32), 1) / 7}

    module, folder = tf.Module(), tmp_path_factory.mktemp("stub")
    texts = tf.TensorSpec([None], tf.string, "texts")
    ids = tf.TensorSpec([None, None], tf.int32, "input_ids")
    module.functions = {
        "tag_text": tf.function(split, input_signature=[texts]),
        "regress_ids": tf.function(add, input_signature=[ids]),
    }
    tf.saved_model.save(module, folder, dict(module.functions))
    return conftest.load(folder)


@both_protocols
def test_strings_are_bytes_and_an_only_output_keeps_its_name(stub, protocol):
    data = "café \ud83d".encode("utf-8", "surrogatepass") + b" \xff cat"
    with getattr(model_server, f"serve_{protocol}")(stub) as server:
        target = {protocol: server}, protocol
        # As bytes, and as Python reads them from a command line.
        answers, others = (
            ask(*target, {"texts": [text]}, signature="tag_text")
            for text in (data, data.decode("utf-8", "surrogateescape"))
        )
        rows = {"input_ids": [[2, 5, 6, 3], [2, 9, 3, 0]]}
        only = ask(*target, rows, signature="regress_ids")
    assert answers == others == {"words": [data.split()], "num_words": [4]}
    plain = serving_client.to_json(answers)
    assert plain["words"][0][0] == "café"
    back = serving_client._from_json(json.loads(json.dumps(plain["words"])))
    assert back == answers["words"]
    assert list(only) == ["score"]
    np.testing.assert_allclose(only["score"], [16 / 7, 2], rtol=1e-6)


def test_what_cannot_be_asked_is_refused():
    for server in ("http://localhost:8501", "localhost:8501/v1", "localhost"):
        with pytest.raises(ValueError, match="be host:port.*localhost:8501"):
            ask({"rest": server}, "rest", {"texts": TEXTS})
    for rows in ("a text", [3], [["a"]], ["a", 3], [[2.5]], [[2**31]],
                 [[2], [2, 3]]):  # fmt: skip
        with pytest.raises(ValueError, match="`input_ids` must be a list of r"):
            ask({"rest": "localhost:1"}, "rest", {"input_ids": rows})


def test_the_script_prints_words_with_their_numbers_or_json(servers):
    flags = f"--server={servers['rest']}", "--json", "--text=The cat"
    shown = script_modules.run("serving_client", *flags)
    assert json.loads(shown.stdout)["num_tokens"] == [4]
    flags = "--protocol=grpc", f"--server={servers['grpc']}", "--text=The cat."
    shown = script_modules.run("serving_client", *flags, b"--text=caf\xe9 \xff")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("The cat.\n")
    assert re.search(r"probability: .* The 0\..* cat 0\.", shown.stdout)
    assert "num_tokens: 5" in shown.stdout
