"""Where agents live: finite MDPs, fleets and their heterogeneity, the paper's worlds."""
