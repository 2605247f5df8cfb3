"""The program `calibrant`, also as `python -m calibrant` where its script is not on the path."""

import os
import sys

# `python -m` looks for packages in the working folder first, where a file called pyarrow.py may lie among data.
if sys.path and sys.path[0] in ("", os.getcwd()) and not __file__.startswith(os.path.join(os.getcwd(), "")):
    del sys.path[0]


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        from calibrant.cli import main as run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        from calibrant.optional import install_command

        sys.exit(f"The command line needs the package {error.name!r}; install it with: {install_command('cli')}")
    run()


if __name__ == "__main__":
    main()
