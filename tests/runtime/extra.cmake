# A library that tests load in place of NVIDIA's driver, also in other folders.
add_library(fake_cuda MODULE ${CMAKE_CURRENT_SOURCE_DIR}/runtime/fake_cuda/driver.cc)
target_include_directories(fake_cuda PRIVATE ${CMAKE_SOURCE_DIR})
set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_cuda)
# The same for NVIDIA's management library.
add_library(fake_nvml MODULE ${CMAKE_CURRENT_SOURCE_DIR}/runtime/fake_cuda/nvml.cc)
set_target_properties(fake_nvml PROPERTIES OUTPUT_NAME nvidia-ml SUFFIX .so.1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_cuda)
set(EXTRA_TARGETS fake_cuda fake_nvml)
set(SLOW Cuda ModuleBlob OpenCl)
set(SERIAL EvaluateTime) # since it measures times
