"""Steps of transformers' ELECTRA; nothing of this package is imported."""

import os
from collections.abc import Callable
from typing import Any

import torch
import transformers

from benchmarks import side

_PACKAGES = "torch", "transformers"
_MASK_ID = 4
_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# By default torch does not use the second hardware thread of a core.
torch.set_num_threads(len(os.sched_getaffinity(0)))


class _Trainer:
    """Config, ids and update of both training steps."""

    def __init__(
        self, settings: dict[str, Any], attention: str, compiles: bool
    ) -> None:
        # TF32 on GPUs, as TensorFlow does.
        torch.set_float32_matmul_precision("high")
        self.options, self.attention = settings["optimizer"], attention
        self.precision = settings["training"]["precision"]
        self.compiles = compiles
        self.config = self.configure(settings["encoder"])
        rows = settings["training"]["train_batch_size"]
        self.shape = rows, settings["data"]["max_seq_length"]
        vocab_size = self.config.vocab_size
        self.ids = torch.randint(5, vocab_size, self.shape, device=_DEVICE)
        self.mask = torch.ones_like(self.ids)

    def configure(self, encoder: dict[str, Any]) -> Any:
        config = transformers.ElectraConfig(attn_implementation=self.attention)
        config.update({k: v for k, v in encoder.items() if hasattr(config, k)})
        return config

    def autocast(self) -> Any:
        dtype = getattr(torch, self.precision)
        return torch.autocast(_DEVICE, dtype, dtype != torch.float32)

    def build(
        self, model: Any, compute_loss: Callable[[], Any], **sizes: Any
    ) -> side.Built:
        """Builds a step with loss, gradients, clipping, AdamW; runs it once."""
        if self.compiles:
            compute_loss = torch.compile(compute_loss)
        model, options = model.to(_DEVICE).train(), self.options
        weights = dict(model.named_parameters())
        groups: dict[float, list[Any]] = {}
        for name, weight in weights.items():
            is_free = "bias" in name or "LayerNorm" in name
            decay = 0.0 if is_free else options["weight_decay_rate"]
            groups.setdefault(decay, []).append(weight)
        adam = torch.optim.AdamW(
            [{"params": p, "weight_decay": d} for d, p in groups.items()],
            lr=options["learning_rate"],
            betas=(options["beta_1"], options["beta_2"]),
            eps=options["epsilon"],
            fused=True,
        )
        clip_norm = options["clip_norm"] or float("inf")

        def step(_: Any) -> float:
            loss = compute_loss()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights.values(), clip_norm)
            adam.step()
            adam.zero_grad()
            return self.ids.numel()

        step(None)
        sizes |= {
            "batch": list(self.shape),
            "weights": sum(weight.numel() for weight in weights.values()),
            "dropout": self.config.hidden_dropout_prob,
        }
        if _DEVICE == "cpu":
            return side.Built(step, sizes, _PACKAGES)
        wait = torch.cuda.synchronize
        wait()
        methods = {"peak_memory": torch.cuda.max_memory_allocated}
        return side.Built(
            step, sizes, _PACKAGES, methods, wait=wait, runs_ahead=True
        )


def pretrain(
    settings: dict[str, Any], generator: dict[str, Any], **options: Any
) -> side.Built:
    """Builds the joint step: masked LM, sampling, replaced token detection."""
    trainer, masking = _Trainer(settings, **options), settings["masking"]
    main = transformers.ElectraForPreTraining(trainer.config)
    small = transformers.ElectraForMaskedLM(trainer.configure(generator))
    small.electra.embeddings = main.electra.embeddings
    table = main.electra.embeddings.word_embeddings.weight
    small.generator_lm_head.weight = table
    (rows, length), ids = trainer.shape, trainer.ids
    slots = int((masking["mask_prob"] + 0.005) * length)
    objective, functional = settings["objective"], torch.nn.functional

    def compute_loss() -> Any:
        # Position 0 holds [CLS].
        order = torch.rand(rows, length - 1, device=_DEVICE)
        positions = order.topk(slots, sorted=False).indices + 1
        truth = ids.gather(1, positions)
        draw = torch.rand(positions.shape, device=_DEVICE)
        shown = torch.where(draw < masking["replace_prob"], _MASK_ID, truth)
        masked = ids.scatter(1, positions, shown)
        with trainer.autocast():
            states = small.electra(masked, trainer.mask).last_hidden_state
            places = positions[..., None].expand(-1, -1, states.shape[-1])
            chosen = small.generator_predictions(states.gather(1, places))
            logits = small.generator_lm_head(chosen)
        logits = logits.float().flatten(0, 1)
        gen_loss = functional.cross_entropy(logits, truth.flatten())
        # Gumbel noise is -log(e) of an exponential variable e.
        noise = torch.empty_like(logits).exponential_().log()
        sampled = (logits.detach() - noise).argmax(-1).view_as(truth)
        corrupted = ids.scatter(1, positions, sampled)
        with trainer.autocast():
            disc_logits = main(corrupted, trainer.mask).logits
        disc_loss = functional.binary_cross_entropy_with_logits(
            disc_logits.float(), (corrupted != ids).float()
        )
        both = objective["gen_weight"] * gen_loss
        return both + objective["disc_weight"] * disc_loss

    modules = torch.nn.ModuleList([main, small])
    return trainer.build(modules, compute_loss, masked=slots)


def finetune(settings: dict, generator: Any, **options: Any) -> side.Built:
    """Builds the step of a classifier with two classes."""
    trainer = _Trainer(settings, **options)
    model = transformers.ElectraForSequenceClassification(trainer.config)
    labels = torch.arange(trainer.shape[0], device=_DEVICE) % 2

    def compute_loss() -> Any:
        with trainer.autocast():
            return model(trainer.ids, trainer.mask, labels=labels).loss

    return trainer.build(model, compute_loss)


def infer(folder: str, max_length: int, attention: str) -> side.Built:
    """Loads a discriminator as its users do, and returns its scorer."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.ElectraForPreTraining.from_pretrained(
        folder, attn_implementation=attention
    ).eval()

    def score(texts: list[str]) -> tuple[Any, Any]:
        with torch.inference_mode():
            cut = {"truncation": True, "max_length": max_length}
            rows = tokenizer(texts, padding=True, return_tensors="pt", **cut)
            probabilities = torch.sigmoid(model(**rows).logits).numpy()
        return probabilities, rows["attention_mask"].numpy()

    return side.build_scorer(score, _PACKAGES, max_length=max_length)


if __name__ == "__main__":
    side.serve({"pretrain": pretrain, "finetune": finetune, "infer": infer})
