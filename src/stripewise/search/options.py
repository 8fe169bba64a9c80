"""Options of everything replaceable in a search; see :mod:`stripewise.spec.options`."""

from stripewise.spec.options import AnyOptions, Keywords, Options, parse_options

__all__ = ["AnyOptions", "Keywords", "Options", "parse_options"]
