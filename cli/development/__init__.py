"""The parts of `tenantcron dev`: child processes, their log, and the files it watches."""
