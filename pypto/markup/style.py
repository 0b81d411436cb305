"""The style sheet of everything that shows itself in a notebook, with its colours in light and in dark."""

from __future__ import annotations

from typing import Final

from pypto.markup.drawings import rules
from pypto.markup.palette import DARK, LIGHT

# The pages that tell whether they are dark: JupyterLab, VS Code, and the themes of sites. All others follow the system.
_DARK_PAGES: Final = ('body[data-jp-theme-light="false"]', "body.vscode-dark", 'body[data-theme="dark"]')
_LIGHT_PAGES: Final = ('body[data-jp-theme-light="true"]', "body.vscode-light", 'body[data-theme="light"]')
# What is written `.pypto.pypto` is stronger than what JupyterLab says of code and of tables, whose columns it makes
# equally wide. Lines of code are `pre`: an export that leaves styles out keeps their indentation.
_RULES: Final = """
.pypto{font:13px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);border:1px solid var(--line)}
.pypto{border-radius:6px;padding:8px 12px;margin:4px 0;text-align:left;overflow-x:auto}
.pypto-title{font-weight:600;font-size:14px}
.pypto-note{color:var(--soft);font-size:12px;margin:2px 0 6px;overflow-wrap:anywhere}
.pypto.pypto table{border-collapse:collapse;margin:6px 0;font-size:13px;color:inherit;background:none}
.pypto.pypto table{table-layout:auto;width:auto}
.pypto.pypto tbody tr{background:none}
.pypto.pypto th,.pypto.pypto td{padding:2px 10px 2px 0;text-align:left;vertical-align:top;border:0}
.pypto.pypto th,.pypto.pypto td{background:none;color:inherit}
.pypto.pypto th{border-bottom:1px solid var(--line);font-weight:600}
.pypto.pypto .number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.pypto .best{font-weight:600;color:var(--accent)}
.pypto.pypto code,.pypto.pypto pre{font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.pypto.pypto code,.pypto.pypto pre{color:inherit;background:none;border:0;padding:0}
.pypto.pypto pre{margin:4px 0;white-space:pre;overflow:auto}
.pypto.pypto .line pre,.pypto.pypto pre.line{margin:0;overflow:visible}
.pypto summary{cursor:pointer;color:var(--accent)}
.pypto-bar{display:inline-block;width:5em;height:.75em;border:1px solid var(--line);border-radius:2px}
.pypto-fill{display:block;height:100%;background:var(--fill)}
.pypto-label{padding-left:6px;font-variant-numeric:tabular-nums}
.pypto .k{color:var(--keyword)}.pypto .t{color:var(--type)}.pypto .n{color:var(--number)}.pypto .s{color:var(--string)}
.pypto .c{color:var(--comment);font-style:italic}.pypto .f{color:var(--name)}
.pypto .sides{display:flex;gap:12px;align-items:flex-start;flex-wrap:wrap}
.pypto .side{flex:1.3 1 34em;min-width:0;border:1px solid var(--line);border-radius:6px;overflow:hidden}
.pypto .source{flex:1 1 30em}
.pypto .heads{display:flex;flex-wrap:wrap;gap:2px;background:var(--head);border-bottom:1px solid var(--line)}
.pypto .heads{padding:4px 6px;min-height:24px}
.pypto .heads button{font:12px system-ui,sans-serif;border:0;background:none;padding:3px 8px;border-radius:4px}
.pypto .heads button{cursor:pointer;color:var(--ink)}
.pypto .heads button[aria-selected=true]{background:var(--accent);color:var(--paper)}
.pypto .heads span{font-weight:600;font-size:12px;padding:3px 4px}
.pypto .text{overflow:auto;max-height:75vh;padding:4px 10px}
.pypto.pypto .text table{margin:0;width:100%}
.pypto i.row{font-style:normal;color:var(--soft);display:inline-block;width:3.2em;user-select:none}
.pypto .types{color:var(--type);white-space:normal;overflow-wrap:anywhere;padding-left:5.2em}
.pypto.pypto td.keep{white-space:nowrap}
.pypto.pypto td.code pre{white-space:pre-wrap;word-break:normal;overflow-wrap:break-word}
.pypto.pypto .lit{background:var(--mark)}
.pypto [hidden]{display:none}
.pypto.pypto tr.kernel td{border-top:1px solid var(--line);font-weight:600}
.pypto.pypto tr.label td:first-child{color:var(--accent);font-weight:500}
.pypto svg{display:block;max-width:100%;font:11px system-ui,sans-serif}
.pypto svg text{fill:var(--ink)}
.pypto svg text.on{fill:#1f2328}
.pypto svg rect{stroke:var(--paper);stroke-width:.5}
.pypto svg:has(.lit) rect:not(.lit){opacity:.25}
.pypto svg .cut{stroke:var(--soft);stroke-dasharray:3 3}
"""


def _themed(pages: tuple[str, ...], colours: str) -> str:
    return f"{','.join(f'{page} .pypto' for page in pages)}{{{colours}}}\n"


STYLE: Final = "".join((
    f".pypto{{{LIGHT}}}\n@media (prefers-color-scheme:dark){{.pypto{{{DARK}}}}}\n",
    _themed(_LIGHT_PAGES, LIGHT), _themed(_DARK_PAGES, DARK), _RULES.lstrip(), rules(".pypto"),
))  # fmt: skip
