/* Modules and executors of the C API, as a program in C99 uses them. Arguments: a folder with net.tar and net.so, which
 * are examples/resnet20.onnx, compiled; and the folder of its data. */
#include <dlpack/dlpack.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/check.h"

static char tar[4096], so[4096], scratch[4096];
static float image[IMAGE], expected[CLASSES];

static autotune_tensor* tensor_of(float* data, const int64_t* shape, int32_t ndim) {
  autotune_tensor* tensor = NULL;
  OK(autotune_tensor_borrow(data, shape, NULL, ndim, F32, 0, NULL, NULL, &tensor));
  return tensor;
}

/* The documents' way: factory["default"](device), then set_input, run, get_output. */
static void test_modules(const char* path) {
  autotune_module* module = NULL;
  autotune_function *make = NULL, *call = NULL;
  autotune_names* names = NULL;
  autotune_value device, args[2], made, result;
  autotune_tensor* input = tensor_of(image, IMAGE_SHAPE, 4);
  autotune_tensor_info info;
  OK(autotune_module_load(path, &module));
  EXPECT(strcmp(autotune_module_type(module), "library") == 0);
  OK(autotune_module_function_names(module, &names));
  EXPECT(autotune_names_size(names) > 10);
  autotune_names_free(names);
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "has no function 'none'", autotune_module_get_function(module, "none", &make));
  OK(autotune_module_get_function(module, "resnet20", &make));
  device.kind = AUTOTUNE_DEVICE;
  device.as.device.type = kDLCPU;
  device.as.device.id = 0;
  OK(autotune_function_call(make, &device, 1, &made));
  autotune_module_free(module); /* the executor keeps what it needs */
  EXPECT(made.kind == AUTOTUNE_MODULE);
  OK(autotune_module_get_function(made.as.module, "set_input", &call));
  args[0].kind = AUTOTUNE_STRING;
  args[0].as.text.data = "image";
  args[0].as.text.size = 5;
  args[1].kind = AUTOTUNE_TENSOR;
  args[1].as.tensor = input;
  OK(autotune_function_call(call, args, 2, &result));
  autotune_function_free(call);
  OK(autotune_module_get_function(made.as.module, "run", &call));
  OK(autotune_function_call(call, NULL, 0, &result));
  autotune_function_free(call);
  OK(autotune_module_get_function(made.as.module, "get_output", &call));
  args[0].kind = AUTOTUNE_INT;
  args[0].as.integer = 0;
  OK(autotune_function_call(call, args, 1, &result));
  OK(autotune_tensor_get_info(result.as.tensor, &info));
  EXPECT(equal_floats(info.data, expected, CLASSES));
  autotune_function_free(call);
  autotune_value_clear(&result);
  autotune_value_clear(&made);
  autotune_function_free(make);
  autotune_tensor_free(input);
}

static void test_executor(const char* path) {
  autotune_executor_options options = AUTOTUNE_EXECUTOR_OPTIONS;
  autotune_executor* executor = NULL;
  autotune_port port;
  autotune_tensor *input = tensor_of(image, IMAGE_SHAPE, 4), *output = NULL;
  autotune_tensor_info info;
  int32_t index = -1;
  options.threads = 2;
  OK(autotune_executor_load(path, &options, &executor));
  EXPECT(autotune_executor_num_inputs(executor) == 1 && autotune_executor_num_outputs(executor) == 1);
  OK(autotune_executor_input(executor, 0, &port));
  EXPECT(strcmp(port.name, "image") == 0 && port.ndim == 4 && port.shape[1] == 3 && port.size_bytes == 4 * IMAGE);
  OK(autotune_executor_output(executor, 0, &port));
  EXPECT(strcmp(port.name, "probabilities") == 0 && port.ndim == 2 && port.dtype.code == kDLFloat);
  OK(autotune_executor_input_index(executor, "image", &index));
  EXPECT(index == 0);
  OK(autotune_executor_set_input(executor, 0, input));
  OK(autotune_executor_run(executor));
  OK(autotune_executor_get_output(executor, 0, &output));
  OK(autotune_tensor_get_info(output, &info));
  EXPECT(equal_floats(info.data, expected, CLASSES));

  FAILS(AUTOTUNE_INVALID_ARGUMENT, "there is no input 1; the network has 1",
        autotune_executor_input(executor, 1, &port));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "there is no output -1", autotune_executor_output(executor, -1, &port));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "its inputs are: image", autotune_executor_input_index(executor, "x", &index));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "input 'image' is f32[1, 3, 32, 32], got f32[1, 10]",
        autotune_executor_set_input(executor, 0, output));
  {
    autotune_tensor* wrong = NULL;
    const autotune_dtype f64 = {2, 64, 1};
    OK(autotune_tensor_create(IMAGE_SHAPE, 4, f64, &wrong));
    FAILS(AUTOTUNE_INVALID_ARGUMENT, "got f64[1, 3, 32, 32]", autotune_executor_set_input(executor, 0, wrong));
    autotune_tensor_free(wrong);
  }
  autotune_executor_free(executor);
  OK(autotune_tensor_get_info(output, &info)); /* the output outlives the executor */
  EXPECT(equal_floats(info.data, expected, CLASSES));
  autotune_tensor_free(output);
  autotune_tensor_free(input);
}

/* run_with at every alignment of floats, with borrowed memory that is gone before the next run. */
static void test_run_with(void) {
  autotune_executor* executor = NULL;
  autotune_tensor *in = NULL, *out = NULL, *ends[2], *none = NULL;
  int shift;
  OK(autotune_executor_load(tar, NULL, &executor));
  for (shift = 0; shift < 16; ++shift) {
    char *in_memory = malloc(4 * IMAGE + 128), *out_memory = malloc(4 * CLASSES + 128);
    float *from, *to;
    NEED(in_memory && out_memory);
    from = (float*)(in_memory + (64 - (size_t)in_memory % 64) + 4 * (size_t)shift);
    to = (float*)(out_memory + (64 - (size_t)out_memory % 64) + 4 * (size_t)(shift / 2));
    memcpy(from, image, sizeof image);
    in = tensor_of(from, IMAGE_SHAPE, 4);
    out = tensor_of(to, CLASSES_SHAPE, 2);
    memset(to, 0, 4 * CLASSES);
    OK(autotune_executor_run_with(executor, &in, 1, &out, 1));
    EXPECT(equal_floats(to, expected, CLASSES));
    OK(autotune_executor_run_with(executor, &in, 1, &none, 1)); /* the result is not wanted */
    autotune_tensor_free(in);
    autotune_tensor_free(out);
    memset(from, 0xff, 4 * IMAGE); /* NaN */
    free(in_memory);
    free(out_memory);
  }
  /* What the other calls set and give is the executor's own. */
  in = tensor_of(image, IMAGE_SHAPE, 4);
  OK(autotune_executor_set_input(executor, 0, in));
  OK(autotune_executor_run(executor));
  OK(autotune_executor_get_output(executor, 0, &out));
  {
    autotune_tensor_info info;
    OK(autotune_tensor_get_info(out, &info));
    EXPECT(equal_floats(info.data, expected, CLASSES));
  }
  OK(autotune_executor_run_with(executor, &none, 1, &out, 1)); /* the input that was set */
  ends[0] = in, ends[1] = out;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "the network has 1 inputs and 1 outputs, got 2 and 1",
        autotune_executor_run_with(executor, ends, 2, &out, 1));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "output 'probabilities' is f32[1, 10], got f32[1, 3, 32, 32]",
        autotune_executor_run_with(executor, &in, 1, &in, 1));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "inputs is a null pointer", autotune_executor_run_with(executor, NULL, 1, &out, 1));
  autotune_tensor_free(out);
  {
    float memory[CLASSES] = {0};
    OK(autotune_tensor_borrow(memory, CLASSES_SHAPE, NULL, 2, F32, AUTOTUNE_READ_ONLY, NULL, NULL, &out));
    FAILS(AUTOTUNE_INVALID_ARGUMENT, "read-only", autotune_executor_run_with(executor, &in, 1, &out, 1));
    autotune_tensor_free(out);
  }
  autotune_tensor_free(in);
  autotune_executor_free(executor);
}

static void* run_often(void* executor) {
  int i;
  for (i = 0; i < 20; ++i) {
    float result[CLASSES] = {0};
    autotune_tensor *in = tensor_of(image, IMAGE_SHAPE, 4), *out = tensor_of(result, CLASSES_SHAPE, 2);
    OK(autotune_executor_run_with(executor, &in, 1, &out, 1));
    EXPECT(equal_floats(result, expected, CLASSES));
    autotune_tensor_free(in);
    autotune_tensor_free(out);
  }
  return NULL;
}

/* Eight threads, two for each of four executors of one module. */
static void test_threads(void) {
  autotune_executor_options options = AUTOTUNE_EXECUTOR_OPTIONS;
  autotune_module* module = NULL;
  autotune_executor* executors[4];
  pthread_t threads[8];
  int i;
  OK(autotune_module_load(tar, &module));
  for (i = 0; i < 4; ++i) {
    options.threads = 1 + i % 2;
    OK(autotune_executor_create(module, &options, &executors[i]));
  }
  autotune_module_free(module);
  for (i = 0; i < 8; ++i) NEED(pthread_create(&threads[i], NULL, run_often, executors[i / 2]) == 0);
  for (i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  for (i = 0; i < 4; ++i) autotune_executor_free(executors[i]);
  options.threads = -1;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "the number of threads is -1", autotune_executor_load(tar, &options, &executors[0]));
  options.threads = 1 << 20;
  FAILS(AUTOTUNE_ERROR, "1048576", autotune_executor_load(tar, &options, &executors[0]));
  options.threads = 1;
  options.device = "cuda:0";
  FAILS(AUTOTUNE_ERROR, "it runs on the CPU only", autotune_executor_load(tar, &options, &executors[0]));
  options.size = 1;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "AUTOTUNE_EXECUTOR_OPTIONS", autotune_executor_load(tar, &options, &executors[0]));
}

static void forwards(void* user, int32_t num_tasks, void (*body)(void*, int32_t, int32_t), void* closure) {
  int32_t task;
  ++*(int*)user;
  for (task = 0; task < num_tasks; ++task) body(closure, task, task % 2);
}
static void none(void* user, int32_t num_tasks, void (*body)(void*, int32_t, int32_t), void* closure) {
  (void)user, (void)num_tasks, (void)body, (void)closure;
}

/* Four executors with the threads of one pool, eight threads that run them; then threads of the program. */
static void test_pools(void) {
  autotune_pool_options settings = AUTOTUNE_POOL_OPTIONS;
  autotune_executor_options options = AUTOTUNE_EXECUTOR_OPTIONS;
  autotune_pool* pool = NULL;
  autotune_module* module = NULL;
  autotune_executor* executors[4];
  pthread_t threads[8];
  int32_t cpu = -1;
  int i, regions = 0;
  settings.threads = 2;
  settings.spin_seconds = 0;
  OK(autotune_pool_create(&settings, &pool));
  options.pool = pool;
  OK(autotune_module_load(tar, &module));
  for (i = 0; i < 4; ++i) OK(autotune_executor_create(module, &options, &executors[i]));
  autotune_pool_free(pool); /* the executors keep it */
  for (i = 0; i < 8; ++i) NEED(pthread_create(&threads[i], NULL, run_often, executors[i / 2]) == 0);
  for (i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  for (i = 0; i < 4; ++i) autotune_executor_free(executors[i]);

  settings.parallel_for = forwards;
  settings.user = &regions;
  OK(autotune_pool_create(&settings, &pool));
  options.pool = pool;
  for (i = 0; i < 2; ++i) {
    OK(i ? autotune_executor_load(tar, &options, &executors[i]) : autotune_executor_load(so, &options, &executors[i]));
    regions = 0;
    run_often(executors[i]);
    EXPECT(regions > 10);
    autotune_executor_free(executors[i]);
  }
  options.threads = 2;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "`threads` must be 0", autotune_executor_load(tar, &options, &executors[0]));
  options.threads = 0;
  autotune_pool_free(pool);
  settings.parallel_for = none; /* a run whose tasks were not called fails */
  OK(autotune_pool_create(&settings, &pool));
  options.pool = pool;
  if (autotune_executor_create(module, &options, &executors[0]) == AUTOTUNE_OK) {
    EXPECT(autotune_executor_run(executors[0]) == AUTOTUNE_ERROR);
    autotune_executor_free(executors[0]);
  }
  autotune_pool_free(pool);
  autotune_module_free(module);

  settings.num_cpus = 1;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "cpus is a null pointer", autotune_pool_create(&settings, &pool));
  settings.cpus = &cpu;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "may not use the CPU -1", autotune_pool_create(&settings, &pool));
  settings.spin_seconds = 1e9;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "spin_seconds", autotune_pool_create(&settings, &pool));
  settings.threads = 1 << 20;
  FAILS(AUTOTUNE_ERROR, "1048576", autotune_pool_create(&settings, &pool));
  settings.size = 8;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "AUTOTUNE_POOL_OPTIONS", autotune_pool_create(&settings, &pool));
}

/* After fork, the executor runs in the child and in the parent. A child without threads would hang. */
static void test_fork(void) {
#ifndef __SANITIZE_THREAD__ /* ThreadSanitizer does not support threads in a child of fork */
  autotune_executor_options options = AUTOTUNE_EXECUTOR_OPTIONS;
  autotune_executor* executor = NULL;
  int status = -1;
  pid_t child;
  options.threads = 2;
  OK(autotune_executor_load(so, &options, &executor));
  run_often(executor);
  child = fork();
  if (child == 0) {
    alarm(100);
    run_often(executor);
    autotune_executor_free(executor);
    _exit(failures ? 1 : 0);
  }
  run_often(executor);
  NEED(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  autotune_executor_free(executor);
#endif
}

/* Writes the first `size` bytes of the package, with another byte at `at` unless it is negative. */
static void write_damaged(long size, long at) {
  FILE *from = fopen(tar, "rb"), *to = fopen(scratch, "wb");
  char* bytes;
  long whole;
  NEED(from && to);
  fseek(from, 0, SEEK_END);
  whole = ftell(from);
  rewind(from);
  bytes = malloc((size_t)whole);
  NEED(bytes && fread(bytes, 1, (size_t)whole, from) == (size_t)whole);
  if (at >= 0) bytes[at] ^= 1;
  fwrite(bytes, 1, (size_t)(size < 0 ? whole + size : size), to);
  free(bytes);
  fclose(from);
  fclose(to);
}

static void test_files(void) {
  autotune_executor* executor = NULL;
  autotune_module* module = NULL;
  FILE* file;
  FAILS(AUTOTUNE_ERROR, "/no/such/file", autotune_executor_load("/no/such/file", NULL, &executor));
  FAILS(AUTOTUNE_ERROR, "/no/such/file", autotune_module_load("/no/such/file", &module));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "path is a null pointer", autotune_module_load(NULL, &module));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "the number of threads is -1", autotune_module_load_with(tar, -1, &module));
  FAILS(AUTOTUNE_ERROR, "is not a package", autotune_executor_load("/", NULL, &executor));
  write_damaged(20000, -1);
  FAILS(AUTOTUNE_ERROR, "claims", autotune_executor_load(scratch, NULL, &executor)); /* truncated in a member */
  write_damaged(-1024, -1);
  FAILS(AUTOTUNE_ERROR, "truncated", autotune_module_load(scratch, &module)); /* without its end mark */
  write_damaged(-2000, 30000);
  FAILS(AUTOTUNE_ERROR, "is not a package", autotune_module_load(scratch, &module));
  write_damaged(0, -1);
  FAILS(AUTOTUNE_ERROR, "it is empty", autotune_module_load(scratch, &module));
  file = fopen(scratch, "wb");
  NEED(file);
  fputs("not a package", file);
  fclose(file);
  FAILS(AUTOTUNE_ERROR, "it is no tar file", autotune_executor_load(scratch, NULL, &executor));
  EXPECT(executor == NULL && module == NULL);
  remove(scratch);
}

int main(int argc, char** argv) {
  NEED(argc == 3);
  snprintf(tar, sizeof tar, "%s/net.tar", argv[1]);
  snprintf(so, sizeof so, "%s/net.so", argv[1]);
  snprintf(scratch, sizeof scratch, "%s/scratch.%ld", argv[1], (long)getpid());
  read_floats(argv[2], "input_0.pb", image, IMAGE);
  read_floats(argv[2], "output_0.pb", expected, CLASSES);
  test_modules(tar);
  test_modules(so);
  test_executor(tar);
  test_executor(so);
  test_run_with();
  test_threads();
  test_pools();
  test_fork();
  test_files();
  if (failures == 0) puts("all right");
  return failures ? 1 : 0;
}
