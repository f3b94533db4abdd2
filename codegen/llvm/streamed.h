// Stores around the caches ("non-temporal"), for results that no cache holds until they are read. Internal.
#pragma once
#include <set>

#include "ir/stmt.h"
#include "target/target.h"

namespace autotune {

// The buffers that code for `body` writes around the caches: large ones that come from outside, which it does not read.
// A cached store of a line that is not there reads it first, and then something else must leave: a third of the traffic
// of a copy. Only for processors whose stores of this kind are written out at once and ordered by a fence: x86-64.
std::set<Name> StreamedBuffers(const Stmt& body, const Target& target);

// Whether vectors of `lanes` elements at `index` fill whole lines of memory, alone or with their neighbours in this and
// the next iteration of the loop over `innermost` (may be empty): a part of a line, written around the caches, costs
// more than all of it.
bool FillsLines(const Buffer& buffer, const Expr& index, int lanes, const Name& innermost);

}  // namespace autotune
