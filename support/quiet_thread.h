// A thread that outlives its starter and handles no signals: those are for the other threads.
#pragma once
#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace autotune {

template <class F>
void StartQuietThread(F f) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(std::move(f)).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace autotune
