"""The benchmark: predictions in, tidy results, statistics, tables, figures and a page to browse them out."""
