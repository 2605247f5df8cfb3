"""How Sphinx builds the site: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

import calibrant  # noqa: E402

project = "calibrant"
author = "The calibrant developers"
copyright = "The calibrant developers"
release = version = calibrant.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "made_pages",
    "see_also",
]
exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]
# A name in single backticks is code, and a link where Sphinx knows it.
default_role = "py:obj"
toc_object_entries = False

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 4

autosummary_generate = True
# Its file differs from that of `miscalibration` even where upper and lower case are one.
autosummary_filename_map = {"calibrant.metrics.Miscalibration": "calibrant.metrics.Miscalibration-class"}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "ignore_pattern": "pictures",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "image_srcset": ["2x"],
    # An example must not depend on what an earlier one left behind.
    "reset_modules": ("matplotlib", "gallery_style.house_style"),
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("calibrant",),
    "inspect_global_variables": False,
    "nested_sections": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "calibrant"
html_static_path = ["_static"]
# A page of its own, which `make results` writes.
html_extra_path = ["leaderboard.html"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "github_url": "https://github.com/calibrant/calibrant",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "navbar_persistent": ["search-button"],
    "navbar_align": "left",
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# Pages without neighbours need no navigation beside them.
html_sidebars = {page: [] for page in ("index", "gallery/index")}
# Light or dark as the reader's system is.
html_context = {"default_mode": "auto"}
html_math_renderer = "mathml"
