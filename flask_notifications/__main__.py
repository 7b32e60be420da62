"""Run the command line: ``python -m flask_notifications``."""

from .cli import main

main()
