"""
A first look
============
"""

import calibrant  # noqa: F401
