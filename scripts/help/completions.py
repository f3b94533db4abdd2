"""Completion of a program's commands, options and values in bash, zsh and fish. A value that the option tree does not
list is completed as the name of a file, but a number is not."""

from help.words import commands_in, is_number, options_of, short, values_of

BASH = """# Completion of @NAME@ in bash. Made from the options of @NAME@ by scripts/help_files.py.
_@FUNCTION@_words() {  # sets the commands, options, and options with a value of the command $1
  case $1 in
@WORDS@
  esac
}
_@FUNCTION@_values() {  # sets the words that the option $2 of the command $1 takes; a number takes none
  case "$1 $2" in
@VALUES@
    *) return 1 ;;
  esac
}
_@FUNCTION@() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=@NAME@ commands options valued
  local values= word i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    _@FUNCTION@_words "$command"
    if [[ " $valued " == *" $word "* ]]; then
      ((++i))
      if [[ ${COMP_WORDS[i]} == "=" ]]; then ((++i)); fi  # --option=value arrives as three words
    elif [[ " $commands " == *" $word "* ]]; then
      command+=" $word"
    fi
  done
  _@FUNCTION@_words "$command"
  if [[ $current == "=" ]]; then current=; fi
  if [[ $previous == "=" ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi
  if [[ " $valued " == *" $previous "* ]]; then
    if _@FUNCTION@_values "$command" "$previous"; then
      compopt +o default +o bashdefault 2>/dev/null
      COMPREPLY=($(compgen -W "$values" -- "$current"))
    fi
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ -n $commands ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$current"))
  fi
}
complete -o bashdefault -o default -F _@FUNCTION@ @NAME@
"""

FISH = """# Completion of @NAME@ in fish. Made from the options of @NAME@ by scripts/help_files.py.
function __@FUNCTION@_is  # whether the words before the cursor name the command $argv
    set -l command @NAME@
    for word in (commandline -opc)[2..-1]
        switch "$command $word"
            case @PATHS@
                set command "$command $word"
        end
    end
    test "$command" = "$argv"
end
@LINES@
"""

ZSH = """#compdef @NAME@
# Completion of @NAME@ in zsh. Made from the options of @NAME@ by scripts/help_files.py.
@FUNCTIONS@
_@FUNCTION@ "$@"
"""


def filled(template, tree, **parts):
    parts = dict(parts, NAME=tree["name"], FUNCTION=tree["name"].replace("-", "_"))
    for name, text in parts.items():
        template = template.replace("@%s@" % name, text)
    return template


def quoted(text):
    """A word of a shell, in single quotes."""
    return "'%s'" % text.replace("'", "'\\''")


def bash(tree):
    words, values = [], []
    for path, command in commands_in(tree):
        options = options_of(command)
        names = [child["name"] for child in command["commands"]] + command.get("words", [])
        valued = [name for option in options if option["type"] for name in option["names"]]
        listed = [name for option in options for name in option["names"]]
        words.append(
            "    %s) commands=%s options=%s valued=%s ;;"
            % tuple(quoted(" ".join(part)) for part in (path, names, listed, valued))
        )
        for option in options:
            if values_of(option) or is_number(option):
                names = "|".join(quoted(" ".join(path + (name,))) for name in option["names"])
                values.append("    %s) values=%s ;;" % (names, quoted(" ".join(values_of(option)))))
    return filled(BASH, tree, WORDS="\n".join(words), VALUES="\n".join(values))


def fish(tree):
    lines, paths = [], []
    for path, command in commands_in(tree):
        condition = "-n '__%s_is %s'" % (tree["name"].replace("-", "_"), " ".join(path))
        begin = "complete -c %s %s" % (tree["name"], condition)
        if len(path) > 1:
            paths.append(quoted(" ".join(path)))
        for child in command["commands"]:
            lines.append("%s -f -a %s -d %s" % (begin, child["name"], quoted(short(child["help"]))))
        if command.get("words"):
            lines.append("%s -f -a %s" % (begin, quoted(" ".join(command["words"]))))
        for option in options_of(command):
            names = " ".join(
                "-l " + name[2:] if name.startswith("--") else "-s " + name[1:] for name in option["names"]
            )
            value = ""
            if values_of(option):
                value = " -x -a %s" % quoted(" ".join(values_of(option)))
            elif option["type"]:
                value = " -x" if is_number(option) else " -r -F"
            lines.append("%s %s%s -d %s" % (begin, names, value, quoted(short(option["help"]))))
    return filled(FISH, tree, PATHS=" ".join(paths) or "''", LINES="\n".join(lines))


def zsh_option(option):
    """An option as a specification of _arguments."""
    text = short(option["help"]).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    value = ""
    if values_of(option):
        value = ":value:(%s)" % " ".join(values_of(option))
    elif option["type"]:
        value = ":number: " if is_number(option) else ":value:_files"
    names = option["names"]
    others = "*" if option["many"] else "(%s)" % " ".join(names)
    specifications = []
    for name in names:
        mark = "" if not value else "=" if name.startswith("--") else "+"
        specifications.append(quoted("%s%s%s[%s]%s" % (others, name, mark, text, value)))
    return specifications


def zsh(tree):
    functions = []
    for path, command in commands_in(tree):
        name = "_" + "_".join(path).replace("-", "_")
        specifications = [each for option in options_of(command) for each in zsh_option(option)]
        lines = ["%s() {" % name]
        if command["commands"]:
            described = [quoted("%s:%s" % (child["name"], short(child["help"]))) for child in command["commands"]]
            cases = ["%s) _%s ;;" % (child["name"], "_".join(path + (child["name"],)).replace("-", "_"))
                     for child in command["commands"]]  # fmt: skip
            lines += [
                "  local curcontext=$curcontext state line commands",
                "  typeset -A opt_args",
                "  commands=(%s)" % " ".join(described),
                "  _arguments -C %s '1: :->command' '*:: :->rest'" % " ".join(specifications),
                "  case $state in",
                "    command) _describe command commands ;;",
                "    rest) case $line[1] in %s esac ;;" % " ".join(cases),
                "  esac",
            ]
        elif command.get("words"):
            lines.append("  _arguments '1:command:(%s)'" % " ".join(command["words"]))
        else:
            lines.append("  _arguments %s '*:file:_files'" % " ".join(specifications))
        functions.append("\n".join(lines + ["}"]))
    return filled(ZSH, tree, FUNCTIONS="\n".join(functions))
