"""`python -m happycat`."""

from happycat.cli import main

main()
