"""`python -m reagent` is the command `reagent`."""

from reagent.cli import main

if __name__ == "__main__":
    main()
