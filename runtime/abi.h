/* The artifact ABI: what a compiled shared object offers and what it may call. Plain C, shared by code generators and
 * the runtime; its version is checked at load. An artifact has no undefined symbols: everything it needs from outside
 * comes through AtContext.
 *
 * For each kernel NAME listed in its metadata an artifact exports:
 *   NAME          int32_t (AtContext*, const DLTensor* const* args, int32_t num_args)
 *                 checks count, dtype, shape, compactness and alignment, then calls NAME.raw. `args` are the
 *                 parameters in order; then the prepared buffers.
 *   NAME.raw      int32_t (AtContext*, void* const* args)       unchecked; same order, data pointers only
 *   NAME.prepare  int32_t (AtContext*, void* const* args)       only where num_prepared > 0; `args` are the constant
 *                 parameters in order, then the prepared buffers, which it fills once.
 * and one NUL-terminated string, `autotune.metadata`: JSON, struct ArtifactMetadata in runtime/artifact.h.
 * Element types in a DLTensor: f32 {kDLFloat, 32, 1}, i64 {kDLInt, 64, 1}, ...; bool {kDLUInt, 1, 1}, one byte each.
 * NAME.raw does not read the pointers of parameters listed as prepare_only; they may be null.
 * All return 0, or a non-zero code after calling set_error. Each pointer to a parameter is
 * aligned as the metadata says: those of inputs and outputs to one element at least; all others to 64 bytes. Outputs
 * never alias inputs. Reentrant: any number of threads may call with distinct contexts.
 */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AT_ABI_VERSION 1
#define AT_ALIGNMENT 64

typedef struct AtContext AtContext;
struct AtContext {
  uint32_t version; /* AT_ABI_VERSION */
  uint32_t num_threads;
  /* Runs body(context, closure, task) for every task in [0, num_tasks), in any order, on any of the pool's threads.
   * Returns when all are done, with the first non-zero code. A parallel loop inside a parallel body runs serially. A
   * body must use the context that it is given, not that of the function that called parallel_for. */
  int32_t (*parallel_for)(AtContext*, int32_t num_tasks, int32_t (*body)(AtContext*, void* closure, int32_t task),
                          void* closure);
  /* Scratch memory of the calling thread, 64-byte aligned, freed in reverse order. NULL when out of memory. */
  void* (*workspace_alloc)(AtContext*, uint64_t bytes);
  void (*workspace_free)(AtContext*, void* memory);
  void (*set_error)(AtContext*, const char* message);
};

#ifdef __cplusplus
}
#endif
