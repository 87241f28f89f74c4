"""One replica: its loops, signals, shutdown, and what watches over it."""
