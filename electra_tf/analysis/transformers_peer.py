"""Times Hugging Face's ELECTRA on texts, where only its libraries exist.

`benchmarks` runs this file in an interpreter that has torch and transformers;
it imports nothing of this project:

    python -P transformers_peer.py HF_FOLDER ATTENTION NUM_THREADS MAX_LENGTH

It writes one line of JSON for its versions, and then one for each line of JSON
that it reads: `texts`, `batch_size` and whether it `wants_answers`.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

ScoreFn = Callable[[list[str]], tuple[Any, Any]]
"""Of texts: replaced probabilities and mask, `[B, S]` arrays."""


def load(
    folder: str, attention: str, num_threads: int, max_length: int
) -> tuple[ScoreFn, dict[str, str]]:
    """A discriminator as its users run it, and the libraries' versions."""
    import torch
    import transformers

    torch.set_num_threads(num_threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.ElectraForPreTraining.from_pretrained(
        folder, attn_implementation=attention
    ).eval()

    def score(texts: list[str]) -> tuple[Any, Any]:
        with torch.inference_mode():
            rows = tokenizer(
                texts,
                padding=True,
                truncation=True,
                max_length=max_length,
                return_tensors="pt",
            )
            probabilities = torch.sigmoid(model(**rows).logits).numpy()
        return probabilities, rows["attention_mask"].numpy()

    versions = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    return score, versions


def answer(
    score_fn: ScoreFn,
    texts: list[str],
    batch_size: int,
    wants_answers: bool = False,
) -> dict[str, Any]:
    """Scores texts batch by batch.

    Returns `seconds` of each batch; `processor_seconds`, `num_texts` and
    `num_tokens` (without padding) of all; and, if they are wanted, `answers`,
    the probabilities of each text's tokens.
    """
    seconds, answers, num_tokens = [], [], 0
    processor = time.process_time()
    for first in range(0, len(texts), batch_size):
        start = time.perf_counter()
        scores, masks = score_fn(texts[first : first + batch_size])
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


def serve(
    score_fn: ScoreFn, versions: Any, requests: Any, replies: Any
) -> None:
    """Writes the versions, then answers every line of JSON."""
    print(json.dumps(versions), file=replies, flush=True)
    for line in requests:
        reply = answer(score_fn, **json.loads(line))
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    # What libraries print must not come between the replies.
    own_output, sys.stdout = sys.stdout, sys.stderr
    folder, attention, num_threads, max_length = sys.argv[1:]
    loaded = load(folder, attention, int(num_threads), int(max_length))
    serve(*loaded, sys.stdin, own_output)
