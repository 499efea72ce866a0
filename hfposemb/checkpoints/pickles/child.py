"""Child process that loads a pickled checkpoint."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import one_line
from .safe_torch import refusal

if TYPE_CHECKING:
    import torch


CHUNK = 2**20
_DTYPES = {
    **{"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "complex64": "C64", "bool": "BOOL"},
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    **{"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"},
}


_NESTED = ("state_dict", "model_state_dict", "model", "module")
"""Keys under which training scripts store the state dict in a larger one."""


_DEEPEST = 4
_TORCH_RAISES = (
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    OSError,
    AssertionError,
    ArithmeticError,
    ImportError,
    pickle.UnpicklingError,
    struct.error,
)
"""Exceptions that torch.load was seen to raise for invalid files; any other one ends the child."""


class _RefusedError(Exception):
    """The file cannot be read here; the message is shown to the user."""


def serve_pickle() -> None:
    """Load the file named by the first line of stdin, then send the tensor named by each further line.

    Runs in the child.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep library output out of the answers
    asked: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    task = asked.get()
    try:
        import torch

        if (refused := refusal(str(torch.__version__))) is not None:
            raise _RefusedError(refused)
        # Else an index beyond its axis is written to.
        torch.sparse.check_sparse_tensor_invariants.enable()  # type: ignore[no-untyped-call]
        bound(task["memory"])
        tensors = _state_dict(_load(task["path"]))
        header = json.dumps(_describe(tensors), separators=(",", ":")).encode()
        _answer(answers, memoryview(header))
        while True:
            with torch.no_grad():
                _answer(answers, _raw(tensors[asked.get()["tensor"]]))
    except _RefusedError as error:
        _refuse(answers, str(error))
    except MemoryError:
        _refuse(answers, _too_large(task["memory"]))
    except _TORCH_RAISES as error:
        _refuse(answers, _explain(error, task["memory"]))


def _listen(asked: SimpleQueue[dict[str, Any]]) -> None:
    """Queue requests, and exit when the parent closes the pipe."""
    for line in sys.stdin.buffer:
        asked.put(json.loads(line))
    os._exit(1)


def _answer(pipe: IO[bytes], content: memoryview) -> None:
    pipe.write(json.dumps({"bytes": len(content)}).encode() + b"\n")
    for start in range(0, len(content), CHUNK):
        pipe.write(content[start : start + CHUNK])
    pipe.flush()


def _refuse(pipe: IO[bytes], words: str) -> None:
    pipe.write(json.dumps({"error": words[:300]}).encode() + b"\n")
    pipe.flush()


def bound(memory: int) -> None:
    """Limit memory to ``memory`` bytes beyond current use, and forbid writing files."""
    with suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        # Count from here: torch itself, with CUDA, takes many times what a small file needs.
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + memory, taken + memory))


def _load(path: str) -> object:
    import torch

    with open(path, "rb") as file:
        zipped = file.read(4) == b"PK\x03\x04"
    # Zip archives are mapped, so only requested tensors are read; the older format is read whole.
    return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)


def _state_dict(loaded: object) -> dict[str, torch.Tensor]:
    """Return the tensors by name from the mapping that holds the model, looking into nested training state.

    Anything but tensors is skipped: step counters, optimisers, arguments.
    """
    import torch

    found = loaded
    for _ in range(_DEEPEST):
        if not isinstance(found, Mapping):
            break
        inner = next((found[key] for key in _NESTED if isinstance(found.get(key), Mapping)), None)
        if inner is None:
            tensors = {name: one for name, one in found.items() if isinstance(one, torch.Tensor)}
            named = tensors or dict(_nested(found))
            return {name: tensor.detach() for name, tensor in named.items() if isinstance(name, str)}
        found = inner
    raise _RefusedError(
        f"holds a {type(found).__name__}, not a state dict; save the model with torch.save(model.state_dict(), file)"
    )


def _nested(found: Mapping[Any, Any], depth: int = 6) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (path, tensor) pairs of nested mappings, as Megatron-LM stores its modules."""
    import torch

    for name, one in found.items():
        if isinstance(one, torch.Tensor):
            yield str(name), one
        elif isinstance(one, Mapping) and depth > 1:
            yield from ((f"{name}.{inner}", tensor) for inner, tensor in _nested(one, depth - 1))


def _describe(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Return the safetensors header that these tensors would have; aliased tensors are listed once.

    Its metadata maps further names of a tensor to ``=name``, and types unknown to safetensors to ``!TYPE axes``.
    """
    import torch

    header: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    seen: dict[tuple[object, ...], str] = {}
    at = 0
    for name, tensor in tensors.items():
        kind = str(tensor.dtype).removeprefix("torch.")
        shape = list(tensor.shape)
        dense = tensor.layout == torch.strided
        if kind not in _DTYPES or tensor.is_quantized or tensor.is_nested or tensor.is_meta:
            what = "meta" if tensor.is_meta else kind
            metadata[name] = f"!{what} {' '.join(map(str, shape))}"
            continue
        if dense and tensor.numel():
            place = (tensor.data_ptr(), kind, *shape, *tensor.stride(), tensor.is_neg(), tensor.is_conj())
            if (same := seen.setdefault(place, name)) != name:
                metadata[name] = f"={same}"
                continue
        size = math.prod(shape) * tensor.element_size()
        header[name] = {"dtype": _DTYPES[kind], "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return ({"__metadata__": metadata} if metadata else {}) | header


def _raw(tensor: torch.Tensor) -> memoryview:
    """Return a tensor's data as safetensors stores it: dense and row by row."""
    import torch

    plain = (tensor if tensor.layout == torch.strided else tensor.to_dense()).resolve_neg().resolve_conj()
    raw: NDArray[np.uint8] = plain.contiguous().reshape(-1).view(torch.uint8).numpy()
    return raw.data


def _too_large(memory: int) -> str:
    return f"loading it exceeds the limit of {memory:,} bytes of memory for a file of its size"


def _explain(error: Exception, memory: int) -> str:
    """Condense torch's error message to one line."""
    said = one_line(error)
    if re.search(r"alloc|not enough memory|Cannot allocate|unable to mmap", said):
        return _too_large(memory)
    if match := re.search(r"(?:GLOBAL|module) (\S{1,100}) (?:was not|is blocked)|Unsupported class (\S{1,100})", said):
        what = match[1] or match[2]
        return f"contains code, {what}, and is not loaded; save it with torch.save(model.state_dict(), file)"
    if "TorchScript" in said:
        return "is a TorchScript archive, which contains code; save the model with torch.save(model.state_dict(), file)"
    if "central directory" in said or isinstance(error, EOFError):
        return "is truncated; download it again"
    said = re.split(r" \(Could this error| Check the documentation", said)[0]
    said = (
        re.sub(r"^Weights only load failed.*?(?=WeightsUnpickler error|$)", "", said)
        or "not a file written by torch.save"
    )
    return f"torch cannot load it ({type(error).__name__}: {said[:120]}); download it again, or use safetensors"
