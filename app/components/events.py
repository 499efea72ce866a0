"""Options shared by the app's event listeners."""

from __future__ import annotations

from typing import Any

QUIET: dict[str, Any] = {
    "show_progress": "hidden",
    # Gradio's page tracks the progress of a listener on each of its outputs, even if none is shown, and on every
    # message of any listener it copies the state of all tracked components: half a second on a large page.
    "show_progress_on": [],
    "api_visibility": "private",
    "concurrency_limit": None,
    # Gradio keeps a queue of each listener for ever, also of those of a tab that one visitor has opened.
    "concurrency_id": "quiet",
}
"""For listeners that need no progress display, public endpoint or concurrency limit."""

UNFOLDED = "unfolded"
"""The value in the URL of an accordion that is open."""
