"""Formats that are not read, and the one line that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from tests.formats.adapters import alone
from tests.formats.formats import NONE, Format, Made, write
from tests.support.checkpoints.layouts import LAYOUTS

Maker = Callable[[Path], Made]


def files(content: Mapping[str, bytes], *, inside: str = "") -> Maker:
    """Return a maker of files."""

    def make(root: Path) -> Made:
        write(root, content)
        return Made(inside=inside)

    return make


def torchscript(root: Path) -> Made:
    """Write a module that was compiled."""
    module = torch.nn.Sequential(torch.nn.Embedding(50, 8))
    torch.jit.script(module).save(str(root / "model.pt"))
    return Made(inside="model.pt")


def refused(name: str, source: str, make: Maker, line: str) -> Format:
    """Return a row with the line that refuses it."""
    return Format(name, source, "", make, line, line, NONE)


CONFIG = b'{"model_type": "gpt2"}'
H5 = b"\x89HDF\r\n\x1a\n" + bytes(100)
VARIABLES = {"variables/variables.index": b"x", "variables/variables.data-00000-of-00001": b"x"}
SAVED_MODEL = {"saved_model.pb": b"\x08\x01"} | VARIABLES
ONLY = "SOURCE: has no .safetensors file, only {}; {}"
FOUR = "convert it with transformers 4: AutoModel.from_pretrained(folder, from_{}=True).save_pretrained(out)"
ARRAYS = "read its arrays with {} and pass them to hfposemb.from_arrays"
COMPILED = (
    "SOURCE: is a TorchScript archive, which contains code; save the model with torch.save(model.state_dict(), file)"
)
ALONE = (
    "SOURCE: this is a PEFT adapter (LORA) of “owner/base” and contains no complete table; open “owner/base” instead, "
    "or apply the adapter to it: ?base=owner/base after its name, or --base"
)
DEEPSPEED = (
    "SOURCE: is a DeepSpeed checkpoint; run 'python zero_to_fp32.py . gathered' in it, then open the folder gathered"
)
MEGATRON = (
    "SOURCE: is a Megatron-LM checkpoint in 4 parts, each with a slice of all tables; convert it to the Hugging Face "
    "layout first, for example with export_ckpt of Megatron Bridge"
)

REFUSED = (
    refused("PEFT adapter alone", "`owner/adapter`", alone, ALONE),
    refused("Megatron-LM, several ranks", "a folder", files(LAYOUTS["megatron-parts"][0]), MEGATRON),
    refused("DeepSpeed", "a folder", files(LAYOUTS["deepspeed"][0]), DEEPSPEED),
    refused(
        "TensorFlow `.h5`",
        "a folder",
        files({"tf_model.h5": H5, "config.json": CONFIG}),
        ONLY.format("'tf_model.h5'", FOUR.format("tf")),
    ),
    refused(
        "Flax `.msgpack`",
        "a folder",
        files({"flax_model.msgpack": b"\x81", "config.json": CONFIG}),
        ONLY.format("'flax_model.msgpack'", FOUR.format("flax")),
    ),
    refused("TorchScript", "`./model.pt`", torchscript, COMPILED),
    refused(
        "TensorFlow SavedModel",
        "a folder",
        files(SAVED_MODEL),
        ONLY.format("'saved_model.pb'", ARRAYS.format("tensorflow")),
    ),
)
"""Rows of the table."""
