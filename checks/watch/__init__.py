"""Looks at one node between gates: rounds of the checks that are safe beside a job, what they found, and metrics about it."""
