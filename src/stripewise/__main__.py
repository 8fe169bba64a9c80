"""``python -m stripewise``."""

from stripewise.cli import main

main()
