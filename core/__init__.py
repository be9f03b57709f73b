"""What every house stands on. It is imported first everywhere, so it says which Python it takes."""

import sys

if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    print(
        f"error: this project needs Python 3.11 to 3.13, and this is {sys.version.split()[0]}: "
        "give the command with one of those, such as python3.12",
        file=sys.stderr,
    )
    sys.exit(2)
