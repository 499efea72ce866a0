"""Tokens of a vocabulary that training may not have seen: reserved, added, and used by the chat template."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenMarks:
    """Rows of a vocabulary with a role of their own, as the tokenizer's files state them.

    Attributes:
        reserved: Rows that no text produces and that are kept for later use, such as ``<|reserved_special_token_5|>``.
        added: Rows of tokens added to the vocabulary after it was trained.
        chat: Rows of special or added tokens that the chat template writes.
        template: Whether a chat template was found.
    """

    reserved: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()
    chat: frozenset[int] = frozenset()
    template: bool = False

    def of(self, row: int) -> tuple[str, ...]:
        """Return the marks of a row, such as ``("added", "chat template")``."""
        named = {"reserved": self.reserved, "added": self.added, "chat template": self.chat}
        return tuple(name for name, rows in named.items() if row in rows)
