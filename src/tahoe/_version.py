"""The version of tahoe, in one place."""

VERSION = "0.1.0"
