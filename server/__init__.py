"""The REST service: a folder per noun, each with its routes and schemas."""
