#include "runtime/data_object.h"

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/check.h"
#include "support/integer.h"

namespace autotune {
namespace {

constexpr uint64_t kAlignment = 64;  // alignment of the data: one cache line

// An ELF string table: names, each ended by NUL; the first name is empty.
class StringTable {
 public:
  uint32_t Add(std::string_view name) {
    const auto at = static_cast<uint32_t>(text_.size());
    text_.append(name).push_back('\0');
    return at;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_{'\0'};
};

template <class T>
void WriteStruct(ByteWriter& out, const T& value) {
  out.Raw({reinterpret_cast<const char*>(&value), sizeof value});
}

void PadTo(ByteWriter& out, uint64_t begin, uint64_t offset) {
  CHECK(out.size() - begin <= offset);
  out.Raw(std::string(offset - (out.size() - begin), '\0'));
}

Result<Elf64_Ehdr> HeaderLike(std::string_view object) {
  Elf64_Ehdr header;
  if (object.size() < sizeof header) return Err("not a relocatable object: only ", object.size(), " bytes");
  std::memcpy(&header, object.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_REL ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return Err("not a relocatable object of 64 bits, little-endian");
  }
  header.e_entry = header.e_phoff = 0;
  header.e_phentsize = header.e_phnum = 0;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  return header;
}

}  // namespace

// The layout of the file: header, data, symbols, names, section headers.
Status WriteDataObject(std::string_view like, std::string_view symbol, uint64_t size, ByteWriter& out,
                       const std::function<Status(ByteWriter&)>& data) {
  Elf64_Ehdr header = TRY(HeaderLike(like));
  StringTable names;
  constexpr int kData = 1, kSymbols = 2, kNames = 3;
  Elf64_Sym entry{};
  entry.st_name = names.Add(symbol);
  entry.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  entry.st_shndx = kData;
  entry.st_size = size;
  std::vector<Elf64_Shdr> sections(5);
  sections[kData] = {.sh_name = names.Add(".autotune.data"),
                     .sh_type = SHT_PROGBITS,
                     .sh_flags = SHF_ALLOC,
                     .sh_offset = AlignUp<uint64_t>(sizeof header, kAlignment),
                     .sh_size = size,
                     .sh_addralign = kAlignment};
  sections[kSymbols] = {.sh_name = names.Add(".symtab"),
                        .sh_type = SHT_SYMTAB,
                        .sh_offset = AlignUp(sections[kData].sh_offset + size, alignof(Elf64_Sym)),
                        .sh_size = 2 * sizeof(Elf64_Sym),
                        .sh_link = kNames,
                        .sh_info = 1,  // the first symbol that is not local
                        .sh_addralign = alignof(Elf64_Sym),
                        .sh_entsize = sizeof(Elf64_Sym)};
  const uint32_t stack = names.Add(".note.GNU-stack"), strings = names.Add(".strtab");
  sections[kNames] = {.sh_name = strings,
                      .sh_type = SHT_STRTAB,
                      .sh_offset = sections[kSymbols].sh_offset + sections[kSymbols].sh_size,
                      .sh_size = names.text().size(),
                      .sh_addralign = 1};
  sections[4] = {.sh_name = stack,  // without it some linkers make the stack executable
                 .sh_type = SHT_PROGBITS,
                 .sh_offset = sections[kNames].sh_offset + sections[kNames].sh_size,
                 .sh_addralign = 1};
  header.e_shoff = AlignUp(sections[4].sh_offset, alignof(Elf64_Shdr));
  header.e_shnum = static_cast<Elf64_Half>(sections.size());
  header.e_shstrndx = kNames;

  const uint64_t begin = out.size();
  WriteStruct(out, header);
  PadTo(out, begin, sections[kData].sh_offset);
  const uint64_t before = out.size();
  TRY(data(out));
  CHECK(out.size() - before == size) << out.size() - before << " bytes of data, " << size << " were announced";
  PadTo(out, begin, sections[kSymbols].sh_offset);
  WriteStruct(out, Elf64_Sym{});
  WriteStruct(out, entry);
  out.Raw(names.text());
  PadTo(out, begin, header.e_shoff);
  for (const Elf64_Shdr& section : sections) WriteStruct(out, section);
  return {};
}

}  // namespace autotune
