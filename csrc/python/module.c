/* module.c - posenc._core: multi-phase init, state per module, nothing static that changes. */
#define POSENC_MODULE_C
#include "core.h"

PE_FUNCTION(get_num_threads) {
    (void)args, (void)nargs;
    return PyLong_FromLong(pe_state_of(module)->threads);
}

PE_FUNCTION(set_num_threads) {
    int64_t n;
    (void)nargs;
    if (pe_size("set_num_threads", "n", args[0], 1, &n) < 0) return NULL;
    pe_state_of(module)->threads = n < 64 ? (int)n : 64;
    Py_RETURN_NONE;
}

/* cpu_info() -> (the ISA in use, the ISAs of this build that this CPU has) */
PE_FUNCTION(cpu_info) {
    (void)args, (void)nargs;
    PyObject *have = PyList_New(0);
    for (int i = 0; have && i < PE_NISA; i++) {
        const pe_kernels *k = pe_kernels_for((pe_isa)i);
        PyObject *name = k ? PyUnicode_FromString(k->isa) : NULL;
        if (k && (!name || PyList_Append(have, name) < 0)) Py_CLEAR(have);
        Py_XDECREF(name);
    }
    return have ? Py_BuildValue("(sN)", pe_state_of(module)->kernels->isa, have) : NULL;
}

static PyMethodDef methods[] = {PE_METHOD(turns),           PE_METHOD(turns_from),     PE_METHOD(inv_freq),
                                PE_METHOD(sinusoidal),      PE_METHOD(add_sinusoidal), PE_METHOD(rope),
                                PE_METHOD(rope_qk),         PE_METHOD(rope_tables),    PE_METHOD(apply_rope),
                                PE_METHOD(lookup),          PE_METHOD(embed),          PE_METHOD(bias_arrays),
                                PE_METHOD(expand_bias),     PE_METHOD(alibi_profile),  PE_METHOD(get_num_threads),
                                PE_METHOD(set_num_threads), PE_METHOD(cpu_info),       {NULL, NULL, 0, NULL}};

static int exec(PyObject *m) {
    pe_state *s = pe_state_of(m);
    if (PyArray_ImportNumPyAPI() < 0) return -1;
    const char *simd = getenv("POSENC_SIMD");
    s->kernels = pe_kernels_named(simd && *simd ? simd : NULL);
    if (!s->kernels) return pe_raise_import("POSENC_SIMD must be scalar, or avx2 on a CPU that has it");
    s->threads = 1;
    s->turns = PyDict_New();
    return s->turns ? 0 : -1;
}

static int traverse(PyObject *m, visitproc visit, void *arg) {
    pe_state *s = pe_state_of(m);
    Py_VISIT(s->turns);
    Py_VISIT(s->bfloat16);
    return 0;
}

static int clear(PyObject *m) {
    pe_state *s = pe_state_of(m);
    Py_CLEAR(s->turns);
    Py_CLEAR(s->bfloat16);
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)exec},
#ifdef Py_mod_multiple_interpreters
                                   {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
                                   {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
                                   {0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "posenc._core", .m_size = sizeof(pe_state),
                                 .m_methods = methods,  .m_slots = slots,         .m_traverse = traverse,
                                 .m_clear = clear};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
