"""What every room may use: errors, checks, linear algebra policy, randomness, optional imports."""
