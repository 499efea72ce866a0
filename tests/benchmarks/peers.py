"""The same work by other libraries, each installed here or left out: what they take beside ours, with no goal."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .computing import Rows, as_table, decaying
from .cost import Pair, fresh, here, in_turns, inside, ratios
from .reading import gguf_head, hub_of, touch, write_gpt2, write_vocabulary

OPTIONAL = {"faiss": "faiss-cpu", "gguf": "gguf", "openTSNE": "openTSNE", "pacmap": "pacmap"}
"""Peers that nothing else needs: the module of each, and what it is installed as."""


@dataclass(frozen=True)
class Peer:
    """Hold one line of the table of peers: an operation, who else does it, and what both took.

    ``note`` says how good both results are where they are not the same.
    """

    name: str
    library: str
    costs: Pair
    note: str = ""

    @property
    def ratios(self) -> list[float]:
        """Ours over theirs in each round."""
        return ratios(self.costs)


def missing() -> list[str]:
    """Return which peers are not installed, by the names that install them."""
    return [name for module, name in OPTIONAL.items() if find_spec(module) is None]


def peer_rows(folder: Path, vectors: Rows, *, rounds: int, quick: bool = False) -> Iterator[Peer]:
    """Yield every comparison; what is not installed is left out.

    Those of one process each come before those that load other libraries into this one.
    """
    yield from hand_rows(folder, rounds=min(rounds, 2))
    yield from gguf_rows(words=128_256)
    yield from local_rows(folder, rounds=rounds)
    yield from hub_rows(folder, rounds=rounds)
    yield from linear_rows(rows=20_000 if quick else 50_257, width=256 if quick else 768, rounds=rounds)
    yield from faiss_rows(vectors[:10_000] if quick else vectors, rounds=rounds)
    yield from picture_rows(vectors[: 4_000 if quick else 10_000])


def hand_rows(folder: Path, *, rounds: int) -> Iterator[Peer]:
    """From a checkpoint to a picture in a process of its own, as a user would write it by hand."""
    source = repr(str(folder))
    ours = f"import hfposemb as hpe\nhpe.project(hpe.extract({source}).token)\n"
    theirs = (
        "from sklearn.decomposition import PCA\nfrom transformers import AutoModel\n"
        f"PCA(2).fit_transform(AutoModel.from_pretrained({source}).wte.weight.detach().numpy())\n"
    )
    costs = in_turns(fresh(ours), fresh(theirs), rounds=rounds, warm=False)
    yield Peer("tokens of GPT-2's size to 2-D by PCA, whole process", "AutoModel + scikit-learn", costs)
    ours = f"import hfposemb as hpe\nhpe.project(hpe.extract({source}).position, method='umap')\n"
    theirs = (
        "from transformers import AutoModel\nfrom umap import UMAP\n"
        f"table = AutoModel.from_pretrained({source}).wpe.weight.detach().numpy()\n"
        "UMAP(random_state=0, metric='cosine', n_jobs=1).fit_transform(table)\n"
    )
    costs = in_turns(fresh(ours), fresh(theirs), rounds=rounds, warm=False)
    yield Peer("positions of GPT-2's size to 2-D by UMAP, whole process", "AutoModel + umap-learn", costs)


def gguf_rows(*, words: int) -> Iterator[Peer]:
    """The head of a GGUF file with a large vocabulary, in a process that has both libraries imported."""
    if find_spec("gguf") is None:
        return
    with tempfile.TemporaryDirectory() as made:
        path = write_vocabulary(Path(made) / "a.gguf", words)
        theirs = inside("import gguf", f"found = gguf.GGUFReader({str(path)!r})")
        costs = in_turns(gguf_head(path), theirs, rounds=1)
    yield Peer(f"head of a GGUF file of {words:,} words", "gguf-py", costs)


def local_rows(folder: Path, *, rounds: int) -> Iterator[Peer]:
    """Tables of a local file, in a process that runs."""
    import torch
    from safetensors import safe_open

    import hfposemb

    def whole(path: Path, name: str, framework: str) -> float:
        with safe_open(path / "model.safetensors", framework) as file:
            found = file.get_tensor(name)
        return touch(found.to(torch.float32).numpy() if framework == "pt" else found)

    positions = here(lambda: touch(hfposemb.extract(folder).position.table.vectors), repeat=20)
    theirs = here(lambda: whole(folder, "wpe.weight", "np"), repeat=20)
    yield Peer("local position table", "safetensors", in_turns(positions, theirs, rounds=3 * rounds))
    tokens = here(lambda: touch(hfposemb.extract(folder).token.vectors))
    theirs = here(lambda: whole(folder, "wte.weight", "np"))
    yield Peer("local token table, F32", "safetensors", in_turns(tokens, theirs, rounds=rounds))
    with tempfile.TemporaryDirectory() as made:
        half = write_gpt2(Path(made) / "half", dtype="BF16")
        tokens = here(lambda: touch(hfposemb.extract(half).token.vectors))
        theirs = here(lambda: whole(half, "wte.weight", "pt"))
        costs = in_turns(tokens, theirs, rounds=rounds)
    yield Peer("local token table, BF16 to float32", "safetensors + torch", costs)


def hub_rows(folder: Path, *, rounds: int) -> Iterator[Peer]:
    """The position table of a model on the Hub, 30 ms and 400 Mb/s away, nothing of it on this machine yet."""
    import json

    from huggingface_hub import HfFileSystem

    import hfposemb

    with hub_of(folder) as endpoint, tempfile.TemporaryDirectory() as cache:

        def ours() -> float:
            os.environ["HFPOSEMB_CACHE"] = tempfile.mkdtemp(dir=cache)
            return touch(hfposemb.extract("a/gpt2").position.table.vectors)

        def theirs() -> float:
            files = HfFileSystem(endpoint=endpoint, skip_instance_cache=True)
            with files.open("a/gpt2/model.safetensors", "rb") as file:
                length = int.from_bytes(file.read(8), "little")
                info = json.loads(file.read(length))["wpe.weight"]
                start, stop = info["data_offsets"]
                file.seek(8 + length + start)
                return touch(np.frombuffer(file.read(stop - start), np.float32).reshape(info["shape"]))

        assert ours() == theirs()
        costs = in_turns(here(ours), here(theirs), rounds=rounds)
    yield Peer("position table from the Hub", "HfFileSystem", costs)


def linear_rows(*, rows: int, width: int, rounds: int) -> Iterator[Peer]:
    """PCA and Procrustes, one pass over a table each."""
    from scipy.spatial import procrustes as theirs_aligned
    from sklearn.decomposition import PCA

    import hfposemb
    from hfposemb.comparison.alignment import procrustes

    vectors, size = decaying(rows, width), f"{rows:,} × {width:,}"
    for dims in (2, 50):
        ours = here(lambda dims=dims: hfposemb.project(as_table(vectors), dims=dims))
        theirs = here(lambda dims=dims: PCA(dims, svd_solver="covariance_eigh").fit_transform(vectors))
        name = f"PCA {size}, {dims} components"
        yield Peer(name, 'scikit-learn, "covariance_eigh"', in_turns(ours, theirs, rounds=rounds))
    left, right = (decaying(rows, width, seed=seed).astype(np.float64) for seed in (0, 1))
    costs = in_turns(here(lambda: procrustes(left, right)), here(lambda: theirs_aligned(left, right)), rounds=rounds)
    yield Peer(f"Procrustes {size}", "scipy.spatial.procrustes", costs)


def faiss_rows(vectors: Rows, *, rounds: int) -> Iterator[Peer]:
    """The nearest of one row and of every row, with the exact index of inner products of unit rows."""
    if find_spec("faiss") is None:
        return
    import faiss

    import hfposemb
    from hfposemb.analysis.similarity.nearest_rows import all_neighbours

    table, size = as_table(vectors), f"{len(vectors):,} × {vectors.shape[1]}"
    unit = np.ascontiguousarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    index = faiss.IndexFlatIP(unit.shape[1])
    index.add(unit)
    hfposemb.neighbours(table, 0, k=10)  # both have their rows at unit length before the first question
    one = here(lambda: hfposemb.neighbours(table, 17, k=10), repeat=10)
    theirs = here(lambda: index.search(unit[17:18], 11), repeat=10)
    costs = in_turns(one, theirs, rounds=3 * rounds)
    yield Peer(f"10 nearest of one row, {size}", "faiss IndexFlatIP", costs)
    every = here(lambda: all_neighbours(table, k=15))
    costs = in_turns(every, here(lambda: index.search(unit, 16)), rounds=rounds)
    yield Peer(f"15 nearest of every row, {size}", "faiss IndexFlatIP", costs)


def picture_rows(vectors: Rows) -> Iterator[Peer]:
    """UMAP beside other ways to a picture, each by its defaults for cosines, with how good both pictures are."""
    import hfposemb

    def ours() -> object:
        return hfposemb.project(as_table(vectors), method="umap").coordinates

    def umap() -> object:
        from umap import UMAP

        return UMAP(random_state=0, metric="cosine", n_jobs=1).fit_transform(vectors)

    def tsne() -> object:
        from openTSNE import TSNE

        return TSNE(metric="cosine", n_jobs=2, random_state=0).fit(vectors)

    def pacmap() -> object:
        from pacmap import PaCMAP

        return PaCMAP(random_state=0, distance="angular").fit_transform(vectors)

    name = f"UMAP {len(vectors):,} × {vectors.shape[1]}, warm"
    for module, library, theirs, compiles in (
        ("umap", "umap-learn", umap, True),
        ("openTSNE", "openTSNE", tsne, False),
        ("pacmap", "PaCMAP", pacmap, True),
    ):
        if find_spec(module) is None:
            continue
        made: list[object] = []
        runs = [here(lambda picture=picture, made=made: made.append(picture())) for picture in (ours, theirs)]
        # What is compiled when it is first used is compiled in a round that does not count.
        costs = in_turns(runs[0], runs[1], rounds=1, warm=compiles)
        yield Peer(name, library, costs, _qualities(vectors, made[-2:]))


def _qualities(vectors: Rows, pictures: Sequence[object]) -> str:
    """Write how far each picture can be trusted, from 1,500 of its points."""
    from hfposemb.analysis.projection.quality import point_trust

    table = as_table(vectors)
    found = [point_trust(table, np.asarray(one), metric="cosine", points=1_500).quality for one in pictures]
    trusted = " and ".join(f"{one.trustworthiness:.3f}" for one in found)
    kept = " and ".join(f"{one.neighbours_kept:.3f}" for one in found)
    return f"trustworthiness {trusted}; neighbours kept {kept}"
