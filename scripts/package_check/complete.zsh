# Completes command lines in an interactive zsh on a pseudo-terminal. Its completion lists what it offers with a mark
# after each word.
zmodload zsh/zpty
zpty z zsh -f -i
line() { zpty -w z "$1" }
line 'PROMPT=; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u'
line 'zstyle ":completion:*" list-separator "#"; bindkey "^I" list-choices; LISTMAX=0'
line 'print READY'
zpty -r z output '*READY*READY*'
offers() { # EXPECTED LINE
  zpty -w -n z "$2"$'\t'
  sleep 2
  local output= part
  while zpty -rt z part; do output+=$part; done
  zpty -w -n z $'\x15'
  [[ $output == *${~1}* ]] || { print -r -- "$2: offered ${(V)output}"; exit 1 }
}
offers 'verify*#' 'autotune ve'
offers 'trials-per-task' 'autotune tune --trials-p'
