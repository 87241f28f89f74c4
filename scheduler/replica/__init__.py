"""One replica: its loops, shutdown, housekeeping and watchdog."""
