"""`python -m calibrant`: the program `calibrant` where its script is not on the path."""

from calibrant.cli import main

if __name__ == "__main__":
    main()
