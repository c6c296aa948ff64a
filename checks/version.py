"""The engine's version; it stands in every verdict's digests."""

ENGINE = "0.1.0"
