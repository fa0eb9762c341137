"""What one agent does: features, policies, step sizes, random numbers, the SARSA step."""
