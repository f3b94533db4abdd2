/* Runs a network on zeros, and prints its first output. */
#include <autotune/c_api.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int code) {
  if (code == AUTOTUNE_OK) return;
  fprintf(stderr, "%s\n", autotune_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  autotune_executor* network = NULL;
  autotune_port in, out;
  autotune_tensor *input = NULL, *output = NULL;
  autotune_tensor_info memory;
  int64_t i;
  if (argc != 2) return 1;
  must(autotune_executor_load(argv[1], NULL, &network));
  must(autotune_executor_input(network, 0, &in));
  must(autotune_executor_output(network, 0, &out));
  must(autotune_tensor_create(in.shape, in.ndim, in.dtype, &input));
  must(autotune_tensor_create(out.shape, out.ndim, out.dtype, &output));
  must(autotune_tensor_get_info(input, &memory));
  for (i = 0; i < memory.size_bytes; ++i) ((char*)memory.data)[i] = 0;
  must(autotune_executor_run_with(network, &input, 1, &output, 1));
  must(autotune_tensor_get_info(output, &memory));
  printf("%s begins with %g\n", out.name, ((const float*)memory.data)[0]);
  autotune_tensor_free(output);
  autotune_tensor_free(input);
  autotune_executor_free(network);
  return 0;
}
