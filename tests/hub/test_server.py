"""The fake Hub itself, with the real client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.server import FakeHub

REPO = "owner/model"
WEIGHTS = bytes(range(256)) * 400
CONFIG = b'{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}'


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as started:
        started.add(REPO, {"config.json": CONFIG, "model.safetensors": WEIGHTS, "onnx/deep/model.onnx": b"onnx"})
        yield started


def test_the_real_client_is_content(hub: FakeHub, tmp_path: Path) -> None:
    hub.rename("model", REPO)
    hub.add(REPO, {"config.json": b"{}"}, branch="refs/pr/1")
    hub.add("owner/gated", {"config.json": CONFIG}, gated=True)
    hub.page_size = 1
    script = """
import json, sys
from pathlib import Path
from huggingface_hub import HfApi, errors, hf_hub_download, snapshot_download
api, cache = HfApi(), sys.argv[1]
said = {
    "config": Path(hf_hub_download("model", "config.json", cache_dir=cache)).read_text(),
    "pr": Path(hf_hub_download("model", "config.json", revision="refs/pr/1", cache_dir=cache)).read_text(),
    "weights": Path(hf_hub_download("owner/model", "model.safetensors", cache_dir=cache)).stat().st_size,
    "snapshot": sorted(p.name for p in Path(snapshot_download("model", cache_dir=cache)).rglob("*") if p.is_file()),
    "files": api.list_repo_files("model"),
    "sizes": {s.rfilename: s.size for s in api.model_info("model", files_metadata=True).siblings},
    "models": [m.id for m in api.list_models(author="owner")],
    "refs": [r.ref for r in api.list_repo_refs("model", include_pull_requests=True).pull_requests],
    "exists": [api.file_exists("model", "config.json"), api.file_exists("model", "no"), api.repo_exists("no/no")],
    "commits": len(api.list_repo_commits("model")),
    "paths": [p.size for p in api.get_paths_info("model", ["config.json"])],
    "errors": [],
}
for name, file, more in [
    ("no/no", "a", {}), ("owner/gated", "config.json", {}), ("model", "no", {}), ("model", "a", {"revision": "no"})
]:
    try:
        hf_hub_download(name, file, cache_dir=cache, **more)
    except errors.HfHubHTTPError as error:
        said["errors"].append(type(error).__name__)
    except errors.LocalEntryNotFoundError as error:
        said["errors"].append(type(error.__cause__).__name__)
print(json.dumps(said))
"""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
    clean = {**kept, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-c", script, str(tmp_path / "cache")]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "config": CONFIG.decode(),
        "pr": "{}",
        "weights": len(WEIGHTS),
        "snapshot": ["config.json", "model.onnx", "model.safetensors"],
        "files": ["config.json", "model.safetensors", "onnx/deep/model.onnx"],
        "sizes": {"config.json": len(CONFIG), "model.safetensors": len(WEIGHTS), "onnx/deep/model.onnx": 4},
        "models": ["owner/model", "owner/gated"],
        "refs": ["refs/pr/1"],
        "exists": [True, False, False],
        "commits": 1,
        "paths": [len(CONFIG)],
        "errors": ["RepositoryNotFoundError", "GatedRepoError", "RemoteEntryNotFoundError", "RevisionNotFoundError"],
    }
    assert not [seen for seen in hub.requests if seen.host == "elsewhere"]
