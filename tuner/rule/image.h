// Images in the subscripts of products. Pure functions; thread-safe.
#pragma once
#include "tuner/rule/block_view.h"
#include "tuner/sketch.h"

namespace autotune {

// Returns how the operands split `index`, an iterator over the pixels of an image, into a row and a column. Ignores the
// subscripts (i // W, i % W) of a buffer with rows of length W: their address is linear in i, as in a plain product.
ImageModel ImageOf(const BlockView& view, const Name& index);

}  // namespace autotune
