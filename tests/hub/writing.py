"""The part of the fake Hub that is written to: Spaces are created, files are sent, and a commit joins them.

Routes, bodies and answers are those that ``create_repo`` and ``upload_folder`` of huggingface_hub know. Large files go
to the CDN with PUT, as git-lfs sends them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from tests.hub.answer import Answer, Blob, Request
from tests.hub.replies import failed, in_json, in_text, signature

if TYPE_CHECKING:
    from tests.hub.server import FakeHub

SDKS = ("gradio", "docker", "static")


@dataclass
class Writing:
    """Who may write where, and the large files that were sent but not committed yet."""

    hub: FakeHub
    owners: dict[str, set[str]] = field(default_factory=dict)
    """Owners that a token may write to."""
    sent: dict[str, Blob] = field(default_factory=dict)

    def may(self, token: str, name: str) -> bool:
        """Tell whether a token may write to a repository of this name."""
        return name.split("/")[-2] in self.owners.get(token, ())

    def create(self, request: Request, token: str) -> Answer:
        """Create a Space."""
        asked = json.loads(request.body)
        owner, name, sdk = asked["organization"] or "tester", asked["name"], asked.get("sdk")
        full = f"spaces/{owner}/{name}"
        if asked.get("type") != "space" or sdk not in SDKS:
            return failed(400, "the fake Hub creates Spaces, and knows their SDK")
        if not token:
            return failed(401, "Invalid username or password.")
        if not self.may(token, full):
            return failed(403, f'You don\'t have the rights to create a space under the namespace "{owner}"')
        url = {"url": f"{self.hub.endpoint}/{full}", "name": f"{owner}/{name}"}
        if full in self.hub._repos:
            return in_json({"error": "You already created this space repo", **url}, 409)
        private = asked.get("visibility") == "private" or asked.get("private") is True
        self.hub.add(full, {".gitattributes": "*.safetensors filter=lfs\n"}, private=private, sdk=sdk)
        for allowed, owners in self.owners.items():
            if owner in owners:
                self.hub.grant(allowed, {full})
        return in_json(url)

    def check_card(self, request: Request) -> Answer:
        """Look at the front matter of a README."""
        asked = json.loads(request.body)
        match = re.match(r"---\n(.*?)\n---\n", asked["content"], re.DOTALL)
        try:
            card = yaml.safe_load(match[1]) if match else {}
        except yaml.YAMLError as error:
            return in_json({"errors": [{"message": str(error)}], "warnings": []}, 400)
        wrong = []
        if asked.get("repoType") == "space":
            wrong += [] if card.get("sdk") in SDKS else ['"sdk" must be one of [gradio, docker, static]']
            wrong += [] if isinstance(card.get("python_version", ""), str) else ['"python_version" must be a string']
            wrong += [] if len(card.get("short_description", "")) <= 60 else ['"short_description" is too long']
        errors = [{"message": message} for message in wrong]
        return in_json({"errors": errors, "warnings": []}, 400 if errors else 200)

    def modes(self, request: Request, name: str) -> Answer:
        """Say how each file is to be sent, and what is there already under its name."""
        repo = self.hub._repos[name]
        tree = repo.commits[repo.refs["main"]]
        files = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if one["path"].endswith((".safetensors", ".bin")) else "regular",
                "shouldIgnore": False,
                "oid": tree[one["path"]].oid if one["path"] in tree else None,
            }
            for one in json.loads(request.body)["files"]
        ]
        return in_json({"files": files})

    def batch(self, request: Request) -> Answer:
        """Say where the large files go; those that are known need not be sent."""
        objects = []
        for one in json.loads(request.body)["objects"]:
            place = f"/uploads/{one['oid']}"
            upload = {"href": f"{self.hub.cdn}{place}?Signature={signature(place)}"}
            known = one["oid"] in self.hub._blobs or one["oid"] in self.sent
            objects.append({**one, **({} if known else {"actions": {"upload": upload}})})
        return in_json({"transfer": "basic", "objects": objects})

    def put(self, request: Request) -> Answer:
        """Take a large file."""
        oid = request.path.partition("?")[0].rsplit("/", 1)[-1]
        if hashlib.sha256(request.body).hexdigest() != oid:
            return failed(400, "the content is not what its digest says")
        self.sent[oid] = Blob(request.body, len(request.body), oid, lfs=True)
        return in_text(200, "")

    def commit(self, request: Request, name: str) -> Answer:
        """Join what was sent to a commit of the main branch."""
        files: dict[str, bytes | None] = {}
        for line in request.body.splitlines():
            entry = json.loads(line)
            value: dict[str, Any] = entry["value"]
            match entry["key"]:
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    blob = self.sent.get(value["oid"]) or self.hub._blobs[value["oid"]]
                    assert isinstance(blob.data, bytes)
                    files[value["path"]] = blob.data
                case "deletedFile":
                    files[value["path"]] = None
        commit = self.hub.add(name, files)
        return in_json(
            {"success": True, "commitOid": commit, "commitUrl": f"{self.hub.endpoint}/{name}/commit/{commit}"}
        )
