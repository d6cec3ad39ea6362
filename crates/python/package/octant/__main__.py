"""`python -m octant`: the command line."""

from ._command import main

main()
