#include "compiler/aot_objects.h"

#include <elf.h>

#include <cstring>

namespace autotune {
namespace {

// Returns structure `index` of a table at `offset`; an error if it is not in the file.
template <class T>
Result<T> Read(const std::string& object, uint64_t offset, uint64_t index) {
  T value;
  if (offset > object.size() || (object.size() - offset) / sizeof(T) <= index) return Err("the object is truncated");
  std::memcpy(&value, object.data() + offset + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void Write(std::string& object, uint64_t offset, uint64_t index, const T& value) {
  std::memcpy(object.data() + offset + index * sizeof(T), &value, sizeof(T));
}

std::string Padded(std::string text, size_t size) {
  text.resize(size, ' ');
  return text;
}

// The 60 bytes before a member of an archive.
std::string MemberHeader(const std::string& name, size_t size) {
  return Padded(name, 16) + Padded("0", 12) + Padded("0", 6) + Padded("0", 6) + Padded("644", 8) +
         Padded(std::to_string(size), 10) + "`\n";
}

}  // namespace

// The new names are a table at the end of the file, to which the header of the section of names points.
Result<std::string> PrefixSymbols(std::string object, std::string_view prefix) {
  const auto header = TRY(Read<Elf64_Ehdr>(object, 0, 0));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_REL ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return Err("not a relocatable object of 64 bits, little-endian");
  }
  std::string added;  // behind the object
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto symbols = TRY(Read<Elf64_Shdr>(object, header.e_shoff, i));
    if (symbols.sh_type != SHT_SYMTAB) continue;
    auto names = TRY(Read<Elf64_Shdr>(object, header.e_shoff, symbols.sh_link));
    if (names.sh_offset > object.size() || names.sh_size > object.size() - names.sh_offset)
      return Err("the object is truncated");
    std::string text = object.substr(names.sh_offset, names.sh_size);  // sections may have names in it, too
    for (uint64_t k = symbols.sh_info; k < symbols.sh_size / sizeof(Elf64_Sym); ++k) {
      auto symbol = TRY(Read<Elf64_Sym>(object, symbols.sh_offset, k));
      if (symbol.st_name >= names.sh_size) return Err("the object has a symbol without a name");
      const std::string name = text.c_str() + symbol.st_name;
      if (name == "memcpy" || name == "memset") continue;
      symbol.st_name = static_cast<Elf64_Word>(text.size());
      symbol.st_other = STV_HIDDEN;
      text.append(prefix).append(name).push_back('\0');
      Write(object, symbols.sh_offset, k, symbol);
    }
    names.sh_offset = object.size() + added.size();
    names.sh_size = text.size();
    Write(object, header.e_shoff, symbols.sh_link, names);
    added += text;
  }
  return object + added;
}

std::string ArchiveOf(const std::string& member, const std::string& object, const std::vector<std::string>& symbols) {
  std::string names;
  for (const std::string& symbol : symbols) names.append(symbol).push_back('\0');
  const std::string long_names = member + "/\n";
  const auto even = [](size_t size) { return size + size % 2; };
  const size_t index_size = 4 + 4 * symbols.size() + names.size();
  const size_t at = 8 + 60 + even(index_size) + 60 + even(long_names.size());  // of the member's header
  std::string archive = "!<arch>\n" + MemberHeader("/", index_size);
  const auto number = [&](size_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) archive += static_cast<char>(value >> shift);
  };
  number(symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) number(at);
  archive += names;
  if (index_size % 2) archive += '\0';
  archive += MemberHeader("//", long_names.size()) + long_names;
  if (long_names.size() % 2) archive += '\n';
  archive += MemberHeader("/0", object.size()) + object;
  if (object.size() % 2) archive += '\n';
  return archive;
}

}  // namespace autotune
