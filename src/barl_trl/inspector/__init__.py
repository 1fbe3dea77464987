"""The page of `barl inspect`: it reads records of rollouts, and opens without a server."""
