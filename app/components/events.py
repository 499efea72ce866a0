"""Options that event listeners of the app share."""

from __future__ import annotations

from typing import Any

QUIET: dict[str, Any] = {
    "show_progress": "hidden",
    # Gradio's page notes the progress of a listener on each of its outputs, also where none is shown, and at every
    # message of any listener it copies the state of all components that ever had a note: half a second on a large page.
    "show_progress_on": [],
    "api_visibility": "private",
    "concurrency_limit": None,
}
"""For listeners that need no progress, no endpoint and no limit of their own."""
