"""The disk cache: compiled kernels that a second process finds.

Read `cache` (one make per key across processes), `store` (a private folder), `disk` (the database), `sources` (the
package's files as a part of keys), `tools` (what people do with the cache) and `archive` (a cache in a file).
"""
