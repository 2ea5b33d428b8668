"""What follows a product and is computed along with it."""
