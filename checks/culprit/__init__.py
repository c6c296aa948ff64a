"""Finds the part that is to blame from measurements between parts: a node, rank, rail, link or switch. Pure."""
