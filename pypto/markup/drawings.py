"""Colours and the style sheet of pictures of graphs, in light and in dark.

A hue stands for the form of a kernel. It has middle brightness and is laid over the paper thinly, so that it serves
light and dark pages alike.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from pypto.markup.palette import DARK, LIGHT

NEUTRAL: Final = "#868e96"
HUES: Final = MappingProxyType({
    "pointwise": "#4dabf7", "rows": "#38d9a9", "columns": "#a9e34b", "product": "#ff922b", "chain": "#e64980",
    "online": "#9775fa", "numpy": NEUTRAL, "other": "#fab005",
})  # fmt: skip
# Rules below a selector of what holds the picture.
_RULES: Final = """
S .graph{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;max-width:none}
S .graph text{fill:var(--ink)}
S .graph .soft{fill:var(--soft)}
S .graph .b{font-weight:600}
S .graph .box{fill:var(--paper);stroke:var(--line);stroke-width:1}
S .graph .box.view{fill:none;stroke-dasharray:3 2}
S .graph .box.input{fill:var(--head);stroke:var(--soft);stroke-dasharray:3 2}
S .graph .box.result{stroke-width:2}
S .graph .frame{fill-opacity:.1;stroke-opacity:.75;stroke-width:1}
S .graph .box.heavy,S .graph .box.step,S .graph .span{fill-opacity:.22;stroke-width:1.5}
S .graph .arrow path{fill:none;stroke:var(--soft);stroke-width:1;stroke-opacity:.75}
S .graph .arrow .head{fill:var(--soft);stroke:none;fill-opacity:.9}
S .graph .arrow.lit path{stroke:var(--ink);stroke-width:2;stroke-opacity:1}
S .graph .heading{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-opacity:.8}
S .graph .axis{stroke:var(--line);stroke-width:1}
S .graph .limit{fill:none;stroke:var(--ink);stroke-width:1.5;stroke-opacity:.6}
S .graph .line.lit rect{stroke:var(--ink);stroke-width:2}
S svg.graph:has(.lit) g rect:not(.lit){opacity:1}
S .drawing{overflow:auto;max-height:66vh;cursor:grab}
S .zoom{display:flex;gap:4px;margin:2px 0}
S .zoom button{font:12px system-ui,sans-serif;border:1px solid var(--line);background:var(--head);color:var(--ink)}
S .zoom button{border-radius:4px;padding:1px 8px;cursor:pointer}
S .form{display:inline-block;font-size:12px;border-left:4px solid var(--soft);padding:0 8px 0 6px;margin-right:8px}
S tr.step td{border-top:1px solid var(--line)}
S .legend{margin:8px 0 4px}
"""


def hue_of(form: str) -> str:
    """The class of a form's hue; a form that has none of its own gets a common one.

    Examples
    --------
    >>> hue_of("chain"), hue_of("window"), hue_of("")
    ('h-chain', 'h-other', '')
    """
    return f"h-{form if form in HUES else 'other'}" if form else ""


def colour_of(form: str) -> str:
    """The colour of a form's hue."""
    return HUES.get(form, HUES["other"]) if form else NEUTRAL


def rules(selector: str) -> str:
    """The rules for pictures below a selector."""
    return f"{_RULES.replace('S ', f'{selector} ').lstrip()}{hues(selector)}"


def hues(selector: str) -> str:
    return "".join(
        f"{selector} .graph .frame.h-{name},{selector} .graph .box.heavy.h-{name},{selector} .graph .box.step.h-{name},"
        f"{selector} .graph .span.h-{name}{{fill:{colour};stroke:{colour}}}\n"
        f"{selector} .graph .box.result.h-{name}{{stroke:{colour}}}\n"
        f"{selector} .form.h-{name}{{border-color:{colour}}}\n"
        for name, colour in HUES.items()
    )


def sheet() -> str:
    """The style sheet of a picture that is a file of its own, as an element."""
    of_page = rules(":root").replace(":root .graph{", ":root.graph{background:var(--paper);")
    of_file = of_page.replace(":root .graph ", ":root ")
    return f"<style>:root{{{LIGHT}}}\n@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}\n{of_file}</style>"
