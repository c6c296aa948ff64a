"""From measurements between parts to the part that is to blame: node, rank, rail, link or switch (pure)."""
