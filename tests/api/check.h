/* What the C programs of these tests share: checks that count, files, and the example network's data. C99. */
#ifndef TESTS_API_CHECK_H_
#define TESTS_API_CHECK_H_
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/c_api.h"

static int failures = 0;

#define EXPECT(condition)                                                                                     \
  do {                                                                                                        \
    if (!(condition)) {                                                                                       \
      ++failures;                                                                                             \
      fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, autotune_last_error()); \
    }                                                                                                         \
  } while (0)
/* Ends the program, since what follows needs this. */
#define NEED(condition)    \
  do {                     \
    EXPECT(condition);     \
    if (failures) exit(1); \
  } while (0)
#define OK(call) NEED((call) == AUTOTUNE_OK)
/* The call fails with this code, and its text has these words. */
#define FAILS(code, words, call)                            \
  do {                                                      \
    EXPECT((call) == (code));                               \
    EXPECT(strstr(autotune_last_error(), (words)) != NULL); \
    EXPECT(strchr(autotune_last_error(), '\n') == NULL);    \
  } while (0)

enum { IMAGE = 3 * 32 * 32, CLASSES = 10 };
static const autotune_dtype F32 = {2, 32, 1};
static const int64_t IMAGE_SHAPE[] = {1, 3, 32, 32}, CLASSES_SHAPE[] = {1, 10};

/* Reads the floats at the end of a file: the raw data are the last field of a tensor in ONNX's format. */
static inline void read_floats(const char* folder, const char* name, float* to, size_t count) {
  char path[4096];
  FILE* file;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  file = fopen(path, "rb");
  NEED(file != NULL);
  NEED(fseek(file, -(long)(count * sizeof *to), SEEK_END) == 0);
  NEED(fread(to, sizeof *to, count, file) == count);
  fclose(file);
}

/* The outputs of kernels differ from those of the reference by roundings. */
static inline int equal_floats(const float* a, const float* b, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i) {
    const float difference = a[i] - b[i];
    if (!(difference < 1e-5f && difference > -1e-5f)) return 0;
  }
  return 1;
}

#endif
