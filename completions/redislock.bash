# bash completion for redislock(1). Works with and without the bash-completion package.
# shellcheck shell=bash

# One option a row: short, long, what follows it (`flag`: nothing; `mode`: nothing, and no COMMAND
# behind NAME).
_redislock_table='
-u --url                url
-  --user               text
-  --password-file      file
-  --sentinel-user      text
-  --sentinel-password-file file
-  --cacert             file
-  --capath             file
-  --cert               file
-  --key                file
-  --sni                text
-  --insecure           flag
-  --prefix             text
-t --ttl                duration
-n --nonblock           flag
-w --wait               wait
-s --shared             flag
-x --exclusive          flag
-S --slots              number
-E --conflict-exit-code number
-q --quiet              flag
-  --quiet-for          duration
-  --min-hold           duration
-  --wait-replicas      number
-  --jitter             duration
-  --max-runtime        duration
-  --signal             signal
-k --kill-after         duration
-  --on-lost            kill,warn
-  --on-error           fail,skip,run
-  --connect-timeout    duration
-  --no-restore         flag
-  --foreground         flag
-  --wait-descendants   flag
-c --command            line
-v --verbose            flag
-  --log-format         text,json
-  --status-fd          number
-  --attach             mode
-  --print              nothing,fence
-  --acquire            mode
-  --extend             mode
-  --release            mode
-  --check              mode
-  --status             mode
-  --list               mode
-  --watch              flag
-  --json               flag
-  --unlock             mode
-  --force              flag
-  --doctor             mode
-  --config             file
-h --help               flag
-V --version            flag
'

# Sets `kind` to what follows option $1, or to nothing where $1 is no option.
_redislock_kind() {
    local short long what
    kind=
    while read -r short long what; do
        if [[ -n $long && ($1 == "$short" || $1 == "$long") ]]; then
            kind=$what
            return
        fi
    done <<<"$_redislock_table"
}

# Sets `kind` to what word $1 still wants after it: for -qt it is the kind of -t, for -t10s nothing.
_redislock_word_wants() {
    local word=$1 i
    if [[ $word == --* ]]; then
        _redislock_kind "$word"
        [[ $kind != flag && $kind != mode ]] || kind=
        return
    fi
    for ((i = 1; i < ${#word}; i++)); do
        _redislock_kind "-${word:i:1}"
        [[ $kind == flag || -z $kind ]] && continue
        ((i + 1 == ${#word})) || kind=
        return
    done
    kind=
}

# Offers the values of kind $1 that begin with $2.
_redislock_values() {
    local kind=$1 cur=$2 path
    case $kind in
    *,*) mapfile -t COMPREPLY < <(compgen -W "${kind//,/ }" -- "$cur") ;;
    signal) mapfile -t COMPREPLY < <(compgen -W 'TERM INT HUP QUIT USR1 USR2 KILL' -- "$cur") ;;
    wait) mapfile -t COMPREPLY < <(compgen -W 'inf' -- "$cur") ;;
    url) mapfile -t COMPREPLY < <(compgen -W 'redis:// unix://' -- "$cur") ;;
    file)
        compopt -o filenames 2>/dev/null
        while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen -f -- "$cur")
        ;;
    esac
    [[ $kind != url ]] || compopt -o nospace 2>/dev/null
}

# Offers options that begin with $1.
_redislock_options() {
    local short long what words=
    while read -r short long what; do
        [[ -n $long ]] || continue
        [[ $short == - ]] || words+=" $short"
        words+=" $long"
    done <<<"$_redislock_table"
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$1")
}

# Completes COMMAND and its arguments, which begin at word $1.
_redislock_command() {
    local at=$1 cur=${COMP_WORDS[COMP_CWORD]}
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$at"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$at"
    elif ((COMP_CWORD == at)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    else
        _redislock_values file "$cur"
    fi
}

_redislock() {
    local cur=${COMP_WORDS[COMP_CWORD]} kind i shell_line='' mode=''
    COMPREPLY=()

    # The options before NAME. `=` is a word of its own here: --ttl = 60s.
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --)
            ((i += 1))
            break
            ;;
        -?*)
            _redislock_kind "${COMP_WORDS[i]%%=*}"
            [[ $kind != mode ]] || mode=yes
            _redislock_word_wants "${COMP_WORDS[i]}"
            [[ $kind != line ]] || shell_line=yes
            if [[ -z $kind ]]; then
                [[ ${COMP_WORDS[i + 1]-} != = ]] || ((i += 2)) # --attach = 4711
                continue
            fi
            [[ ${COMP_WORDS[i + 1]} != = ]] || ((i += 1))
            ((i += 1))
            # A URL is cut at its colons: redis : //host : 6379 is still one argument.
            while [[ ${COMP_WORDS[i + 1]-} == :* && $i -lt $COMP_CWORD ]]; do
                ((i += 1))
                [[ ${COMP_WORDS[i]} != : ]] || ((i += 1))
            done
            if ((i >= COMP_CWORD)); then
                [[ $cur != = ]] || cur=
                _redislock_values "$kind" "$cur"
                return
            fi
            ;;
        *) break ;;
        esac
    done

    if ((i >= COMP_CWORD)); then # an option, or NAME
        [[ $cur != -* || ${COMP_WORDS[COMP_CWORD - 1]} == -- ]] || _redislock_options "$cur"
        return
    fi
    ((i += 1)) # behind NAME
    [[ -z $shell_line$mode ]] || return
    if [[ ${COMP_WORDS[i]} == -c || ${COMP_WORDS[i]} == --command ]] && ((i < COMP_CWORD)); then
        return # a line for the shell
    fi
    if [[ ${COMP_WORDS[i]} == -- ]] && ((i < COMP_CWORD)); then
        ((i += 1))
    elif ((i == COMP_CWORD)) && [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '-c --command --' -- "$cur")
        return
    fi
    _redislock_command "$i"
}

complete -F _redislock redislock
