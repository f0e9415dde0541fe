"""The link with which one browser signs in, as text and as a QR code."""

from __future__ import annotations

import io

import segno

from mew_lab.lab.listing import Note

__all__ = ["PageLink", "qr_text"]


def qr_text(url: str) -> str:
    """The QR code of a link as lines of blocks, for a terminal with light text on a dark ground."""
    lines = io.StringIO()
    segno.make(url, micro=False).terminal(lines, border=2, compact=True)
    return lines.getvalue().rstrip("\n")


class PageLink(Note):
    """A link to the page of a space, `url`, whose code is good for one use within so many seconds.

    Spec: ruling R38.
    """

    def __init__(self, url: str, *, space: str, seconds: float) -> None:
        super().__init__(
            f"The page of {space}, for one browser, to be opened within {seconds / 60:g} minutes: {url}"
        )
        self.url = url

    def qr_png(self) -> bytes:
        """The QR code as a picture, dark on light whatever the theme."""
        picture = io.BytesIO()
        segno.make(self.url, micro=False).save(picture, kind="png", scale=4, border=4, light="white")
        return picture.getvalue()
