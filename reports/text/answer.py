"""One question that readers ask first, and its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """One question and its answer."""

    question: str
    text: str
    link: str = ""
    """The id of the place in the page that has more."""
    link_text: str = ""
    items: tuple[str, ...] = ()
    """What the text introduces with a colon, one by one; each without a full stop."""
    rest: str = ""
    """What is said after these."""
    page: str = ""
    """The address of another run's page, relative to this one's."""

    @property
    def whole(self) -> str:
        """All of it on one line."""
        listed = f" {'; '.join(self.items)}." if self.items else ""
        return f"{self.text}{listed} {self.rest}".rstrip()
