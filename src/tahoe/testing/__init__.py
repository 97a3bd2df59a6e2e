"""What a store of one's own must do, as tests of pytest, for its author:

    python -m pytest -p tahoe.testing.plugin --pyargs tahoe.testing --store-url sftp://server/folder

`test_store` asks what `tahoe.storage.env.Store` promises; `test_tables` lets writers in threads and in processes that
are killed work on one table.
"""
