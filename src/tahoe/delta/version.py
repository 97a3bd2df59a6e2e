"""The reference's module `delta.version`."""

# The version of delta-spark whose Python API tahoe has: libraries compare it with the version that they need.
__version__ = "4.4.0"
