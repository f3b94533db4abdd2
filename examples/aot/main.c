/* Classifies a picture with ResNet-20, which is linked into this program (docs/aot.md):
 *     autotune compile --model examples/resnet20.onnx --executor aot -o resnet20.a
 *     cc -I. examples/aot/main.c resnet20.a -o classify
 *     ./classify picture.bin scores.bin
 * The files have the elements of the input and of the output, without a header. */
#include <stdio.h>

#include "resnet20.h"

static resnet20_INPUT_image_TYPE image[resnet20_INPUT_image_ELEMENTS];
static resnet20_OUTPUT_probabilities_TYPE scores[resnet20_OUTPUT_probabilities_ELEMENTS];
static char memory[resnet20_WORKSPACE_BYTES(1) + resnet20_ALIGNMENT];

int main(int argc, char** argv) {
  char* workspace = memory + (resnet20_ALIGNMENT - (uintptr_t)memory % resnet20_ALIGNMENT) % resnet20_ALIGNMENT;
  const void* inputs[resnet20_NUM_INPUTS];
  void* outputs[resnet20_NUM_OUTPUTS];
  FILE* file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  int32_t i, best = 0, error = 0;
  if (!file || fread(image, 1, resnet20_INPUT_image_BYTES, file) != resnet20_INPUT_image_BYTES) return 1;
  inputs[resnet20_INPUT_image] = image;
  outputs[resnet20_OUTPUT_probabilities] = scores;
#ifdef resnet20_NEEDS_PREPARE
  error = resnet20_prepare(workspace);
#endif
  if (error == 0) error = resnet20_run(inputs, outputs, workspace, NULL);
  if (error != 0) return 2;
  for (i = 1; i < resnet20_OUTPUT_probabilities_ELEMENTS; ++i) best = scores[i] > scores[best] ? i : best;
  printf("class %d: %g\n", (int)best, (double)scores[best]);
  file = fopen(argv[2], "wb");
  return !file || fwrite(scores, 1, resnet20_OUTPUT_probabilities_BYTES, file) == 0 || fclose(file) != 0;
}
