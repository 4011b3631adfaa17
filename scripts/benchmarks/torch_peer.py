"""Steps of transformers' ELECTRA; its interpreter needs nothing of ours."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import transformers

from benchmarks import side

_PACKAGES = "torch", "transformers"
_MASK_ID = 4
_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_NO_DECAY = ("bias", "LayerNorm")


def pretrain(
    encoders: list[dict[str, Any]],
    rows: int,
    length: int,
    precision: str,
    mask_prob: float,
    replace_prob: float,
    factors: list[float],
    optimizer: dict[str, Any],
    **options: Any,
) -> side.Built:
    """The joint step: fill the gaps, sample, tell what is replaced."""
    main_config, generator_config = (
        _configure(sizes, options) for sizes in encoders
    )
    main = transformers.ElectraForPreTraining(main_config)
    generator = transformers.ElectraForMaskedLM(generator_config)
    generator.electra.embeddings = main.electra.embeddings
    table = main.electra.embeddings.word_embeddings.weight
    generator.generator_lm_head.weight = table
    modules = torch.nn.ModuleList([main, generator]).to(_DEVICE)
    slots = int((mask_prob + 0.005) * length)
    vocab_size = main_config.vocab_size
    ids = torch.randint(5, vocab_size, (rows, length), device=_DEVICE)
    attention = torch.ones_like(ids)

    def compute_loss() -> Any:
        # Position 0 holds [CLS].
        order = torch.rand(rows, length - 1, device=_DEVICE)
        positions = order.topk(slots, sorted=False).indices + 1
        truth = ids.gather(1, positions)
        shown = torch.rand(positions.shape, device=_DEVICE) >= replace_prob
        shown = torch.where(shown, truth, _MASK_ID)
        masked = ids.scatter(1, positions, shown)
        with _autocast(precision):
            states = generator.electra(masked, attention).last_hidden_state
            places = positions[..., None].expand(-1, -1, states.shape[-1])
            chosen = generator.generator_predictions(states.gather(1, places))
            logits = generator.generator_lm_head(chosen)
        logits = logits.float().flatten(0, 1)
        gen_loss = torch.nn.functional.cross_entropy(logits, truth.flatten())
        noise = torch.empty_like(logits).exponential_().log()
        sampled = (logits.detach() - noise).argmax(-1).view_as(truth)
        corrupted = ids.scatter(1, positions, sampled)
        with _autocast(precision):
            found = main(corrupted, attention).logits
        disc_loss = torch.nn.functional.binary_cross_entropy_with_logits(
            found.float(), (corrupted != ids).float()
        )
        return factors[0] * gen_loss + factors[1] * disc_loss

    sizes = {"rows": rows, "length": length, "masked positions": slots}
    return _build_step(
        modules, compute_loss, sizes, main_config, precision, optimizer, options
    )


def finetune(
    encoders: list[dict[str, Any]],
    rows: int,
    length: int,
    precision: str,
    optimizer: dict[str, Any],
    **options: Any,
) -> side.Built:
    """A step of a classifier of two classes."""
    sizes = _configure(encoders[0], options)
    model = transformers.ElectraForSequenceClassification(sizes).to(_DEVICE)
    ids = torch.randint(5, sizes.vocab_size, (rows, length), device=_DEVICE)
    attention = torch.ones_like(ids)
    labels = torch.arange(rows, device=_DEVICE) % 2

    def compute_loss() -> Any:
        with _autocast(precision):
            return model(ids, attention, labels=labels).loss

    work = {"rows": rows, "length": length}
    return _build_step(
        model, compute_loss, work, sizes, precision, optimizer, options
    )


def infer(
    folder: str, max_length: int, attention: str, num_threads: int
) -> side.Built:
    """A discriminator as its users run it."""
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

    return side.build_scorer(score, _PACKAGES)


def _configure(sizes: dict[str, Any], options: dict[str, Any]) -> Any:
    torch.set_num_threads(options["num_threads"])
    names = vars(transformers.ElectraConfig()).keys()
    known = {name: value for name, value in sizes.items() if name in names}
    return transformers.ElectraConfig(
        **known, attn_implementation=options["attention"]
    )


def _autocast(precision: str) -> Any:
    if precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(_DEVICE, getattr(torch, precision))


def _build_step(
    model: Any,
    compute_loss: Callable[[], Any],
    sizes: dict[str, Any],
    encoder: Any,
    precision: str,
    optimizer: dict[str, Any],
    options: dict[str, Any],
) -> side.Built:
    """Loss, gradients, clipping and AdamW, after the first run."""
    if _DEVICE == "cuda":
        # TF32, as TensorFlow does.
        torch.set_float32_matmul_precision("high")
    if options["compiles"]:
        compute_loss = torch.compile(compute_loss)
    named = dict(model.named_parameters())
    groups: list[dict[str, Any]] = [
        {"params": [], "weight_decay": optimizer["weight_decay_rate"]},
        {"params": [], "weight_decay": 0.0},
    ]
    for name, weight in named.items():
        is_free = any(part in name for part in _NO_DECAY)
        groups[is_free]["params"].append(weight)
    adam = torch.optim.AdamW(
        groups,
        lr=optimizer["learning_rate"],
        betas=(optimizer["beta_1"], optimizer["beta_2"]),
        eps=optimizer["epsilon"],
        fused=True,
    )
    model.train()

    def step(_: Any) -> float:
        loss = compute_loss()
        loss.backward()
        if optimizer["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(
                named.values(), optimizer["clip_norm"]
            )
        adam.step()
        adam.zero_grad()
        loss.item()
        return sizes["rows"] * sizes["length"]

    step(None)
    sizes |= {
        "weights": sum(weight.numel() for weight in named.values()),
        "dropout": encoder.hidden_dropout_prob,
    }
    return side.Built(step, sizes, _PACKAGES, _methods(precision))


def _methods(precision: str) -> dict[str, Callable[..., Any]]:
    """The memory and the peak rates of torch's device."""

    def product(size: int) -> Callable[[], Any]:
        dtype = getattr(torch, precision)
        matrix = torch.full((size, size), 1 / size, dtype=dtype, device=_DEVICE)
        return lambda: (matrix @ matrix)[0, 0].item()

    def addition(count: int) -> Callable[[], Any]:
        array = torch.zeros(count, device=_DEVICE)
        ones = torch.ones_like(array)
        return lambda: array.add_(ones)[0].item()

    is_gpu = _DEVICE == "cuda"
    return {
        "peak_memory": torch.cuda.max_memory_allocated
        if is_gpu
        else side.peak_memory,
        "peak_rates": lambda: side.peak_rates(product, addition, is_gpu),
    }


if __name__ == "__main__":
    side.serve({"pretrain": pretrain, "finetune": finetune, "infer": infer})
