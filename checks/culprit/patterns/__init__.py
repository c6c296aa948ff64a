"""What a matrix shows as a whole, before single culprits are searched: periods of time, pairs that are slow for good, medians."""
