"""Goals 1 to 6, 12 and 16: tables out of local files and off the Hub, GGUF's heads, and what the import costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np

from .cost import ROOT, Cost, Row, count, fresh, here, in_turns, inside, ratio


def write_gpt2(folder: Path, *, dtype: str = "F32") -> Path:
    """Write a checkpoint of GPT-2's size and names: 148 tensors, 498 MB in F32."""
    import torch
    from safetensors.torch import save_file

    width, generator = 768, torch.Generator().manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (50257, width), "wpe.weight": (1024, width)}
    block = {"attn.c_attn": 3 * width, "attn.c_proj": width, "mlp.c_fc": 4 * width, "mlp.c_proj": width}
    for layer in range(12):
        for name, out in block.items():
            rows = 4 * width if name == "mlp.c_proj" else width
            shapes |= {f"h.{layer}.{name}.weight": (rows, out), f"h.{layer}.{name}.bias": (out,)}
        for norm in (f"h.{layer}.ln_1", f"h.{layer}.ln_2"):
            shapes |= {f"{norm}.weight": (width,), f"{norm}.bias": (width,)}
    shapes |= {"ln_f.weight": (width,), "ln_f.bias": (width,)}
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2Model"],
        **{"vocab_size": 50257, "n_positions": 1024, "n_embd": width, "n_layer": 12, "n_head": 12},
    }
    kind = {"F32": torch.float32, "BF16": torch.bfloat16}[dtype]
    folder.mkdir()
    tensors = {name: torch.randn(shape, generator=generator).to(kind) for name, shape in shapes.items()}
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def touch(table: np.ndarray) -> float:
    """Bring every page of a mapped table into memory, as a plain read does."""
    return float(table.reshape(-1)[::1024].sum())


def plain(folder: Path, tensor: str) -> bytes:
    """Read a tensor's bytes with nothing checked: the header as JSON, which says where they are, and then they."""
    with open(folder / "model.safetensors", "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start, stop = json.loads(file.read(length))[tensor]["data_offsets"]
        file.seek(8 + length + start)
        return file.read(stop - start)


def local_rows(folder: Path, *, rounds: int) -> Iterator[Row]:
    """Goals 1 and 2: the tables of a local file, in a process that runs."""
    import hfposemb
    from hfposemb.checkpoints.safetensors.checkpoint import Checkpoint

    source = str(folder)
    bound = here(lambda: plain(folder, "wpe.weight"), repeat=20)
    reader = here(lambda: touch(Checkpoint.open(folder).read("wpe.weight")), repeat=20)
    yield ratio(1, "local position table, reader", in_turns(reader, bound, rounds=3 * rounds), 2)
    extract = here(lambda: touch(hfposemb.extract(source).position.table.vectors), repeat=20)
    yield ratio(1, "local position table, extract()", in_turns(extract, bound, rounds=3 * rounds), 2)

    tokens = here(lambda: touch(hfposemb.extract(source).token.vectors))
    whole = here(lambda: plain(folder, "wte.weight"))
    yield ratio(2, "local token table, F32", in_turns(tokens, whole, rounds=rounds), 1)
    with tempfile.TemporaryDirectory() as made:
        half = write_gpt2(Path(made) / "half", dtype="BF16")
        tokens = here(lambda: touch(hfposemb.extract(str(half)).token.vectors))
        whole = here(lambda: plain(half, "wte.weight"))
        yield ratio(2, "local token table, BF16 to float32", in_turns(tokens, whole, rounds=rounds), 2.5)


def process_rows(folder: Path, *, rounds: int) -> Iterator[Row]:
    """Goal 3: the position table in a process of its own, beside what a user would write by hand."""
    source = str(folder)
    ours = fresh(f"import hfposemb\nassert hfposemb.extract({source!r}).position.table.vectors.sum()")
    theirs = fresh(
        "from transformers import AutoModel\n"
        f"assert AutoModel.from_pretrained({source!r}).wpe.weight.detach().numpy().sum()"
    )
    costs = in_turns(ours, theirs, rounds=rounds)
    yield ratio(3, "whole process over AutoModel, time", costs, 1 / 30)
    yield ratio(3, "whole process over AutoModel, memory", costs, 1 / 10, measure="peak")


@contextmanager
def hub_of(folder: Path) -> Iterator[str]:
    """Serve the folder as a/gpt2 from a process of its own, 30 ms and 400 Mb/s away; yield the endpoint."""
    command = [sys.executable, "-m", "tests.hub", f"a/gpt2={folder}", "--delay", "0.03", "--rate", "50e6"]
    before = dict(os.environ)
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        settings = dict(part.split("=", 1) for part in process.stdout.readline().split())
        os.environ |= settings
        with endpoint(settings["HF_ENDPOINT"]):
            yield settings["HF_ENDPOINT"]
        process.communicate("")
    for name in settings:
        os.environ.pop(name)
        if name in before:
            os.environ[name] = before[name]


@contextmanager
def endpoint(url: str) -> Iterator[None]:
    """Let this process take a Hub for the Hub: huggingface_hub keeps the one that it found when it was imported."""
    from huggingface_hub import constants

    names = ("ENDPOINT", "HUGGINGFACE_CO_URL_TEMPLATE")
    before = [getattr(constants, name) for name in names]
    constants.ENDPOINT, constants.HUGGINGFACE_CO_URL_TEMPLATE = url, before[1].replace(before[0], url)
    try:
        yield
    finally:
        constants.ENDPOINT, constants.HUGGINGFACE_CO_URL_TEMPLATE = before


def fetch(url: str, span: tuple[int, int] | None = None) -> int:
    """Return how many bytes a GET of a file brings, one redirect followed: what no client can do without."""
    headers = {} if span is None else {"Range": f"bytes={span[0]}-{span[1] - 1}"}
    with urlopen(Request(url, headers=headers)) as answer:
        return sum(len(piece) for piece in iter(lambda: answer.read(2**20), b""))


def hub_rows(folder: Path, *, rounds: int) -> Iterator[Row]:
    """Goals 4 and 5: the position table of a model on the Hub, nothing of it on this machine yet."""
    import huggingface_hub  # noqa: F401 - imported by whoever reads from the Hub, and not what is measured

    import hfposemb
    from hfposemb.checkpoints.safetensors.checkpoint import Checkpoint

    info = Checkpoint.open(folder).info("wpe.weight")
    size = (folder / "model.safetensors").stat().st_size
    with hub_of(folder) as endpoint, tempfile.TemporaryDirectory() as cache:
        file = f"{endpoint}/a/gpt2/resolve/main/model.safetensors"

        def ours() -> hfposemb.Embeddings:
            os.environ["HFPOSEMB_CACHE"] = tempfile.mkdtemp(dir=cache)
            found = hfposemb.extract("a/gpt2")
            touch(found.position.table.vectors)
            return found

        traffic = ours().traffic
        assert traffic is not None
        asked = f"{info.nbytes:,} bytes of the tensor"
        yield count(4, "remote position table, bytes", traffic.received, info.nbytes + 2**17, unit="bytes", bound=asked)
        fewer = size / traffic.received
        yield Row(4, "whole file over what was read", f"{traffic.received:,} bytes", f"{size:,} bytes",
                  f"{fewer:.0f} ×", "≥ 100 ×", fewer >= 100, 1 / fewer)  # fmt: skip
        costs = in_turns(here(ours), here(lambda: fetch(file, (info.start, info.stop))), rounds=2 * rounds)
        yield ratio(5, "from the Hub, over one ideal ranged GET", costs, 2)


def counted_rows(folder: Path) -> Iterator[Row]:
    """Goals 4 and 6, as the server counts: redirects apart, and that one that ignores ranges is noticed in time."""
    import hfposemb
    from hfposemb.errors import HubError
    from tests.hub.session import HUB

    HUB.add("a/gpt2", {path.name: path for path in folder.iterdir()})
    with endpoint(HUB.endpoint):
        touch(hfposemb.extract("a/gpt2").position.table.vectors)
    answered = [one for one in HUB.requests if not 300 <= one.status < 400]
    redirects = f"{len(HUB.requests) - len(answered)} redirects beside"
    yield count(4, "remote position table, requests", len(answered), 3, unit="requests", bound=redirects)
    HUB.reset()
    HUB.add("b/gpt2", {path.name: path for path in folder.iterdir()})
    HUB.fault("range_ignored", times=None, host="cdn")
    try:
        with endpoint(HUB.endpoint):
            touch(hfposemb.extract("b/gpt2").position.table.vectors)
    except HubError:
        sent = sum(one.body_bytes for one in HUB.requests if one.host == "cdn")
    HUB.reset()
    yield count(6, "ranges ignored: bytes sent before it is noticed", sent, 1_000_000, unit="bytes")


def import_rows(*, rounds: int) -> Iterator[Row]:
    """Goal 12: what the import statement costs."""
    costs = in_turns(inside("", "import hfposemb"), inside("", "import numpy"), rounds=3 * rounds)
    yield ratio(12, "import hfposemb, over import numpy", costs, 1.5)


def write_vocabulary(path: Path, words: int) -> Path:
    """Write a GGUF file with so many words, and merges as Llama 3 has them to its words."""
    from tests.support.checkpoints.malformed_gguf import vocabulary

    path.write_bytes(vocabulary(words, 280_147 * words // 128_256))
    return path


def gguf_head(path: Path) -> Callable[[], Cost]:
    """Read the head of a GGUF file in a fresh process that has the reader imported."""
    setup = (
        "from pathlib import Path\nimport hfposemb.checkpoints.gguf.checkpoint\n"
        "from hfposemb.checkpoints.file_ranges import LocalRanges\n"
        "from hfposemb.checkpoints.formats import open_format\nfrom hfposemb.checkpoints.limits import DEFAULT_LIMITS"
    )
    return inside(setup, f"found = open_format(LocalRanges.open(Path({str(path)!r})), DEFAULT_LIMITS)")


def gguf_rows(*, rounds: int, words: int = 128_256) -> Iterator[Row]:
    """Goal 16: the head of a GGUF file with a large vocabulary."""
    with tempfile.TemporaryDirectory() as made:
        read = gguf_head(write_vocabulary(Path(made) / "a.gguf", words))
        found = [read() for _ in range(rounds)]
    name = f"head of a GGUF file of {words:,} words"
    yield count(16, f"{name}, time", [1e3 * one.wall for one in found], 200, unit="ms")
    yield count(16, f"{name}, memory", [one.peak / 1e6 for one in found], 60, unit="MB")
