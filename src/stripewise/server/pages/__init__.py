"""The pages: server-rendered, with the figures of :mod:`stripewise.plots`."""
