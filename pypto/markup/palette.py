"""The colours of everything that shows itself, in light and in dark, as variables of CSS."""

from __future__ import annotations

from typing import Final

LIGHT: Final = (
    "--ink:#1f2328;--paper:#ffffff;--soft:#57606a;--line:#d0d7de;--head:#f6f8fa;--mark:#fff3bf;--accent:#0b7285;"
    "--fill:#74c0fc;--keyword:#8250df;--type:#0a5c8f;--number:#0550ae;--string:#0a6640;--comment:#6e7781;--name:#953800"
)
DARK: Final = (
    "--ink:#e6edf3;--paper:#15191f;--soft:#9aa4af;--line:#3a424d;--head:#1f252d;--mark:#4d4215;--accent:#4fc3d9;"
    "--fill:#1c6ea8;--keyword:#d2a8ff;--type:#79c0ff;--number:#a5d6ff;--string:#7ee787;--comment:#8b949e;--name:#ffa657"
)
