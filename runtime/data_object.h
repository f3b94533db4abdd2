// Writes a relocatable ELF object that holds only data, under one exported symbol. Linkers treat it like a constant
// array, but no compiler has to hold the data in memory several times. Stateless.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "runtime/byte_stream.h"
#include "support/result.h"

namespace autotune {

// Writes the object to `out`. `like` is an object that the new one will be linked with; its machine and ABI are copied.
// `data` writes the `size` bytes of the symbol, which get a read-only section of their own. In a shared section,
// linkers could place data of other objects after these bytes, out of reach of the code that addresses it. Errors:
// `like` is no relocatable little-endian object of 64 bits; those of `data`.
Status WriteDataObject(std::string_view like, std::string_view symbol, uint64_t size, ByteWriter& out,
                       const std::function<Status(ByteWriter&)>& data);

}  // namespace autotune
