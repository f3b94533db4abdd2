#include "tools/autotune/version.h"

#include "costmodel/features.h"
#include "ir/text.h"
#include "records/open.h"
#include "rpc/message.h"
#include "schedule/trace.h"

namespace autotune::tools {

std::string VersionText() {
  return std::string("autotune ") + AUTOTUNE_VERSION + "\nrecord database " + std::to_string(StoreVersion()) +
         ", traces " + std::to_string(kStepLanguageVersion) + ", programs " + std::to_string(kIrTextVersion) +
         ", features " + std::to_string(kFeatureVersion) + ", wire " + std::to_string(rpc::kWireMajor) + "." +
         std::to_string(rpc::kWireMinor);
}

}  // namespace autotune::tools
