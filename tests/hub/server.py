"""A fake Hugging Face Hub: HTTP/1.1 on loopback, standard library only, every request recorded, faults on demand.

Three hosts: the Hub (127.0.0.1), the CDN that large files are redirected to (localhost, another port), and "elsewhere"
(127.0.0.2), which nobody should ever ask. Routes, redirects, headers and error codes are those of huggingface.co.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from tests.hub.answer import Answer, Blob, Request, blob
from tests.hub.faults import FAULTS, looks_at
from tests.hub.replies import failed, in_json, in_text, shared, signature
from tests.hub.wire import Record, Seen, Server
from tests.hub.writing import Writing

__all__ = ["FAULTS", "FakeHub", "Fault", "Seen"]


@dataclass
class Fault:
    """A fault in force; `with` takes it away at the end of the block."""

    name: str
    times: int | None
    host: str | None
    path: re.Pattern[str]
    method: str | None
    after: int
    parameters: dict[str, Any]
    hub: FakeHub
    hits: int = 0
    """How many answers it has changed."""
    skipped: int = 0

    def remove(self) -> None:
        """Take it away."""
        with contextlib.suppress(ValueError):
            self.hub._faults.remove(self)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        self.remove()

    def concerns(self, request: Request, answer: Answer) -> bool:
        """Return whether this is one of the answers it counts."""
        at_host = request.host == self.host if self.host else request.host != "elsewhere"
        return (
            at_host
            and self.method in (None, request.method)
            and bool(self.path.search(request.path))
            and looks_at(self.name, answer, request)
        )


@dataclass
class _Repo:
    name: str
    private: bool = False
    gated: bool | str = False
    info: dict[str, Any] = field(default_factory=dict)
    commits: dict[str, dict[str, Blob]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)

    def resolve(self, revision: str) -> str | None:
        for ref in (revision, f"refs/tags/{revision}", revision.removeprefix("refs/heads/")):
            if ref in self.refs:
                return self.refs[ref]
        if revision in self.commits:
            return revision
        found = [commit for commit in self.commits if len(revision) >= 7 and commit.startswith(revision)]
        return found[0] if len(found) == 1 else None

    def date(self, commit: str) -> str:
        return f"2024-01-01T00:{list(self.commits).index(commit) % 60:02d}:00.000Z"


class FakeHub:
    """A Hub in this process: `start`, fill with `add`, break with `fault`, read `requests`, `stop`."""

    def __init__(self) -> None:
        self.tokens: dict[str, set[str]] = {}
        """Valid tokens and the private or gated repositories each may read."""
        self.page_size = 1000
        """Items on one page of a listing; more are reached through the Link header."""
        self.direct = False
        """Whether files are answered at once, without a redirect."""
        self.endpoint = self.cdn = self.elsewhere = ""
        self._servers: list[Server] = []
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self.tokens.clear()
        self.page_size, self.direct = 1000, False
        self._repos: dict[str, _Repo] = {}
        self._renamed: dict[str, str] = {}
        self._blobs: dict[str, Blob] = {}
        self._writing = Writing(self)
        self._faults: list[Fault] = []
        self._records: list[Record] = []
        self._delay = 0.0
        self._rate: float | None = None
        self._halt = threading.Event()

    # Life

    def start(self) -> Self:
        """Listen on three free ports; return itself."""
        self._halt = threading.Event()
        for host in ("hub", "cdn", "elsewhere"):
            self._servers.append(Server(self, host))
        self.endpoint, self.cdn, self.elsewhere = (server.url for server in self._servers)
        return self

    def stop(self) -> None:
        """Cut every connection, whatever it waits for, and end every thread."""
        self._halt.set()
        for server in self._servers:
            server.end()
        self._servers.clear()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def reset(self) -> None:
        """Forget repositories, tokens, faults, shape and requests; cut the answers under way. The ports stay."""
        with self._lock:
            halt = self._halt
            self._forget()
        halt.set()
        for server in self._servers:
            server.cut(busy=True)

    # Repositories

    def add(
        self,
        repo: str,
        files: Mapping[str, bytes | str | Path | None],
        *,
        branch: str = "main",
        private: bool | None = None,
        gated: bool | str | None = None,
        **info: Any,
    ) -> str:
        """Commit files to a branch, creating repository and branch where needed; return the commit (40 hex digits).

        The branch's earlier files stay; None removes one. A new branch starts empty. `branch` may be any ref:
        "refs/pr/1", "refs/tags/v1" (found as "v1" too). The CDN serves *.safetensors, *.bin and what is above 10 MB.
        `private`, `gated` (True, "auto", "manual") and `info` (tags, pipeline_tag, library_name, downloads, likes, ...)
        last until set again.
        """
        with self._lock:
            made = self._repos.setdefault(repo, _Repo(repo))
            made.private = made.private if private is None else private
            made.gated = made.gated if gated is None else ("auto" if gated is True else gated)
            made.info |= info
            tip = made.refs.get(branch)
            commit = _commit_id(repo, branch, len(made.commits), files)
            tree = dict(made.commits[tip]) if tip else {}
            for path, data in files.items():
                if data is None:
                    tree.pop(path, None)
                    continue
                data = data.encode() if isinstance(data, str) else data
                tree[path] = blob(path, data, commit)
            self._blobs |= {file.oid: file for file in tree.values() if file.lfs}
            made.commits[commit], made.refs[branch] = tree, commit
            return commit

    def rename(self, old: str, new: str) -> None:
        """Answer 307 for a name, bare ones included, towards another one; an existing repository moves along."""
        with self._lock:
            self._renamed[old] = new
            if old in self._repos:
                self._repos[new] = self._repos.pop(old)
                self._repos[new].name = new

    def move(self, repo: str, branch: str, commit: str) -> None:
        """Point a branch, new or not, at a commit of the repository."""
        with self._lock:
            assert commit in self._repos[repo].commits, f"{repo} has no commit {commit}"
            self._repos[repo].refs[branch] = commit

    def replace(self, repo: str, path: str, data: bytes, *, at_cdn: bool = False) -> None:
        """Replace a file in every commit that has it, as no real Hub does; `at_cdn`: at its old address alone."""
        with self._lock:
            made = self._repos[repo]
            for commit, tree in made.commits.items():
                if (old := tree.get(path)) is None:
                    continue
                fresh = blob(path, data, commit, lfs=old.lfs)
                self._blobs[old.oid if at_cdn else fresh.oid] = fresh
                if not at_cdn:
                    tree[path] = fresh

    def remove(self, repo: str) -> None:
        """Delete a repository."""
        with self._lock:
            del self._repos[repo]

    def grant(self, token: str, repos: set[str] | frozenset[str] = frozenset()) -> None:
        """Make a token valid, and let it read these private or gated repositories."""
        self.tokens.setdefault(token, set()).update(repos)

    def let_write(self, token: str, owner: str) -> None:
        """Make a token valid, and let it create and write the Spaces of an owner."""
        self.grant(token)
        self._writing.owners.setdefault(token, set()).add(owner)

    def content(self, repo: str) -> dict[str, bytes]:
        """Return the files at the tip of the main branch; a Space's name starts with "spaces/"."""
        found = self._repos[repo]
        return {path: b"".join(file.pieces(0, file.size)) for path, file in found.commits[found.refs["main"]].items()}

    # Behaviour

    @property
    def requests(self) -> list[Seen]:
        """Everything asked since the last reset, in order of arrival; answers under way included."""
        return [record.seen() for record in list(self._records)]

    @property
    def cdn_bytes(self) -> int:
        """Bytes of files that the CDN has sent since the last reset."""
        return sum(one.body_bytes for one in self.requests if one.host == "cdn")

    def shape(self, *, delay: float | None = None, rate: float | None = None) -> None:
        """Seconds before each answer, and bytes a second of each connection's bodies; None lifts."""
        self._delay, self._rate = delay or 0.0, rate

    def fault(
        self,
        name: str,
        *,
        times: int | None = 1,
        host: str | None = None,
        path: str = "",
        method: str | None = None,
        after: int = 0,
        **parameters: Any,
    ) -> Fault:
        """Break the next `times` matching answers (None: all of them), after `after` matching ones went well.

        Names and parameters: `FAULTS`. `path` is a regular expression searched in path and query. One fault at most
        changes an answer: the first made that matches and is not used up.
        """
        inspect.signature(FAULTS[name]).bind(None, **parameters)
        made = Fault(name, times, host, re.compile(path), method, after, parameters, self)
        self._faults.append(made)
        return made

    # Answers

    def _answer(self, request: Request) -> Answer:
        """Route a request and let the first fault that matches have its way."""

        def again() -> Answer:
            with self._lock:
                answer = {"hub": self._hub, "cdn": self._cdn, "elsewhere": self._elsewhere}[request.host](request)
            answer.request, answer.elsewhere, answer.again, answer.move = request, self.elsewhere, again, self.move
            return answer

        answer = again()
        with self._lock:
            for fault in self._faults:
                if (fault.times is not None and fault.hits >= fault.times) or not fault.concerns(request, answer):
                    continue
                if fault.skipped < fault.after:
                    fault.skipped += 1
                    continue
                fault.hits += 1
                FAULTS[fault.name](answer, **fault.parameters)
                break
        if "origin" in request.headers:
            answer.headers |= shared(request)
        return answer

    def _elsewhere(self, request: Request) -> Answer:
        return in_text(200, "Nobody should read this.")

    def _cdn(self, request: Request) -> Answer:
        path, _, query = request.path.partition("?")
        file = self._blobs.get(path.rsplit("/", 1)[-1])
        signed = parse_qs(query).get("Signature") == [signature(path)]
        if request.method == "PUT" and signed:
            return self._writing.put(request)
        if file is None or not signed:
            return in_text(403, "<Error><Code>AccessDenied</Code></Error>")
        return _content(request, file)

    def _hub(self, request: Request) -> Answer:
        if request.method == "OPTIONS":
            return Answer(204)
        token = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if token and token not in self.tokens:
            return failed(401, "Invalid credentials in Authorization header")
        url = urlsplit(request.path)
        query = {name.removesuffix("[]"): values for name, values in parse_qs(url.query).items()}
        match url.path.strip("/").split("/"):
            case ["api", "repos", "create"]:
                return self._writing.create(request, token)
            case ["api", "validate-yaml"]:
                return self._writing.check_card(request)
            case ["api", "spaces", owner, name, *rest]:
                found = self._find(request, f"spaces/{owner}/{name}", token)
                if isinstance(found, _Repo) and rest[:1] in (["preupload"], ["commit"]):
                    return self._write(request, found.name, token, rest[0])
                return self._api(request, found, rest, query) if isinstance(found, _Repo) else found
            case ["spaces", owner, name, "info", "lfs", "objects", "batch"]:
                return self._write(request, f"spaces/{owner}/{name.removesuffix('.git')}", token, "batch")
            case ["api", "models"]:
                return self._paged(request, self._listing(query, token), int(query.get("limit", ["1000"])[0]))
            case ["api", "resolve-cache", "models", *rest]:
                at = next((i for i, part in enumerate(rest) if re.fullmatch("[0-9a-f]{40}", part)), len(rest))
                found = self._find(request, "/".join(rest[:at]), token, files=True)
                return self._file(request, found, rest[at:], cached=True) if isinstance(found, _Repo) else found
            case ["api", "models", *rest]:
                bare = len(rest) == 1 or rest[1] in ("revision", "tree", "refs")
                rest = rest if bare else ["/".join(rest[:2]), *rest[2:]]
                found = self._find(request, rest[0], token)
                return self._api(request, found, rest[1:], query) if isinstance(found, _Repo) else found
            case parts if "resolve" in parts[1:4]:
                at = parts.index("resolve", 1)
                found = self._find(request, "/".join(parts[:at]), token, files=True)
                return self._file(request, found, parts[at + 1 :]) if isinstance(found, _Repo) else found
        return failed(404, "Sorry, we can't find the page you are looking for.")

    def _write(self, request: Request, name: str, token: str, what: str) -> Answer:
        if not self._writing.may(token, name):
            return failed(403, "Authorization error.")
        if what == "batch":
            return self._writing.batch(request)
        return (self._writing.commit if what == "commit" else self._writing.modes)(request, name)

    def _find(self, request: Request, name: str, token: str, *, files: bool = False) -> _Repo | Answer:
        """Return the repository, or the refusal or redirect that the Hub answers with."""
        if name in self._renamed:
            answer = in_text(307, "Temporary Redirect")
            place = rf"^(/api/models|/api/resolve-cache/models|)/{re.escape(name)}(?=[/?]|$)"
            answer.headers["Location"] = re.sub(place, rf"\1/{self._renamed[name]}", request.path)
            return answer
        repo, allowed = self._repos.get(name), name in self.tokens.get(token, ())
        if repo is None or (repo.private and not allowed):
            if token:
                return failed(404, "Repository not found", "RepoNotFound")
            return failed(401, "Invalid username or password.", "RepoNotFound")
        if files and repo.gated and not allowed:
            start = f"Access to model {name} is restricted"
            if token:
                return failed(403, f"{start} and you are not in the authorized list.", "GatedRepo")
            return failed(401, f"{start}. You must have access to it and be authenticated.", "GatedRepo")
        return repo

    def _revision(self, repo: _Repo, rest: list[str]) -> tuple[str, str] | Answer:
        """Split `rest` into the commit of a revision and the path behind it."""
        rest = [unquote(part) for part in rest]
        length = 3 if rest[:2] in (["refs", "pr"], ["refs", "convert"], ["refs", "tags"]) else 1
        revision = "/".join(rest[:length])
        commit = repo.resolve(revision)
        if commit is None:
            return failed(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit, "/".join(rest[length:])

    def _file(self, request: Request, repo: _Repo, rest: list[str], *, cached: bool = False) -> Answer:
        where = self._revision(repo, rest)
        if isinstance(where, Answer):
            return where
        commit, path = where
        file = repo.commits[commit].get(path)
        headers = {"X-Repo-Commit": commit}
        if file is None:
            answer = failed(404, "Entry not found", "EntryNotFound")
        elif cached or self.direct:
            answer = _content(request, file)
        elif file.lfs:
            answer = in_text(302, "Found. Redirecting to the CDN")
            name = path.rsplit("/", 1)[-1]
            place = f"/repos/{file.oid[:2]}/{file.oid[2:4]}/{hashlib.sha1(repo.name.encode()).hexdigest()}/{file.oid}"
            disposition = f'inline; filename="{name}"'
            query = {"response-content-disposition": disposition, "Expires": 4102444800, "Signature": signature(place)}
            headers |= {"X-Linked-Size": str(file.size), "X-Linked-ETag": f'"{file.oid}"', "Accept-Ranges": "bytes"}
            headers["Location"] = f"{self.cdn}{place}?{urlencode(query)}"
        else:
            answer = in_text(307, "Temporary Redirect. Redirecting to the cache")
            headers |= {"ETag": f'"{file.oid}"', "Accept-Ranges": "bytes"}
            headers["Location"] = f"/api/resolve-cache/models/{repo.name}/{commit}/{quote(path)}"
        answer.headers |= headers
        return answer

    def _api(self, request: Request, repo: _Repo, rest: list[str], query: dict[str, list[str]]) -> Answer:
        action = rest[0] if rest else "revision"
        if action == "refs":
            kinds: dict[str, list[dict[str, str]]] = {"branches": [], "converts": [], "tags": [], "pullRequests": []}
            for ref, commit in repo.refs.items():
                kind = {"refs/pr": "pullRequests", "refs/tags": "tags", "refs/convert": "converts"}
                place = kind.get(ref.rpartition("/")[0], "branches")
                name = ref if place == "pullRequests" else ref.rpartition("/")[2] if ref.startswith("refs/") else ref
                full = ref if ref.startswith("refs/") else f"refs/heads/{ref}"
                kinds[place].append({"name": name, "ref": full, "targetCommit": commit})
            if not _flag(query, "include_prs"):
                del kinds["pullRequests"]
            return in_json(kinds)
        where = self._revision(repo, rest[1:] or ["main"])
        if isinstance(where, Answer):
            return where
        commit, path = where
        if action == "revision":
            return in_json(_model(repo, commit, blobs=_flag(query, "blobs")))
        if action == "tree":
            items = _tree(repo, commit, path, deep=_flag(query, "recursive"))
            if path and not items:
                answer = failed(404, f"{path} does not exist on {commit}", "EntryNotFound")
                answer.headers["X-Repo-Commit"] = commit
                return answer
            return self._paged(request, items, 1000)
        return failed(404, "Sorry, we can't find the page you are looking for.")

    def _listing(self, query: dict[str, list[str]], token: str) -> list[dict[str, Any]]:
        models = []
        for repo in self._repos.values():
            if (
                repo.name.startswith("spaces/")
                or "main" not in repo.refs
                or (repo.private and repo.name not in self.tokens.get(token, ()))
            ):
                continue
            model = _model(repo, repo.refs["main"])
            tags = {*model["tags"], model["pipeline_tag"], model["library_name"]}
            wanted = [tag for value in query.get("filter", []) for tag in value.split(",")]
            if (
                query.get("search", [""])[0].lower() in repo.name.lower()
                and query.get("author", [model["author"]])[0] == model["author"]
                and query.get("pipeline_tag", [model["pipeline_tag"]])[0] == model["pipeline_tag"]
                and tags.issuperset(wanted)
            ):
                models.append(model)
        sort = query.get("sort", ["trendingScore"])[0]
        models.sort(key=lambda model: model.get(sort) or 0, reverse=True)
        if not _flag(query, "full"):
            models = [{k: v for k, v in m.items() if k not in ("siblings", "sha", "author", "config")} for m in models]
        return models

    def _paged(self, request: Request, items: list[dict[str, Any]], size: int) -> Answer:
        size = max(1, min(size, self.page_size))
        url = urlsplit(request.path)
        query = parse_qs(url.query)
        start = int(query.pop("cursor", ["0"])[0])
        answer = in_json(items[start : start + size])
        if start + size < len(items):
            following = urlencode({**query, "cursor": start + size}, doseq=True)
            answer.headers["Link"] = f'<{self.endpoint}{url.path}?{following}>; rel="next"'
        return answer


def _flag(query: dict[str, list[str]], name: str) -> bool:
    return query.get(name, [""])[0].lower() in ("1", "true")


def _content(request: Request, file: Blob) -> Answer:
    """Answer with a file or the one range that is asked; several ranges or a nonsensical one mean the whole file."""
    answer = Answer(200, {"ETag": f'"{file.oid}"', "Accept-Ranges": "bytes"}, file, 0, file.size, content=True)
    answer.headers["Content-Type"] = "binary/octet-stream" if file.lfs else "text/plain; charset=utf-8"
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
    if not asked or asked[0] == "bytes=-" or request.headers.get("if-range", answer.headers["ETag"]) != f'"{file.oid}"':
        return answer
    first, last = asked.groups()
    start = int(first) if first else max(0, file.size - int(last))
    stop = min(int(last) + 1, file.size) if first and last else file.size
    if first and last and int(last) < start:
        return answer
    if start >= file.size:
        answer = in_text(416, "The requested range is not satisfiable")
        answer.headers["Content-Range"] = f"bytes */{file.size}"
        return answer
    answer.status, answer.start, answer.stop = 206, start, stop
    answer.span(start, stop)
    return answer


def _commit_id(repo: str, branch: str, number: int, files: Mapping[str, bytes | str | Path | None]) -> str:
    """Return the hash of a commit, which depends on the content of its files: readers cache by it across tests."""
    sha = hashlib.sha1(f"{repo}\0{branch}\0{number}".encode())
    for path, data in files.items():
        sha.update(f"\0{path}\0".encode())
        sha.update(data if isinstance(data, bytes) else str(data).encode())
    return sha.hexdigest()


def _model(repo: _Repo, commit: str, *, blobs: bool = False) -> dict[str, Any]:
    """Return what the Hub says of a model; `blobs` adds sizes and LFS digests."""
    siblings: list[dict[str, Any]] = []
    for path, file in sorted(repo.commits[commit].items()):
        sibling: dict[str, Any] = {"rfilename": path}
        if blobs:
            sibling |= {"size": file.size, "blobId": file.oid[:40]}
        if blobs and file.lfs:
            sibling["lfs"] = {"sha256": file.oid, "size": file.size, "pointerSize": 134}
        siblings.append(sibling)
    times = {"createdAt": "2024-01-01T00:00:00.000Z", "lastModified": repo.date(commit)}
    name = repo.name.removeprefix("spaces/")
    identity = {"_id": hashlib.sha1(repo.name.encode()).hexdigest()[:24], "id": name, "modelId": name}
    flags = {"private": repo.private, "gated": repo.gated, "disabled": False}
    defaults: dict[str, Any] = {"tags": [], "library_name": "transformers", "pipeline_tag": None}
    counts = {"downloads": 0, "likes": 0, "trendingScore": 0}
    author = name.split("/")[0] if "/" in name else None
    config: dict[str, Any] = {}
    file = repo.commits[commit].get("config.json", Blob())
    with contextlib.suppress(ValueError):
        read = json.loads(b"".join(file.pieces(0, min(file.size, 1_000_000))))
        config = {k: read[k] for k in ("architectures", "model_type") if k in read} if isinstance(read, dict) else {}
    known = {"author": author, "sha": commit, "siblings": siblings, "config": config}
    return identity | flags | times | defaults | counts | known | repo.info


def _tree(repo: _Repo, commit: str, under: str, *, deep: bool) -> list[dict[str, Any]]:
    """Return files and folders under a path as the Hub lists them."""
    items: dict[str, dict[str, Any]] = {}
    prefix = f"{under}/" if under else ""
    for path, file in sorted(repo.commits[commit].items()):
        if not path.startswith(prefix):
            continue
        parts = path.removeprefix(prefix).split("/")
        for depth in range(1, len(parts) if deep else min(2, len(parts))):
            folder = prefix + "/".join(parts[:depth])
            oid = hashlib.sha1(folder.encode()).hexdigest()
            items.setdefault(folder, {"type": "directory", "oid": oid, "size": 0, "path": folder})
        if deep or len(parts) == 1:
            items[path] = {"type": "file", "oid": file.oid[:40], "size": file.size, "path": path}
            if file.lfs:
                items[path]["lfs"] = {"oid": file.oid, "size": file.size, "pointerSize": 134}
    return list(items.values())
