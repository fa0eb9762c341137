"""``python -m fedsarsa``: the command, where its script is not on the path."""

from fedsarsa.cli import main

main()
