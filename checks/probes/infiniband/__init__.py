"""InfiniBand and RoCE: the ports of a node, and what they counted."""
