"""Which files hold the rows: OPTIMIZE, REORG, clustering, auto compaction and ANALYZE."""
