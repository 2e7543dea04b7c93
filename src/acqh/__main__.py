"""``python -m acqh`` is the command line, as is the program ``acqh``."""

import signal
import sys
from typing import NoReturn

# Exit code after Ctrl-C.
INTERRUPTED = 130


def main() -> None:
    """Run the command line; after Ctrl-C, also while modules are imported, exit with 130."""
    interrupts: list[int] = []

    def interrupt(number: int, _: object) -> NoReturn:
        interrupts.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        from acqh import cli  # which takes half a second

        cli.main()
    except BaseException:
        # An import that is interrupted may raise an ImportError instead.
        if not interrupts:
            raise
        sys.stderr.write("acqh: interrupted\n")
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
