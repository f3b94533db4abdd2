// TunePage: the live page of a tuning run, on this host only. Thread-safe.
#pragma once
#include <memory>
#include <string>

#include "service/events.h"
#include "support/result.h"

namespace autotune::tools {

class TunePage {
 public:
  // `address`: see http::ServerOptions. Error: it is wrong, or other hosts could connect.
  static Result<std::unique_ptr<TunePage>> Start(const std::string& address, const std::string& version);
  ~TunePage();
  std::string Url() const;
  void Take(const event::Any& event);

 private:
  struct Impl;
  explicit TunePage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotune::tools
