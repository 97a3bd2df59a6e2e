"""Spark Connect: clients that have no JVM, and servers that have enabled tahoe."""
