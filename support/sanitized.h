// States whether this build has a sanitizer. A sanitizer's shadow memory and system calls exceed the limits of a
// sandbox, and a sanitizer makes the program about ten times as slow.
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
