"""What the server does, and who runs the rounds: FedSARSA, its history and its engines."""
