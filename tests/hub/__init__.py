"""A fake Hugging Face Hub on loopback, for tests."""

from tests.hub.server import FAULTS, FakeHub, Fault, Seen

__all__ = ["FAULTS", "FakeHub", "Fault", "Seen"]
