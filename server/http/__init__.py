"""What all routes share: problems, limits, pages, uploads, streams of events."""
