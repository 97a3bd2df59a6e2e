"""`python -m tahoe` is the command `tahoe`."""

from tahoe.cli import main

main()
