// The module of a compiled network on a device of a farm. It has the interface of the module that LoadModuleTree
// (package/load.h) makes on this machine, so the same code runs a network on either.
#pragma once
#include <memory>
#include <string>

#include "rpc/remote_device.h"
#include "runtime/module.h"

namespace autotune {

// Loads a file that `autotune compile -o` wrote, M.tar or M.so, for the device; it is sent when it is used. The module
// has the kernels as functions, and "default" and the network's name (devices -> executor module). `threads` is the
// number of threads of kernels and executors; 0: one per CPU. Errors: those of PackageToSend (package/send.h) and of
// RemoteDevice::LoadModule.
Result<Module> LoadRemoteModule(std::shared_ptr<rpc::RemoteDevice> device, const std::string& path, int threads = 0);

}  // namespace autotune
