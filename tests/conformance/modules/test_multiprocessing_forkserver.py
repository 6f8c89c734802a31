"""What CPython's own wrapper of this name does, with all kinds of tests in one module."""

import test._test_multiprocessing

test._test_multiprocessing.install_tests_in_module_dict(globals(), "forkserver")
