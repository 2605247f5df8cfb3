"""`python -m calibrant`: the program `calibrant` where its script is not on the path."""

import os
import sys

# `python -m` looks for packages in the working folder first, where a file called pyarrow.py may lie among data.
if sys.path and sys.path[0] in ("", os.getcwd()) and not __file__.startswith(os.path.join(os.getcwd(), "")):
    del sys.path[0]

from calibrant.cli import main

if __name__ == "__main__":
    main()
