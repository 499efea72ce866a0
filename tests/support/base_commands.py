"""Commands that need no extra, and those that name one, for a Python without extras."""

from __future__ import annotations

RUNNER = """
import contextlib, io, json, sys
from hfposemb.cli.main import main

def run(arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()

json.dump([run(arguments) for arguments in json.loads(sys.argv[1])], sys.stdout)
"""


RUNS = (
    "info sample:minilm",
    "info owner/model",
    "info ./model.gguf",
    "info ./model.onnx",
    "extract owner/model --table position --out rows.npy",
    "extract ./model.gguf --table token --out words.csv",
    "extract ./model.onnx --table token --out words.safetensors",
    "neighbours owner/model king",
    "similarity sample:bert --rows king,queen",
    "project sample:bert --table position --dims 3 --out points.tsv",
    "compare sample:gpt2 sinusoidal:256x128 --draws 2 --json",
    "compare sample:gpt2 --draws 0 --also sums",
    "odd sample:bert",
    "changes random:64x8?seed=1 random:64x8?seed=2 --table position",
    "info sinusoidal:64x16 --requirements",
    "check owner/model",
    "rope rotary:64x16",
    "trajectory sample:gpt2 --revisions step-* --most 2 --draws 0",
    "reproduce sinusoid-rotation",
    "cache",
)
"""Commands that need no extra."""


REFUSED = {
    "project sample:bert --method umap": "UMAP needs the package umap-learn: pip install 'hfposemb[umap]'",
    "compare sample:gpt2 --out page.html": "a report needs the package plotly: pip install 'hfposemb[plot]'",
    "compare sample:gpt2 --draws 0 --also probes": "a probe needs the package scikit-learn: "
    "pip install 'hfposemb[probes]'",
    "export sample:gpt2 --figure norms --out norms.html": "a figure needs the package plotly: "
    "pip install 'hfposemb[plot]'",
    "export sample:gpt2 --out all.zip": "a report needs the package plotly: pip install 'hfposemb[plot]'",
    "export sample:gpt2 --projection umap --out map.csv": "UMAP needs the package umap-learn: "
    "pip install 'hfposemb[umap]'",
    "export sample:gpt2 --out words.parquet": "writing a parquet file needs the package pyarrow: "
    "pip install 'hfposemb[export]'",
    "trajectory sample:gpt2 --revisions step-* --out run.html": "a figure needs the package plotly: "
    "pip install 'hfposemb[plot]'",
    "survey sample:gpt2 --draws 0 --out surveyed": "a survey needs the package pandas: pip install 'hfposemb[export]'",
    "verify sample:gpt2": "verify needs the package transformers: pip install 'hfposemb[torch]'",
    "app": "the app needs the package gradio: pip install 'hfposemb[app]'",
}
"""Commands that need an extra, and what they print."""
