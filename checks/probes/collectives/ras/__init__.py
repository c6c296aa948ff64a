"""NCCL's RAS subsystem: asks a running job for its ranks, and finds those that do not answer or do not move."""
