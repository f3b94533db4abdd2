# For scripts that write files as C++ sources.

# array_of(OUT NAME HEX): the definition of NAME, a std::string_view of these bytes.
function(array_of out name bytes)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  set(${out} "static const unsigned char ${name}Bytes[] = {\n${bytes}};\nconst std::string_view ${name}(reinterpret_cast<const char*>(${name}Bytes), ${size});\n" PARENT_SCOPE)
endfunction()
