"""An inspection as HTML: the source with its types on one side, the levels on the other, linked by line.

The page holds all that it needs: it works as a file, in a notebook and without a network.
"""

from __future__ import annotations

import hashlib
import html
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pypto.debug.inspection import Inspection, Level, SourceLine
    from pypto.debug.pictures import Picture

_STYLE: Final = """
#ID{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;color:#1f2328;background:#fff;text-align:left}
#ID h3{font:600 14px system-ui,sans-serif;margin:4px 0}
#ID p{font:12px system-ui,sans-serif;color:#57606a;margin:0 0 8px}
#ID .sides{display:flex;gap:12px;align-items:flex-start}
#ID .side{flex:1 1 50%;min-width:0;border:1px solid #d0d7de;border-radius:6px;overflow:hidden}
#ID .bar{display:flex;gap:2px;background:#f6f8fa;border-bottom:1px solid #d0d7de;padding:4px 6px;min-height:24px}
#ID .bar button{font:12px system-ui,sans-serif;border:0;background:none;padding:3px 8px;border-radius:4px}
#ID .bar button{cursor:pointer;color:#1f2328}
#ID .bar button[aria-selected=true]{background:#0b7285;color:#fff}
#ID .bar span{font:600 12px system-ui,sans-serif;padding:3px 4px}
#ID .text{overflow:auto;max-height:75vh;padding:4px 0}
#ID .line{white-space:pre;padding:0 10px}
#ID .line i{font-style:normal;color:#8c959f;display:inline-block;width:3.2em;user-select:none}
#ID .line b{font-weight:400;color:#0b7285;padding-left:2em}
#ID .lit{background:#fff3bf}
#ID [hidden]{display:none}
#ID .text p{margin:4px 10px 8px}
#ID svg{display:block;width:calc(100% - 20px);margin:0 10px;font:11px system-ui,sans-serif}
#ID svg rect{stroke:#fff;stroke-width:.5}
#ID svg:has(.lit) rect:not(.lit){opacity:.25}
#ID svg .cut{stroke:#495057;stroke-dasharray:3 3}
"""
_SCRIPT: Final = """
(function(){const root=document.getElementById("ID");
const light=n=>root.querySelectorAll(".line").forEach(l=>l.classList.toggle("lit",n!=="0"&&l.dataset.line===n));
root.addEventListener("mouseover",e=>{const l=e.target.closest(".line");if(l)light(l.dataset.line)});
root.addEventListener("click",e=>{const b=e.target.closest("button");if(b){
root.querySelectorAll("button").forEach(o=>o.setAttribute("aria-selected",o===b));
root.querySelectorAll("[data-level]").forEach(t=>t.hidden=t.dataset.level!==b.textContent);return}
const l=e.target.closest(".source .line");if(!l)return;
const shown=[...root.querySelectorAll("[data-level]")].find(t=>!t.hidden);
const to=shown.querySelector('[data-line="'+l.dataset.line+'"]');
if(to)to.scrollIntoView({block:"center"})})})();
"""
_SOURCE: Final = "source, and the type at every line"
_HEAD: Final = "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>TITLE</title></head><body>\n"


def page(inspection: Inspection) -> str:
    """A document of its own."""
    title = html.escape(f"{inspection.kernel}: from source to machine code")
    return f"{_HEAD.replace('TITLE', title)}{body(inspection)}\n</body></html>\n"


def body(inspection: Inspection) -> str:
    """What goes into a page or a notebook's cell. Several of them may be in one."""
    name = "i" + hashlib.sha256(str(inspection).encode()).hexdigest()[:12]
    shown = next((n for n, level in enumerate(inspection.levels) if level.name in ("loop-ir", "ascendc")), 0)
    names = [*(level.name for level in inspection.levels), *(picture.name for picture in inspection.pictures)]
    buttons = "".join(button(name, n == shown) for n, name in enumerate(names))
    parts = (
        f"<div id='{name}'><style>{_STYLE.replace('ID', name)}</style>",
        f"<h3>{html.escape(inspection.kernel)}</h3><p>{html.escape(inspection.version)}</p>",
        f"<div class='sides'><div class='side source'><div class='bar'><span>{_SOURCE}</span></div>",
        f"<div class='text'>{''.join(map(source_line, inspection.source))}</div></div>",
        f"<div class='side'><div class='bar'>{buttons}</div>",
        *(level_text(level, n == shown) for n, level in enumerate(inspection.levels)),
        *map(drawn, inspection.pictures),
        f"</div></div><script>{_SCRIPT.replace('ID', name)}</script></div>",
    )
    return "".join(parts)


def source_line(line: SourceLine) -> str:
    types = f"<b>{html.escape('  '.join(line.types))}</b>" if line.types else ""
    return f"<div class='line' data-line='{line.number}'><i>{line.number}</i>{html.escape(line.text)}{types}</div>"


def button(name: str, shown: bool) -> str:
    return f"<button aria-selected='{str(shown).lower()}'>{html.escape(name)}</button>"


def drawn(picture: Picture) -> str:
    head = f"<div class='text' data-level='{html.escape(picture.name)}' hidden>"
    return f"{head}<p>{html.escape(picture.text)}</p>{picture.svg}</div>"


def level_text(level: Level, shown: bool) -> str:
    lines = (f"<div class='line' data-line='{n}'>{html.escape(text) or ' '}</div>" for n, text in level.lines)
    hidden = "" if shown else " hidden"
    return f"<div class='text' data-level='{html.escape(level.name)}'{hidden}>{''.join(lines)}</div>"
