"""The page of ``fedsarsa explore``: settings on sliders, and what training and theory answer."""
