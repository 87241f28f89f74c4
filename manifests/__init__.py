"""The manifest language: loading, checking and explaining manifests."""
