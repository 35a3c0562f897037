"""`python -m launchbay` is `bay`."""

from launchbay.cli.main import main

main()
