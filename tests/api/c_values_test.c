/* Errors, tensors, values, functions and the registry of the C API, as a program in C99 uses them. */
#include <dlpack/dlpack.h>

#include "tests/api/check.h"

static void test_errors(void) {
  autotune_dtype type;
  autotune_device device;
  char text[32];
  EXPECT(strcmp(autotune_version(), AUTOTUNE_EXPECTED_VERSION) == 0);
  EXPECT(strcmp(autotune_last_error(), "") == 0);
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "unknown element type 'f33'", autotune_dtype_from_text("f33", &type));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "text is a null pointer", autotune_dtype_from_text(NULL, &type));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "out is a null pointer", autotune_dtype_from_text("f32", NULL));
  OK(autotune_dtype_from_text("bf16", &type));
  EXPECT(type.code == kDLBfloat && type.bits == 16 && type.lanes == 1);
  EXPECT(strstr(autotune_last_error(), "out is") != NULL); /* a success leaves the text */
  OK(autotune_dtype_to_text(type, text, sizeof text));
  EXPECT(strcmp(text, "bf16") == 0);
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "takes 5 bytes", autotune_dtype_to_text(type, text, 4));
  OK(autotune_device_from_text("cpu", &device));
  EXPECT(device.type == kDLCPU && device.id == 0);
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "tpu", autotune_device_from_text("tpu", &device));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "cpu:0", autotune_device_from_text("cpu:1", &device));
}

/* The fake driver of CUDA (tests/runtime/fake_cuda/) has the GPUs that FAKE_CUDA names. */
static void test_devices(const char* driver) {
  autotune_devices* devices = NULL;
  autotune_device_info info;
  autotune_device found;
  size_t i, cuda = 0;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "out is a null pointer", autotune_devices_list(NULL));
  NEED(setenv("AUTOTUNE_LIBCUDA", driver, 1) == 0 && setenv("FAKE_CUDA", "gpus=2 sm=80 bytes=85000000000", 1) == 0);
  OK(autotune_devices_list(&devices));
  NEED(autotune_devices_size(devices) >= 3);
  OK(autotune_devices_get(devices, 0, &info));
  EXPECT(info.device.type == kDLCPU && info.device.id == 0 && strcmp(info.text, "cpu") == 0);
  EXPECT(info.units >= 1 && info.memory_bytes > 0 && *info.name && *info.architecture && !*info.uuid && !*info.error);
  OK(autotune_devices_get(devices, 2, &info));
  EXPECT(info.device.type == kDLCUDA && info.device.id == 1 && strcmp(info.text, "cuda:1") == 0);
  EXPECT(strcmp(info.name, "Fake GPU B") == 0 && strcmp(info.architecture, "sm_80") == 0 && !*info.error);
  EXPECT(strcmp(info.uuid, "GPU-a1112233-4455-6677-8899-aabbccddeeff") == 0);
  EXPECT(info.memory_bytes == INT64_C(85000000000) && info.units == 132);
  for (i = 0; i < autotune_devices_size(devices); ++i) { /* the text of each names it, unless it cannot be used */
    OK(autotune_devices_get(devices, i, &info));
    cuda += info.device.type == kDLCUDA;
    if (*info.error) continue;
    OK(autotune_device_from_text(info.text, &found));
    EXPECT(found.type == info.device.type && found.id == info.device.id);
  }
  EXPECT(cuda == 2);
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "there is no device", autotune_devices_get(devices, i, &info));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "out is a null pointer", autotune_devices_get(devices, 0, NULL));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "devices is a null pointer", autotune_devices_get(NULL, 0, &info));
  autotune_devices_free(devices);

  NEED(setenv("FAKE_CUDA", "fail=cuInit:100", 1) == 0); /* no GPU */
  OK(autotune_devices_list(&devices));
  for (i = 0; i < autotune_devices_size(devices); ++i) {
    OK(autotune_devices_get(devices, i, &info));
    EXPECT(info.device.type != kDLCUDA);
  }
  autotune_devices_free(devices);
  FAILS(AUTOTUNE_ERROR, "the CUDA driver finds no GPU", autotune_device_from_text("cuda", &found));
  EXPECT(autotune_devices_size(NULL) == 0);
  autotune_devices_free(NULL);
}

static int released = 0;
static void count_release(void* owner) { released += *(int*)owner; }

static void test_tensors(void) {
  const int64_t shape[] = {2, 3}, across[] = {1, 2}, negative[] = {2, -1}, huge[] = {INT64_MAX, 3};
  float memory[6] = {0, 1, 2, 3, 4, 5};
  int one = 1;
  autotune_tensor *a = NULL, *b = NULL;
  autotune_tensor_info info;
  OK(autotune_tensor_create(shape, 2, F32, &a));
  OK(autotune_tensor_get_info(a, &info));
  EXPECT(info.ndim == 2 && info.shape[0] == 2 && info.shape[1] == 3 && info.size_bytes == 24 && info.flags == 0);
  EXPECT(info.device.type == kDLCPU && info.dtype.code == kDLFloat && (size_t)info.data % 64 == 0);

  OK(autotune_tensor_borrow(memory, shape, NULL, 2, F32, 0, count_release, &one, &b)); /* shares the memory */
  OK(autotune_tensor_get_info(b, &info));
  EXPECT(info.data == memory && released == 0);
  OK(autotune_tensor_copy(b, a));
  autotune_tensor_free(b);
  EXPECT(released == 1);
  OK(autotune_tensor_get_info(a, &info));
  EXPECT(memcmp(info.data, memory, sizeof memory) == 0);

  OK(autotune_tensor_borrow(memory, shape, across, 2, F32, 0, count_release, &one, &b)); /* copies */
  EXPECT(released == 2);
  OK(autotune_tensor_get_info(b, &info));
  EXPECT(info.data != memory && ((float*)info.data)[1] == 2 && ((float*)info.data)[3] == 1);
  autotune_tensor_free(b);
  EXPECT(released == 2);

  OK(autotune_tensor_borrow(memory, shape, NULL, 2, F32, AUTOTUNE_READ_ONLY, NULL, NULL, &b));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "read-only", autotune_tensor_copy(a, b));
  autotune_tensor_free(b);

  b = NULL;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "negative dimension",
        autotune_tensor_borrow(memory, negative, NULL, 2, F32, 0, count_release, &one, &b));
  EXPECT(b == NULL && released == 2); /* after an error, the memory is the caller's */
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "too large", autotune_tensor_create(huge, 2, F32, &b));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "shape is a null pointer", autotune_tensor_create(NULL, 2, F32, &b));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "data is a null pointer",
        autotune_tensor_borrow(NULL, shape, NULL, 2, F32, 0, NULL, NULL, &b));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "unknown flags",
        autotune_tensor_borrow(memory, shape, NULL, 2, F32, 6, NULL, NULL, &b));
  {
    const autotune_dtype odd = {9, 3, 1};
    const int64_t large[] = {(int64_t)1 << 45};
    FAILS(AUTOTUNE_INVALID_ARGUMENT, "no tensor has the element type", autotune_tensor_create(shape, 2, odd, &b));
    FAILS(AUTOTUNE_OUT_OF_MEMORY, "out of memory", autotune_tensor_create(large, 1, F32, &b));
  }
  OK(autotune_tensor_create(NULL, 0, F32, &b)); /* a scalar */
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "cannot copy f32[] into f32[2, 3]", autotune_tensor_copy(b, a));
  autotune_tensor_free(a);
  autotune_tensor_free(b);
  autotune_tensor_free(NULL);
}

/* DLPack 1.0, which the header of Debian 12 lacks. */
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor dl_tensor;
};

static int deleted = 0;
static void count_deleted(DLManagedTensor* self) { (void)self, ++deleted; }
static void count_deleted_versioned(struct DLManagedTensorVersioned* self) { (void)self, ++deleted; }

static void test_dlpack(void) {
  int64_t shape[] = {2, 2};
  int32_t memory[4] = {1, 2, 3, 4};
  autotune_tensor* tensor = NULL;
  autotune_tensor_info info;
  DLManagedTensor foreign, *given = NULL;
  struct DLManagedTensorVersioned versioned, *given_versioned = NULL;
  memset(&foreign, 0, sizeof foreign);
  foreign.dl_tensor.data = memory;
  foreign.dl_tensor.ndim = 2;
  foreign.dl_tensor.shape = shape;
  foreign.dl_tensor.dtype.code = kDLInt;
  foreign.dl_tensor.dtype.bits = 32;
  foreign.dl_tensor.dtype.lanes = 1;
  foreign.dl_tensor.device.device_type = kDLCPU;
  foreign.deleter = count_deleted;
  OK(autotune_tensor_from_dlpack(&foreign, &tensor));
  OK(autotune_tensor_to_dlpack(tensor, &given));
  EXPECT(given->dl_tensor.data == memory);
  autotune_tensor_free(tensor);
  EXPECT(deleted == 0);
  given->deleter(given);
  EXPECT(deleted == 1);

  memset(&versioned, 0, sizeof versioned);
  versioned.major = 1;
  versioned.flags = 1; /* read-only */
  versioned.dl_tensor = foreign.dl_tensor;
  versioned.deleter = count_deleted_versioned;
  OK(autotune_tensor_from_dlpack_versioned(&versioned, &tensor));
  OK(autotune_tensor_get_info(tensor, &info));
  EXPECT(info.data == memory && info.flags == AUTOTUNE_READ_ONLY);
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "read-only", autotune_tensor_to_dlpack(tensor, &given));
  OK(autotune_tensor_to_dlpack_versioned(tensor, &given_versioned));
  EXPECT(given_versioned->major == 1 && given_versioned->flags == 1);
  given_versioned->deleter(given_versioned);
  autotune_tensor_free(tensor);
  EXPECT(deleted == 2);

  versioned.major = 2;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "version 2", autotune_tensor_from_dlpack_versioned(&versioned, &tensor));
  EXPECT(deleted == 3);
  foreign.dl_tensor.device.device_type = kDLMetal;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "metal", autotune_tensor_from_dlpack(&foreign, &tensor));
  EXPECT(deleted == 4);
}

static int add_all(void* context, const autotune_value* args, int32_t num_args, autotune_value* result) {
  int32_t i;
  result->kind = AUTOTUNE_INT;
  result->as.integer = *(int*)context;
  for (i = 0; i < num_args; ++i) {
    if (args[i].kind != AUTOTUNE_INT) {
      autotune_set_last_error("add_all takes integers");
      return AUTOTUNE_INVALID_ARGUMENT;
    }
    result->as.integer += args[i].as.integer;
  }
  return AUTOTUNE_OK;
}

/* Returns its argument, whatever it is. */
static int echo(void* context, const autotune_value* args, int32_t num_args, autotune_value* result) {
  (void)context;
  return num_args == 1 ? autotune_value_copy(&args[0], result) : AUTOTUNE_ERROR;
}

static void test_functions(void) {
  int start = 100, one = 1;
  autotune_function *sum = NULL, *same = NULL, *found = NULL;
  autotune_names* names = NULL;
  autotune_value args[2], result;
  size_t i, seen = 0;
  released = 0;
  OK(autotune_function_create(add_all, &start, NULL, &sum));
  args[0].kind = args[1].kind = AUTOTUNE_INT;
  args[0].as.integer = 20;
  args[1].as.integer = 3;
  OK(autotune_function_call(sum, args, 2, &result));
  EXPECT(result.kind == AUTOTUNE_INT && result.as.integer == 123);
  args[1].kind = AUTOTUNE_FLOAT;
  FAILS(AUTOTUNE_ERROR, "add_all takes integers", autotune_function_call(sum, args, 2, &result));
  args[1].kind = 77;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "no value has the kind 77 (argument 1)",
        autotune_function_call(sum, args, 2, &result));

  OK(autotune_registry_add("tests.sum", sum, 0));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "exists already", autotune_registry_add("tests.sum", sum, 0));
  OK(autotune_registry_add("tests.sum", sum, 1));
  autotune_function_free(sum);
  OK(autotune_registry_get("tests.sum", &found));
  OK(autotune_registry_names(&names));
  for (i = 0; i < autotune_names_size(names); ++i) seen += strcmp(autotune_names_at(names, i), "tests.sum") == 0;
  EXPECT(seen == 1 && autotune_names_at(names, autotune_names_size(names)) == NULL);
  autotune_names_free(names);
  OK(autotune_registry_remove("tests.sum"));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "'tests.sum'", autotune_registry_remove("tests.sum"));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "'tests.sum'", autotune_registry_get("tests.sum", &sum));
  OK(autotune_function_call(found, args, 0, &result)); /* the handle keeps it */
  EXPECT(result.as.integer == 100);

  OK(autotune_function_create(echo, &one, count_release, &same));
  args[0].kind = AUTOTUNE_STRING;
  args[0].as.text.data = "a text";
  args[0].as.text.size = 6;
  OK(autotune_function_call(same, args, 1, &result));
  EXPECT(result.kind == AUTOTUNE_STRING && result.as.text.size == 6 && strcmp(result.as.text.data, "a text") == 0);
  autotune_value_clear(&result);
  EXPECT(result.kind == AUTOTUNE_NULL);
  args[0].kind = AUTOTUNE_FUNCTION;
  args[0].as.function = found;
  OK(autotune_function_call(same, args, 1, &result));
  EXPECT(result.kind == AUTOTUNE_FUNCTION && result.as.function != found);
  autotune_function_free(found);
  found = result.as.function;
  OK(autotune_function_call(found, args, 0, &result));
  EXPECT(result.as.integer == 100);
  EXPECT(autotune_function_context(found, add_all) == &start); /* also of a copy of the handle */
  EXPECT(autotune_function_context(same, echo) == &one && autotune_function_context(same, add_all) == NULL);
  EXPECT(autotune_function_context(NULL, echo) == NULL);
  OK(autotune_value_set_text(&args[0], AUTOTUNE_BYTES, "\0\1", 2));
  OK(autotune_function_call(same, args, 1, &result));
  EXPECT(result.kind == AUTOTUNE_BYTES && result.as.text.size == 2 && result.as.text.data[1] == 1);
  autotune_value_clear(&result);
  autotune_value_clear(&args[0]);
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "is no text", autotune_value_set_text(&args[0], AUTOTUNE_INT, "", 0));
  FAILS(AUTOTUNE_ERROR, "error code 1", autotune_function_call(same, args, 0, &result));
  EXPECT(released == 0);
  autotune_function_free(same);
  EXPECT(released == 1);
  autotune_function_free(found);
}

static void test_nulls(void) {
  autotune_value value;
  EXPECT(autotune_executor_run(NULL) == AUTOTUNE_INVALID_ARGUMENT);
  EXPECT(autotune_function_call(NULL, NULL, 0, &value) == AUTOTUNE_INVALID_ARGUMENT);
  EXPECT(autotune_tensor_get_info(NULL, NULL) == AUTOTUNE_INVALID_ARGUMENT);
  EXPECT(autotune_executor_num_inputs(NULL) == 0 && autotune_names_size(NULL) == 0);
  EXPECT(autotune_module_type(NULL) == NULL && autotune_object_type(NULL) == NULL);
  autotune_executor_free(NULL), autotune_module_free(NULL), autotune_function_free(NULL), autotune_object_free(NULL);
  autotune_names_free(NULL), autotune_value_clear(NULL), autotune_set_last_error(NULL);
}

int main(int argc, char** argv) {
  test_errors();
  if (argc > 1) test_devices(argv[1]);
  test_tensors();
  test_dlpack();
  test_functions();
  test_nulls();
  if (failures == 0) puts("all right");
  return failures ? 1 : 0;
}
