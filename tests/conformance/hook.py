"""Is ``sitecustomize`` in the conformance run's environment, so that every interpreter (-E and -I included)
runs it: when ``multiprocessing`` has been imported, it is replaced. Until then this is only a finder, and a
cheap one, since children are timed. The resource tracker is left alone, as by ``python -m forklift``."""

import sys


class _Hook:
    def find_spec(self, name, path, target=None):
        if name != "multiprocessing":
            return None
        sys.meta_path.remove(self)
        spec = next(filter(None, (each.find_spec(name, path) for each in sys.meta_path)))
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            execute(module)
            from forklift.patch import install

            install()

        loader.exec_module = exec_module
        return spec


if not any("multiprocessing.resource_tracker" in each for each in sys.orig_argv):
    sys.meta_path.insert(0, _Hook())
