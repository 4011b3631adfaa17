"""Times Hugging Face's ELECTRA on texts, where only its libraries exist.

`inference_benchmark` runs this file in an interpreter that has torch and
transformers; it imports nothing of this project:

    python -P transformers_peer.py HF_FOLDER ATTENTION NUM_THREADS MAX_LENGTH

It writes one line of JSON for its versions, and then one for each line of JSON
that it reads: `texts`, `batch_size` and whether it `wants_answers`.
"""

import json
import sys
import time
from typing import Any


class Peer:
    """A discriminator with its tokenizer, as its users run it."""

    def __init__(
        self, folder: str, attention: str, num_threads: int, max_length: int
    ) -> None:
        import torch
        import transformers

        torch.set_num_threads(num_threads)
        self._torch = torch
        self._max_length = max_length
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self._model = transformers.ElectraForPreTraining.from_pretrained(
            folder, attn_implementation=attention
        ).eval()
        self.versions = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def score(self, texts: list[str]) -> tuple[Any, Any]:
        """Replaced probabilities and mask, `[B, S]` arrays."""
        with self._torch.inference_mode():
            rows = self._tokenizer(
                texts,
                padding=True,
                truncation=True,
                max_length=self._max_length,
                return_tensors="pt",
            )
            logits = self._model(**rows).logits
            probabilities = self._torch.sigmoid(logits).numpy()
        return probabilities, rows["attention_mask"].numpy()


def answer(
    peer: Any, texts: list[str], batch_size: int, wants_answers: bool = False
) -> dict[str, Any]:
    """Runs `peer.score` on texts, batch by batch.

    Returns:
        `seconds` of each batch; `processor_seconds`, `num_texts` and
        `num_tokens` (without padding) of all; and `answers`, the probabilities
        of each text's tokens, if they are wanted.
    """
    seconds, answers, num_tokens = [], [], 0
    processor = time.process_time()
    for first in range(0, len(texts), batch_size):
        start = time.perf_counter()
        scores, masks = peer.score(texts[first : first + batch_size])
        seconds.append(time.perf_counter() - start)
        num_tokens += int(masks.sum())
        if wants_answers:
            rows = zip(scores, masks, strict=True)
            answers += [row[mask > 0].round(9).tolist() for row, mask in rows]
    return {
        "seconds": seconds,
        "processor_seconds": time.process_time() - processor,
        "num_texts": len(texts),
        "num_tokens": num_tokens,
        "answers": answers,
    }


def serve(peer: Any, requests: Any, replies: Any) -> None:
    """Writes the peer's versions, then answers every line of JSON."""
    print(json.dumps(peer.versions), file=replies, flush=True)
    for line in requests:
        reply = answer(peer, **json.loads(line))
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    # What libraries print must not come between the replies.
    own_output, sys.stdout = sys.stdout, sys.stderr
    folder, attention, num_threads, max_length = sys.argv[1:]
    peer = Peer(folder, attention, int(num_threads), int(max_length))
    serve(peer, sys.stdin, own_output)
