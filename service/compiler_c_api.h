/* autotune's compiler for C: tunes and compiles networks, and reads the database. docs/c.md has examples.
 *
 * These functions are in libautotune.so. It uses libautotune_runtime.so (autotune/c_api.h), which states the rules for
 * errors, ownership and threads that hold here, too: functions that return `int` return AUTOTUNE_OK or an error code,
 * and autotune_last_error() tells the cause. A program that only runs networks needs the runtime library alone, so
 * these functions have a header of their own: what it declares is there, whatever is installed.
 *
 * Programs. Building and measuring are the work of child processes, `autotune` and `rpc_server`. The library looks for
 * them in $AUTOTUNE_LIBEXEC, beside itself, in ../libexec/autotune, ../bin and ../../bin, or where a request names
 * their folder. They get no signals of the terminal, and end with this process.
 *
 * The process. The library installs no signal handlers, prints nothing but warnings of its log (AUTOTUNE_LOG=error
 * leaves them out), and never ends the process. LLVM is in the child processes only, and no other symbols than those of
 * this header are visible to the program. A child of fork() must not use objects of this header.
 *
 * Versions. Functions are added, never changed or removed, within one soname (libautotune.so.0). */
#ifndef AUTOTUNE_COMPILER_C_API_H_
#define AUTOTUNE_COMPILER_C_API_H_

#include <autotune/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this library. It needs a runtime library of the same version. Valid for ever. */
AUTOTUNE_API const char* autotune_compiler_version(void);

/* Frees a text that a function of this header gave through `out`. */
AUTOTUNE_API void autotune_text_free(char* text);

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

/* What to compile or to tune: a model, and options. One thread at a time may use it; each call that takes a request
 * copies it. */
typedef struct autotune_request autotune_request;
AUTOTUNE_API int autotune_request_create(autotune_request** out);
/* Sets an option. Names and values are those of the command's options without "--" (`autotune tune --help`):
 *   the network   model, op, shape, dim, bind, target, device, db, no-winograd, precision, max-error, min-agreement,
 *                 calibrate, allow-tf32, lenient
 *   compiling     schedules
 *   tuning        trials, trials-per-task, time-budget, tasks, tracker, join, key, seed, search, fresh, output
 * "programs" is the folder of `autotune` and `rpc_server`. Flags take "1" or "0". Repeated "shape", "dim" and "bind"
 * add up, other options replace. An error for an unknown name or a value of a wrong form; values that depend on the
 * model are checked when the request is used. */
AUTOTUNE_API int autotune_request_set(autotune_request* request, const char* name, const char* value);
/* Sets the model to a copy of the bytes of an ONNX file, which must have no external data. `name` is its name. */
AUTOTUNE_API int autotune_request_set_model(autotune_request* request, const char* name, const void* bytes,
                                            size_t num_bytes);
AUTOTUNE_API void autotune_request_free(autotune_request* request);

/* ---- Compiling --------------------------------------------------------------------------------------------------- */

/* Compiles with the best schedules in the database, and writes a package, M.tar or M.so. `out`, if not NULL, gets a
 * JSON object: package, model, target, kernels, tuned_kernels, seconds, notes. */
AUTOTUNE_API int autotune_compile_file(const autotune_request* request, const char* path, char** out);
/* The same, for use in this process: gives a module, as autotune_module_load does. A network that was compiled before,
 * with the same options and schedules, comes from a cache (autotune/ in $XDG_CACHE_HOME or ~/.cache), which keeps the
 * 32 networks that were used last. */
AUTOTUNE_API int autotune_compile_module(const autotune_request* request, autotune_module** out);

/* ---- Tuning ------------------------------------------------------------------------------------------------------ */

/* A tuning run. It works on threads of its own. Several may run at once; measurements on one host take turns. */
typedef struct autotune_tune autotune_tune;
/* Checks the request and starts the run. What needs a look at the model, the database or a device is reported by
 * autotune_tune_next_event. */
AUTOTUNE_API int autotune_tune_start(const autotune_request* request, autotune_tune** out);
/* Waits for the next event, `timeout_ms` at most; -1: as long as it takes. `event` gets a JSON object, as a line of
 * `autotune tune --json` (docs/cli.md). It gets NULL if there is none within that time, and an empty text if the run
 * has ended and all its events were given. The text is valid until the next call with this run; one thread at a time
 * may call. If the run has failed, the call that would give the empty text returns the error. */
AUTOTUNE_API int autotune_tune_next_event(autotune_tune* tune, int64_t timeout_ms, const char** event);
/* Asks the run to stop, and returns at once. Its last event is then "interrupted". What it has measured is in the
 * database, and a run of the same request goes on there. No effect once the network is being written. */
AUTOTUNE_API int autotune_tune_cancel(autotune_tune* tune);
/* Cancels the run if it has not ended, waits for its end, and frees it. */
AUTOTUNE_API void autotune_tune_free(autotune_tune* tune);

/* ---- The database ------------------------------------------------------------------------------------------------ */

/* Records come as lines of JSON, as `autotune records export` writes them (docs/records.md). `task` is a hash of 32 hex
 * digits. `target` is a text of --target or the full text in a record; "cpu" is this machine. */
typedef struct autotune_database autotune_database;
/* Opens a database that exists; NULL or "": that of $AUTOTUNE_DB, else autotune/records.db in the user's data folder.
 */
AUTOTUNE_API int autotune_database_open(const char* path, autotune_database** out);
/* The best record of a task; an empty text if there is none. */
AUTOTUNE_API int autotune_database_best(autotune_database* database, const char* task, const char* target, char** out);
/* The `n` best distinct schedules of a task, the best first. */
AUTOTUNE_API int autotune_database_top(autotune_database* database, const char* task, const char* target, int32_t n,
                                       char** out);
/* Up to `limit` records after `*cursor`, in the order stored, those of a task and a target if they are not NULL.
 * `*cursor` is 0 at first, and is moved on; an empty text means that no more are stored yet. */
AUTOTUNE_API int autotune_database_scan(autotune_database* database, const char* task, const char* target,
                                        int64_t* cursor, int32_t limit, char** out);
/* The same, where each record has the member "features": a list of numbers (docs/records.md), null if this version
 * cannot replay the record. */
AUTOTUNE_API int autotune_database_features(autotune_database* database, const char* task, const char* target,
                                            int64_t* cursor, int32_t limit, char** out);
/* The names of the features, in their order: a list of texts in JSON. */
AUTOTUNE_API int autotune_feature_names(char** out);
/* The tasks in the database, a line each: task, target, and the numbers of records, trials and ranked ones. */
AUTOTUNE_API int autotune_database_tasks(autotune_database* database, char** out);
AUTOTUNE_API void autotune_database_free(autotune_database* database);

/* ---- Devices of a farm ------------------------------------------------------------------------------------------- */

/* A session with a device of a farm: a process of the device's server that nobody else uses. It ends when the session
 * and all functions that came from it are freed. Calls run one at a time; each takes up to two minutes. If the device
 * is lost, or goes to a client that waits, each later call is an error. */
typedef struct autotune_remote autotune_remote;
/* Waits for a device with this key, up to `wait_seconds`; 0: half an hour. `join` is a join file and `tracker` the ipc
 * socket of a tracker on this host; if both are NULL or "", the tracker is found as by the command (docs/farm.md). */
AUTOTUNE_API int autotune_remote_connect(const char* join, const char* tracker, const char* key, double wait_seconds,
                                         autotune_remote** out);
/* Sends a file, M.tar or M.so, to the device and gives its module, as autotune_module_load does here, as a function:
 * called with the name of a function of the module, it gives that function. "default" (devices -> executor) gives an
 * executor, which is such a function, too: "set_input", "run", "get_output", "time_evaluator"... `threads` as for an
 * executor. */
AUTOTUNE_API int autotune_remote_load(autotune_remote* remote, const char* path, int32_t threads,
                                      autotune_function** out);
/* Copies a tensor to the memory of the device. Functions of the device take the result in the place of a tensor, and
 * write to it. It is a function, too: called without arguments, it gives a copy of the tensor's present content. */
AUTOTUNE_API int autotune_remote_tensor(autotune_remote* remote, const autotune_tensor* tensor,
                                        autotune_function** out);
/* Calls a function of the device's registry, as autotune_function_call does. Tensors are copied. Functions that came
 * from this session may be arguments, here and of each other; modules, functions and objects of this process may not.
 * "runtime.time_evaluator" (function, number, repeat) gives a function that times calls of another one. */
AUTOTUNE_API int autotune_remote_call(autotune_remote* remote, const char* name, const autotune_value* args,
                                      int32_t num_args, autotune_value* result);
AUTOTUNE_API void autotune_remote_free(autotune_remote* remote);

#ifdef __cplusplus
}
#endif

#endif /* AUTOTUNE_COMPILER_C_API_H_ */
