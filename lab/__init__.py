"""Commands for who changes the product: what they find is about our own code, beside no peer."""
