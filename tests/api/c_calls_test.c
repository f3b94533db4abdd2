/* Many calls of the C API on a small network: they compute the same every time, and no memory grows. C99.
 *
 *   c_calls_test M.tar COUNT MOST_KIB [leak]
 * M.tar has one input and one output of f32. The memory of the process may grow by MOST_KIB; 0: by any amount, for
 * tools that keep freed memory. With `leak`, one handle of each round is not freed, so that the program must fail. */
#include <unistd.h>

#include "tests/api/check.h"

enum { SETTLED = 1000 }; /* calls before the memory is measured */

/* The resident memory of this process. */
static long resident_kib(void) {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  NEED(file != NULL && fscanf(file, "%*d %ld", &pages) == 1);
  fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

typedef struct network {
  autotune_module* module;
  autotune_executor* executor;
  autotune_port in, out;
  float *x, *y, *expected; /* memory of the program; what the first run has computed */
} network;

static void open_network(const char* path, network* net) {
  autotune_executor_options options = AUTOTUNE_EXECUTOR_OPTIONS;
  options.threads = 1;
  OK(autotune_module_load(path, &net->module));
  OK(autotune_executor_create(net->module, &options, &net->executor));
  OK(autotune_executor_input(net->executor, 0, &net->in));
  OK(autotune_executor_output(net->executor, 0, &net->out));
}

/* One round of the calls of a program that owns its memory. */
static void call_once(network* net, int leak) {
  autotune_tensor *input = NULL, *output = NULL, *own = NULL;
  autotune_tensor_info info;
  OK(autotune_tensor_borrow(net->x, net->in.shape, NULL, net->in.ndim, net->in.dtype, AUTOTUNE_READ_ONLY, NULL, NULL,
                            &input));
  OK(autotune_tensor_borrow(net->y, net->out.shape, NULL, net->out.ndim, net->out.dtype, 0, NULL, NULL, &output));
  OK(autotune_executor_run_with(net->executor, &input, 1, &output, 1));
  NEED(memcmp(net->y, net->expected, (size_t)net->out.size_bytes) == 0);
  OK(autotune_executor_set_input(net->executor, 0, input));
  OK(autotune_executor_run(net->executor));
  OK(autotune_executor_get_output(net->executor, 0, &own));
  OK(autotune_tensor_get_info(own, &info));
  NEED(memcmp(info.data, net->expected, (size_t)net->out.size_bytes) == 0);
  NEED(autotune_executor_input(net->executor, 7, &net->in) == AUTOTUNE_INVALID_ARGUMENT); /* makes a text */
  if (!leak) autotune_tensor_free(own);
  autotune_tensor_free(output);
  autotune_tensor_free(input);
}

/* Another executor of the module, and the module's functions. */
static void open_and_close(const network* net) {
  network other;
  autotune_names* names = NULL;
  autotune_function* function = NULL;
  memset(&other, 0, sizeof other);
  OK(autotune_executor_create(net->module, NULL, &other.executor));
  OK(autotune_executor_run(other.executor));
  OK(autotune_module_function_names(net->module, &names));
  OK(autotune_module_get_function(net->module, autotune_names_at(names, 0), &function));
  autotune_function_free(function);
  autotune_names_free(names);
  autotune_executor_free(other.executor);
}

int main(int argc, char** argv) {
  network net;
  long i, count, most_kib, before = 0;
  NEED(argc == 4 || argc == 5);
  count = atol(argv[2]);
  most_kib = atol(argv[3]);
  memset(&net, 0, sizeof net);
  open_network(argv[1], &net);
  net.x = malloc((size_t)net.in.size_bytes);
  net.y = calloc(1, (size_t)net.out.size_bytes);
  net.expected = calloc(1, (size_t)net.out.size_bytes);
  for (i = 0; i < net.in.size_bytes / 4; ++i) net.x[i] = (float)(i % 7) - 3;
  {
    autotune_tensor *input = NULL, *output = NULL;
    OK(autotune_tensor_borrow(net.x, net.in.shape, NULL, net.in.ndim, net.in.dtype, 0, NULL, NULL, &input));
    OK(autotune_tensor_borrow(net.expected, net.out.shape, NULL, net.out.ndim, net.out.dtype, 0, NULL, NULL, &output));
    OK(autotune_executor_run_with(net.executor, &input, 1, &output, 1));
    autotune_tensor_free(output);
    autotune_tensor_free(input);
  }
  for (i = 0; i < count; ++i) {
    if (i == SETTLED) before = resident_kib();
    call_once(&net, argc == 5);
    if (i % SETTLED == 0) open_and_close(&net);
  }
  if (count > SETTLED && most_kib > 0) EXPECT(resident_kib() - before <= most_kib);
  printf("%ld rounds; the memory grew by %ld KiB\n", count, count > SETTLED ? resident_kib() - before : 0L);
  autotune_executor_free(net.executor);
  autotune_module_free(net.module);
  free(net.x), free(net.y), free(net.expected);
  return failures ? 1 : 0;
}
