"""The leaderboard: all methods on the same fleets, with as many samples, measured exactly."""
