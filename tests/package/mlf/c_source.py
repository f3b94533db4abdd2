"""Finds the functions that a C source exports: those defined at file scope that are not static."""

import re

NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)
ATTRIBUTE = re.compile(r"__(?:attribute|declspec|asm)(?:__)?\s*\((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*\)")
DEFINITION = re.compile(r"\b([A-Za-z_]\w*)\s*\([^;{}]*\)\s*\Z")
EXTERN_C = re.compile(r'extern\s*""\s*\Z')


def functions(text):
    """Returns the names of the exported functions. Raises ValueError if the text is no C source."""
    text = text.replace("\\\n", "")
    text = NOISE.sub(lambda found: '""' if found[0][0] in "\"'" else " ", text)
    text = DIRECTIVE.sub("", text)
    names, opened, start = set(), [], 0  # opened: for each open brace, whether it keeps file scope (extern "C")
    for found in re.finditer(r"[{};]", text):
        scope = all(opened)
        if found[0] == "{":
            before = ATTRIBUTE.sub(" ", text[start : found.start()])
            opened.append(bool(EXTERN_C.search(before)))
            definition = DEFINITION.search(before) if scope and not opened[-1] else None
            if definition and is_external(before[: definition.start()]):
                names.add(definition[1])
        elif found[0] == "}":
            if not opened:
                raise ValueError("closes a brace that is not open")
            opened.pop()
        if all(opened):
            start = found.end()
    if opened:
        raise ValueError("ends within braces")
    return names


def is_external(specifiers):
    """Returns whether a definition is exported. A C99 `inline` definition is, only if it is also `extern`."""
    words = set(re.findall(r"\w+", specifiers))
    return "static" not in words and ("inline" not in words or "extern" in words)
