"""The page of `barl inspect`: records of rollouts in, a folder that opens without a server out."""
