"""Limits on what visitors can request, enforced and displayed by the app. This module imports nothing heavy.

Guarantees in public mode: no request exceeds ``REQUEST_BYTES``, no text its maximum length; a visitor has at most
``MOST_OF_ONE`` heavy jobs, of which one runs; and a job is limited to ``PUBLIC_SECONDS`` and ``PUBLIC_MEMORY``. The
limits of tables are in ``hfposemb.checkpoints.limits.PUBLIC_LIMITS``. Text lengths and the queue are the same in local
mode.
"""

from __future__ import annotations

from hfposemb.checkpoints.limits import PUBLIC_LIMITS

MOST_EVENTS = 40
"""Events waiting in Gradio's queue, beyond which new ones are refused because the app is busy."""

MOST_RUNNING = 200
"""Events that run, most of which only wait: for a heavy job, for a download or for their visitor's turn."""

MOST_WAITING = 12
"""Heavy jobs that may wait in the queue behind the running one."""

MOST_OF_ONE = 6
"""Heavy jobs of one page that run or wait, such as metrics, maps and report of a comparison and three answers."""

LONGEST_JOB = 1800
"""Seconds after which a job is killed."""

PUBLIC_SECONDS = 600
"""The same in public mode."""

PUBLIC_MEMORY = 8 * 2**30
"""Address space of a job in public mode, in bytes. UMAP of 50,000 × 768 uses 2.5 GB of it, and 1.1 GB of memory."""

REQUEST_BYTES = 64 * 1024
"""Maximum size of a request body in public mode."""

BUILTIN_BYTES = 128 * 2**20
"""Maximum size of a built-in table in public mode."""

FILES_SECONDS = 3600
"""Seconds for which Gradio keeps the files it copies for a page, which fetches them at once."""

MOST_SESSIONS = 500
"""Pages whose session Gradio keeps, half a megabyte each; of further ones, the one unused for longest starts again."""

LEFT_SECONDS = 600
"""Seconds for which the session of a page that was left is kept, in case it was the connection."""

STORE_BYTES = 2**28
"""Limit for the files made for pages, which Gradio copies at once."""

COMPARISON_DRAWS = 100
"""Surrogates per number in the Compare tab and its report."""

TRAINING_DRAWS = 20
"""Surrogates per number and checkpoint in the Training tab."""

CHECKPOINTS = 40
"""Maximum number of checkpoints read of a training run, evenly spaced."""

PUBLIC_CHECKPOINTS = 16
"""The same in public mode."""

QUICK_FLOPS = 10**10
"""Multiplications up to which tables are measured while the page waits; larger ones run as a job."""

TRUST_FLOPS = 10**9
"""Multiplications up to which a map's quality is measured before it is drawn, a few hundredths of a second.

For larger tables that takes several times as long as PCA, so it is measured only when the map is coloured by trust.
"""

PCA_FLOPS = 2 * 10**11
"""Multiplications up to which PCA is computed while the page waits, about a second; more run as a job."""

UMAP_UNASKED = 2**25
"""Numbers of a token table up to which UMAP is computed without being asked, about a minute; never in public mode."""

SEARCHED = 2**24
"""Numbers of a token table up to which odd tokens are computed automatically; for larger tables on request, as a job.
"""

MOST_SIGNED_IN = 32
"""Visitors who are signed in at the same time; beyond them, the one inactive for longest is signed out."""

SIGNED_IN_SECONDS = 8 * 3600
"""Seconds after which a visitor is signed out at the latest."""

SIGNED_IN_SOURCE_BYTES = 2**30
"""Limit for the tables that are open with the token of one visitor."""

SIGNED_IN_RESULT_BYTES = 2**27
"""Limit for the results computed for one visitor who is signed in, and for the files made of them."""

HELD_BYTES = 2**28
"""Size up to which a table is held in memory as float32; a larger one is read from its file each time."""

MOST_SOURCES = 8
LONGEST_SOURCE = 1024
LONGEST_SENTENCE = 300
LONGEST_QUERY = 200
LONGEST_PATTERN = 80
MOST_WORDS = 12
LONGEST_TEXT = 1024
"""Maximum number of characters of any other typed text; longer ones are refused before any processing."""


_SOURCES = (
    "Sources are public models of the Hugging Face Hub, samples and built-ins. To open your own files and private "
    "models, run the app on your machine: make run in a checkout of hfposemb."
)
_SOURCES_SIGNED_IN = (
    "Sources are models of the Hugging Face Hub, samples and built-ins. Sign in to open your private and gated models: "
    "what is read with your account is kept for you alone, until you sign out. To open your own files, run the app on "
    "your machine: make run in a checkout of hfposemb."
)


def told(*, sign_in: bool = False) -> tuple[str, ...]:
    """Return sentences that describe the limits to visitors of a public page, where they can ``sign_in`` or not."""
    most = PUBLIC_LIMITS
    return (
        _SOURCES_SIGNED_IN if sign_in else _SOURCES,
        f"A table has at most {most.rows:,} rows, {most.columns:,} columns and {most.table_bytes / 1e9:g} GB, "
        f"a built-in {BUILTIN_BYTES >> 20} MB.",
        f"A sentence has at most {LONGEST_SENTENCE} characters, a search {LONGEST_QUERY}, a comparison {MOST_WORDS} "
        f"words, a page {MOST_SOURCES} sources, a training run {PUBLIC_CHECKPOINTS} checkpoints.",
        f"One UMAP, comparison or report is computed at a time, for at most {PUBLIC_SECONDS // 60} minutes. "
        f"Up to {MOST_WAITING} can wait in the queue, at most {MOST_OF_ONE} of them from one page.",
    )


CHECKED_AT_ONCE = 2**25
"""Size of a local checkpoint in bytes up to which its files are checked while the page waits."""

MEASURED_AT_ONCE = 2**22
"""Numbers of a table up to which its encoding properties are computed automatically."""
