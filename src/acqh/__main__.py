"""``python -m acqh`` is the command line."""

from acqh.cli import main

if __name__ == "__main__":
    main()
