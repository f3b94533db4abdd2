// States whether this build has a sanitizer. A sanitizer's shadow memory and its own system calls do not fit a
// sandbox's limits, and it makes the program ten times as slow.
#pragma once

namespace autotune {

#if defined(__has_feature)
#define AUTOTUNE_HAS_FEATURE(name) __has_feature(name)
#else
#define AUTOTUNE_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || AUTOTUNE_HAS_FEATURE(address_sanitizer) || \
    AUTOTUNE_HAS_FEATURE(thread_sanitizer) || AUTOTUNE_HAS_FEATURE(memory_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#undef AUTOTUNE_HAS_FEATURE

}  // namespace autotune
