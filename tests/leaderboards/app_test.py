"""Streamlit's AppTest, which would look through all installed packages again at each run."""

from functools import cache

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

__all__ = ["AppTest"]
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
