"""What programs are told, as JSON: by the command line and by the API; the keys are stable."""
