"""Lies in the conformance run's environment, where a .pth file imports it into every interpreter (-E and -I
included): when ``multiprocessing`` has been imported, it is replaced. Until then it is only a finder."""

import importlib.util
import sys


class _Hook:
    def find_spec(self, name, path, target=None):
        if name != "multiprocessing":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            execute(module)
            from forklift.installing import install

            install()

        loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Hook())
