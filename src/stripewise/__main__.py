"""``python -m stripewise``."""

from stripewise.desk.cli import main

main()
