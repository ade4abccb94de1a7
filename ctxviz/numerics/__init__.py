"""Pure functions: rank-one writes, scale updates, the RMSNorm inverse, distances between distributions."""
