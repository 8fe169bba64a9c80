"""The operations that users ask for, and their faces: command line, service, client."""
