"""Toad, as its package is published. It wants Python 3.14, whose annotations are not evaluated and whose pools may be
interpreters; before that this file says so for it. Its code stays as it is."""

import __future__
import concurrent.futures
import importlib.machinery
import sys
import typing


class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def source_to_code(self, data, path, *, _optimize=-1):
        flags = __future__.annotations.compiler_flag
        return compile(data, path, "exec", flags=flags, dont_inherit=True)


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] != "toad":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


if sys.version_info < (3, 14):
    sys.meta_path.insert(0, Finder)
    concurrent.futures.InterpreterPoolExecutor = concurrent.futures.ThreadPoolExecutor
    import toad.acp.protocol
    import toad.jsonrpc

    # Its methods' types are looked up there.
    vars(toad.jsonrpc).update(protocol=toad.acp.protocol, Any=typing.Any)

from toad.cli import main  # noqa: E402

main()
