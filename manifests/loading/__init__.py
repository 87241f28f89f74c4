"""Load YAML and JSON: parser events are built into nodes with positions."""
