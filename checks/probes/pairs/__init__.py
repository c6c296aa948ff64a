"""Every pair of ranks measured inside one running job, in rounds of disjoint pairs."""
