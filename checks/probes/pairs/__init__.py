"""Every pair of ranks is measured inside one running job, in rounds of disjoint pairs."""
