"""The service: REST, live events, pages and workers over a store that many people share."""
