"""Times Hugging Face's ELECTRA on texts, where only its libraries exist.

Run as a file by `inference_benchmark`, in an interpreter that has torch and
transformers; nothing of this project is imported:

    python -P transformers_peer.py HF_FOLDER ATTENTION NUM_THREADS

It answers one line of JSON on standard output for each line on standard
input, first of all with its versions. A request holds `texts`, `batch_size`,
`max_length` and whether answers are wanted.
"""

import json
import sys
import time
from typing import Any


class Peer:
    """A discriminator with its tokenizer, as its users run it.

    Args:
        folder: in the format of `save_pretrained`.
        attention: `sdpa`, their default, or `eager`.
        num_threads: of torch.
    """

    def __init__(self, folder: str, attention: str, num_threads: int) -> None:
        import torch
        import transformers

        torch.set_num_threads(num_threads)
        self._torch = torch
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self._model = transformers.ElectraForPreTraining.from_pretrained(
            folder, attn_implementation=attention
        ).eval()
        self.versions = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def score(self, texts: list[str], max_length: int) -> tuple[Any, Any]:
        """Replaced probabilities and attention mask, `[B, S]` arrays.

        Args:
            texts: one batch, padded to its longest.
            max_length: tokens at which texts are cut.
        """
        with self._torch.inference_mode():
            rows = self._tokenizer(
                texts,
                padding=True,
                truncation=True,
                max_length=max_length,
                return_tensors="pt",
            )
            logits = self._model(**rows).logits
            probabilities = self._torch.sigmoid(logits).numpy()
        return probabilities, rows["attention_mask"].numpy()


def answer(peer: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Runs the batches of a request.

    Args:
        peer: has `score`.
        request: see the module's docstring.

    Returns:
        `seconds` of each batch; `processor_seconds`, `num_texts` and
        `num_tokens` (without padding) of all; and `answers`, the probabilities
        of each text's tokens, if they are wanted.
    """
    texts, size = request["texts"], request["batch_size"]
    seconds, answers, num_tokens = [], [], 0
    processor = time.process_time()
    for first in range(0, len(texts), size):
        start = time.perf_counter()
        scored = peer.score(texts[first : first + size], request["max_length"])
        seconds.append(time.perf_counter() - start)
        num_tokens += int(scored[1].sum())
        if request["wants_answers"]:
            answers += [
                [round(float(p), 9) for p, used in zip(*row, strict=True)
                 if used]
                for row in zip(*scored, strict=True)
            ]  # fmt: skip
    processor = time.process_time() - processor
    return {
        "seconds": seconds,
        "processor_seconds": processor,
        "num_texts": len(texts),
        "num_tokens": num_tokens,
        "answers": answers,
    }


def serve(peer: Any, requests: Any, replies: Any) -> None:
    """Answers every line of JSON with a line of JSON.

    Args:
        peer: has `versions` and `score`.
        requests: lines.
        replies: stream that gets a line for the versions and for each request.
    """
    print(json.dumps(peer.versions), file=replies, flush=True)
    for line in requests:
        reply = answer(peer, json.loads(line))
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    # What libraries print must not come between the replies.
    own_output, sys.stdout = sys.stdout, sys.stderr
    serve(
        Peer(sys.argv[1], sys.argv[2], int(sys.argv[3])), sys.stdin, own_output
    )
