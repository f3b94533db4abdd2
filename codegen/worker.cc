#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>

#include "codegen/frame.h"
#include "codegen/job.h"
#include "support/log.h"
#include "support/subprocess.h"

namespace autotune {

int BuildWorkerMain(int fd) {
  EndWithParent();
  EndGroupWithParent();  // includes the C compilers, which run in this group
  // Disables core files, since that of a crashed code generator has gigabytes.
  rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // Makes a write beyond the limit of file sizes return an error instead of ending the process.
  signal(SIGXFSZ, SIG_IGN);
  for (;;) {
    Result<std::optional<Json>> frame = ReadFrame(fd);
    if (!frame.ok()) return 1;
    if (!*frame) return 0;
    Job job;
    JobAnswer answer;
    if (Status parsed = FromJson(**frame, job); parsed.ok()) {
      answer = RunJob(job);
    } else {
      answer.error = answer.result.text = answer.compiled.text = "not a build job: " + parsed.error().Text();
      answer.result.status = answer.compiled.status = TrialStatus::kBuildFailed;
    }
    if (!WriteFrame(fd, ToJson(answer)).ok()) return 1;
  }
}

}  // namespace autotune
