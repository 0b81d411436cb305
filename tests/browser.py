"""A headless browser for tests: a page as the browser has it once its scripts have run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.patience import limit

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
BROWSER: Final = next((path for name in NAMES if (path := shutil.which(name))), "")
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1400,900",
    "--allow-file-access-from-files", "--virtual-time-budget=10000",
)  # fmt: skip
needs_browser: Final = pytest.mark.skipif(not BROWSER, reason="no browser to look at the page with")
# Collects errors of scripts from the first one on; what was found is asked for when everything is loaded.
_WATCH: Final = """<script>window.errors=[];addEventListener("error",
e=>errors.push(e.message||"not loaded: "+(e.target.src||e.target.href)),true)</script>"""
_ASK: Final = """<script>addEventListener("load",()=>setTimeout(()=>{let found={};
try{found=(function(){QUESTIONS})()}catch(e){errors.push(String(e))}
const told=document.createElement("pre");told.id="told";
told.textContent=JSON.stringify({errors,...found});document.body.append(told)},300))</script>"""


def asked(page: Path, questions: str) -> dict[str, Any]:
    """What the body of a JavaScript function gives on a page, an object, with the `errors` of its scripts.

    The page is copied beside itself with the questions in it, so that what it links to is found.
    """
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"(<head[^>]*>)", lambda m: m[1] + _WATCH, text, count=1)
    head, end, tail = text.rpartition("</body>")
    assert end, "the page has a body"
    copy = page.with_name(f"asked-{page.name}")
    copy.write_text(head + _ASK.replace("QUESTIONS", questions) + end + tail, encoding="utf-8")
    try:
        dom = dumped(copy)
    finally:
        copy.unlink()
    found = re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)
    assert found is not None, "the scripts of the page ran"
    told: dict[str, Any] = json.loads(unescaped(found[1]))
    return told


def unescaped(text: str) -> str:
    from html import unescape

    return unescape(text)


def dumped(page: Path) -> str:
    """The document as the browser has it."""
    import tempfile

    with tempfile.TemporaryDirectory() as profile:
        command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
        done = subprocess.run(command, check=True, text=True, encoding="utf-8", capture_output=True, timeout=limit(120))
    return done.stdout
