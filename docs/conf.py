"""Sphinx's settings for the site, which `docs/site.py` builds."""

project = "pypto"
copyright = "the pypto authors"
extensions = ["myst_nb", "sphinx_copybutton"]
html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "pypto"
html_static_path = ["static"]
html_css_files = ["pypto.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5d8a", "color-brand-content": "#0b5d8a"},
    "dark_css_variables": {"color-brand-primary": "#6cc3f0", "color-brand-content": "#6cc3f0"},
}
html_show_sourcelink = False
html_copy_source = False
myst_heading_anchors = 3
nb_execution_mode = "off"  # the tutorials are executed by the tests; here they are shown
nitpicky = True
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
