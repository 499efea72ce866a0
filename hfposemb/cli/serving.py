"""Commands that serve the app, locally or as a Space."""

from __future__ import annotations

import argparse
import os

from ..errors import InputError, require
from .options import byte_size, print_json, print_result


def run_app(given: argparse.Namespace) -> None:
    """Serve the app."""
    require("gradio", extra="app", purpose="the app")
    from ..app import launch
    from ..app.limits import MOST_SOURCES
    from ..app.server.reach import check_sources, has_a_browser, reach

    if given.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read as huggingface_hub is imported, and by child processes
    if len(given.sources) > MOST_SOURCES:
        raise InputError(f"{len(given.sources)} sources given; the app shows at most {MOST_SOURCES} at once")
    public = True if given.public else False if given.trusted else None
    at = reach(given.host, given.share or None, public)
    check_sources(given.sources, public=at.public)
    blocks = launch(
        tuple(given.sources),
        host=at.host,
        port=given.port,
        share=at.share,
        public=public,
        auth=given.auth,
        mcp=given.mcp or None,
        inbrowser=not given.no_open and has_a_browser(),
        debug=given.debug,
        quiet=given.json,
        prevent_thread_lock=given.json,
    )
    if given.json:
        print_json({"url": blocks.local_url, "share_url": blocks.share_url, "public": at.public, "mcp": given.mcp})
        blocks.block_thread()


def run_space(given: argparse.Namespace) -> None:
    """Publish the app or a report as a Space, or with ``--dry-run`` list what would be uploaded."""
    from .space import presets_of, publish, space_files
    from .space_upload import check_name
    from .static_space import publish_static, static_files

    models = [model.strip() for model in given.models.split(",") if model.strip()]
    if given.static is not None and models:
        raise InputError("a static Space runs no app; give --models or --static, not both")
    if not given.dry_run:
        if given.static is None:
            url = publish(given.name, models=models, private=given.private)
        else:
            url = publish_static(given.name, given.static, private=given.private)
        print_result(url, {"url": url}, given)
        return
    check_name(given.name)
    files = (
        space_files(models, presets=presets_of(models), name=given.name)
        if given.static is None
        else static_files(given.static)
    )
    sizes = {name: len(text.encode()) if isinstance(text, str) else text.stat().st_size for name, text in files.items()}
    if given.json:
        print_json({"name": given.name, "files": sizes, "readme": files["README.md"]})
        return
    print(f"{given.name} would have {len(files)} files, {byte_size(sum(sizes.values()))}; nothing was uploaded")
    for name, size in sizes.items():
        print(f"  {name:<44}{byte_size(size):>12}")
    print(f"\nREADME.md:\n{files['README.md']}")
