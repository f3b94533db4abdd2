/* Runs two networks that are linked into one program, resnet20 and small, on one thread and on several, and compares
 * the bytes of the outputs. Arguments: for each network, a file of its input and one for its output. Checks that the
 * workspaces suffice, and that wrong arguments are refused. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resnet20.h"
#include "small.h"

enum { kAlignment = 64, kMostThreads = 3, kGuard = 4096 };

#define NEED(condition)                                               \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

typedef struct {
  int32_t num_tasks, thread, num_threads;
  void (*body)(void*, int32_t, int32_t);
  void* closure;
} part;

static int loops = 0; /* that ran in parallel */

static void* run_part(void* argument) {
  const part* p = argument;
  int32_t task;
  for (task = p->thread; task < p->num_tasks; task += p->num_threads) p->body(p->closure, task, p->thread);
  return NULL;
}

/* `user` is the number of threads. */
static void parallel_for(void* user, int32_t num_tasks, void (*body)(void*, int32_t, int32_t), void* closure) {
  const int32_t num_threads = *(const int32_t*)user;
  part parts[kMostThreads];
  pthread_t threads[kMostThreads];
  int32_t i;
  ++loops;
  for (i = 0; i < num_threads; ++i) {
    part p;
    p.num_tasks = num_tasks, p.thread = i, p.num_threads = num_threads, p.body = body, p.closure = closure;
    parts[i] = p;
    if (i > 0) NEED(pthread_create(&threads[i], NULL, run_part, &parts[i]) == 0);
  }
  run_part(&parts[0]);
  for (i = 1; i < num_threads; ++i) NEED(pthread_join(threads[i], NULL) == 0);
}

/* Returns memory with guards at both ends, filled with garbage. Its address is a multiple of 64 plus `off`. */
static char* allocate_off(size_t bytes, size_t off) {
  char* memory = malloc(bytes + 2 * kGuard + 2 * kAlignment);
  NEED(memory != NULL);
  memset(memory, 0x5a, bytes + 2 * kGuard + 2 * kAlignment);
  memory += kGuard + kAlignment - (uintptr_t)memory % kAlignment + off;
  memset(memory, 0xa5, bytes);
  return memory;
}

static char* allocate(size_t bytes) { return allocate_off(bytes, 0); }

static void check_guards(const char* memory, size_t bytes) {
  size_t i;
  for (i = 0; i < kGuard; ++i) NEED(memory[bytes + i] == 0x5a && memory[-1 - (long)i] == 0x5a);
}

typedef int32_t run_function(const void* const*, void* const*, void*, const autotune_threads*);

/* Runs a network of one input and one output, and writes the output. */
static void run_all(run_function* run, size_t (*workspace_bytes)(int), size_t in_bytes, size_t out_bytes,
                    const char* in_path, const char* out_path) {
  char *in = allocate_off(in_bytes, sizeof(float)), *out = allocate(out_bytes); /* one has the least alignment */
  char* first = allocate_off(out_bytes, sizeof(float));
  const void* inputs[1];
  void* outputs[1];
  int32_t n;
  FILE* file = fopen(in_path, "rb");
  NEED(file && fread(in, 1, in_bytes, file) == in_bytes && fclose(file) == 0);
  inputs[0] = in;
  for (n = 0; n <= kMostThreads; ++n) { /* 0: without threads */
    const size_t bytes = workspace_bytes(n == 0 ? 1 : n);
    char* workspace = allocate(bytes);
    autotune_threads threads;
    int before = loops, again;
    threads.num_threads = n, threads.parallel_for = parallel_for, threads.user = &n;
    for (again = 0; again < 2; ++again) {
      outputs[0] = n == 0 ? first : out;
      NEED(run(inputs, outputs, workspace, n == 0 ? NULL : &threads) == 0);
      check_guards(workspace, bytes);
      check_guards(outputs[0], out_bytes);
      NEED(memcmp(outputs[0], first, out_bytes) == 0);
    }
    NEED((loops > before) == (n > 1));
    if (n == 0) NEED(run(inputs, outputs, workspace, &threads) == resnet20_BAD_ARGUMENT); /* no thread */
    NEED(run(inputs, outputs, workspace + 4, NULL) == resnet20_BAD_ARGUMENT);
    NEED(run(inputs, outputs, NULL, NULL) == resnet20_BAD_ARGUMENT);
    outputs[0] = out + 2; /* not aligned to its elements */
    NEED(run(inputs, outputs, workspace, NULL) == resnet20_BAD_ARGUMENT);
    outputs[0] = out;
    inputs[0] = NULL;
    NEED(run(inputs, outputs, workspace, NULL) == resnet20_BAD_ARGUMENT);
    inputs[0] = in;
  }
  file = fopen(out_path, "wb");
  NEED(file && fwrite(first, 1, out_bytes, file) == out_bytes && fclose(file) == 0);
}

static size_t resnet20_bytes(int threads) { return resnet20_WORKSPACE_BYTES(threads); }
static size_t small_bytes(int threads) { return small_WORKSPACE_BYTES(threads); }

int main(int argc, char** argv) {
  static const int64_t shape[resnet20_INPUT_image_DIMS] = resnet20_INPUT_image_SHAPE;
  NEED(argc == 5);
  NEED(shape[0] * shape[1] * shape[2] * shape[3] == resnet20_INPUT_image_ELEMENTS);
  NEED(sizeof(resnet20_INPUT_image_TYPE) * resnet20_INPUT_image_ELEMENTS == resnet20_INPUT_image_BYTES);
  NEED(resnet20_NUM_INPUTS == 1 && resnet20_NUM_OUTPUTS == 1);
  NEED(strstr(resnet20_metadata, "\"executors\":[\"aot\"]") != NULL);
  NEED(strstr(small_metadata, "\"model_name\":\"small\"") != NULL);
  run_all(resnet20_run, resnet20_bytes, resnet20_INPUT_image_BYTES, resnet20_OUTPUT_probabilities_BYTES, argv[1],
          argv[2]);
  run_all(small_run, small_bytes, small_INPUT_image_BYTES, small_OUTPUT_probabilities_BYTES, argv[3], argv[4]);
  return 0;
}
