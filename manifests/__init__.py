"""What people write: loading, checking and explaining tenant manifests."""
