"""Settings of Sphinx for the documentation site; `docs/make_site.py` runs it."""

from pygments.lexers.sql import PostgresLexer
from sphinx.application import Sphinx

project = "tenantcron"
author = "The tenantcron contributors"
project_copyright = "The tenantcron contributors"
# `version` is given by --define.
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
language = "en"
# The same anchors as on GitHub, so that links work in both places.
myst_heading_anchors = 4
myst_links_external_new_tab = False
# Sections of the changelog repeat the same headings.
suppress_warnings = ["myst.header"]
# Quotes and dashes stay as they are written: most of them are in commands.
smartquotes = False
highlight_language = "text"

html_theme = "furo"
html_title = "tenantcron"
html_short_title = "tenantcron"
html_favicon = html_logo = "../../web/static/icon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
templates_path = ["templates"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}


def setup(app: Sphinx) -> None:
    """Highlight SQL as that of PostgreSQL, which has `$1` and `$$`."""
    app.add_lexer("sql", PostgresLexer)
