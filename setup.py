"""Builds the one extension, `posenc._core`. Everything else about the package is in pyproject.toml.

Switches, all by environment variable:

POSENC_DEBUG=1                      -O0 -g, asserts on
POSENC_SANITIZE=address,undefined   passed to -fsanitize=
POSENC_COVERAGE=1                   -O0 --coverage
POSENC_ABI3=0                       a build for this Python version only, not for 3.11 and later

No flag here may depend on the build machine or loosen IEEE arithmetic: files below csrc/isa name
their instruction set themselves, and results have to be the same bits on every CPU.
"""

import os
import platform
import sys
import sysconfig
from glob import glob
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DEBUG = os.environ.get("POSENC_DEBUG", "0") == "1"
SANITIZE = os.environ.get("POSENC_SANITIZE", "")
COVERAGE = os.environ.get("POSENC_COVERAGE", "0") == "1"
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))  # has no limited API in 3.11-3.14
ABI3 = os.environ.get("POSENC_ABI3", "1") == "1" and not FREE_THREADED

# The instruction sets come first: they take longest to compile.
SOURCES = sorted(glob("csrc/isa/*.c")) + sorted(glob("csrc/*.c")) + sorted(glob("csrc/python/*.c"))
DEPENDS = [*sorted(glob("csrc/**/*.h", recursive=True)), "csrc/kernels.def", "setup.py"]
INCLUDE_DIRS = ["csrc", numpy.get_include()]
MACROS = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),
    *([("Py_LIMITED_API", "0x030B0000")] if ABI3 else []),
]

CFLAGS = ["-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"]
CFLAGS += ["-pthread", "-Wall", "-Wextra"]
LDFLAGS = ["-pthread"]
if SANITIZE:
    CFLAGS += ["-O1", "-g", "-UNDEBUG", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"]
    CFLAGS += ["-fno-sanitize-recover=all"]
    LDFLAGS += [f"-fsanitize={SANITIZE}"]
elif COVERAGE:
    CFLAGS += ["-O0", "-g", "--coverage"]
    LDFLAGS += ["--coverage"]
elif DEBUG:
    CFLAGS += ["-O0", "-g", "-UNDEBUG"]
else:
    CFLAGS += ["-O3", "-g0"]
    if sys.platform == "linux":
        CFLAGS += ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
        CFLAGS += ["-fcf-protection"] if platform.machine() == "x86_64" else []
        LDFLAGS += ["-Wl,-s"]
if sys.platform == "linux":
    LDFLAGS += ["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]


class BuildExt(build_ext):
    """Compiles in parallel, and leaves a copy of the module beside posenc/*.py.

    The copy is what makes `python -m posenc` and `python -m pytest` work from the top of a checkout
    after `pip install .`: there Python finds the folder `posenc` before the installed package.
    """

    def build_extensions(self):
        # setuptools compares file times only; other flags or another NumPy must recompile too.
        stamp = Path(self.build_temp, "flags.txt")
        flags = repr((CFLAGS, LDFLAGS, MACROS, numpy.__version__, os.environ.get("CFLAGS")))
        self.force = self.force or not stamp.exists() or stamp.read_text() != flags

        # An interpreter built into a private folder passes that folder on as a run path: drop it.
        link = self.compiler.linker_so
        self.compiler.linker_so = [arg for arg in link if not arg.startswith("-Wl,-rpath")]

        serial = self.compiler.compile

        def compile_parallel(sources, **options):
            with ThreadPool(self.parallel or os.cpu_count()) as pool:
                objects = pool.map(lambda source: serial([source], **options), sources, chunksize=1)
            return [name for names in objects for name in names]

        self.compiler.compile = compile_parallel
        super().build_extensions()
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(flags)

    def run(self):
        super().run()
        name = Path(self.get_ext_filename("posenc._core")).name
        for stale in Path("posenc").glob("_core.*.so"):
            if stale.name != name:  # built under other switches; Python might prefer it
                stale.unlink()
        if not self.inplace:
            self.copy_extensions_to_source()


if __name__ == "__main__":
    core = Extension(
        "posenc._core",
        sources=SOURCES,
        depends=DEPENDS,
        include_dirs=INCLUDE_DIRS,
        define_macros=MACROS,
        extra_compile_args=CFLAGS,
        extra_link_args=LDFLAGS,
        py_limited_api=ABI3,
    )
    setup(
        ext_modules=[core],
        cmdclass={"build_ext": BuildExt},
        options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
    )
