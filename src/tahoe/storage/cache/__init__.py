"""The local cache: what was read from a remote storage is kept in a folder of this machine, shared by its processes.

`cached_store` reads through it, `block_cache` is what the threads of a process share, `cache_folder` the folder on the
disk, `block_file` one file in it, `eviction` bounds it, `configuration` tells whether there is one.
"""
