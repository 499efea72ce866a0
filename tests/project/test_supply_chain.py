"""What others deliver to this project: actions, build tools and dependencies, each pinned, updated and audited."""

from __future__ import annotations

import re

import yaml
from packaging.utils import canonicalize_name

from tests.support.installing import ROOT, tracked
from tests.versions import EXTRAS, declared, lower_bound

WORKFLOWS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_workflows_may_read_only_and_actions_are_pinned() -> None:
    """By a commit, with the version that it is of: the owner of an action can move a tag."""
    assert {
        name for name, text in WORKFLOWS.items() if yaml.safe_load(text)["permissions"] != {"contents": "read"}
    } == set()
    files = {name: (ROOT / name).read_text(encoding="utf-8") for name in tracked() if name.endswith((".yml", ".yaml"))}
    used = {(name, line) for name, text in files.items() for line in re.findall(r"\buses: *(.*)", text)}
    assert {"action.yml", *(f".github/workflows/{name}" for name in WORKFLOWS)} == {name for name, _ in used}
    pinned = r"[\w-]+(/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+"
    assert {one for one in used if not re.fullmatch(pinned, one[1])} == set()


def test_what_a_release_is_built_with_is_known_by_its_digest() -> None:
    """Nothing else is installed, by whatever program, before the files are uploaded."""
    steps = yaml.safe_load(WORKFLOWS["release.yml"])["jobs"]["build"]["steps"]
    uploads = next(n for n, step in enumerate(steps) if step.get("uses", "").startswith("actions/upload-artifact@"))
    before, after = ("\n".join(step.get("run", "") for step in part) for part in (steps[:uploads], steps[uploads:]))
    assert "python -m build --no-isolation" in before, "build would install what pyproject.toml requires, of any digest"
    assert not re.search(r"\b(make|npm|npx|uvx|pipx|curl|wget|apt-get|conda)\b|\buv (pip|tool|run|sync)\b", before)
    installs = re.findall(r"\bpip3? +(?:install|download).*", f"{before}\n{after}")
    (file,) = {re.fullmatch(r"pip install --require-hashes -r (\S+)", one)[1] for one in installs}  # type: ignore[index]
    # Each with a digest, and no archive that runs code of its own to build itself.
    listed = r"#.*\n--only-binary :all:\n([\w-]+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+\n)+"
    assert re.fullmatch(listed, (ROOT / file).read_text(encoding="utf-8"))


def test_dependabot_sees_every_folder_that_names_packages() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))["updates"]
    seen = {
        (one["package-ecosystem"], folder)
        for one in updates
        for folder in one.get("directories", [one.get("directory")])
    }
    kinds = {
        "npm": r"package(-lock)?\.json",
        "pip": r"pyproject\.toml|[\w-]*requirements[\w-]*\.(txt|in)",
        "github-actions": r"action\.ya?ml",
    }
    wanted = {
        (kind, re.sub(r"/?[^/]*$", "", f"/{name}") or "/")
        for name in tracked()
        for kind, pattern in kinds.items()
        if re.fullmatch(pattern, name.rpartition("/")[2])
    }
    assert seen == wanted


def test_what_is_delivered_is_audited_every_week() -> None:
    """At its lower bounds and at its newest; whatever is left out is told in docs/security.md."""
    flow = yaml.safe_load(WORKFLOWS["full.yml"])
    assert flow[True]["schedule"], "YAML reads the key `on` as true"
    job = flow["jobs"]["audit"]
    assert job["strategy"]["matrix"]["resolution"] == ["lowest-direct", "highest"]
    runs = " ".join(step.get("run", "") for step in job["steps"])
    assert set(re.findall(r"--extra (\S+)", runs)) == {*EXTRAS, "torch"}
    assert "pip-audit@" in runs
    told = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert all(name in told for name in re.findall(r"--ignore-vuln (\S+)", runs))


def test_the_lower_bounds_told_are_those_declared() -> None:
    told = dict(re.findall(r"^\| `([\w-]+)` \| (\d[\d.]*) \|", (ROOT / "docs" / "security.md").read_text(), flags=re.M))
    bounds = {canonicalize_name(one.name): lower_bound(one) for one in declared((*EXTRAS, "torch"))}
    assert told
    assert {name: bounds[canonicalize_name(name)] for name in told} == told
