"""Started by ``site`` in each Python that reads ``PYTHONPATH``: waits for libraries that settings are for.

It must cost next to nothing, change nothing that the program sees, and never fail. So it takes its folder off
``sys.path`` again, runs the ``sitecustomize`` that the program would have had, and loads the rest only once a library
that the variable names is imported. Python 2 must be able to read it: a program of today may start one of yesterday.
"""

import os
import sys

_TEXT = os.environ.get("STRIPEWISE_PYTHON", "")
_HERE = os.path.dirname(__file__)  # pathlib would take milliseconds of each start


class _Finder:
    """First in ``sys.meta_path``: lets others find a module, and has it patched once it has been executed."""

    def __init__(self):
        self.patch = None
        self.under_way = set()

    def find_spec(self, name, path=None, target=None):
        # The text is JSON in which each setting, and each object to watch, begins with a quotation mark.
        if '"' + name + "." not in _TEXT or name in self.under_way:
            return None
        self.under_way.add(name)
        try:
            return self._wrapped(name, path, target)
        finally:
            self.under_way.discard(name)

    def _wrapped(self, name, path, target):
        for finder in list(sys.meta_path):
            if finder is self:
                continue
            if not hasattr(finder, "find_spec"):  # only Python itself, before 3.12, knows how to ask it
                return None
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                loader = spec.loader
                # Before Python 3.10, archives have only load_module.
                if hasattr(loader, "exec_module") and not isinstance(loader, type):
                    self._wrap(name, loader)
                return spec
        return None

    def _wrap(self, name, loader):
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            if module.__name__ == name:
                try:
                    loader.__dict__.pop("exec_module", None)
                    self._patch(module)
                except Exception:  # the program goes on with its own settings
                    pass

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass

    def _patch(self, module):
        if self.patch is None:
            from importlib.util import module_from_spec, spec_from_file_location

            spec = spec_from_file_location("stripewise_settings", os.path.join(_HERE, "stripewise_settings.py"))
            settings = module_from_spec(spec)
            spec.loader.exec_module(settings)
            self.patch = settings.begin(_TEXT, _HERE)
        self.patch(module)


def _go_on():
    """Run the ``sitecustomize`` that would have been found without this one; its errors are its own."""
    sys.path[:] = [folder for folder in sys.path if folder != _HERE]
    sys.path_importer_cache.pop(_HERE, None)
    ours = sys.modules.pop(__name__, None) if __name__ == "sitecustomize" else None  # Python 2 clears what nobody holds
    if ours is not None:
        # Without one, its ImportError ends this import, too: as usual, site ignores it, and there is no such module.
        __import__(__name__)


if _TEXT and sys.version_info >= (3, 8):
    sys.meta_path.insert(0, _Finder())
_go_on()
