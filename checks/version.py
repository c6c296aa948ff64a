"""The engine's version; it stands in every verdict's digests."""

ENGINE = "0.2.0"
# What to do about an image that has another version, or none.
BUILD_IMAGE = "Build the image with the gate's version (container/create-image.sh), push it, and name it in the gate file."
