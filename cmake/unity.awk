# Divides C++ sources into groups that are compiled as one file each, so that files which define the same private name
# are never in one group, unless all define it by the same line `using Name = Type;`, which C++ allows to repeat. Private
# names are those that an unnamed namespace declares at the beginning of a line, as clang-format writes it. A name that
# this script overlooks makes the compiler complain about a redefinition.
#
# The groups have about N files each. Some have N / 8 more than the average, if this saves a group for a few files whose
# names conflict.
#
# awk -v per_group=N -f unity.awk FILE...                  prints the number of groups
# awk -v per_group=N -v dir=D -v groups=G -f unity.awk ... writes D/unity_0.cc to D/unity_<G-1>.cc, each only if it changes

FNR == 1 { private = raw = 0; count_of[FILENAME] = 0 }
/^namespace \{$/ { private = 1; next }
/^\}  \/\/ namespace$/ { private = 0; next }
/\)[a-z]*"/ { raw = 0 }
!raw && private && /^[A-Za-z_]/ {
  add(name_in($0), $0 ~ /^using .*;$/ ? $0 : FILENAME)
  if ($0 ~ /^(static |inline )*const/) {  # constexpr int kA = 1, kB = 2;
    rest = $0
    while (match(rest, /, [A-Za-z_][A-Za-z_0-9]* = /)) {
      add(substr(rest, RSTART + 2, RLENGTH - 5), FILENAME)
      rest = substr(rest, RSTART + RLENGTH)
    }
  }
}
/R"[a-z]*\(/ && !/R"[a-z]*\(.*\)[a-z]*"/ { raw = 1 }  # the next lines are text

function add(name, definition) {
  if (name == "") return
  definitions[FILENAME, count_of[FILENAME]] = definition
  names[FILENAME, count_of[FILENAME]++] = name
}

# Returns the name that a line declares; empty if it declares none.
function name_in(line) {
  if (line ~ /^(static_assert|template|public|private|protected|namespace|using namespace|using [A-Za-z_0-9:]+;)/) return ""
  if (match(line, /^(enum class|enum|struct|class|union) [A-Za-z_0-9]+( final)?( :| \{|$|;)/)) {
    line = substr(line, RSTART, RLENGTH)
    sub(/( final)?( :| \{|;)?$/, "", line)
  } else {
    sub(/ *[({=;[].*$/, "", line)
  }
  if (!match(line, /[A-Za-z_][A-Za-z_0-9]*$/)) return ""
  if (RSTART > 1 && substr(line, RSTART - 1, 1) == ":") return ""  # a member of a class
  line = substr(line, RSTART)
  return line ~ /^[A-Z_0-9]+$/ ? "" : line  # a macro
}

# Returns whether group g has room for the file, and no other definition of a private name of the file.
function fits(g, file,    i) {
  if (size[g] >= most) return 0
  for (i = 0; i < count_of[file]; ++i) {
    if ((g, names[file, i]) in taken && taken[g, names[file, i]] != definitions[file, i]) return 0
  }
  return 1
}

function write_if_changed(path, text,    old, line) {
  old = ""
  while ((getline line < path) > 0) old = old line "\n"
  close(path)
  if (old == text) return
  printf "%s", text > path
  close(path)
}

END {
  wanted = int((ARGC - 1) / per_group + 0.5)
  if (wanted < 1) wanted = 1
  most = int((ARGC - 2) / wanted) + 1 + int(per_group / 8)
  used = 0
  for (a = 1; a < ARGC; ++a) {
    file = ARGV[a]
    for (g = 0; !fits(g, file); ++g) {}
    if (g >= used) used = g + 1
    text[g] = text[g] "#include \"" file "\"\n"
    ++size[g]
    for (i = 0; i < count_of[file]; ++i) taken[g, names[file, i]] = definitions[file, i]
  }
  if (dir == "") {
    print used
    exit 0
  }
  if (used > groups) {
    print "more files define the same private name than there are unity files: run cmake again" > "/dev/stderr"
    exit 1
  }
  for (g = 0; g < groups; ++g) write_if_changed(dir "/unity_" g ".cc", "// made by cmake/unity.awk\n" text[g])
}
