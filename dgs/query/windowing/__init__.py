"""Windows of queries: panes in which rows are added up, and programs that answer each window once."""
