"""Findings that stay open until something answers them: what opens one, what closes one, and what a gate makes of them. Pure."""
