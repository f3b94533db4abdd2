/* A C99 program that tunes, compiles and runs a network through autotune/compiler_c_api.h.
 *   c_tune_test MODEL.onnx FOLDER PROGRAMS     PROGRAMS: the folder of autotune and rpc_server */
#include <autotune/compiler_c_api.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/check.h"

static const char *model, *folder, *programs;

static const char* in_folder(const char* name) {
  static char path[4][1024];
  static int next = 0;
  next = (next + 1) % 4;
  snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
  return path[next];
}

static autotune_request* new_request(void) {
  autotune_request* request = NULL;
  OK(autotune_request_create(&request));
  OK(autotune_request_set(request, "model", model));
  OK(autotune_request_set(request, "db", in_folder("records.db")));
  OK(autotune_request_set(request, "programs", programs));
  return request;
}

/* Takes all events. Returns how many were of `kind`, and the last of them in `last`. Cancels at the first one of
 * `cancel_at`, if that is not NULL. `code` gets that of the last call. */
static int drain(autotune_tune* tune, const char* kind, char* last, size_t size, const char* cancel_at, int* code) {
  char want[64], stop[64];
  int count = 0;
  snprintf(want, sizeof want, "\"event\":\"%s\"", kind);
  snprintf(stop, sizeof stop, "\"event\":\"%s\"", cancel_at ? cancel_at : "");
  for (;;) {
    const char* event = NULL;
    *code = autotune_tune_next_event(tune, 50, &event);
    if (*code != AUTOTUNE_OK) return count;
    if (!event) continue;
    if (!*event) return count;
    NEED(event[0] == '{');
    if (strstr(event, want)) {
      ++count;
      snprintf(last, size, "%s", event);
    }
    if (cancel_at && strstr(event, stop)) OK(autotune_tune_cancel(tune));
  }
}

static void run_module(autotune_module* module) {
  autotune_executor* executor = NULL;
  autotune_tensor* output = NULL;
  autotune_tensor_info info;
  float sum = 0;
  int64_t i;
  OK(autotune_executor_create(module, NULL, &executor));
  OK(autotune_executor_run(executor));
  OK(autotune_executor_get_output(executor, 0, &output));
  OK(autotune_tensor_get_info(output, &info));
  NEED(info.size_bytes == 10 * (int64_t)sizeof(float));
  for (i = 0; i < 10; ++i) sum += ((const float*)info.data)[i];
  NEED(sum > 0.999f && sum < 1.001f); /* probabilities */
  autotune_tensor_free(output);
  autotune_executor_free(executor);
}

static void tune_cancel_and_resume(void) {
  autotune_request* request = new_request();
  autotune_tune* tune = NULL;
  static char text[1 << 16];
  int code = 0;
  OK(autotune_request_set(request, "trials", "12"));
  OK(autotune_request_set(request, "output", in_folder("tuned.tar")));
  OK(autotune_tune_start(request, &tune));
  NEED(drain(tune, "interrupted", text, sizeof text, "round", &code) == 1);
  NEED(code == AUTOTUNE_OK);
  NEED(strstr(text, "\"resume\":\"autotune --model ") != NULL);
  autotune_tune_free(tune);

  OK(autotune_tune_start(request, &tune));
  NEED(drain(tune, "end", text, sizeof text, NULL, &code) == 1);
  NEED(code == AUTOTUNE_OK);
  NEED(strstr(text, "\"trials\":12") != NULL);
  NEED(!strstr(text, "\"resumed_trials\":0,")); /* those of the first run */
  autotune_tune_free(tune);
  autotune_request_free(request);
}

static void compile_and_run(void) {
  autotune_request* request = new_request();
  autotune_module* module = NULL;
  char* report = NULL;
  FILE* file;
  static char bytes[4 << 20];
  size_t size;
  OK(autotune_compile_file(request, in_folder("compiled.tar"), &report));
  NEED(strstr(report, "\"model\":\"resnet20\"") != NULL);
  autotune_text_free(report);
  OK(autotune_module_load(in_folder("compiled.tar"), &module));
  run_module(module);
  autotune_module_free(module);
  OK(autotune_module_load(in_folder("tuned.tar"), &module));
  run_module(module);
  autotune_module_free(module);

  file = fopen(model, "rb");
  NEED(file != NULL);
  size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  OK(autotune_request_set_model(request, "from_bytes", bytes, size));
  OK(autotune_compile_module(request, &module));
  run_module(module);
  autotune_module_free(module);
  OK(autotune_compile_module(request, &module)); /* of the cache */
  run_module(module);
  autotune_module_free(module);
  autotune_request_free(request);
}

static void read_database(void) {
  autotune_database* database = NULL;
  char *tasks = NULL, *lines = NULL, task[33];
  int64_t cursor = 0;
  const char* hash;
  int count = 0;
  OK(autotune_database_open(in_folder("records.db"), &database));
  OK(autotune_database_tasks(database, &tasks));
  hash = strstr(tasks, "\"task\":\"");
  NEED(hash != NULL);
  snprintf(task, sizeof task, "%s", hash + strlen("\"task\":\""));
  OK(autotune_database_best(database, task, "cpu", &lines));
  NEED(strstr(lines, task) != NULL);
  autotune_text_free(lines);
  OK(autotune_database_top(database, task, "cpu", 3, &lines));
  autotune_text_free(lines);
  do {
    const char* c;
    OK(autotune_database_scan(database, NULL, NULL, &cursor, 5, &lines));
    for (c = lines; *c; ++c) count += *c == '\n';
    NEED(*lines || count >= 12);
    if (!*lines) cursor = -1;
    autotune_text_free(lines);
  } while (cursor >= 0);
  OK(autotune_database_best(database, "no such task", "cpu", &lines));
  NEED(!*lines);
  autotune_text_free(lines);
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "n is 0", autotune_database_top(database, task, "cpu", 0, &lines));
  FAILS(AUTOTUNE_ERROR, "none.db", autotune_database_open(in_folder("none.db"), &database));
  autotune_text_free(tasks);
  autotune_database_free(database);
}

/* Starts a run that must fail with a text. */
static void fails_later(autotune_request* request, const char* text) {
  autotune_tune* tune = NULL;
  char last[256];
  int code = 0;
  OK(autotune_tune_start(request, &tune));
  NEED(drain(tune, "end", last, sizeof last, NULL, &code) == 0);
  NEED(code == AUTOTUNE_ERROR);
  NEED(strstr(autotune_last_error(), text) != NULL);
  autotune_tune_free(tune);
}

static void errors_say_what_is_wrong(void) {
  autotune_request* request = new_request();
  autotune_tune* tune = NULL;
  autotune_module* module = NULL;
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "no option 'trails'", autotune_request_set(request, "trails", "1"));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "'many'", autotune_request_set(request, "trials", "many"));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "null pointer", autotune_request_set(NULL, "trials", "1"));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "null pointer", autotune_tune_start(NULL, &tune));
  OK(autotune_request_set(request, "output", "m.txt"));
  FAILS(AUTOTUNE_INVALID_ARGUMENT, "M.tar", autotune_tune_start(request, &tune));
  OK(autotune_request_set(request, "output", ""));
  OK(autotune_request_set(request, "programs", folder));
  fails_later(request, "starting a build worker");
  OK(autotune_request_set(request, "programs", programs));
  OK(autotune_request_set(request, "target", "llvm -mcpu=nonsense"));
  fails_later(request, "nonsense");
  FAILS(AUTOTUNE_ERROR, "nonsense", autotune_compile_module(request, &module));
  OK(autotune_request_set(request, "target", "cpu"));
  OK(autotune_request_set(request, "model", in_folder("none.onnx")));
  fails_later(request, "none.onnx");
  FAILS(AUTOTUNE_ERROR, "none.onnx", autotune_compile_file(request, in_folder("m.tar"), NULL));
  OK(autotune_request_set_model(request, "broken", "not a model", 11));
  FAILS(AUTOTUNE_ERROR, "broken", autotune_compile_file(request, in_folder("m.tar"), NULL));
  autotune_request_free(request);
  autotune_request_free(NULL);
  autotune_tune_free(NULL);
  autotune_database_free(NULL);
  autotune_text_free(NULL);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  model = argv[1], folder = argv[2], programs = argv[3];
  NEED(!strcmp(autotune_compiler_version(), autotune_version()));
  errors_say_what_is_wrong();
  tune_cancel_and_resume();
  compile_and_run();
  read_database();
  printf("ok\n");
  return 0;
}
