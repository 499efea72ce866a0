"""Train the two sample checkpoints: ``python -m tests.samples.train --text kjv.txt --out hfposemb/samples``.

README.md in hfposemb/samples describes the source of the text and the results.
"""

import argparse
import csv
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, PreTrainedModel

VOCABULARY = 4000
LENGTH = 256
WIDTH = 128
LAYERS = 4
HEADS = 4
MASKED = 0.25
ALONE = 800
HELD_OUT = 0.02
EVERY = 50
BERT_SPECIAL = ["[PAD]", "[unused0]", "[unused1]", "[unused2]", "[unused3]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@dataclass(frozen=True)
class Recipe:
    """How one sample is trained. ``moments`` are the steps whose position table is kept; 0 is before training.

    ``table_decay`` is the weight decay of the position table from step ``table_decay_from`` on: it removes the table's
    random initial values, but also what the table has learned if it starts too early.
    """

    tokenizer: Callable[[list[str]], Tokenizer]
    tokenizer_config: dict[str, object]
    separator: str
    model: Callable[[Tokenizer], PreTrainedModel]
    loss: Callable[[Any, Tensor, int, torch.Generator], Tensor]
    table: str
    moments: tuple[int, ...]
    learning_rate: float
    tokens: int = 4096
    second_beta: float = 0.999
    decay: float = 0.01
    table_decay: float = 0.01
    table_decay_from: int = 0
    warmup: int = 100
    seed: int = 0

    @property
    def steps(self) -> int:
        """Number of training steps: the last moment."""
        return self.moments[-1]


def bert_tokenizer(documents: list[str]) -> Tokenizer:
    """Train a lower-cased WordPiece vocabulary in the layout of BERT's."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=BERT_SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(documents, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def gpt2_tokenizer(documents: list[str]) -> Tokenizer:
    """Train a byte-level BPE in the layout of GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer


def bert_model(tokenizer: Tokenizer) -> PreTrainedModel:
    """Build an untrained BERT of the samples' size, without dropout.

    Its matrices are initialised three times as large as BERT's; otherwise a model this narrow takes far longer to
    attend to anything. Positions are initialised smaller, so that what they learn stands out.
    """
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            max_position_embeddings=LENGTH,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            initializer_range=0.06,
            pad_token_id=tokenizer.token_to_id("[PAD]"),
        )
    )
    torch.nn.init.normal_(model.bert.embeddings.position_embeddings.weight, std=0.01)
    return model


def gpt2_model(tokenizer: Tokenizer) -> PreTrainedModel:
    """Build an untrained GPT-2 of the samples' size, without dropout."""
    end = tokenizer.token_to_id("<|endoftext|>")
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=tokenizer.get_vocab_size(),
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=HEADS,
            n_positions=LENGTH,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            resid_pdrop=0.0,
            bos_token_id=end,
            eos_token_id=end,
        )
    )


def masked_loss(model: BertForMaskedLM, windows: Tensor, generator: torch.Generator) -> Tensor:
    """Return the loss on a share ``MASKED`` of the tokens, hidden as in BERT (80 % masked, 10 % random, 10 % kept)."""
    words = windows >= len(BERT_SPECIAL)
    hidden = words & (torch.rand(windows.shape, generator=generator) < MASKED)
    fate = torch.rand(windows.shape, generator=generator)
    random = torch.randint(len(BERT_SPECIAL), VOCABULARY, windows.shape, generator=generator)
    shown = torch.where(hidden & (fate < 0.8), BERT_SPECIAL.index("[MASK]"), windows)
    shown = torch.where(hidden & (fate >= 0.9), random, shown)
    states = model.bert(shown).last_hidden_state
    return cross_entropy(model.cls(states[hidden]), windows[hidden])


def next_word_loss(model: BertForMaskedLM, windows: Tensor) -> Tensor:
    """Return the next-token loss of a BERT with a causal mask."""
    past = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).tril()
    states = model.bert(windows, attention_mask=past).last_hidden_state[:, :-1]
    return cross_entropy(model.cls(states).flatten(0, 1), windows[:, 1:].flatten())


def bert_loss(model: BertForMaskedLM, windows: Tensor, step: int, generator: torch.Generator) -> Tensor:
    """Return the next-token loss up to step ``ALONE``, afterwards plus the masked loss; at step 0 the masked loss only.

    Step 0 is for evaluation. Masked tokens give so little signal per step that a model this small needs many thousand
    steps before it uses context; next tokens teach it order. [CLS] and [SEP] replace the first and last token of every
    window.
    """
    windows = windows.clone()
    windows[:, 0], windows[:, -1] = BERT_SPECIAL.index("[CLS]"), BERT_SPECIAL.index("[SEP]")
    if step == 0:
        return masked_loss(model, windows, generator)
    loss = next_word_loss(model, windows)
    return loss if step <= ALONE else loss + masked_loss(model, windows, generator)


def gpt2_loss(model: GPT2LMHeadModel, windows: Tensor, _step: int, _generator: torch.Generator) -> Tensor:
    """Return the next-token loss."""
    states = model.transformer(windows).last_hidden_state
    return cross_entropy(model.lm_head(states[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


RECIPES = {
    "bert": Recipe(
        tokenizer=bert_tokenizer,
        tokenizer_config={
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": True,
            "model_max_length": LENGTH,
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        },
        separator="[SEP]",
        model=bert_model,
        loss=bert_loss,
        table="bert.embeddings.position_embeddings.weight",
        moments=(0, 100, 200, 300, 350, 400, 450, 500, 600, 800, 1000, 1200, 1500),
        learning_rate=2e-3,
        second_beta=0.98,
        table_decay=1.0,
        table_decay_from=ALONE,
    ),
    "gpt2": Recipe(
        tokenizer=gpt2_tokenizer,
        tokenizer_config={
            "tokenizer_class": "GPT2Tokenizer",
            "add_prefix_space": False,
            "model_max_length": LENGTH,
            "bos_token": "<|endoftext|>",
            "eos_token": "<|endoftext|>",
            "unk_token": "<|endoftext|>",
        },
        separator="<|endoftext|>",
        model=gpt2_model,
        loss=gpt2_loss,
        table="transformer.wpe.weight",
        moments=(0, 100, 200, 300, 350, 400, 450, 500, 600, 800, 1100, 1500, 2000),
        learning_rate=1.5e-3,
    ),
}


def stream(tokenizer: Tokenizer, documents: list[str], *, separator: str) -> Tensor:
    """Encode the documents into a single row of ids with a separator after each."""
    end = tokenizer.token_to_id(separator)
    encodings = tokenizer.encode_batch(documents, add_special_tokens=False)
    return torch.tensor([token for encoding in encodings for token in (*encoding.ids, end)])


def draw(ids: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Cut ``count`` windows [count, LENGTH] out of the ids at random offsets."""
    starts = torch.randint(len(ids) - LENGTH + 1, (count, 1), generator=generator)
    return ids[starts + torch.arange(LENGTH)]


def held_out_loss(model: PreTrainedModel, recipe: Recipe, ids: Tensor) -> float:
    """Return the loss on consecutive windows of held-out ids, masked identically each time."""
    windows = ids[: len(ids) // LENGTH * LENGTH].view(-1, LENGTH)
    with torch.no_grad():
        return float(recipe.loss(model, windows, 0, torch.Generator().manual_seed(recipe.seed)))


def rate(step: int, recipe: Recipe) -> float:
    """Return the fraction of the learning rate at ``step``: linear warm-up, then half a cosine down to a tenth."""
    if step < recipe.warmup:
        return (step + 1) / recipe.warmup
    done = (step - recipe.warmup) / (recipe.steps - recipe.warmup)
    return 0.55 + 0.45 * math.cos(math.pi * done)


def train(recipe: Recipe, documents: list[str], out: Path) -> None:
    """Train one sample and write its checkpoint, tokenizer, loss.csv and positions.safetensors to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    kept = round(len(documents) * (1 - HELD_OUT))
    tokenizer = recipe.tokenizer(documents[:kept])
    seen = stream(tokenizer, documents[:kept], separator=recipe.separator)
    unseen = stream(tokenizer, documents[kept:], separator=recipe.separator)
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    tokenizer.model.save(str(out))
    (out / "tokenizer_config.json").write_text(json.dumps(recipe.tokenizer_config, indent=2) + "\n")

    torch.manual_seed(recipe.seed)
    generator = torch.Generator().manual_seed(recipe.seed)
    model = recipe.model(tokenizer)
    table = model.get_parameter(recipe.table)
    others = [parameter for parameter in model.parameters() if parameter is not table]
    groups: list[dict[str, Any]] = [{"params": others}, {"params": [table]}]
    optimizer = torch.optim.AdamW(
        groups, lr=recipe.learning_rate, betas=(0.9, recipe.second_beta), weight_decay=recipe.decay
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, recipe))
    tables = {"step-0": table.detach().half()}
    started = monotonic()
    with (out / "loss.csv").open("w", newline="") as file:
        log = csv.writer(file, lineterminator="\n")
        log.writerow(("step", "loss", "held_out"))
        recent: list[float] = []
        for step in range(1, recipe.steps + 1):
            windows = draw(seen, recipe.tokens // LENGTH, generator)
            loss = recipe.loss(model, windows, step, generator)
            optimizer.zero_grad()
            optimizer.param_groups[1]["weight_decay"] = (
                recipe.table_decay if step > recipe.table_decay_from else recipe.decay
            )
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            recent.append(loss.item())
            if step in recipe.moments:
                tables[f"step-{step}"] = table.detach().half()
            if step % EVERY == 0:
                row = (step, f"{sum(recent) / len(recent):.4f}", f"{held_out_loss(model, recipe, unseen):.4f}")
                log.writerow(row)
                print(out.name, *row, f"{monotonic() - started:.0f} s", flush=True)
                recent = []
    model.half().save_pretrained(out)  # type: ignore[no-untyped-call]
    save_file(tables, out / "positions.safetensors")


def main() -> None:
    """Parse the command line and train the selected samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="plain text; a blank line ends a document")
    parser.add_argument("--out", type=Path, required=True, help="output folder, with a subfolder per sample")
    parser.add_argument("--only", choices=sorted(RECIPES), help="train only this sample")
    parser.add_argument("--threads", type=int, default=1, help="threads that torch may use (default: 1)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    documents = arguments.text.read_text().strip().split("\n\n")
    for name, recipe in RECIPES.items():
        if arguments.only in (None, name):
            train(recipe, documents, arguments.out / name)


if __name__ == "__main__":
    main()
