"""What the source tree promises: where Python may be seen, no state, sizes, flags, symbols.

Every check is a function that returns the offences it finds. The test asserts that the tree has
none, and a second test plants an offence in a small tree of its own and asserts that it is seen.
"""

import os
import platform
import re
import runpy
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
X86 = platform.machine() == "x86_64"
needs_binutils = pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "nm", "objdump"))), reason="needs gcc, nm and objdump"
)


def run(*command, cwd=None):
    command = [str(part) for part in command]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if result.returncode:
        error = subprocess.CalledProcessError(result.returncode, command)
        error.add_note(result.stderr)
        raise error
    return result.stdout


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# ---- text ---------------------------------------------------------------------------------------


def c_files(root):
    """Every C file below csrc as (relative name, text without comments)."""
    for path in sorted((root / "csrc").rglob("*")):
        if path.suffix in {".c", ".h", ".def"}:
            text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S)
            yield path.relative_to(root).as_posix(), re.sub(r"//.*", " ", text)


def python_outside_binding(root):
    """Python.h and NumPy's headers are included only below csrc/python."""
    include = re.compile(r"#\s*include\s*[<\"](Python\.h|numpy/|structmember)")
    files = c_files(root)
    return [name for name, text in files if "csrc/python/" not in name and include.search(text)]


def raises_outside_raise_c(root):
    """Exceptions are set in one file."""
    call = re.compile(r"\bPyErr_(Set|Format|NoMemory|Bad|Warn)\w*")
    return [
        f"{name}: {found.group()}"
        for name, text in c_files(root)
        for found in call.finditer(text)
        if name != "csrc/python/raise.c"
    ]


def allocation_in_kernels(root):
    """Kernels and what they are written in allocate nothing."""
    call = re.compile(r"\b(malloc|calloc|realloc|aligned_alloc|free|alloca)\s*\(")
    places = ("csrc/kernels/", "csrc/simd/", "csrc/isa/")
    files = c_files(root)
    return [name for name, text in files if name.startswith(places) and call.search(text)]


def over_budget(root):
    """Small files: 150 lines for a kernel, 20 for an instruction set, 400 for anything else."""
    budgets = [
        ("csrc/kernels/*", 150),
        ("csrc/isa/*.c", 20),
        ("csrc/**/*.[ch]", 400),
        ("posenc/*.py", 400),
    ]
    return [
        f"{path.relative_to(root)}: {lines} lines, budget {budget}"
        for pattern, budget in budgets
        for path in sorted(root.glob(pattern))
        if (lines := len(path.read_text().splitlines())) > budget
    ]


def unsafe_flags(root):
    """Nothing that is compiled may depend on the build machine or loosen IEEE arithmetic."""
    flag = re.compile(
        r"-Ofast|fast-math|unsafe-math|-m(arch|cpu|tune)=|-ffinite|-mavx|FP_CONTRACT ON"
    )
    names = ["setup.py", "pyproject.toml", "tests/c/Makefile", ".ci/run"]
    texts = [(name, (root / name).read_text()) for name in names if (root / name).exists()]
    texts = [(name, re.sub(r"(?m)#.*$", "", text)) for name, text in texts]
    return [
        f"{name}: {found.group()}"
        for name, text in [*texts, *c_files(root)]
        for found in flag.finditer(text)
    ]


def tracked_files(root):
    """The files under version control; without git (an unpacked sdist), every file that is text."""
    try:
        names = run("git", "-c", "safe.directory=*", "ls-files", "-z", cwd=root).split("\0")
        return [root / name for name in names if name and (root / name).is_file()]
    except (OSError, subprocess.CalledProcessError):
        built = {"build", "dist", ".venv", "venv", "__pycache__", ".hypothesis"}
        files = [path for path in root.rglob("*") if path.is_file()]
        return [path for path in files if not built & set(path.relative_to(root).parts)]


PATHS = re.compile(rb"(?<![\w+./*<)}-])/(?!dev/|proc/|usr/)[a-z]+/[\w.]")
ABOVE = re.compile(rb"(?:\.\./)+[\w-][\w.-]*")
HOSTS = re.compile(rb"\b[\w-]+(?:\.[\w-]+)*\.(?:org|com|io|net|dev|edu)\b")
KNOWN_HOSTS = {b"keepachangelog.com", b"semver.org"}


def stray_text(root):
    """No path of somebody's machine, nothing from beside the tree, no host but those known."""

    def strays(path):
        text = path.read_bytes()
        yield from PATHS.findall(text)
        for found in ABOVE.findall(text):
            place = (path.parent / found.decode()).resolve()
            if root.resolve() not in place.parents or not place.exists():
                yield found
        yield from (host for host in HOSTS.findall(text) if host not in KNOWN_HOSTS)

    return [
        f"{path.relative_to(root)}: {stray.decode()}"
        for path in tracked_files(root)
        if path.suffix != ".so"
        for stray in strays(path)
    ]


TEXT_CHECKS = {
    python_outside_binding: ("csrc/freqs.c", "#include <Python.h>\n"),
    raises_outside_raise_c: (
        "csrc/python/args.c",
        'void f(void) { PyErr_Format(PyExc_ValueError, "no"); }\n',
    ),
    allocation_in_kernels: ("csrc/kernels/x.inc.h", "void f(void) { free(0); }\n"),
    over_budget: ("csrc/kernels/x.inc.h", "\n" * 151),
    unsafe_flags: ("setup.py", 'CFLAGS = ["-ffast-math"]\n'),
    stray_text: ("README.md", "see /{}/notes\n".format("work")),
}
STRAYS = (
    "see /{}/me/notes",
    'open("/{}/x.json")',
    "C=/{}/x",
    "path:/{}/x",
    "`/{}/lessons`",
    "../{}/facts.md",
    "../../{}",
    "https://{}.org/simple",
    "pip index at {}.io",
)


@pytest.mark.parametrize("text", STRAYS)
def test_strays_are_seen(text, tmp_path):
    write(tmp_path, "notes.md", text.format("elsewhere"))
    assert len(stray_text(tmp_path)) == 1


@pytest.mark.parametrize("check", TEXT_CHECKS, ids=lambda check: check.__name__)
def test_text(check):
    assert check(ROOT) == []


@pytest.mark.parametrize("check", TEXT_CHECKS, ids=lambda check: check.__name__)
def test_text_check_sees_an_offence(check, tmp_path):
    write(tmp_path, "csrc/clean.c", "/* PyErr_Format, Python.h: only words */ int f(void);\n")
    write(tmp_path, "csrc/python/raise.c", "#include <Python.h>\n/* */ PyErr_SetString(e, s);\n")
    assert check(tmp_path) == []
    write(tmp_path, *TEXT_CHECKS[check])
    assert len(check(tmp_path)) == 1


def test_text_is_read():
    """The checks above see files at all."""
    assert len(list(c_files(ROOT))) > 20
    assert ROOT / "setup.py" in tracked_files(ROOT)


# ---- objects ------------------------------------------------------------------------------------


def compile_objects(root, sources, out, flags):
    """Compiles each source to an object file, in parallel; {relative source name: object}."""

    def one(source):
        target = out / (source.replace("/", "_") + ".o")
        run("gcc", *flags, "-fPIC", "-c", source, "-o", target, cwd=root)
        return source, target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(pool.map(one, sources))


def build_flags():
    """The flags in setup.py, plus what the compiler of this Python adds to find Python.h."""
    here = os.getcwd()
    os.chdir(ROOT)  # setup.py looks for its sources in the current folder, as setuptools runs it
    try:
        setup = runpy.run_path("setup.py")
    finally:
        os.chdir(here)
    flags = [flag for flag in setup["CFLAGS"] if "sanitize" not in flag and flag != "--coverage"]
    flags += [f"-D{name}={value}" for name, value in setup["MACROS"]]
    flags += [f"-I{folder}" for folder in setup["INCLUDE_DIRS"]]
    return [*flags, f"-isystem{sysconfig.get_path('include')}", "-DNDEBUG"], setup["SOURCES"]


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    flags, sources = build_flags()
    return compile_objects(ROOT, sources, tmp_path_factory.mktemp("objects"), flags)


def mutable_variables(obj):
    """Names of variables that could change: .data, .bss and their thread-local twins.

    `.data.rel.ro` holds constants with addresses inside; the loader makes it read-only.
    """
    names = []
    for line in run("nm", "--format=sysv", "--defined-only", obj).splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 7 and re.match(r"\.(t?data|t?bss)(?!\.rel\.ro)|\*COM\*", fields[6]):
            names += [fields[0]] if fields[3] not in {"SECTION", "FILE"} else []
    return names


# CPython and NumPy want these to be writable; each is written by the loader or by import only.
BINDING_VARIABLES = re.compile(
    r"methods|slots|definition|posenc_array_api|\w*PyArray_RUNTIME_VERSION"
)


@needs_binutils
def test_no_mutable_variable(objects):
    offences = {
        source: names
        for source, obj in objects.items()
        if "csrc/python/" not in source and (names := mutable_variables(obj))
    }
    assert offences == {}


@needs_binutils
def test_no_mutable_variable_in_binding(objects):
    """The binding has only the tables that CPython and NumPy define as writable."""
    offences = [
        f"{source}: {name}"
        for source, obj in objects.items()
        if "csrc/python/" in source
        for name in mutable_variables(obj)
        if not BINDING_VARIABLES.fullmatch(name)
    ]
    assert offences == []


@needs_binutils
@pytest.mark.parametrize(
    "bad",
    [
        "int counter;",
        "static int level = 3; int *f(void) { return &level; }",
        "int *f(void) { static int calls; return &calls; }",
        "_Thread_local int last;",
        'extern int a; const char *name = "x"; int *const fixed = &a;',
    ],
)
def test_mutable_variable_is_seen(bad, tmp_path):
    write(tmp_path, "bad.c", bad + "\n")
    good = "extern int a; int *const fixed = &a; static const int k[] = {1}; const int *f(void) "
    write(tmp_path, "good.c", good + "{ return k; }\n")
    objs = compile_objects(tmp_path, ["bad.c", "good.c"], tmp_path, ["-std=c11", "-O2"])
    assert len(mutable_variables(objs["bad.c"])) == 1
    assert mutable_variables(objs["good.c"]) == []


def instruction_sets(obj):
    """Which of AVX and AVX-512 the machine code of an object uses."""
    code = run("objdump", "-d", "--no-show-raw-insn", obj)
    avx = re.search(r"\tv[a-z0-9]+ .*%[xyz]mm", code)
    avx512 = re.search(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])|\{%k[1-7]\}|\tk[a-z]+[bwdq] ", code)
    return {name for name, found in [("avx", avx), ("avx512", avx512)] if found}


@needs_binutils
@pytest.mark.skipif(not X86, reason="AVX is an x86 word")
def test_instructions_stay_in_their_file(objects):
    allowed = {"csrc/isa/avx2.c": {"avx"}, "csrc/isa/avx512.c": {"avx", "avx512"}}
    for source, obj in objects.items():
        assert instruction_sets(obj) == allowed.get(source, set()), source


@needs_binutils
@pytest.mark.skipif(not X86, reason="AVX is an x86 word")
def test_instruction_sets_are_seen(tmp_path):
    body = "void f(float *x) { for (int i = 0; i < 64; i++) x[i] += 1; }\n"
    for isa in ("sse2", "avx2", "avx512f,avx512vl,prefer-vector-width=512"):
        write(tmp_path, f"{isa[:6]}.c", f'__attribute__((target("{isa}"))) {body}')
    names = ["sse2.c", "avx2.c", "avx512.c"]
    objs = compile_objects(tmp_path, names, tmp_path, ["-O3"])
    found = [instruction_sets(objs[name]) for name in names]
    assert found == [set(), {"avx"}, {"avx", "avx512"}]


# ---- the module ---------------------------------------------------------------------------------


def exported(so):
    lines = run("nm", "-D", "--defined-only", so).splitlines()
    return {line.split()[-1] for line in lines}


def libm_calls(so):
    """Undefined symbols of a module that the C library's libm has and its libc has not."""

    def symbols(path, which):
        lines = run("nm", "-D", which, path).splitlines()
        return {line.split()[-1].split("@")[0] for line in lines}

    libm, libc = (run("gcc", f"-print-file-name={name}.so.6").strip() for name in ("libm", "libc"))
    only_libm = symbols(libm, "--defined-only") - symbols(libc, "--defined-only")
    assert {"sin", "cos", "exp", "log", "pow", "fma"} <= only_libm
    return sorted(symbols(so, "--undefined-only") & only_libm)


@pytest.fixture(scope="module")
def core():
    from posenc import _core

    return _core.__file__


@needs_binutils
def test_exports_only_the_init_function(core):
    assert exported(core) == {"PyInit__core"}


@needs_binutils
def test_calls_no_libm(core):
    """libm differs between CPUs and between versions, and its new symbols tie a wheel to them."""
    assert libm_calls(core) == []


@needs_binutils
def test_module_checks_see_an_offence(tmp_path):
    write(tmp_path, "bad.c", "double sin(double); double leaked(double x) { return sin(x); }\n")
    run("gcc", "-O2", "-fPIC", "-shared", "bad.c", "-o", "bad.so", "-lm", cwd=tmp_path)
    assert exported(tmp_path / "bad.so") == {"leaked"}
    assert libm_calls(tmp_path / "bad.so") == ["sin"]


@needs_binutils
@pytest.mark.skipif(platform.system() != "Linux", reason="ELF")
def test_link_is_hardened(core):
    dynamic = run("readelf", "-dW", core)
    assert "BIND_NOW" in dynamic
    assert "RUNPATH" not in dynamic and "RPATH" not in dynamic
    segments = run("readelf", "-lW", core)
    assert "GNU_RELRO" in segments
    assert re.search(r"GNU_STACK .* RW ", segments)
