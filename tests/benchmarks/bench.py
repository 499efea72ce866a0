"""Compare what this package costs with its bounds: ``python -m tests.benchmarks.bench``.

Every figure is the median of interleaved runs (ours, bound, ours, bound, …) in one script on one machine, and what
counts is the ratio beside its goal. Files are read from the page cache. Nothing here is a test.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.request import Request, urlopen

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Cost:
    """Hold one run: seconds of wall clock and of CPU, and the peak memory of its process in bytes (0: not asked)."""

    wall: float
    cpu: float
    peak: float = 0


@dataclass(frozen=True)
class Row:
    """Hold one comparison; ``worst`` is the largest ratio of ``measure`` that meets the goal."""

    name: str
    ours: Cost
    bound: Cost
    worst: float
    measure: str = "wall"

    @property
    def ratio(self) -> float:
        """Return ours divided by the bound."""
        return float(getattr(self.ours, self.measure) / getattr(self.bound, self.measure))


def here(action: Callable[[], object], *, repeat: int = 1) -> Callable[[], Cost]:
    """Run an action in this process, several times a run where it is short."""

    def run() -> Cost:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(repeat):
            action()
        return Cost((time.perf_counter() - wall) / repeat, (time.process_time() - cpu) / repeat)

    return run


_PEAK = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"


def fresh(code: str) -> Callable[[], Cost]:
    """Run code in a fresh interpreter; wall and CPU include its start."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "TRANSFORMERS_VERBOSITY": "error"}

    def run() -> Cost:
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", f"{code}\n{_PEAK}"], env=environment, cwd=ROOT, check=True, capture_output=True
        )
        wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Cost(wall, cpu, int(done.stdout.split()[-1]) * 1024)

    return run


def importing(module: str) -> Callable[[], Cost]:
    """Time one import statement in a fresh interpreter, without the interpreter's own start."""
    code = (
        "import time\n"
        f"wall, cpu = time.perf_counter(), time.process_time()\nimport {module}\n"
        "print(time.perf_counter() - wall, time.process_time() - cpu)"
    )

    def run() -> Cost:
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
        return Cost(*map(float, done.stdout.split()))

    return run


def compare(ours: Callable[[], Cost], bound: Callable[[], Cost], *, rounds: int) -> tuple[Cost, Cost]:
    """Return the medians of interleaved runs, after one of each that does not count."""
    runs: tuple[list[Cost], list[Cost]] = ([], [])
    for turn in range(rounds + 1):
        for run, into in zip((ours, bound), runs, strict=True):
            cost = run()
            if turn:
                into.append(cost)

    def middle(costs: list[Cost]) -> Cost:
        return Cost(
            median(cost.wall for cost in costs), median(cost.cpu for cost in costs), median(cost.peak for cost in costs)
        )

    return middle(runs[0]), middle(runs[1])


@contextmanager
def gpt2_folder() -> Iterator[Path]:
    """Make a checkpoint of GPT-2's size and names: 148 tensors, 498 MB."""
    from safetensors.numpy import save_file

    width, generator = 768, np.random.default_rng(0)
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
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        tensors = {name: generator.random(shape, dtype=np.float32) for name, shape in shapes.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(config))
        yield folder


def touch(table: np.ndarray) -> float:
    """Bring every page of a mapped table into memory, as a plain read does."""
    return float(table.reshape(-1)[::1024].sum())


def local_rows(folder: Path) -> Iterator[Row]:
    """Compare rows 1 and 3: the position table of a local file, in a process that runs and in a fresh one."""
    import hfposemb
    from hfposemb.checkpoint import Checkpoint

    source = str(folder)
    info = Checkpoint.open(folder).info("wpe.weight")

    def plain() -> bytes:
        with open(folder / info.file, "rb") as file:
            file.seek(info.start)
            return file.read(info.nbytes)

    reader = here(lambda: touch(Checkpoint.open(folder).read("wpe.weight")), repeat=20)
    yield Row("1  local position table, reader alone", *compare(reader, here(plain, repeat=20), rounds=15), 2)
    extract = here(lambda: touch(hfposemb.extract(source).position.table.vectors), repeat=20)
    yield Row("1  local position table, extract()", *compare(extract, here(plain, repeat=20), rounds=15), 2)

    ours = fresh(f"import hfposemb\nassert hfposemb.extract({source!r}).position.table.vectors.sum()")
    theirs = fresh(
        "from transformers import AutoModel\n"
        f"assert AutoModel.from_pretrained({source!r}).wpe.weight.detach().numpy().sum()"
    )
    costs = compare(ours, theirs, rounds=5)
    yield Row("3  whole process, time", *costs, 1 / 30)
    yield Row("3  whole process, peak memory", *costs, 1 / 10, "peak")


@contextmanager
def hub_of(folder: Path) -> Iterator[str]:
    """Serve the folder as a/gpt2 from a process of its own, 30 ms and 400 Mb/s away; yield the endpoint."""
    command = [sys.executable, "-m", "tests.hub", f"a/gpt2={folder}", "--delay", "0.03", "--rate", "50e6"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        settings = dict(part.split("=", 1) for part in process.stdout.readline().split())
        os.environ |= settings
        yield settings["HF_ENDPOINT"]
        process.communicate("")


def fetch(url: str, span: tuple[int, int] | None = None) -> int:
    """Return how many bytes a GET of a file brings, one redirect followed: what no client can do without."""
    headers = {} if span is None else {"Range": f"bytes={span[0]}-{span[1] - 1}"}
    with urlopen(Request(url, headers=headers)) as answer:
        return sum(len(piece) for piece in iter(lambda: answer.read(2**20), b""))


def hub_rows(folder: Path) -> Iterator[Row]:
    """Compare rows 4 and 5: the position table of a model on the Hub, nothing of it on this machine yet."""
    import huggingface_hub  # noqa: F401 - imported by whoever reads from the Hub, and not what is measured

    import hfposemb
    from hfposemb.checkpoint import Checkpoint

    info = Checkpoint.open(folder).info("wpe.weight")
    with hub_of(folder) as endpoint, tempfile.TemporaryDirectory() as cache:
        file = f"{endpoint}/a/gpt2/resolve/main/model.safetensors"

        def ours() -> None:
            os.environ["HFPOSEMB_CACHE"] = tempfile.mkdtemp(dir=cache)
            touch(hfposemb.extract("a/gpt2").position.table.vectors)

        costs = compare(here(ours), here(lambda: fetch(file, (info.start, info.stop))), rounds=9)
        yield Row("5  from the Hub, over one ideal ranged GET", *costs, 2)
        yield Row("5  from the Hub, over the whole file", costs[0], here(lambda: fetch(file))(), 1 / 40)


def import_rows() -> Iterator[Row]:
    """Compare row 12: what the import statement costs."""
    yield Row(
        "12 import hfposemb, over import numpy", *compare(importing("hfposemb"), importing("numpy"), rounds=15), 1.5
    )


def show(row: Row) -> None:
    """Print one line of the table."""

    def cost(value: Cost) -> str:
        peak = f"{value.peak / 1e6:7.0f} MB" if value.peak else " " * 10
        return f"{value.wall * 1e3:9.2f} {value.cpu * 1e3:9.2f} {peak}"

    ratio, goal = (f"{x:.2f} x" if row.worst >= 1 else f"1/{1 / x:.1f}" for x in (row.ratio, row.worst))
    verdict = "met" if row.ratio <= row.worst else "MISSED"
    print(f"{row.name:40} {cost(row.ours)}  {cost(row.bound)}  {ratio:>8} {'<= ' + goal:>10}  {verdict}", flush=True)


def main() -> None:
    """Run all comparisons and print a line for each."""
    side = f"{'ms':>9} {'CPU ms':>9} {'peak':>10}"
    print(f"{'ours, then the bound':40} {side}  {side}  {'ratio':>8} {'goal':>10}")
    for row in import_rows():
        show(row)
    with gpt2_folder() as folder:
        for row in (*hub_rows(folder), *local_rows(folder)):
            show(row)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
