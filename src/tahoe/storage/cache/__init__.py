"""The local cache: what was read from a remote storage is kept in a folder of this machine, shared by its processes.

`store` reads through it, `blocks` keeps it, `eviction` bounds it, `configuration` tells whether there is one.
"""
