/* autotune's runtime for C: loads a network that `autotune compile` wrote, and runs it. docs/c.md has examples.
 *
 * Errors. Functions that return `int` return AUTOTUNE_OK (0) or another code of autotune_status. After an error,
 * autotune_last_error() tells the cause in one line, and nothing was written through the result pointers (`out`).
 * A null pointer where an object is needed is AUTOTUNE_INVALID_ARGUMENT, never a crash.
 *
 * Threads. Every function may be called from any thread. An object may be used from several threads at once, unless its
 * section says otherwise. Freeing an object that another thread still uses is an error of the caller, as with free().
 *
 * Ownership. A function that gives an object through `out` gives a new handle, which the caller frees with the
 * function *_free of its type. Handles are cheap: several may share one object, which lives as long as any handle or
 * any other object needs it. So handles may be freed in any order. *_free(NULL) does nothing. Arguments stay the
 * caller's.
 *
 * Texts are UTF-8 and end with a NUL. A `const char*` that a function returns is the library's; each function says how
 * long it is valid.
 *
 * The process. The library installs no signal handlers, prints nothing, never ends the process, and keeps no state of
 * it but the registry of global functions. After fork() the child may use all objects: an executor starts new threads
 * at its first run there. No call may be in progress while the process forks. A network for a GPU cannot be used in the
 * child, as its driver does not support that.
 *
 * Versions. Functions are added, never changed or removed, within one soname (libautotune_runtime.so.0). */
#ifndef AUTOTUNE_C_API_H_
#define AUTOTUNE_C_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define AUTOTUNE_API __attribute__((visibility("default")))
#else
#define AUTOTUNE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors and version ------------------------------------------------------------------------------------------ */

typedef enum autotune_status {
  AUTOTUNE_OK = 0,
  AUTOTUNE_ERROR = 1,            /* a file, a device or a called function failed */
  AUTOTUNE_INVALID_ARGUMENT = 2, /* the caller passed a wrong shape, type, name, index or a null pointer */
  AUTOTUNE_OUT_OF_MEMORY = 3,
  AUTOTUNE_INTERNAL_ERROR = 4 /* a bug of the library; its text says where */
} autotune_status;

/* The version of the library, such as "0.2.0". Valid for ever. */
AUTOTUNE_API const char* autotune_version(void);

/* The text of the last error of the calling thread; "" if no call has failed yet. A call that succeeds leaves it as it
 * is. Valid until the next call of the library on this thread. */
AUTOTUNE_API const char* autotune_last_error(void);

/* Sets the text of autotune_last_error() for the calling thread. For callbacks, before they return an error. NULL: "".
 */
AUTOTUNE_API void autotune_set_last_error(const char* text);

/* ---- Element types and devices ----------------------------------------------------------------------------------- */

/* An element type, as DLPack's DLDataType, which has the same layout: `code` is 0 for signed integers, 1 for unsigned
 * ones, 2 for floats, 4 for bfloat. bool is {1, 1, 1} and takes one byte per element. */
typedef struct autotune_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} autotune_dtype;

/* A device, as DLPack's DLDevice, which has the same layout: `type` is 1 for the CPU, 2 for CUDA, 4 for OpenCL. */
typedef struct autotune_device {
  int32_t type;
  int32_t id;
} autotune_device;

/* Converts a text such as "f32", "f64", "f16", "bf16", "i8" to "i64", "u8" to "u64" or "bool". */
AUTOTUNE_API int autotune_dtype_from_text(const char* text, autotune_dtype* out);
/* Writes the text of an element type into `buffer` of `size` bytes, with its NUL; 32 bytes suffice. An error if it does
 * not fit. */
AUTOTUNE_API int autotune_dtype_to_text(autotune_dtype dtype, char* buffer, size_t size);
/* Finds a device by "cpu", "cuda", "cuda:1", "opencl:0", or a kind and a UUID or a name. An error if this machine has
 * no such device. */
AUTOTUNE_API int autotune_device_from_text(const char* text, autotune_device* out);

/* An immutable list of the devices of this machine. */
typedef struct autotune_devices autotune_devices;

/* What a device is. The texts are valid until the list is freed; a text that is not known is "", a number 0. */
typedef struct autotune_device_info {
  autotune_device device;
  const char* text;         /* "cpu", "cuda:0", for autotune_device_from_text; that of a GPU also for executors */
  const char* name;         /* for people */
  const char* uuid;         /* "GPU-8a6b1c0f-..." */
  const char* architecture; /* "x86_64", "sm_90" */
  const char* error;        /* why no network can run on it; "": one can */
  int64_t memory_bytes;     /* the CPU: of the machine, or the limit of its control groups */
  int64_t units;            /* the CPU: threads that may run at once; a GPU: multiprocessors or compute units */
} autotune_device_info;

/* Lists the CPU, then the CUDA devices, then the OpenCL devices; a GPU may be in it as both. Looks for the drivers of
 * GPUs and starts them, but takes no memory of a GPU. A kind without a driver is no error, and has no devices:
 * autotune_device_from_text("cuda", ...) tells why. */
AUTOTUNE_API int autotune_devices_list(autotune_devices** out);
AUTOTUNE_API size_t autotune_devices_size(const autotune_devices* devices); /* 0 for NULL */
AUTOTUNE_API int autotune_devices_get(const autotune_devices* devices, size_t index, autotune_device_info* out);
AUTOTUNE_API void autotune_devices_free(autotune_devices* devices);

/* ---- Lists of texts ---------------------------------------------------------------------------------------------- */

/* An immutable list of texts. */
typedef struct autotune_names autotune_names;
AUTOTUNE_API size_t autotune_names_size(const autotune_names* names); /* 0 for NULL */
/* The text at `index`; NULL if there is none. Valid until `names` is freed. */
AUTOTUNE_API const char* autotune_names_at(const autotune_names* names, size_t index);
AUTOTUNE_API void autotune_names_free(autotune_names* names);

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* A compact, row-major array in the memory of the host or of a device. Its shape, type and address never change.
 * Reading and writing its elements is not synchronised: that is up to the caller. */
typedef struct autotune_tensor autotune_tensor;

struct DLManagedTensor;          /* <dlpack/dlpack.h> */
struct DLManagedTensorVersioned; /* <dlpack/dlpack.h> since DLPack 1.0 */

/* Allocates a tensor in the host's memory, aligned to 64 bytes, with elements of any value. `shape` has `ndim` extents,
 * and may be NULL if `ndim` is 0. */
AUTOTUNE_API int autotune_tensor_create(const int64_t* shape, int32_t ndim, autotune_dtype dtype,
                                        autotune_tensor** out);

enum { AUTOTUNE_READ_ONLY = 1 }; /* nothing may write through the tensor; it cannot be an output */

/* Makes a tensor over memory of the host that the caller owns. `strides` are in elements; NULL means compact and
 * row-major. If the memory is compact and row-major, the tensor shares it; otherwise it is a copy, made now.
 * `flags`: 0 or AUTOTUNE_READ_ONLY. Elements must be aligned to their own size, unless the CPU does not mind.
 * When the memory is no longer used, release(owner) is called once, on any thread: after the last handle is freed, or
 * before this function returns if it has copied. After an error it is not called. `release` may be NULL; then the
 * memory must outlive the tensor. */
AUTOTUNE_API int autotune_tensor_borrow(void* data, const int64_t* shape, const int64_t* strides, int32_t ndim,
                                        autotune_dtype dtype, int32_t flags, void (*release)(void* owner), void* owner,
                                        autotune_tensor** out);

/* Take over a DLPack tensor and call its deleter when its memory is no longer used, also after an error. Memory of the
 * host is shared, or copied if it is not compact and row-major. Other devices: compact and row-major only. */
AUTOTUNE_API int autotune_tensor_from_dlpack(struct DLManagedTensor* managed, autotune_tensor** out);
AUTOTUNE_API int autotune_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned* managed, autotune_tensor** out);
/* Give a DLPack tensor over the same memory. The receiver must call its deleter. The unversioned form is an error for a
 * read-only tensor. */
AUTOTUNE_API int autotune_tensor_to_dlpack(const autotune_tensor* tensor, struct DLManagedTensor** out);
AUTOTUNE_API int autotune_tensor_to_dlpack_versioned(const autotune_tensor* tensor,
                                                     struct DLManagedTensorVersioned** out);

/* What a tensor is. The pointers are valid as long as the handle; `data` is an address of `device`, and may be NULL if
 * there are no elements. */
typedef struct autotune_tensor_info {
  void* data;
  const int64_t* shape;
  int32_t ndim;
  autotune_dtype dtype;
  autotune_device device;
  int64_t size_bytes;
  int32_t flags; /* 0 or AUTOTUNE_READ_ONLY */
} autotune_tensor_info;
AUTOTUNE_API int autotune_tensor_get_info(const autotune_tensor* tensor, autotune_tensor_info* out);

/* Copies the elements between two tensors of equal shape and type, on any devices. */
AUTOTUNE_API int autotune_tensor_copy(const autotune_tensor* from, autotune_tensor* to);
AUTOTUNE_API void autotune_tensor_free(autotune_tensor* tensor);

/* ---- Values and functions ---------------------------------------------------------------------------------------- */

typedef struct autotune_module autotune_module;     /* functions by name, and imported modules */
typedef struct autotune_function autotune_function; /* takes and returns values */
typedef struct autotune_object autotune_object;     /* any other object that functions pass to each other */

typedef enum autotune_kind {
  AUTOTUNE_NULL = 0,
  AUTOTUNE_INT = 1,
  AUTOTUNE_FLOAT = 2,
  AUTOTUNE_STRING = 3,
  AUTOTUNE_BYTES = 4,
  AUTOTUNE_DTYPE = 5,
  AUTOTUNE_DEVICE = 6,
  AUTOTUNE_TENSOR = 7,
  AUTOTUNE_MODULE = 8,
  AUTOTUNE_FUNCTION = 9,
  AUTOTUNE_OBJECT = 10
} autotune_kind;

/* An argument or a result. `kind` tells which member of `as` counts. */
typedef struct autotune_value {
  int32_t kind; /* an autotune_kind */
  union {
    int64_t integer;
    double number;
    struct {
      const char* data; /* a string ends with a NUL that `size` does not count */
      size_t size;
    } text; /* AUTOTUNE_STRING and AUTOTUNE_BYTES */
    autotune_dtype dtype;
    autotune_device device;
    autotune_tensor* tensor;
    autotune_module* module;
    autotune_function* function;
    autotune_object* object;
  } as;
} autotune_value;

/* Frees what a value holds that a call has given, and makes it AUTOTUNE_NULL. Not for arguments, which hold nothing. */
AUTOTUNE_API void autotune_value_clear(autotune_value* value);

/* Sets `out` to a copy of a value: a new handle of the same object, or a copy of a text. The caller clears it, or gives
 * it away as the result of a callback. `out` must hold nothing. */
AUTOTUNE_API int autotune_value_copy(const autotune_value* value, autotune_value* out);

/* Calls a function. The arguments are only read. `result` is overwritten, and must be cleared by the caller. Whether a
 * function may be called by several threads at once is up to the function; the kernels of one module take turns. */
AUTOTUNE_API int autotune_function_call(const autotune_function* function, const autotune_value* args, int32_t num_args,
                                        autotune_value* result);

/* A function of the program. The arguments stay the caller's, and are valid during the call. The result, at first
 * AUTOTUNE_NULL, is given away: a handle there is one that the callback does not free, and a text one that
 * autotune_value_set_text or autotune_value_copy has set. Returns AUTOTUNE_OK, or another code after
 * autotune_set_last_error. Called on the thread of the caller; must not throw or jump out. */
typedef int (*autotune_callback)(void* context, const autotune_value* args, int32_t num_args, autotune_value* result);

/* Makes a function of a callback. release(context) is called once when the function is no longer used, on any thread;
 * it may be NULL. After an error it is not called. */
AUTOTUNE_API int autotune_function_create(autotune_callback callback, void* context, void (*release)(void* context),
                                          autotune_function** out);
/* The context of a function that autotune_function_create has made of this callback; NULL for any other function. It
 * is valid as long as the function. */
AUTOTUNE_API void* autotune_function_context(const autotune_function* function, autotune_callback callback);
/* Sets a value to a copy of a text: `kind` is AUTOTUNE_STRING or AUTOTUNE_BYTES. The value must hold nothing. */
AUTOTUNE_API int autotune_value_set_text(autotune_value* value, int32_t kind, const char* data, size_t size);
AUTOTUNE_API void autotune_function_free(autotune_function* function);
/* What kind of object it is, such as "device". Valid as long as the handle; NULL for NULL. */
AUTOTUNE_API const char* autotune_object_type(const autotune_object* object);
AUTOTUNE_API void autotune_object_free(autotune_object* object);

/* ---- The registry of global functions ---------------------------------------------------------------------------- */

AUTOTUNE_API int autotune_registry_get(const char* name, autotune_function** out); /* an error if there is none */
/* Adds a function under a name. An error if the name is taken, unless `replace` is not 0. */
AUTOTUNE_API int autotune_registry_add(const char* name, const autotune_function* function, int32_t replace);
AUTOTUNE_API int autotune_registry_remove(const char* name);    /* an error if there is none */
AUTOTUNE_API int autotune_registry_names(autotune_names** out); /* sorted */

/* ---- Modules ----------------------------------------------------------------------------------------------------- */

/* Loads a file that `autotune compile -o` wrote, M.tar or M.so, or a shared object with kernels only. The module has
 * the kernels as functions, and imports a factory of executors, with the functions "default" and the network's name
 * (devices -> executor module), and "get_graph_json". It holds the weights. */
AUTOTUNE_API int autotune_module_load(const char* path, autotune_module** out);
/* The same with a number of threads for kernels that are called directly, which share them, and for each executor that
 * the factory makes; 0: one per CPU. */
AUTOTUNE_API int autotune_module_load_with(const char* path, int32_t threads, autotune_module** out);
/* What kind of module it is: "library", "GraphExecutorFactory", "graph_executor"... Valid as long as the handle; NULL
 * for NULL. */
AUTOTUNE_API const char* autotune_module_type(const autotune_module* module);
/* Finds a function in the module, then in its imports. An error if there is none. The function keeps all alive that it
 * needs. */
AUTOTUNE_API int autotune_module_get_function(const autotune_module* module, const char* name, autotune_function** out);
/* The names of the functions of the module and of its imports, each once, in the order in which they are found. */
AUTOTUNE_API int autotune_module_function_names(const autotune_module* module, autotune_names** out);
AUTOTUNE_API void autotune_module_free(autotune_module* module);

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

/* Threads that run kernels, for any number of executors. Executors of one pool may run at once: where the kernel of one
 * needs several threads and finds them busy with another one's, it runs on the caller's thread alone. */
typedef struct autotune_pool autotune_pool;

/* Settings of a pool. Begin with AUTOTUNE_POOL_OPTIONS; later versions may add members at the end. */
typedef struct autotune_pool_options {
  size_t size;         /* sizeof(autotune_pool_options) */
  int32_t threads;     /* the caller of a run included; 0: one for each of `cpus` */
  double spin_seconds; /* how long an idle thread waits for work before it sleeps; below 0: as long as is fast */
  const int32_t* cpus; /* the CPUs on which threads run, but the caller's, which is the program's; NULL: all of them */
  size_t num_cpus;
  /* Threads of the program, in place of the pool's own; NULL: none. The function calls body(closure, task, thread) for
   * each task from 0 to num_tasks - 1, and returns when all calls have returned. `thread` is from 0 to threads - 1, and
   * differs between calls that run at the same time. Executors that run at once call the function at once. */
  void (*parallel_for)(void* user, int32_t num_tasks, void (*body)(void* closure, int32_t task, int32_t thread),
                       void* closure);
  void* user; /* the first argument of parallel_for; must live as long as the executors of the pool */
} autotune_pool_options;
#define AUTOTUNE_POOL_OPTIONS \
  { sizeof(autotune_pool_options), 0, -1.0, NULL, 0, NULL, NULL }

/* Makes a pool and starts its threads. `options` may be NULL. Executors keep their pool alive. */
AUTOTUNE_API int autotune_pool_create(const autotune_pool_options* options, autotune_pool** out);
AUTOTUNE_API void autotune_pool_free(autotune_pool* pool);

/* ---- Executors --------------------------------------------------------------------------------------------------- */

/* A network that is ready to run, with its own threads and memory. Calls of one executor take turns (a mutex). Several
 * executors of one module run at once and share its weights. */
typedef struct autotune_executor autotune_executor;

/* Settings of an executor. Begin with AUTOTUNE_EXECUTOR_OPTIONS; later versions may add members at the end. */
typedef struct autotune_executor_options {
  size_t size;        /* sizeof(autotune_executor_options) */
  int32_t threads;    /* threads that run kernels, the caller included; 0: one per CPU */
  const char* device; /* for a network for GPUs: "1", "cuda:1", a UUID or a name; NULL: the first device */
  /* 1: share the prepared weights of a package, M.tar, with all processes of this user that load it so, by a file in
   * autotune/prepared/ of $XDG_CACHE_HOME or ~/.cache, from which it also loads faster; -1: do not; 0: if the
   * environment variable AUTOTUNE_CACHE is 1. If that is 0, no process shares. autotune_executor_load only. */
  int32_t share_weights;
  const autotune_pool* pool; /* whose threads run kernels; `threads` is then 0. NULL: threads of its own */
} autotune_executor_options;
#define AUTOTUNE_EXECUTOR_OPTIONS \
  { sizeof(autotune_executor_options), 0, NULL, 0, NULL }

/* Loads a file, M.tar or M.so, and makes one executor of it. Takes less memory than a module and an executor, since the
 * weights are freed once they are prepared. `options` may be NULL. */
AUTOTUNE_API int autotune_executor_load(const char* path, const autotune_executor_options* options,
                                        autotune_executor** out);
/* Makes an executor of a module of autotune_module_load. Executors of one module share weights and prepared weights,
 * and keep the module alive. */
AUTOTUNE_API int autotune_executor_create(const autotune_module* module, const autotune_executor_options* options,
                                          autotune_executor** out);

/* What an input or output is. The pointers are valid as long as the executor. */
typedef struct autotune_port {
  const char* name;
  const int64_t* shape;
  int32_t ndim;
  autotune_dtype dtype;
  int64_t size_bytes;
} autotune_port;
AUTOTUNE_API int32_t autotune_executor_num_inputs(const autotune_executor* executor);  /* 0 for NULL */
AUTOTUNE_API int32_t autotune_executor_num_outputs(const autotune_executor* executor); /* 0 for NULL */
AUTOTUNE_API int autotune_executor_input(const autotune_executor* executor, int32_t index, autotune_port* out);
AUTOTUNE_API int autotune_executor_output(const autotune_executor* executor, int32_t index, autotune_port* out);
/* The index of an input; an error that lists the inputs if there is no such name. */
AUTOTUNE_API int autotune_executor_input_index(const autotune_executor* executor, const char* name, int32_t* out);

/* Copies a tensor of the input's shape and type, on any device, into input `index`. It stays set for later runs. Inputs
 * that were never set are zeros. */
AUTOTUNE_API int autotune_executor_set_input(autotune_executor* executor, int32_t index, const autotune_tensor* tensor);
/* Runs the network on the inputs that were set. Returns when the outputs are complete. */
AUTOTUNE_API int autotune_executor_run(autotune_executor* executor);
/* Gives output `index` of the last autotune_executor_run. The tensor is the executor's own memory, which the next run
 * overwrites and which lives as long as the handle. */
AUTOTUNE_API int autotune_executor_get_output(autotune_executor* executor, int32_t index, autotune_tensor** out);

/* Runs the network on `inputs` and writes the results into `outputs`, in one step. There must be a tensor for each
 * input and each output, in their order, of its shape and type. A NULL among the inputs stands for the input that was
 * set by autotune_executor_set_input; a NULL among the outputs is a result that is not wanted.
 *
 * Kernels read and write a tensor of the host itself if its address is a multiple of its elements' size. (Packages that
 * an older version compiled need multiples of 64, which autotune_tensor_create provides.) Otherwise its elements are
 * copied, those of inputs before the run. An output may overlap inputs; the elements of outputs that overlap each other
 * are undefined.
 *
 * The tensors are not used after the call. The results of autotune_executor_get_output are undefined until the next
 * autotune_executor_run. */
AUTOTUNE_API int autotune_executor_run_with(autotune_executor* executor, autotune_tensor* const* inputs,
                                            int32_t num_inputs, autotune_tensor* const* outputs, int32_t num_outputs);
AUTOTUNE_API void autotune_executor_free(autotune_executor* executor);

#ifdef __cplusplus
}
#endif

#endif /* AUTOTUNE_C_API_H_ */
