"""Windows of queries: panes that rows add up in, and programs that answer each window once."""
