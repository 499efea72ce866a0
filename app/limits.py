"""What a visitor may ask for, in one place: the app obeys these numbers and shows them. Nothing heavy is imported here.

Promised in public mode: no request is larger than ``REQUEST_BYTES``, no text longer than its bound, a visitor has at
most ``MOST_OF_ONE`` heavy jobs, of which one runs, and a job has ``PUBLIC_SECONDS`` and ``PUBLIC_MEMORY``. What a table
may be, ``hfposemb.checkpoints.limits.PUBLIC_LIMITS`` says. The texts and the line are the same in local mode.
"""

from __future__ import annotations

from hfposemb.checkpoints.limits import PUBLIC_LIMITS

MOST_EVENTS = 40
"""Events that wait in Gradio's queue before newcomers are told that the app is busy."""

MOST_WAITING = 8
"""Heavy jobs that wait in line behind the one that runs."""

MOST_OF_ONE = 3
"""Heavy jobs of one page that run or wait: figures, maps and the report of a comparison, say."""

LONGEST_JOB = 1800
"""Seconds after which a job is killed."""

PUBLIC_SECONDS = 600
"""The same for strangers."""

PUBLIC_MEMORY = 8 * 2**30
"""Address space of a stranger's job. UMAP of 50,000 × 768 takes 2.5 GB of it, and 1.1 GB of memory."""

SEARCH_MEMORY = 4 * 2**30
"""Address space of a search by pattern, for anybody."""

REQUEST_BYTES = 64 * 1024
"""The largest body of a request from strangers."""

BUILTIN_BYTES = 128 * 2**20
"""The largest closed form that a stranger may have computed."""

FILES_SECONDS = 3600
"""How long files are kept that Gradio copies for a page, which fetches them at once."""

COMPARISON_DRAWS = 100
"""Surrogates behind each number of the Compare tab and its report."""

TRAINING_DRAWS = 20
"""Surrogates behind each number of the Training tab, at every checkpoint."""

CHECKPOINTS = 40
"""Checkpoints of a training run that are read at most, evenly spread."""

PUBLIC_CHECKPOINTS = 16
"""The same for strangers."""

QUICK_FLOPS = 10**10
"""Multiplications up to which tables are measured while the page waits; larger ones are in a job."""

PCA_FLOPS = 2 * 10**11
"""Multiplications up to which PCA is computed while the page waits, about a second; more are a job."""

SEARCHED = 2**24
"""Numbers of a token table up to which odd tokens are looked for unasked; in a larger one on demand, as a job."""

HELD_BYTES = 2**28
"""Bytes up to which a table is held in memory as float32; a larger one is read from its file again each time."""

MOST_SOURCES = 4
LONGEST_SOURCE = 1024
LONGEST_SENTENCE = 300
LONGEST_QUERY = 200
LONGEST_PATTERN = 80
MOST_WORDS = 12
LONGEST_TEXT = 1024
"""Characters of any other text that is typed; a longer one is refused before anything looks at it."""


def told() -> tuple[str, ...]:
    """Return what a stranger should know of these, each a sentence."""
    most = PUBLIC_LIMITS
    return (
        "Sources are public models of the Hugging Face Hub, samples and built-ins. Your own files and private models "
        "are read where the app runs on your machine: pip install hfposemb.",
        f"A table has at most {most.rows:,} rows, {most.columns:,} columns and {most.table_bytes / 1e9:g} GB, "
        f"a built-in {BUILTIN_BYTES >> 20} MB.",
        f"A sentence has at most {LONGEST_SENTENCE} characters, a search {LONGEST_QUERY}, a comparison {MOST_WORDS} "
        f"words, a page {MOST_SOURCES} sources, a training run {PUBLIC_CHECKPOINTS} checkpoints.",
        f"One UMAP, comparison or report is computed at a time, for at most {PUBLIC_SECONDS // 60} minutes. "
        f"{MOST_WAITING} can wait in line, at most {MOST_OF_ONE} of them from one page.",
    )


MEASURED_AT_ONCE = 2**22
"""Numbers of a table whose encoding properties are computed without being asked for."""
