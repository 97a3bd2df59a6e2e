"""The version of tahoe, and the name under which it is installed, in one place."""

VERSION = "0.1.0"

# As in pyproject.toml. The `tahoe` of the index is another project.
DISTRIBUTION = "tahoe-delta"
