// Object files that hold data: the system's linker accepts them, and their headers match those of the objects that they
// are linked with.
#include "runtime/data_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "support/file.h"
#include "tests/read.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSymbol = "__some_data";

std::string Header(Elf64_Half machine, uint32_t flags) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_ident[EI_OSABI] = ELFOSABI_GNU;
  header.e_type = ET_REL;
  header.e_machine = machine;
  header.e_version = EV_CURRENT;
  header.e_flags = flags;
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

Result<std::string> ObjectOf(std::string_view like, const std::string& bytes) {
  ByteWriter out;
  TRY(WriteDataObject(like, kSymbol, bytes.size(), out, [&](ByteWriter& data) {
    data.Raw(bytes);
    return Status();
  }));
  return out.Take();
}

int Shell(const std::string& command) { return std::system((command + " 2>&1").c_str()); }

class DataObject : public ::testing::Test {
 protected:
  DataObject() { EXPECT_TRUE(mkdtemp(folder_.data())); }
  ~DataObject() override { std::filesystem::remove_all(folder_); }
  std::string File(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_ = ::testing::TempDir() + "data-object-XXXXXX";
};

TEST_F(DataObject, LinksAndHasItsBytes) {
  ASSERT_TRUE(WriteFile(File("code.c"), "int code(void) { return 7; }\n").ok());
  ASSERT_EQ(Shell("cc -fPIC -c -o " + File("code.o") + " " + File("code.c")), 0);
  for (size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{200001}}) {
    std::string bytes;
    for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(i * 7 + i / 256);
    Result<std::string> object = ObjectOf(test::ReadAll(File("code.o")), bytes);
    ASSERT_TRUE(object.ok()) << object.error().Text();
    ASSERT_TRUE(WriteFile(File("data.o"), *object).ok());
    const std::string library = File("library" + std::to_string(size) + ".so");
    ASSERT_EQ(Shell("cc -shared -Wl,--fatal-warnings -o " + library + " " + File("data.o") + " " + File("code.o")), 0);
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    auto* data = static_cast<const char*>(dlsym(handle, kSymbol));
    ASSERT_NE(data, nullptr);
    Dl_info info{};
    const Elf64_Sym* symbol = nullptr;
    ASSERT_TRUE(dladdr1(data, &info, reinterpret_cast<void**>(const_cast<Elf64_Sym**>(&symbol)), RTLD_DL_SYMENT));
    if (size > 0) {
      EXPECT_EQ(symbol->st_size, size);
    }
    EXPECT_EQ(std::string(data, size), bytes);
    EXPECT_NE(dlsym(handle, "code"), nullptr);
    dlclose(handle);
  }
}

TEST_F(DataObject, IsLikeTheOthers) {
  for (auto [machine, flags, name] : {std::tuple(EM_AARCH64, 0u, "AArch64"), std::tuple(EM_RISCV, 5u, "RISC-V"),
                                      std::tuple(EM_X86_64, 0u, "X86-64")}) {
    const std::string object = ObjectOf(Header(static_cast<Elf64_Half>(machine), flags), "bytes").value();
    Elf64_Ehdr header;
    std::memcpy(&header, object.data(), sizeof header);
    EXPECT_EQ(header.e_machine, machine);
    EXPECT_EQ(header.e_flags, flags);
    EXPECT_EQ(header.e_ident[EI_OSABI], ELFOSABI_GNU);
    ASSERT_TRUE(WriteFile(File("data.o"), object).ok());
    ASSERT_EQ(Shell("readelf -aW " + File("data.o") + " > " + File("text")), 0);
    const std::string text = test::ReadAll(File("text"));
    EXPECT_THAT(text, HasSubstr(name));
    EXPECT_THAT(text, HasSubstr("OBJECT  GLOBAL DEFAULT    1 __some_data"));
    EXPECT_EQ(text.find("Warning"), std::string::npos) << text;
  }
}

TEST_F(DataObject, NeedsARelocatableObjectOf64Bits) {
  EXPECT_THAT(ObjectOf("short", "x").error().Text(), HasSubstr("only 5 bytes"));
  for (auto [at, value] :
       {std::pair<int, char>(0, 'x'), {EI_CLASS, ELFCLASS32}, {EI_DATA, ELFDATA2MSB}, {16, ET_DYN}}) {
    std::string header = Header(EM_X86_64, 0);
    header[static_cast<size_t>(at)] = value;
    EXPECT_THAT(ObjectOf(header, "x").error().Text(), HasSubstr("not a relocatable object of 64 bits"));
  }
  ByteWriter out;
  EXPECT_EQ(
      WriteDataObject(Header(EM_X86_64, 0), kSymbol, 3, out, [](ByteWriter&) { return Err("no data"); }).error().Text(),
      "no data");
}

}  // namespace
}  // namespace autotune
