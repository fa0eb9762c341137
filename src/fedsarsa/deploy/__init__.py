"""The same federation over real machines: agents that stay where their data is, joined by Flower."""
